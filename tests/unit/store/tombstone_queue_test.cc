#include "store/tombstone_queue.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ramcore::store
