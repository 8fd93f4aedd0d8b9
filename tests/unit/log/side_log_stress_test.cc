#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "log/cleaning/cleaner.h"
#include "log/format/entry_writer.h"
#include "log/side_log.h"
#include "runtime/real/urcu_epoch.h"
#include "tests/unit/log/log_fixture.h"

namespace ramcore::log {
namespace {

constexpr uint32_t kFillers = 4;
constexpr uint32_t kKeyHolders = kFillers + 1;  // the last one appends to the log itself
constexpr uint32_t kKeysOfEach = 200;
constexpr uint64_t kSharedBytesWanted = 100u << 10;

/// An index for threads that share no key: a lock per key, because the cleaners move what they wrote.
class ApartOwner final : public EntryOwner {
 public:
  static std::string nameOf(uint32_t number) { return "key" + std::to_string(number); }

  Moved relocated(EntryRef from, EntryRef to, const EntryView& entry, Hint) override {
    Key& key = keys_[std::stoul(std::string(asText(entry.key()).substr(3)))];
    MutexGuard guard(key.lock);
    if (key.ref != from) return Moved::No;
    key.ref = to;
    return Moved::Yes;
  }
  void dropped(EntryRef, const EntryView&) override {}
  SafeVersionPayload safeVersion() override { return {}; }

  EntryRef refOf(uint32_t number) {
    MutexGuard guard(keys_[number].lock);
    return keys_[number].ref;
  }

  /// Appends to the log or to a side log.
  /// @return the segment that took it
  template <typename Target>
  Result<SegmentId> write(Target& target, uint32_t number, const std::string& value) {
    Key& key = keys_[number];
    const std::string name = nameOf(number);
    const ByteSpan payload = asBytes(value);
    MutexGuard guard(key.lock);
    const EntryInput input{.table = TableId(1),
                           .version = key.version + 1,
                           .key = asBytes(name),
                           .payload = {&payload, 1},
                           .dead = key.ref};
    const auto appended = target.append(std::span(&input, 1), AppendClass::Write);
    if (!appended.ok()) return appended.error();
    ++key.version;
    key.ref = appended->refs[0];
    return appended->end.segment;
  }
  /// As write(), for a key that is not there: copies the entry as from another server.
  Result<SegmentId> takeOver(SideLog& side, const Log& log, uint32_t number, const std::string& value) {
    Key& key = keys_[number];
    const std::string name = nameOf(number);
    const ByteSpan payload = asBytes(value);
    MutexGuard guard(key.lock);
    EXPECT_FALSE(key.ref) << name;
    const EntryInput input{
        .table = TableId(1), .version = key.version + 1, .key = asBytes(name), .payload = {&payload, 1}};
    std::vector<std::byte> foreign(input.alignedBytes());
    writeEntry(foreign.data(), input, false, {});
    const auto copied = side.copy(EntryView(foreign.data()), AppendClass::Write);
    if (!copied.ok()) return copied.error();
    ++key.version;
    key.ref = *copied;
    return log.pool().segmentOf(*copied)->id();
  }
  template <typename Target>
  Result<SegmentId> remove(Target& target, uint32_t number) {
    Key& key = keys_[number];
    const std::string name = nameOf(number);
    MutexGuard guard(key.lock);
    if (!key.ref) return Status::NotFound;
    const EntryInput tombstone{.type = EntryType::Tombstone,
                               .table = TableId(1),
                               .version = key.version,
                               .key = asBytes(name),
                               .payload = {},
                               .dead = key.ref};
    const auto appended = target.append(std::span(&tombstone, 1), AppendClass::Remove);
    if (!appended.ok()) return appended.error();
    key.ref = {};
    return appended->end.segment;
  }

 private:
  struct Key {
    Mutex lock;
    EntryRef ref;
    Version version = 0;  ///< of the last object, whether or not it is still there
  };
  std::array<Key, kKeyHolders * kKeysOfEach> keys_;
};

/// A thread with its keys, and the segments that its side logs had.
struct KeyHolder {
  uint32_t number = 0;
  std::mt19937_64 random;
  uint64_t written = 0;
  std::map<std::string, std::string> model;
  std::set<SegmentId> joined;  ///< those that may still be in the log
  std::set<SegmentId> given_up;
  uint64_t joined_count = 0;
};

/// Threads that each fill a side log of one log, a thread that appends to the log itself, and two cleaners. Rounds: at
/// the end of each, all side logs have joined, and no other thread uses the log.
class SideLogTrial {
 public:
  SideLogTrial() {
    for (uint32_t i = 0; i < kKeyHolders; ++i) {
      holders_[i].number = i;
      holders_[i].random.seed(i + 1);
    }
  }
  ~SideLogTrial() { rcu_->unregisterThread(reader_); }

  void runRound() {
    writers_left_.store(kKeyHolders);
    sides_begun_.store(0);
    std::vector<std::thread> threads;
    for (KeyHolder& holder : holders_) {
      threads.push_back(start([this, &holder](runtime::RcuReader reader) {
        holder.number < kFillers ? bring(holder, reader) : changeOften(kLogChanges, holder, reader);
        writers_left_.fetch_sub(1);
      }));
    }
    threads.push_back(start([this](runtime::RcuReader reader) { helpUntilTheEnd(reader); }));
    while (writers_left_.load() > 0) cleanOn();
    rcu_->offline(reader_);
    for (std::thread& thread : threads) thread.join();
    rcu_->online(reader_);
  }

  /// Checks that the segments, the index and a recovery show what the threads have written.
  void check() {
    comeToRest();
    if (::testing::Test::HasFatalFailure()) return;
    checkSegments();
    checkIndex();
    checkRecovered();
  }

  const LogStats& stats() const { return log_.stats(); }
  uint64_t joinedCount() const {
    uint64_t count = 0;
    for (const KeyHolder& holder : holders_) count += holder.joined_count;
    return count;
  }
  uint64_t cleanedCount() const { return cleaned_count_; }
  uint64_t givenUpCount() const { return given_up_count_; }

 private:
  static constexpr uint32_t kSideChanges = 450;  // more than a segment holds
  static constexpr uint32_t kServedChanges = 60;
  static constexpr uint32_t kLogChanges = 1000;
  static constexpr uint32_t kGivenUpEntries = 250;
  static constexpr uint32_t kBatch = 32;

  static LogConfig twoMegabytes() {
    LogConfig config = LogConfig::forTest();
    config.memory_bytes = 2u << 20;
    return config;
  }

  template <typename Work>
  std::thread start(Work work) {
    return std::thread([this, work] {
      const runtime::RcuReader reader = rcu_->registerThread();
      work(reader);
      rcu_->unregisterThread(reader);
    });
  }

  /// @return false: the condition does not become true in time, or the test has failed already
  template <typename Condition>
  bool await(runtime::RcuReader reader, Condition&& holds) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (!holds()) {
      if (::testing::Test::HasFailure() || std::chrono::steady_clock::now() >= give_up) return false;
      rcu_->quiescent(reader);
      std::this_thread::yield();
    }
    return true;
  }

  // ---- threads

  /// Does what is done for tablets that are taken over: a first attempt is given up, the next one joins, and then the
  /// keys are written to.
  void bring(KeyHolder& holder, runtime::RcuReader reader) {
    giveUpOne(holder, reader);
    std::set<SegmentId> segments;
    SideLog side(log_, replicator_);
    for (uint32_t i = 0; i < kSideChanges && !::testing::Test::HasFailure(); ++i) {
      segments.insert(change(holder, side, reader));
      if (i == 0) awaitOtherSides(reader);
      if (i % kBatch == kBatch - 1) side.settle();
    }
    side.close();
    const bool is_closed = await(reader, [&] { return side.isClosed(); });
    EXPECT_TRUE(is_closed);
    if (!is_closed) return side.leave();
    side.join();
    EXPECT_TRUE(await(reader, [&] { return side.isJoined(); }));
    holder.joined_count += segments.size();
    holder.joined.merge(segments);
    changeOften(kServedChanges, holder, reader);
  }

  /// Waits until all side logs have begun, so that none joins before.
  void awaitOtherSides(runtime::RcuReader reader) {
    sides_begun_.fetch_add(1);
    EXPECT_TRUE(await(reader, [&] { return sides_begun_.load() == kFillers; }));
  }

  /// Fills a side log to whose entries nothing refers, and abandons it. If one of the entries came into the log, it
  /// would be the newest version of its key.
  void giveUpOne(KeyHolder& holder, runtime::RcuReader reader) {
    SideLog side(log_, replicator_);
    for (uint32_t i = 0; i < kGivenUpEntries; ++i) {
      const std::string key = ApartOwner::nameOf(someKey(holder));
      const std::string value = newValue(holder);
      const ByteSpan payload = asBytes(value);
      const EntryInput input{
          .table = TableId(1), .version = kVersionMax, .key = asBytes(key), .payload = {&payload, 1}};
      Status status = Status::Ok;
      const auto append = [&] {
        const auto appended = side.append(std::span(&input, 1), AppendClass::Write);
        status = appended.status();
        if (appended.ok()) holder.given_up.insert(appended->end.segment);
        return appended.ok();
      };
      // The side log gets a segment in any case, and further ones only as long as there is room.
      const bool is_taken = i == 0 ? await(reader, append) : append();
      rcu_->quiescent(reader);
      EXPECT_TRUE(is_taken || (i != 0 && isRetryable(status))) << name(status);
      if (!is_taken) break;
    }
    if (holder.random() % 2 == 0) side.close();
    side.abandon();
  }

  void changeOften(uint32_t times, KeyHolder& holder, runtime::RcuReader reader) {
    for (uint32_t i = 0; i < times && !::testing::Test::HasFailure(); ++i) change(holder, log_, reader);
  }

  /// Tries one change of a key of the thread's own, in the log or in a side log, until it is accepted.
  /// @return the segment that took it; none after a failure
  template <typename Target>
  SegmentId change(KeyHolder& holder, Target& target, runtime::RcuReader reader) {
    const uint32_t number = someKey(holder);
    const std::string key = ApartOwner::nameOf(number);
    const bool is_there = holder.model.contains(key);
    const bool removes = is_there && holder.random() % 8 == 0;
    const bool comes_from_elsewhere = !is_there && holder.random() % 2 == 0;
    const std::string value = removes ? std::string() : newValue(holder);
    Result<SegmentId> taken = Status::RetryLater;
    // Tried again also if memory is full: what is in side logs cannot be cleaned yet.
    const bool in_time = await(reader, [&] {
      taken = removes ? owner_.remove(target, number) : write(target, number, value, comes_from_elsewhere);
      return taken.ok() || !isRetryable(taken.error());
    });
    EXPECT_TRUE(in_time && taken.ok()) << key << ": " << name(taken.status());
    if (!taken.ok()) return {};
    if (removes) {
      holder.model.erase(key);
    } else {
      holder.model[key] = value;
    }
    rcu_->quiescent(reader);
    return *taken;
  }
  Result<SegmentId> write(SideLog& side, uint32_t number, const std::string& value, bool comes_from_elsewhere) {
    return comes_from_elsewhere ? owner_.takeOver(side, log_, number, value) : owner_.write(side, number, value);
  }
  Result<SegmentId> write(Log& log, uint32_t number, const std::string& value, bool) {
    return owner_.write(log, number, value);
  }

  static uint32_t someKey(KeyHolder& holder) {
    return holder.number * kKeysOfEach + static_cast<uint32_t>(holder.random() % kKeysOfEach);
  }
  static std::string newValue(KeyHolder& holder) {
    const size_t bytes = holder.random() % 20 == 0 ? 1500 + holder.random() % 2000 : holder.random() % 300;
    ++holder.written;
    return std::to_string(holder.number) + "." + std::to_string(holder.written) + ":" + std::string(bytes, 'x');
  }

  /// The second cleaner helps with whatever the first one copies.
  void helpUntilTheEnd(runtime::RcuReader reader) {
    while (writers_left_.load() > 0) {
      const bool has_helped = cleaner_.help(1, 2048);
      rcu_->quiescent(reader);
      if (!has_helped) std::this_thread::yield();
    }
  }

  /// A turn of the first cleaner, which reclaims, too.
  void cleanOn() {
    const bool has_worked = cleaner_.step(4096) == Cleaner::Progress::Worked;
    rcu_->quiescent(reader_);
    rcu_->reclaim(16);
    log_.reclaim(++now_ns_);
    log_.maintain();
    if (!has_worked) std::this_thread::yield();
  }

  // ---- between rounds

  /// Ends the pass that is in progress, and waits until the memory of all segments that were given up is back.
  void comeToRest() {
    for (int i = 0; i < 100'000 && cleaner_.isBusy(); ++i) cleanOn();
    ASSERT_FALSE(cleaner_.isBusy());
    size_t waiting = 1;
    for (int i = 0; i < 100 && waiting > 0; ++i) {
      rcu_->reclaim(16);
      waiting = log_.reclaim(++now_ns_);
    }
    ASSERT_EQ(waiting, 0u);
  }

  /// All memory that is taken belongs to the log.
  void checkSegments() {
    SegmentPool& pool = log_.pool();
    for (uint32_t i = 0; i < pool.slotCount(); ++i) {
      const Segment& segment = pool.slot(i);
      EXPECT_TRUE(segment.state() == SegmentState::Free || log_.members().isListed(segment)) << "slot " << i;
    }
    for (KeyHolder& holder : holders_) {
      for (const SegmentId id : holder.given_up) EXPECT_EQ(pool.find(id), nullptr) << "segment " << id.value;
      given_up_count_ += holder.given_up.size();
      holder.given_up.clear();
      cleaned_count_ += std::erase_if(holder.joined, [&](SegmentId id) { return pool.find(id) == nullptr; });
    }
  }

  void checkIndex() {
    int64_t live_bytes = 0;
    for (const KeyHolder& holder : holders_) {
      for (uint32_t i = 0; i < kKeysOfEach; ++i) {
        const uint32_t number = holder.number * kKeysOfEach + i;
        const auto known = holder.model.find(ApartOwner::nameOf(number));
        const EntryRef ref = owner_.refOf(number);
        ASSERT_EQ(static_cast<bool>(ref), known != holder.model.end()) << "key " << number;
        if (!ref) continue;
        const EntryView entry = log_.view(ref);
        EXPECT_TRUE(entry.verify()) << "key " << number;
        EXPECT_EQ(asText(entry.key()), known->first);
        EXPECT_TRUE(asText(entry.payload()) == known->second) << known->first;
        live_bytes += entry.alignedBytes();
      }
    }
    // Counting survived the races, and what was given up is not counted: the live bytes are those of the keys and of
    // the tombstones.
    EXPECT_EQ(log_.stats().live_bytes.load(), live_bytes + log_.stats().tombstone_bytes.load());
  }

  /// Recovers from the newest digest and the segments alone.
  void checkRecovered() {
    std::map<std::string, std::string> expected;
    for (const KeyHolder& holder : holders_) expected.insert(holder.model.begin(), holder.model.end());
    const auto recovered = recover(segmentsInMemory());
    ASSERT_TRUE(recovered.has_value()) << "no complete log";
    EXPECT_EQ(recovered->size(), expected.size());
    EXPECT_TRUE(*recovered == expected);
  }
  std::map<SegmentId, CopyingReplicator::Replica> segmentsInMemory() {
    std::map<SegmentId, CopyingReplicator::Replica> replicas;
    for (uint32_t i = 0; i < log_.pool().slotCount(); ++i) {
      const Segment& segment = log_.pool().slot(i);
      if (segment.state() == SegmentState::Free) continue;
      CopyingReplicator::Replica& replica = replicas[segment.id()];
      replica.opened = true;
      replica.closed = segment.state() == SegmentState::Closed;
      replica.bytes.resize(segment.committedBytes());
      segment.copyOut(0, segment.committedBytes(), replica.bytes.data());
    }
    return replicas;
  }

  const LogConfig config_ = twoMegabytes();
  const std::unique_ptr<LogMemory> memory_ = LogMemory::open(config_.memory_bytes).value();
  const std::unique_ptr<runtime::Rcu> rcu_ = runtime::makeUrcu();
  const runtime::RcuReader reader_ = rcu_->registerThread();
  runtime::PinRegistry pins_{1};
  ApartOwner owner_;
  NoReplicator replicator_;
  Log log_{config_, LogIdentity{ClusterId(1), ServerId(2)}, *memory_,
           Log::Environment{owner_, replicator_, *rcu_, pins_}};
  Cleaner cleaner_{log_, owner_, replicator_, 2};
  std::array<KeyHolder, kKeyHolders> holders_;
  std::atomic<uint32_t> writers_left_{0};
  std::atomic<uint32_t> sides_begun_{0};
  uint64_t now_ns_ = 0;
  uint64_t cleaned_count_ = 0;  // segments of side logs that had joined
  uint64_t given_up_count_ = 0;
};

TEST(SideLogStress, ParallelSideLogsJoinALogThatIsWrittenAndCleaned) {
  constexpr uint32_t kRoundsMin = 25;
  const auto trial = std::make_unique<SideLogTrial>();
  uint32_t round = 0;
  // On a busy machine it may take longer until both cleaners have met often enough.
  const auto isGoingOn = [&] {
    return round < kRoundsMin ||
           (round < 10 * kRoundsMin && trial->stats().cleaner_bytes_shared.load() <= kSharedBytesWanted);
  };
  for (; isGoingOn(); ++round) {
    trial->runRound();
    if (!HasFailure()) trial->check();
    if (HasFailure()) FAIL() << "round " << round;
  }
  // Two segments or three of each side log are far more than there are slots: most must have gone.
  EXPECT_GE(trial->joinedCount(), uint64_t{round} * kFillers * 3 / 2);
  EXPECT_GT(trial->cleanedCount(), trial->joinedCount() / 2);
  EXPECT_GE(trial->givenUpCount(), uint64_t{round} * kFillers);
  EXPECT_GT(trial->stats().cleaner_passes.load(), 10u);
  EXPECT_GT(trial->stats().cleaner_bytes_shared.load(), kSharedBytesWanted);
}

}  // namespace
}  // namespace ramcore::log
