// Small memories that are nearly as full as they may be, overwritten: how much is copied to make room.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "runtime/sim/sim_epoch.h"
#include "runtime/sim/sim_executor.h"
#include "soak/support/soak_store.h"
#include "store/threads.h"

namespace ramcore::soak {
namespace {

constexpr uint64_t kSmallMemoryEventsMax = 1'000'000'000;
constexpr uint64_t kKeysMax = 300'000;
constexpr double kLiveShare = 0.9;
constexpr double kCopiedPerAppendedMax = 5;

class SmallMemory : public ::testing::TestWithParam<uint64_t> {
 protected:
  SmallMemory() {
    executor_.setHooks(threads_.add());
    self_ = rcu_.registerThread();
  }
  ~SmallMemory() override {
    maintenance_.stop();
    maintenance_.wake();
    EXPECT_EQ(scheduler_.runUntil([this] { return maintenance_.stopped(); }, kSmallMemoryEventsMax),
              runtime::SimScheduler::Stop::Done);
    executor_.kill();
    rcu_.unregisterThread(self_);
    rcu_.drain();
  }

  void pass(int64_t time_ns) {
    rcu_.quiescent(self_);
    ASSERT_NE(scheduler_.runUntil(scheduler_.nowNs() + time_ns, kSmallMemoryEventsMax),
              runtime::SimScheduler::Stop::EventLimit);
    rcu_.quiescent(self_);
  }
  void write(uint64_t number) {
    for (int attempts = 0; attempts < 100'000 && !HasFatalFailure(); ++attempts) {
      const store::Answer answer = client_.write("key" + std::to_string(number), value_);
      if (answer.status != Status::Ok || maintenance_.isDue()) maintenance_.wake();
      pass(answer.status == Status::Ok ? 2 * runtime::kNanosPerMicro : 100 * runtime::kNanosPerMicro);
      if (answer.status == Status::Ok) return;
      ASSERT_EQ(answer.status, Status::RetryLater) << name(answer.status);
    }
    FAIL() << "there is garbage, and it is not collected";
  }
  double liveShare() const {
    return static_cast<double>(store_.stats().live_bytes.load()) / static_cast<double>(config_.liveBytesMax());
  }

  const log::LogConfig config_ = log::LogConfig::forMemory(GetParam() << 20);
  runtime::SimScheduler scheduler_{1};
  runtime::SimClock clock_{scheduler_, "clock", {}};
  runtime::SimExecutor executor_{scheduler_, clock_, "background", {.usual_ns_max = 100'000, .preempted_permille = 0}};
  runtime::SimRcu rcu_;
  store::Threads threads_{rcu_};
  runtime::RcuReader self_{};
  SoakStore store_{config_, ServerId(1), kKeysMax, rcu_, clock_};
  store::Maintenance maintenance_{executor_, store_.maintenanceParts()};
  SoakClient client_{store_, ClientId(1)};
  runtime::Random random_{1};
  const std::vector<std::byte> value_ = std::vector<std::byte>(1000);
};

TEST_P(SmallMemory, CopiesLittleForWhatIsWrittenAtNineTenthsOfItsLimit) {
  ASSERT_TRUE(config_.validate().ok());
  EXPECT_GT(config_.liveBytesMax(), config_.memory_bytes * 3 / 10) << "it holds something";
  uint64_t keys = 0;
  while (liveShare() < kLiveShare && !HasFatalFailure()) write(keys++);
  const auto overwrite = [&](uint64_t bytes) {
    const uint64_t end = store_.stats().appended_bytes.load() + bytes;
    while (store_.stats().appended_bytes.load() < end && !HasFatalFailure()) write(random_.below(keys));
  };
  overwrite(config_.memory_bytes);
  const uint64_t appended = store_.stats().appended_bytes.load();
  const uint64_t copied = store_.stats().cleaner_bytes_copied.load();
  overwrite(3 * config_.memory_bytes);
  if (HasFatalFailure()) return;
  const auto ratio = static_cast<double>(store_.stats().cleaner_bytes_copied.load() - copied) /
                     static_cast<double>(store_.stats().appended_bytes.load() - appended);
  std::printf("%llu MiB: limit %.1f MiB, segments of %.1f MiB, %llu objects, %.2f bytes copied for each one appended\n",
              static_cast<unsigned long long>(GetParam()), static_cast<double>(config_.liveBytesMax()) / (1 << 20),
              config_.segment_bytes / 1048576.0, static_cast<unsigned long long>(keys), ratio);
  EXPECT_LE(ratio, kCopiedPerAppendedMax);
}
INSTANTIATE_TEST_SUITE_P(MiB, SmallMemory, ::testing::Values(48, 64, 96, 128, 256),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace ramcore::soak
