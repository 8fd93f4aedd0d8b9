// Writers that overwrite, remove and make anew objects of all sizes while the memory is kept as full as is asked for,
// beside the background work of a master, on real threads. Every read and every version is compared with what the
// writer knows; at the end the log alone has to give the same.
//
// Environment: RAMCORE_SOAK_S seconds (10), RAMCORE_SOAK_LIVE_PERCENT of the limit of live bytes (90),
// RAMCORE_SOAK_MEMORY_MB (256), RAMCORE_SOAK_VALUE_BYTES_MAX (500000), RAMCORE_SOAK_SEED (1). The seed fixes what is
// drawn, not how threads meet.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/real/system_clock.h"
#include "runtime/real/thread_executor.h"
#include "runtime/real/urcu_epoch.h"
#include "soak/support/environment.h"
#include "soak/support/log_rebuild.h"
#include "soak/support/soak_model.h"
#include "soak/support/soak_store.h"
#include "store/threads.h"

namespace ramcore::soak {
namespace {

constexpr uint32_t kWriters = 2;
// How long a mutation may be refused with RetryLater before it counts as never: scheduling alone costs milliseconds.
constexpr int64_t kRefusedNsMax = 30 * runtime::kNanosPerSecond;
constexpr double kShareSlackPercent = 2;

struct Plan {
  uint64_t seconds = asked("RAMCORE_SOAK_S", 10);
  uint64_t live_percent = asked("RAMCORE_SOAK_LIVE_PERCENT", 90);
  uint64_t memory_bytes = asked("RAMCORE_SOAK_MEMORY_MB", 256) << 20;
  uint64_t seed = asked("RAMCORE_SOAK_SEED", 1);
  /// The largest of the values; the distributions that are drawn from end there, or earlier.
  uint32_t value_bytes_max = static_cast<uint32_t>(asked("RAMCORE_SOAK_VALUE_BYTES_MAX", 500'000));

  log::LogConfig config() const {
    log::LogConfig config;
    config.memory_bytes = memory_bytes;
    return config;
  }
  int64_t liveBytesWanted() const { return static_cast<int64_t>(config().liveBytesMax() / 100 * live_percent); }
  /// Enough keys that small objects, too, can fill the share of live bytes; with larger objects most keys are absent.
  uint32_t keysPerWriter() const { return static_cast<uint32_t>(liveBytesWanted() / 260 / kWriters); }
};

/// The state that all threads of a run share.
struct Course {
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> mutations{0};
  std::atomic<uint64_t> removals{0};
  std::atomic<uint64_t> recreations{0};  // of keys that had been removed
  std::atomic<uint64_t> reads{0};
  std::atomic<uint64_t> no_space{0};        // mutations that were refused at first
  std::atomic<uint64_t> retry_later{0};     // the same
  std::atomic<int64_t> longest_wait_ns{0};  // since the last report

  /// The first thing that went wrong; ends the run.
  void fail(const std::string& what) {
    const std::lock_guard guard(mutex);
    if (failure.empty()) failure = what;
    stop.store(true);
    ended.notify_all();
  }
  std::mutex mutex;
  std::condition_variable ended;
  std::string failure;
};

/// One thread with keys and a client of its own.
class Writer {
 public:
  Writer(const Plan& plan, uint32_t number, SoakStore& store, store::Maintenance& maintenance, runtime::Rcu& rcu,
         runtime::Clock& clock, Course& course)
      : live_bytes_wanted_(plan.liveBytesWanted()),
        slack_bytes_(static_cast<int64_t>(store.log().config().liveBytesMax() / 200)),
        store_(store),
        maintenance_(maintenance),
        rcu_(rcu),
        clock_(clock),
        course_(course),
        random_(runtime::Random(plan.seed).stream("writer " + std::to_string(number))),
        client_(store, ClientId(number + 1)),
        model_("w" + std::to_string(number), plan.keysPerWriter()),
        stamp_(uint64_t{number} << 56),
        value_(plan.value_bytes_max) {}

  void work() {
    self_ = rcu_.registerThread();
    while (!course_.stop.load(std::memory_order_relaxed)) {
      step();
      rcu_.quiescent(self_);
    }
    rcu_.unregisterThread(self_);
  }
  const SoakModel& model() const { return model_; }

 private:
  enum class Deed : uint8_t { Read, Overwrite, Remove, Create };

  void step() {
    waiting_since_ns_ = 0;
    Deed deed = draw();
    while (!tryOnce(deed)) {
      // Refused: another writer has to free something, or the cleaner has to catch up.
      maintenance_.wake();
      rcu_.quiescent(self_);
      std::this_thread::yield();
      if (course_.stop.load(std::memory_order_relaxed)) return;
    }
    if (maintenance_.isDue()) maintenance_.wake();
  }

  // Mostly changes of what is there; objects come and go as the share of live bytes has to fall or to rise.
  Deed draw() {
    const int64_t missing = live_bytes_wanted_ - store_.stats().live_bytes.load(std::memory_order_relaxed);
    const uint64_t kind = random_.below(100);
    const bool is_far = missing > slack_bytes_ || missing < -slack_bytes_;
    if (model_.presentCount() == 0) return Deed::Create;
    if (kind < 25) return Deed::Read;
    if (kind < 65 && !is_far) return Deed::Overwrite;
    if (missing > 0 && model_.absentCount() > 0) return Deed::Create;
    return missing > 0 ? Deed::Overwrite : Deed::Remove;
  }

  // False if it was refused for now. What is carried out, and on which key, is drawn anew then.
  bool tryOnce(Deed& deed) {
    switch (deed) {
      case Deed::Read:
        read(random_.below(8) == 0 && model_.absentCount() > 0 ? model_.drawAbsent(random_)
                                                               : model_.drawPresent(random_));
        return true;
      case Deed::Overwrite:
      case Deed::Create:
        return write(deed);
      case Deed::Remove:
        return remove();
    }
    return true;
  }

  void read(uint32_t number) {
    const std::string wrong = model_.judge(number, store_.find(model_.key(number)));
    if (!wrong.empty()) course_.fail(wrong);
    course_.reads.fetch_add(1, std::memory_order_relaxed);
  }

  // The distribution of sizes changes whenever half of the memory has been written.
  Sizes sizesNow() const {
    const uint64_t written = store_.stats().appended_bytes.load(std::memory_order_relaxed);
    return static_cast<Sizes>(written / (store_.log().config().memory_bytes / 2) % kSizesCount);
  }

  bool write(Deed& deed) {
    const uint32_t number = deed == Deed::Create ? model_.drawAbsent(random_) : model_.drawPresent(random_);
    const Version before = model_.at(number).version;
    const bool was_present = model_.isPresent(number);
    const uint32_t bytes = drawBytes(sizesNow(), static_cast<uint32_t>(value_.size()), random_);
    fillValue(++stamp_, std::span(value_).first(bytes));
    const std::string key = model_.key(number);
    const store::Answer answer = client_.write(key, std::span(value_).first(bytes));
    if (!took(answer.status, key, deed)) return false;
    // The version of a present object grows by one; a removed key gets a version above all that it had.
    if (was_present ? answer.version != before + 1 : answer.version <= before) {
      course_.fail("key '" + key + "' was written at version " + std::to_string(answer.version) + " after " +
                   std::to_string(before));
    }
    model_.wrote(number, answer.version, stamp_, bytes);
    if (!was_present && before != 0) course_.recreations.fetch_add(1, std::memory_order_relaxed);
    course_.mutations.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  bool remove() {
    const uint32_t number = model_.drawPresent(random_);
    const std::string key = model_.key(number);
    const store::Answer answer = client_.remove(key);
    Deed deed = Deed::Remove;
    if (!took(answer.status, key, deed)) return false;
    if (answer.version != model_.at(number).version) {
      course_.fail("key '" + key + "' was removed at version " + std::to_string(answer.version) + " instead of " +
                   std::to_string(model_.at(number).version));
    }
    model_.removed(number);
    course_.removals.fetch_add(1, std::memory_order_relaxed);
    course_.mutations.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  bool took(Status status, const std::string& key, Deed& deed) {
    const int64_t now_ns = waiting_since_ns_ != 0 || status != Status::Ok ? clock_.nowNs() : 0;
    if (status == Status::Ok) {
      if (waiting_since_ns_ != 0) noteWait(now_ns - waiting_since_ns_);
      return true;
    }
    const bool is_first = waiting_since_ns_ == 0;
    if (status == Status::NoSpace) {
      if (is_first) course_.no_space.fetch_add(1, std::memory_order_relaxed);
      if (model_.presentCount() > 0) deed = Deed::Remove;
    } else if (status == Status::RetryLater) {
      if (is_first) course_.retry_later.fetch_add(1, std::memory_order_relaxed);
    } else {
      course_.fail("a mutation of key '" + key + "' was answered " + std::string(name(status)));
    }
    if (is_first) waiting_since_ns_ = now_ns;
    if (now_ns - waiting_since_ns_ > kRefusedNsMax) {
      course_.fail("the log has no room any more: mutations are refused for " +
                   std::to_string(kRefusedNsMax / runtime::kNanosPerSecond) + " s, at last with " +
                   std::string(name(status)) + ", key '" + key + "'");
    }
    return false;
  }

  void noteWait(int64_t wait_ns) {
    int64_t known = course_.longest_wait_ns.load(std::memory_order_relaxed);
    while (known < wait_ns && !course_.longest_wait_ns.compare_exchange_weak(known, wait_ns)) {
    }
  }

  const int64_t live_bytes_wanted_;
  const int64_t slack_bytes_;
  SoakStore& store_;
  store::Maintenance& maintenance_;
  runtime::Rcu& rcu_;
  runtime::Clock& clock_;
  Course& course_;
  runtime::Random random_;
  SoakClient client_;
  SoakModel model_;
  uint64_t stamp_;
  std::vector<std::byte> value_;
  runtime::RcuReader self_{};
  int64_t waiting_since_ns_ = 0;
};

/// Background work on a thread of its own, as in a server, and another one that shares the cleaning.
class Background {
 public:
  Background(SoakStore& store, runtime::Rcu& rcu, runtime::Clock& clock)
      : threads_(rcu),
        executor_(clock, "soak cleaner", threads_.add()),
        helper_(clock, "soak helper", threads_.add()),
        others_{&helper_},
        maintenance_(executor_, store.maintenanceParts(), others_) {}
  ~Background() {
    maintenance_.stop();
    maintenance_.wake();
    while (!maintenance_.stopped()) std::this_thread::yield();  // a slice, or a millisecond
    executor_.stop();
    helper_.stop();
  }

  store::Maintenance& maintenance() { return maintenance_; }

 private:
  store::Threads threads_;
  runtime::ThreadExecutor executor_;
  runtime::ThreadExecutor helper_;
  const std::array<runtime::Executor*, 1> others_;
  store::Maintenance maintenance_;
};

/// Looks at a run and tells about it.
class Observer {
 public:
  Observer(const Plan& plan, const SoakStore& store, Course& course) : plan_(plan), store_(store), course_(course) {}

  /// Until the time is over or something went wrong.
  void watch() {
    const double limit = static_cast<double>(store_.log().config().liveBytesMax());
    std::printf(
        "memory %.0f MB, live bytes at most %.0f MB (%.1f %% of it), wanted %.0f MB (%llu %% of the limit), seed "
        "%llu\n",
        mega(plan_.memory_bytes), limit / 1e6, limit * 100 / static_cast<double>(plan_.memory_bytes),
        mega(static_cast<uint64_t>(plan_.liveBytesWanted())), static_cast<unsigned long long>(plan_.live_percent),
        static_cast<unsigned long long>(plan_.seed));
    std::unique_lock lock(course_.mutex);
    // On a busy machine until there is something to say: not longer than twelve times as long.
    const auto isEnough = [this] { return store_.stats().appended_bytes.load() > 3 * plan_.memory_bytes; };
    for (uint64_t tenths = 1; !course_.stop.load(); ++tenths) {
      const uint64_t due = plan_.seconds * 10;
      if (tenths > due && (isEnough() || tenths > 12 * due)) break;
      course_.ended.wait_for(lock, std::chrono::milliseconds(100), [&] { return course_.stop.load(); });
      sample();
      if (tenths % 100 == 0 || tenths == plan_.seconds * 10) report(tenths / 10);
    }
    course_.stop.store(true);
  }

  /// Of the limit, on average since it was reached for the first time; 0 if never.
  double heldPercent() const { return samples_ == 0 ? 0 : percent_sum_ / static_cast<double>(samples_); }

 private:
  static double mega(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }
  double shareOf(int64_t bytes, uint64_t whole) const {
    return static_cast<double>(bytes) * 100 / static_cast<double>(whole);
  }
  double livePercent() const { return shareOf(store_.stats().live_bytes.load(), store_.log().config().liveBytesMax()); }

  void sample() {
    const double percent = livePercent();
    if (samples_ == 0 && percent < static_cast<double>(plan_.live_percent) - kShareSlackPercent) return;
    percent_sum_ += percent;
    ++samples_;
  }

  void report(uint64_t second) {
    const log::LogStats& stats = store_.stats();
    const uint64_t operations = course_.mutations.load() + course_.reads.load();
    const double seconds = static_cast<double>(second - last_second_);
    const uint64_t copied = stats.cleaner_bytes_copied.load();
    const uint64_t appended = stats.appended_bytes.load();
    std::printf(
        "%5llu s  %8.0f ops/s, %.0f MB/s written  live %.1f %% of the limit, %.1f %% of the memory (tombstones %.1f "
        "%%)  free %.1f MB  "
        "%llu passes, %.2f B copied per B appended  mutations that met RetryLater %llu, NoSpace %llu, longest wait "
        "%.0f "
        "ms\n",
        static_cast<unsigned long long>(second), static_cast<double>(operations - last_operations_) / seconds,
        mega(appended - last_appended_) / seconds, livePercent(), shareOf(stats.live_bytes.load(), plan_.memory_bytes),
        shareOf(stats.tombstone_bytes.load(), plan_.memory_bytes), mega(store_.log().pool().freeBytes()),
        static_cast<unsigned long long>(stats.cleaner_passes.load()),
        static_cast<double>(copied - last_copied_) / static_cast<double>(appended - last_appended_ + 1),
        static_cast<unsigned long long>(course_.retry_later.load()),
        static_cast<unsigned long long>(course_.no_space.load()),
        static_cast<double>(course_.longest_wait_ns.exchange(0)) / 1e6);
    std::fflush(stdout);
    last_second_ = second;
    last_operations_ = operations;
    last_copied_ = copied;
    last_appended_ = appended;
  }

  const Plan& plan_;
  const SoakStore& store_;
  Course& course_;
  uint64_t samples_ = 0;
  double percent_sum_ = 0;
  uint64_t last_second_ = 0;
  uint64_t last_operations_ = 0;
  uint64_t last_copied_ = 0;
  uint64_t last_appended_ = 0;
};

class FullMemorySoak : public ::testing::Test {
 protected:
  ~FullMemorySoak() override { rcu_->drain(); }

  void overwrite() {
    Background background(store_, *rcu_, clock_);
    for (uint32_t i = 0; i < kWriters; ++i) {
      writers_.push_back(std::make_unique<Writer>(plan_, i, store_, background.maintenance(), *rcu_, clock_, course_));
    }
    background.maintenance().wake();
    std::vector<std::thread> threads;
    for (const auto& writer : writers_) threads.emplace_back([&writer] { writer->work(); });
    observer_.watch();
    for (std::thread& thread : threads) thread.join();
  }

  // Called when no other thread uses the store any more.
  void verify() {
    const runtime::RcuReader self = rcu_->registerThread();
    // Of what was removed last, tombstones may still be in the index when the background work stops.
    constexpr int kTurnsMax = 100'000;
    for (int turns = 0; store_.store().tombstones().size() != 0 && turns < kTurnsMax; ++turns) store_.turn(self);
    EXPECT_EQ(store_.store().tombstones().size(), 0U);
    std::vector<const SoakModel*> models;
    for (const auto& writer : writers_) models.push_back(&writer->model());
    for (const SoakModel* model : models) compare(store_, *model, "the store");
    compareCounters(store_, models);
    recountLog(store_, self);
    verifyLog(self, models);
    rcu_->unregisterThread(self);
  }

  void verifyLog(runtime::RcuReader self, std::span<const SoakModel* const> models) {
    log::LogConfig config = plan_.config();
    config.memory_bytes *= 2;
    SoakStore other(config, ServerId(2), uint64_t{plan_.keysPerWriter()} * kWriters, *rcu_, clock_);
    runtime::Random random = runtime::Random(plan_.seed).stream("rebuild");
    Rebuilt rebuilt;
    rebuild(store_, other, self, random, rebuilt);
    uint64_t present = 0;
    if (!HasFatalFailure()) {
      for (const SoakModel* model : models) {
        compare(other, *model, "rebuilt from the log");
        present += model->presentCount();
      }
      EXPECT_EQ(other.store().objectCount(), present);
      std::printf("rebuilt from %llu segments with %llu entries: %llu objects\n",
                  static_cast<unsigned long long>(rebuilt.segments), static_cast<unsigned long long>(rebuilt.entries),
                  static_cast<unsigned long long>(present));
    }
    for (int i = 0; i < 10; ++i) other.turn(self);
    rcu_->quiescent(self);
    rcu_->drain();
  }

  const Plan plan_;
  runtime::SystemClock clock_;
  const std::unique_ptr<runtime::Rcu> rcu_ = runtime::makeUrcu();
  SoakStore store_{plan_.config(), ServerId(1), uint64_t{plan_.keysPerWriter()} * kWriters, *rcu_, clock_};
  Course course_;
  Observer observer_{plan_, store_, course_};
  std::vector<std::unique_ptr<Writer>> writers_;
};

TEST_F(FullMemorySoak, TheStoreAndItsLogAgreeWithTheWriters) {
  SCOPED_TRACE("RAMCORE_SOAK_SEED=" + std::to_string(plan_.seed));
  overwrite();
  ASSERT_EQ(course_.failure, "");
  verify();
  const log::LogStats& stats = store_.stats();
  EXPECT_GT(stats.appended_bytes.load(), 2 * plan_.memory_bytes) << "too little was written to say anything";
  EXPECT_GT(stats.cleaner_passes.load(), 5u);
  EXPECT_GT(course_.removals.load(), 1000u);
  EXPECT_GT(course_.recreations.load(), 1000u);
  EXPECT_NEAR(observer_.heldPercent(), static_cast<double>(plan_.live_percent), kShareSlackPercent)
      << "the share of live bytes was not held";
}

}  // namespace
}  // namespace ramcore::soak
