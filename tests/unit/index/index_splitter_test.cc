#include "index/index_splitter.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/sim/sim_epoch.h"

namespace ramcore::index {
namespace {

constexpr unsigned kFirstBucketsLog2 = 1;

/// A table of two buckets with room for more, without an index around it.
class IndexSplitterTest : public ::testing::Test {
 protected:
  ~IndexSplitterTest() override { rcu_.drain(); }
  /// Puts an entry into the first line of the bucket that its hash belongs to.
  EntryRef add(ReversedHash reversed) {
    const EntryRef ref = EntryRef::fromOffset(EntryRef::kFirstBytes + EntryRef::kUnitBytes * entries_.fetch_add(1));
    Line& line = table_.bucket(table_.currentBucket(reversed));
    uint32_t slot_index = 0;
    while (line.load(slot_index) != 0) ++slot_index;
    line.store(slot_index, entrySlot(table_.tagBits(reversed), ref));
    return ref;
  }
  bool holds(uint64_t bucket, EntryRef ref) const {
    for (uint32_t i = 0; i < kSlotsPerLine; ++i) {
      const SlotBits slot = table_.bucket(bucket).load(i);
      if (isEntry(slot) && refOf(slot) == ref) return true;
    }
    return false;
  }

  runtime::SimRcu rcu_;
  std::vector<Line> buckets_ = std::vector<Line>(8);
  std::vector<Line> lines_ = std::vector<Line>(4);
  std::vector<uint32_t> links_ = std::vector<uint32_t>(4);
  IndexTable table_{buckets_, lines_, kFirstBucketsLog2};
  Stripes stripes_{kFirstBucketsLog2};
  LinePool pool_{lines_, links_, rcu_};
  std::atomic<uint64_t> entries_{0};
  IndexSplitter splitter_{{table_, stripes_, pool_, entries_}, 8};
};

TEST_F(IndexSplitterTest, SplitsWhenThereAreTooManyEntriesForTheBuckets) {
  std::vector<EntryRef> stay;
  std::vector<EntryRef> go;
  for (uint64_t i = 0; i < 3; ++i) {
    stay.push_back(add(i << 8));            // bucket 0, and bit 1 is not set
    go.push_back(add(i << 8 | 2));          // bucket 0, later bucket 2
    static_cast<void>(add(i << 8 | 1));     // bucket 1
    static_cast<void>(add(i << 8 | 0x11));  // bucket 1
  }
  splitter_.splitAsNeeded(1);
  EXPECT_EQ(table_.size().bucketCount(), 2u) << "six for each bucket";
  EXPECT_EQ(splitter_.splits(), 0u);

  entries_.fetch_add(1);
  splitter_.splitAsNeeded(1);
  EXPECT_EQ(table_.size().bucketCount(), 3u);
  EXPECT_EQ(splitter_.splits(), 1u);
  EXPECT_EQ(splitter_.splitsPerOperationMax(), 1u);
  for (const EntryRef ref : stay) EXPECT_TRUE(holds(0, ref) && !holds(2, ref));
  for (const EntryRef ref : go) EXPECT_TRUE(!holds(0, ref) && holds(2, ref));
}

TEST_F(IndexSplitterTest, PutsASplitOffWhileAnotherThreadHasTheStripe) {
  entries_ = 100;
  stripes_.lock(0).lock();
  splitter_.splitAsNeeded(1);
  EXPECT_EQ(splitter_.splits(), 0u);
  EXPECT_EQ(splitter_.splitsPutOff(), 1u);
  splitter_.splitAsNeeded(0);
  EXPECT_EQ(splitter_.splits(), 2u) << "the caller has that stripe, and nobody has the other one";
  stripes_.lock(0).unlock();
}

TEST_F(IndexSplitterTest, DoesNoMoreThanTwoSplitsAtOnceAndEndsWithTheLastBucket) {
  entries_ = 1000;
  splitter_.splitAsNeeded(0);
  EXPECT_EQ(splitter_.splits(), IndexSplitter::kSplitsPerOperationMax);
  for (int i = 0; i < 10; ++i) splitter_.splitAsNeeded(0);
  EXPECT_EQ(table_.size().bucketCount(), 8u);
  EXPECT_EQ(splitter_.splitsPutOff(), 0u);
}

}  // namespace
}  // namespace ramcore::index
