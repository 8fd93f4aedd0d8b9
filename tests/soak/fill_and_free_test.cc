// A memory that is filled until nothing fits any more, half emptied and filled again, a hundred times without a
// restart: what cannot be stored in a later cycle has leaked. Simulated time, so that every run of a seed is the same.
//
// Environment: RAMCORE_SOAK_FILL_MB memory (12), RAMCORE_SOAK_FILL_SEGMENT_KB (512), RAMCORE_SOAK_SEED (1).

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <vector>

#include "runtime/sim/sim_epoch.h"
#include "runtime/sim/sim_executor.h"
#include "soak/support/environment.h"
#include "soak/support/log_rebuild.h"
#include "soak/support/soak_model.h"
#include "soak/support/soak_store.h"
#include "store/threads.h"

namespace ramcore::soak {
namespace {

constexpr int kCycles = 100;
constexpr uint64_t kEventsMax = 100'000'000;
constexpr int64_t kMutationNs = 2 * runtime::kNanosPerMicro;
constexpr int64_t kRetryNs = 100 * runtime::kNanosPerMicro;
// A slice of cleaning looks at 64 KB: on average 50 us.
constexpr runtime::SimExecutor::Delays kSliceDelays{.usual_ns_max = 100'000, .preempted_permille = 0};
// The memory is full when the cleaner, asked all the time, has not made room for this long.
constexpr int64_t kFullAfterNs = 150 * runtime::kNanosPerMilli;
constexpr int64_t kRetryLaterNsMax = 1 * runtime::kNanosPerSecond;
// One of the largest values more or less, and the tombstones that are still needed.
constexpr double kStoredRatioMin = 0.97;
constexpr uint32_t kObjectBytesLeast = 100;  // on average, so that the keys do for any memory

log::LogConfig smallConfig() {
  log::LogConfig config;
  config.memory_bytes = asked("RAMCORE_SOAK_FILL_MB", 12) << 20;
  config.segment_bytes = static_cast<uint32_t>(asked("RAMCORE_SOAK_FILL_SEGMENT_KB", 512) << 10);
  config.entry_bytes_max = log::alignedEntryBytes(64, 32u << 10, false);
  return config;
}

/// The outcome of a cycle.
struct Cycle {
  uint64_t stored_bytes = 0;        ///< when the memory was full
  uint64_t stored_first_bytes = 0;  ///< at the first NoSpace, which the tombstones of the removals bring on
  uint64_t mutations = 0;
  uint64_t retries = 0;  ///< after RetryLater
  int64_t longest_retry_ns = 0;
};

class FillAndFree : public ::testing::TestWithParam<Sizes> {
 protected:
  FillAndFree() : random_(seed()) {
    executor_.setHooks(threads_.add());
    self_ = rcu_.registerThread();
  }
  ~FillAndFree() override {
    maintenance_.stop();
    maintenance_.wake();
    EXPECT_EQ(scheduler_.runUntil([this] { return maintenance_.stopped(); }, kEventsMax),
              runtime::SimScheduler::Stop::Done);
    executor_.kill();
    rcu_.unregisterThread(self_);
    rcu_.drain();
  }

  static uint64_t seed() { return asked("RAMCORE_SOAK_SEED", 1) * kSizesCount + static_cast<uint64_t>(GetParam()); }

  void pass(int64_t time_ns) {
    rcu_.quiescent(self_);
    ASSERT_NE(scheduler_.runUntil(scheduler_.nowNs() + time_ns, kEventsMax), runtime::SimScheduler::Stop::EventLimit);
    rcu_.quiescent(self_);
  }

  Cycle fill() {
    Cycle cycle;
    while (!HasFatalFailure() && model_.absentCount() > 0) {
      const uint32_t number = model_.drawAbsent(random_);
      const uint32_t bytes = drawBytes(GetParam(), 32u << 10, random_);
      std::vector<std::byte> value(bytes);
      fillValue(++stamp_, value);
      const store::Answer answer = carryOut(cycle, [&] { return client_.write(model_.key(number), value); });
      if (answer.status == Status::NoSpace) break;
      if (answer.status == Status::Ok) model_.wrote(number, answer.version, stamp_, bytes);
    }
    cycle.stored_bytes = model_.entryBytes();
    return cycle;
  }

  void freeHalf(Cycle& cycle) {
    const uint64_t left = model_.entryBytes() / 2;
    while (!HasFatalFailure() && model_.entryBytes() > left) {
      const uint32_t number = model_.drawPresent(random_);
      const store::Answer answer = carryOut(cycle, [&] { return client_.remove(model_.key(number)); });
      if (HasFatalFailure()) return;
      ASSERT_EQ(answer.status, Status::Ok) << name(answer.status) << ": a full memory refuses removals";
      model_.removed(number);
    }
  }

  // Again while it is refused for now: with NoSpace as long as the cleaner may still find room, with RetryLater as long
  // as is allowed.
  template <typename Attempt>
  store::Answer carryOut(Cycle& cycle, Attempt&& attempt) {
    const int64_t begin_ns = scheduler_.nowNs();
    store::Answer answer;
    judge(cycle, begin_ns, attempt, answer);
    ++cycle.mutations;
    return answer;
  }

  template <typename Attempt>
  void judge(Cycle& cycle, int64_t begin_ns, Attempt&& attempt, store::Answer& answer) {
    for (;;) {
      answer = attempt();
      const int64_t waited_ns = scheduler_.nowNs() - begin_ns;
      if (answer.status == Status::Ok) {
        if (maintenance_.isDue()) maintenance_.wake();
        cycle.longest_retry_ns = std::max(cycle.longest_retry_ns, waited_ns);
        return pass(kMutationNs);
      }
      maintenance_.wake();
      if (answer.status == Status::NoSpace) {
        if (cycle.stored_first_bytes == 0) cycle.stored_first_bytes = model_.entryBytes();
        if (waited_ns > kFullAfterNs) return;
      } else {
        ASSERT_EQ(answer.status, Status::RetryLater) << name(answer.status);
        ASSERT_LT(waited_ns, kRetryLaterNsMax) << "there is garbage, and it is not collected: " << describe();
        ++cycle.retries;
      }
      pass(kRetryNs);
    }
  }

  std::string describe() const {
    const log::LogStats& stats = store_.stats();
    return std::to_string(stats.live_bytes.load()) + " live bytes of at most " +
           std::to_string(store_.log().config().liveBytesMax()) + ", of them tombstones " +
           std::to_string(stats.tombstone_bytes.load()) + ", free " + std::to_string(store_.log().pool().freeBytes()) +
           ", passes " + std::to_string(stats.cleaner_passes.load());
  }

  // Removes until a value of `bytes` more stays below `most`.
  void makeRoom(Cycle& cycle, uint64_t most, uint32_t bytes) {
    while (!HasFatalFailure() && model_.entryBytes() + bytes > most) {
      const uint32_t number = model_.drawPresent(random_);
      const store::Answer answer = carryOut(cycle, [&] { return client_.remove(model_.key(number)); });
      if (HasFatalFailure()) return;
      ASSERT_EQ(answer.status, Status::Ok) << name(answer.status);
      model_.removed(number);
    }
  }

  // Values of other sizes under keys that are there, or were, `times` the memory of them.
  Cycle overwrite(uint64_t most, uint64_t times) {
    Cycle cycle;
    uint64_t left = smallConfig().memory_bytes * times;
    while (!HasFatalFailure() && left > 0) {
      const uint32_t bytes = drawBytes(GetParam(), 32u << 10, random_);
      makeRoom(cycle, most, bytes + 200);
      if (HasFatalFailure()) break;
      const bool is_new = model_.absentCount() > 0 && random_.below(4) == 0;
      const uint32_t number = is_new ? model_.drawAbsent(random_) : model_.drawPresent(random_);
      std::vector<std::byte> value(bytes);
      fillValue(++stamp_, value);
      const store::Answer answer = carryOut(cycle, [&] { return client_.write(model_.key(number), value); });
      if (HasFatalFailure()) break;
      EXPECT_EQ(answer.status, Status::Ok) << name(answer.status) << ": " << describe();
      if (answer.status != Status::Ok) break;
      model_.wrote(number, answer.version, stamp_, bytes);
      left -= std::min<uint64_t>(left, bytes);
    }
    return cycle;
  }

  void verify() {
    compare(store_, model_, "the store");
    const SoakModel* const models[] = {&model_};
    compareCounters(store_, models);
    recountLog(store_, self_);
    log::LogConfig config = smallConfig();
    config.memory_bytes *= 2;
    {
      SoakStore other(config, ServerId(2), model_.keyCount(), rcu_, clock_);
      Rebuilt rebuilt;
      rebuild(store_, other, self_, random_, rebuilt);
      if (!HasFatalFailure()) compare(other, model_, "rebuilt from the log");
      pass(runtime::kNanosPerMilli);
      rcu_.quiescent(self_);
      settle();
    }
  }

  // Runs the deferred work of a store that is about to be destroyed.
  void settle() {
    while (rcu_.pending()) {
      rcu_.quiescent(self_);
      rcu_.reclaim(1000);
    }
  }

  runtime::SimScheduler scheduler_{seed()};
  runtime::SimClock clock_{scheduler_, "clock", {}};
  runtime::SimExecutor executor_{scheduler_, clock_, "background", kSliceDelays};
  runtime::SimRcu rcu_;
  store::Threads threads_{rcu_};
  runtime::RcuReader self_{};
  SoakModel model_{"k", static_cast<uint32_t>(smallConfig().memory_bytes / kObjectBytesLeast)};
  SoakStore store_{smallConfig(), ServerId(1), model_.keyCount(), rcu_, clock_};
  store::Maintenance maintenance_{executor_, store_.maintenanceParts()};
  SoakClient client_{store_, ClientId(1)};
  runtime::Random random_;
  uint64_t stamp_ = 0;
};

TEST_P(FillAndFree, EveryCycleStoresAsMuchAsTheOnesBefore) {
  SCOPED_TRACE("RAMCORE_SOAK_SEED=" + std::to_string(asked("RAMCORE_SOAK_SEED", 1)));
  std::vector<Cycle> cycles;
  while (cycles.size() < kCycles && !HasFatalFailure()) {
    cycles.push_back(fill());
    ASSERT_GT(model_.absentCount(), 0u) << "the keys do not fill the memory";
    if (cycles.size() < kCycles) freeHalf(cycles.back());
  }
  if (HasFatalFailure()) return;
  const auto [least, most] = std::ranges::minmax(cycles, {}, &Cycle::stored_bytes);
  const auto least_first = std::ranges::min(cycles, {}, &Cycle::stored_first_bytes);
  uint64_t mutations = 0;
  std::array<uint64_t, 2> retries{};  // of each half
  int64_t longest_retry_ns = 0;
  for (size_t i = 0; i < cycles.size(); ++i) {
    mutations += cycles[i].mutations;
    retries[i * 2 / cycles.size()] += cycles[i].retries;
    longest_retry_ns = std::max(longest_retry_ns, cycles[i].longest_retry_ns);
  }
  std::printf(
      "%d cycles with %llu mutations: stored %.2f to %.2f MB of %.2f MB live bytes at most, %.2f MB or more at the "
      "first "
      "NoSpace; RetryLater %llu in the first half, %llu in the second, for at most %.1f ms; %s\n",
      kCycles, static_cast<unsigned long long>(mutations), static_cast<double>(least.stored_bytes) / 1e6,
      static_cast<double>(most.stored_bytes) / 1e6, static_cast<double>(smallConfig().liveBytesMax()) / 1e6,
      static_cast<double>(least_first.stored_first_bytes) / 1e6, static_cast<unsigned long long>(retries[0]),
      static_cast<unsigned long long>(retries[1]), static_cast<double>(longest_retry_ns) / 1e6, describe().c_str());
  EXPECT_GT(static_cast<double>(least.stored_bytes), static_cast<double>(most.stored_bytes) * kStoredRatioMin);
  EXPECT_GT(cycles.back().stored_bytes, cycles.front().stored_bytes * 97 / 100);
  // Refusals do not become more frequent, and stay the exception.
  EXPECT_LE(retries[1], retries[0] + retries[0] / 2 + mutations / 1000);
  EXPECT_LE(retries[0] + retries[1], mutations / 20);
  verify();
}
// Passes that gain little, in a memory that is nearly full, must not use up what the next ones need: a few values are
// large, which is where survivors lose most at the ends of their extents.
TEST_P(FillAndFree, OverwritesOfANearlyFullMemoryDoNotUseUpTheReserve) {
  SCOPED_TRACE("RAMCORE_SOAK_SEED=" + std::to_string(asked("RAMCORE_SOAK_SEED", 1)));
  const Cycle full = fill();
  if (HasFatalFailure()) return;
  const Cycle cycle = overwrite(full.stored_first_bytes * asked("RAMCORE_SOAK_OVERWRITE_PERCENT", 94) / 100, 20);
  if (HasFatalFailure()) return;
  const log::SegmentPool& pool = store_.log().pool();
  std::printf("%llu mutations, RetryLater %llu for at most %.1f ms; %s, blocks %llu of a reserve of %llu\n",
              static_cast<unsigned long long>(cycle.mutations), static_cast<unsigned long long>(cycle.retries),
              static_cast<double>(cycle.longest_retry_ns) / 1e6, describe().c_str(),
              static_cast<unsigned long long>(pool.freeBlockBytes()),
              static_cast<unsigned long long>(pool.survivorReserveBytes()));
  verify();
}
INSTANTIATE_TEST_SUITE_P(Of, FillAndFree, ::testing::Values(Sizes::Mixed, Sizes::Small, Sizes::Broad),
                         [](const auto& info) {
                           return std::string(info.param == Sizes::Mixed   ? "MixedSizes"
                                              : info.param == Sizes::Small ? "SmallSizes"
                                                                           : "BroadSizes");
                         });

}  // namespace
}  // namespace ramcore::soak
