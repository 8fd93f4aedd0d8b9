#include "store/tombstone_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/sim/sim_epoch.h"

namespace ramcore::store {
namespace {

constexpr TableId kQueueTable{5};

/// A replicator that reports as late as the test wants.
class QueueReplicator final : public log::Replicator {
 public:
  void attach(log::ReplicationEvents& events) override { events_ = &events; }
  void open(const log::Segment& segment) override {
    head_ = &segment;
    events_->segmentOpened(segment.id());
  }
  void advance(const log::Segment&) override {}
  void requestFlush(LogPosition) override {}
  void close(const log::Segment& segment) override { events_->segmentClosed(segment.id()); }
  void moved(const log::Segment&) override {}
  void free(SegmentId) override {}

  void copyAll() { events_->segmentDurable(head_->id(), head_->committedBytes()); }
  void flushAll() {
    copyAll();
    events_->segmentFlushed(head_->id(), head_->committedBytes());
  }

 private:
  log::ReplicationEvents* events_ = nullptr;
  const log::Segment* head_ = nullptr;
};

/// An owner that is never asked: nothing is cleaned here.
class QueueOwner final : public log::EntryOwner {
 public:
  Hint willBeRelocated(const log::EntryView&) override { return 0; }
  Moved relocated(log::EntryRef, log::EntryRef, const log::EntryView&, Hint) override { return Moved::No; }
  void dropped(log::EntryRef, const log::EntryView&) override {}
  log::SafeVersionPayload safeVersion() override { return {.version = 1, .expiry_clock_ms = 0}; }
};

class TombstoneQueueTest : public ::testing::Test {
 protected:
  TombstoneQueueTest() {
    reader_ = rcu_.registerThread();
    log_.maintain();
  }
  ~TombstoneQueueTest() override {
    rcu_.unregisterThread(reader_);
    rcu_.drain();
  }
  static KeyHash hashOf(const std::string& key) { return hashKey(kQueueTable, asBytes(key)); }
  /// Logs the removal of a key and enters it into the index, as the store does.
  void remove(const std::string& key) {
    const log::EntryInput tombstone{
        .type = log::EntryType::Tombstone, .table = kQueueTable, .version = 1, .key = asBytes(key), .payload = {}};
    const auto appended = log_.append(std::span(&tombstone, 1), log::AppendClass::Write);
    ASSERT_TRUE(appended.ok());
    const index::StripeGuard stripe(*index_, hashOf(key));
    ASSERT_EQ(index_->insert(stripe, appended->refs[0]), Status::Ok);
    queue_.retire(stripe, appended->refs[0], hashOf(key), Durability::Buffered);
  }

  /// Logs an entry and enters it into the index, and nothing else.
  log::EntryRef enter(log::EntryType type, TableId table, const std::string& key) {
    const log::EntryInput input{.type = type, .table = table, .version = 1, .key = asBytes(key), .payload = {}};
    const auto appended = log_.append(std::span(&input, 1), log::AppendClass::Write);
    RC_CHECK(appended.ok());
    const index::StripeGuard stripe(*index_, hashKey(table, asBytes(key)));
    RC_CHECK(index_->insert(stripe, appended->refs[0]) == Status::Ok);
    return appended->refs[0];
  }
  bool isInIndex(log::EntryRef ref) {
    const index::StripeGuard stripe(*index_, entries_.hashOf(ref));
    return bool{index_->find(stripe, [&](log::EntryRef candidate) { return candidate == ref; })};
  }

  const log::LogConfig config_ = log::LogConfig::forTest();
  runtime::SimRcu rcu_;
  runtime::PinRegistry pins_{1};
  std::unique_ptr<log::LogMemory> memory_ = log::LogMemory::open(config_.memory_bytes).value();
  std::unique_ptr<index::HashIndex> index_ = index::HashIndex::open(index::IndexConfig::forTest(), rcu_).value();
  TabletTable tablets_{rcu_};
  QueueOwner owner_;
  QueueReplicator replicator_;
  log::Log log_{config_, {ClusterId(1), ServerId(2)}, *memory_, {owner_, replicator_, rcu_, pins_}};
  StoredEntries entries_{*memory_, log_, *index_, tablets_};
  TombstoneQueue queue_{log_, *index_, entries_, tablets_};
  runtime::RcuReader reader_{};
};

TEST_F(TombstoneQueueTest, KeysStayInTheIndexUntilTheirRemovalIsDurable) {
  remove("a");
  remove("b");
  EXPECT_EQ(queue_.size(), 2u);
  EXPECT_EQ(queue_.size(Durability::Sync), 0u);
  const TombstoneQueue::Reaped early = queue_.reap(10);
  EXPECT_EQ(early.count, 0u);
  EXPECT_TRUE(early.waits_for.durable.segment) << "the position that the oldest one waits for";
  EXPECT_EQ(index_->entryCount(), 2u);
  replicator_.copyAll();
  EXPECT_EQ(queue_.reap(1).count, 1u) << "no more than asked for";
  EXPECT_EQ(queue_.reap(10).count, 1u);
  EXPECT_EQ(queue_.size(), 0u);
  EXPECT_EQ(index_->entryCount(), 0u);
}

TEST_F(TombstoneQueueTest, AKeyWhoseStripeIsTakenIsLeftForLater) {
  remove("a");
  replicator_.copyAll();
  {
    const index::StripeGuard taken(*index_, hashOf("a"));
    EXPECT_EQ(queue_.reap(10, Locking::Try).count, 0u);
  }
  EXPECT_EQ(queue_.reap(10, Locking::Try).count, 1u);
}

/// A tablet of the lower half of a table's hashes, which has arrived. Keys were removed meanwhile; their tombstones are
/// in the index, and nothing waits in the queue.
class ArrivedRemovals : public TombstoneQueueTest {
 protected:
  void arrive(Durability level) {
    RC_CHECK(tablets_.add({.id = TabletId(1),
                           .table = kQueueTable,
                           .range = {.first = 0, .last = kLast},
                           .epoch = TabletEpoch(1),
                           .state = TabletState::Pulling,
                           .first_segment = {},
                           .durability = level,
                           .counters = std::make_shared<TabletCounters>()}) == Status::Ok);
    const auto arriving = std::make_shared<ArrivingRange>(HashRange{.first = 0, .last = kLast}, SegmentId(1000));
    RC_CHECK(tablets_.arrive(TabletId(1), TabletEpoch(1), arriving) == Status::Ok);
    for (int i = 0; i < 300; ++i) {
      const std::string key = "removed" + std::to_string(i);
      const log::EntryRef ref = enter(log::EntryType::Tombstone, kQueueTable, key);
      (hashOf(key) <= kLast ? removed_ : others_).push_back(ref);
      others_.push_back(enter(log::EntryType::Object, kQueueTable, "object" + std::to_string(i)));
      others_.push_back(enter(log::EntryType::Tombstone, TableId(6), key));
    }
    ASSERT_GT(removed_.size(), 128u) << "more than two slices";
    RC_CHECK(tablets_.update(TabletId(1), TabletEpoch(2), TabletState::Normal, {}) == Status::Ok);
  }
  /// Everything up to the end of the range, slice by slice: exactly the keys before the cursor are taken.
  void retireAll() {
    std::set<KeyHash> cursors;
    const Tablet tablet = tablets_.get(TabletId(1)).value();
    for (std::optional<KeyHash> cursor = tablet.range.first; cursor;) {
      ASSERT_TRUE(cursors.insert(*cursor).second) << "the cursor goes on";
      const size_t before = taken();
      cursor = queue_.retireSlice(tablet, *cursor);
      EXPECT_LT(taken() - before, 128u) << "a bounded slice";
      const auto isBefore = [&](log::EntryRef ref) { return !cursor || entries_.hashOf(ref) < *cursor; };
      EXPECT_EQ(taken(), static_cast<size_t>(std::ranges::count_if(removed_, isBefore)));
    }
    EXPECT_GT(cursors.size(), 2u);
    EXPECT_EQ(taken(), removed_.size());
    for (const log::EntryRef ref : others_) EXPECT_TRUE(isInIndex(ref)) << "of another tablet, or an object";
  }
  /// How many keys have left the index, or wait in the queue for that.
  size_t taken() { return queue_.size() + removed_.size() + others_.size() - index_->entryCount(); }

  static constexpr KeyHash kLast = UINT64_MAX / 2;
  std::vector<log::EntryRef> removed_;  ///< tombstones of the tablet
  std::vector<log::EntryRef> others_;
};

TEST_F(ArrivedRemovals, LeaveTheIndexSliceBySliceAndNothingElseDoes) {
  arrive(Durability::Buffered);
  replicator_.copyAll();
  EXPECT_EQ(queue_.reap(1000).count, 0u) << "they were never in the queue";
  retireAll();
  EXPECT_EQ(queue_.size(), 0u) << "what is durable leaves at once";
  for (const log::EntryRef ref : removed_) EXPECT_FALSE(isInIndex(ref));
}

TEST_F(ArrivedRemovals, WaitUntilTheyAreDurable) {
  arrive(Durability::Buffered);
  retireAll();
  EXPECT_EQ(queue_.size(Durability::Buffered), removed_.size());
  const TombstoneQueue::Reaped early = queue_.reap(1000);
  EXPECT_EQ(early.count, 0u);
  EXPECT_TRUE(early.waits_for.durable.segment);
  for (const log::EntryRef ref : removed_) EXPECT_TRUE(isInIndex(ref)) << "its absence may not be shown yet";
  replicator_.copyAll();
  EXPECT_EQ(queue_.reap(1000).count, removed_.size());
  EXPECT_EQ(index_->entryCount(), others_.size());
}

TEST_F(ArrivedRemovals, OfASyncTableWaitUntilTheyAreFlushed) {
  arrive(Durability::Sync);
  replicator_.copyAll();
  retireAll();
  EXPECT_EQ(queue_.size(Durability::Sync), removed_.size());
  EXPECT_EQ(queue_.reap(1000).count, 0u) << "durable is not flushed";
  replicator_.flushAll();
  EXPECT_EQ(queue_.reap(1000).count, removed_.size());
  EXPECT_EQ(index_->entryCount(), others_.size());
}

}  // namespace
}  // namespace ramcore::store
