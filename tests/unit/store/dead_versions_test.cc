#include "store/dead_versions.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/hash.h"
#include "log/format/entry_writer.h"

namespace ramcore::store {
namespace {

using log::EntryType;

constexpr TableId kTable{7};

/// One entry of a dead server's log.
class Entry {
 public:
  Entry(EntryType type, const std::string& key, Version version, uint64_t named)
      : hash_(hashKey(kTable, asBytes(key))) {
    log::EntryInput input;
    input.type = type;
    input.table = kTable;
    input.version = version;
    input.key = asBytes(key);
    if (named != 0) input.dead = log::EntryRef::fromOffset(log::EntryRef::kFirstBytes);
    bytes_.resize(input.alignedBytes());
    log::writeEntry(bytes_.data(), input, false, SegmentId(named));
  }
  log::EntryView view() const { return log::EntryView(bytes_.data()); }
  KeyHash hash() const { return hash_; }

 private:
  KeyHash hash_;
  std::vector<std::byte> bytes_;
};

class DeadVersionsTest : public ::testing::Test {
 protected:
  static std::vector<SegmentId> newestFirst() { return {SegmentId(30), SegmentId(20), SegmentId(10)}; }

  void note(const std::string& key, Version version, uint64_t named) {
    const Entry tombstone(EntryType::Tombstone, key, version, named);
    dead.note(tombstone.hash(), tombstone.view());
  }
  bool holdsDown(const std::string& key, Version version, uint64_t named = 0) {
    const Entry object(EntryType::Object, key, version, named);
    return dead.holdsDown(object.hash(), object.view());
  }

  DeadVersions dead{newestFirst(), 1};
};

TEST_F(DeadVersionsTest, OfSegmentsThatWereReplayedNothingIsNoted) {
  dead.segmentDone();
  for (uint64_t number = 0; number < 100'000; ++number) note("key" + std::to_string(number), 5, 30);
  EXPECT_EQ(dead.size(), 0u);
  EXPECT_EQ(dead.peakBytes(), 0u);
  EXPECT_FALSE(holdsDown("key1", 5));
}

TEST_F(DeadVersionsTest, ANoteIsKeptUntilItsSegmentHasBeenReplayed) {
  note("key", 5, 20);
  EXPECT_TRUE(holdsDown("key", 5));
  EXPECT_TRUE(holdsDown("key", 4));
  EXPECT_FALSE(holdsDown("key", 6));
  EXPECT_FALSE(holdsDown("other", 5));
  dead.segmentDone();
  EXPECT_TRUE(holdsDown("key", 5)) << "it is being replayed";
  dead.segmentDone();
  EXPECT_FALSE(holdsDown("key", 5));
}

TEST_F(DeadVersionsTest, OfASegmentThatThePlanDoesNotHaveItIsKeptToTheEnd) {
  note("key", 5, 25);
  for (int done = 0; done < 3; ++done) {
    EXPECT_TRUE(holdsDown("key", 5));
    dead.segmentDone();
  }
}

TEST_F(DeadVersionsTest, SoOfWhatWasTakenOutOfTheIndex) {
  const Entry tombstone(EntryType::Tombstone, "key", 5, 30);
  dead.segmentDone();
  dead.noteToTheEnd(tombstone.hash(), tombstone.view());
  dead.segmentDone();
  EXPECT_TRUE(holdsDown("key", 5));
}

TEST_F(DeadVersionsTest, WhatIsLeftOutLendsItsTime) {
  note("key", 5, 30);
  note("another", 5, 30);
  EXPECT_TRUE(holdsDown("key", 5, 10));
  dead.segmentDone();
  EXPECT_FALSE(holdsDown("another", 4));
  EXPECT_TRUE(holdsDown("key", 4));
  dead.segmentDone();
  EXPECT_TRUE(holdsDown("key", 4, 25)) << "it is lent to the end";
  dead.segmentDone();
  EXPECT_TRUE(holdsDown("key", 3));
}

TEST_F(DeadVersionsTest, AKeyHasTheHighestVersionAndTheLatestEnd) {
  note("key", 9, 30);
  note("key", 5, 10);
  dead.segmentDone();
  EXPECT_TRUE(holdsDown("key", 9));
  EXPECT_EQ(dead.size(), 1u);
  note("key", 11, 20);
  EXPECT_TRUE(holdsDown("key", 11));
}

TEST_F(DeadVersionsTest, WhatHasEndedSaysNothingToWhatIsNotedAnew) {
  note("key", 9, 30);
  dead.segmentDone();
  note("key", 5, 20);
  EXPECT_FALSE(holdsDown("key", 9));
  EXPECT_TRUE(holdsDown("key", 5));
}

TEST_F(DeadVersionsTest, WithoutAnOrderEverythingIsKept) {
  DeadVersions kept(1);
  const Entry tombstone(EntryType::Tombstone, "key", 5, 30);
  kept.note(tombstone.hash(), tombstone.view());
  for (int i = 0; i < 100; ++i) kept.segmentDone();
  EXPECT_TRUE(kept.holdsDown(tombstone.hash(), Entry(EntryType::Object, "key", 5, 0).view()));
}

TEST_F(DeadVersionsTest, ATombstoneOfNoVersionIsOfNoAccount) {
  note("key", 0, 20);
  EXPECT_EQ(dead.size(), 0u);
  EXPECT_FALSE(holdsDown("key", 1));
}

/// The memory of the notes; and no note gets lost while the tables grow.
TEST_F(DeadVersionsTest, NotesTakeLessThan39BytesEach) {
  constexpr uint64_t kCount = 200'000;
  for (uint64_t number = 0; number < kCount; ++number) {
    note("key" + std::to_string(number), 1 + number, 20);
    if (number % 10'000 != 9'999) continue;
    // One of 64 tables is there twice while it grows.
    EXPECT_LT(dead.bytes(), number * 39);
    EXPECT_LT(dead.peakBytes(), number * 40);
  }
  EXPECT_EQ(dead.size(), kCount);
  for (uint64_t number = 0; number < kCount; ++number) {
    ASSERT_TRUE(holdsDown("key" + std::to_string(number), 1 + number)) << number;
    ASSERT_FALSE(holdsDown("key" + std::to_string(number), 2 + number)) << number;
  }
  dead.clear();
  EXPECT_EQ(dead.bytes(), 0u);
}

/// Each segment has tombstones of keys that lay in the one before, so there are never more notes than those of two
/// segments.
TEST_F(DeadVersionsTest, WhatHasEndedMakesRoom) {
  constexpr uint64_t kSegments = 100;
  constexpr uint64_t kKeys = 10'000;
  std::vector<SegmentId> order;
  for (uint64_t segment = kSegments; segment > 0; --segment) order.emplace_back(segment);
  DeadVersions sparing(order, 1);
  for (uint64_t segment = kSegments; segment > 1; --segment) {
    for (uint64_t number = 0; number < kKeys; ++number) {
      const Entry tombstone(EntryType::Tombstone, std::to_string(segment) + " " + std::to_string(number), 5,
                            segment - 1);
      sparing.note(tombstone.hash(), tombstone.view());
    }
    sparing.segmentDone();
  }
  EXPECT_LT(sparing.peakBytes(), 3 * kKeys * 39);
}

/// Any number of keys of one hash can be computed on purpose; the marks differ all the same.
TEST_F(DeadVersionsTest, KeysOfOneHashAreTwoKeys) {
  const Entry tombstone(EntryType::Tombstone, "key", 5, 20);
  dead.note(tombstone.hash(), tombstone.view());
  EXPECT_FALSE(dead.holdsDown(tombstone.hash(), Entry(EntryType::Object, "other", 5, 0).view()));
  for (int i = 0; i < 50'000; ++i) {
    dead.note(tombstone.hash(), Entry(EntryType::Tombstone, "key" + std::to_string(i), 5, 20).view());
  }
  EXPECT_EQ(dead.size(), 50'001u);
}

}  // namespace
}  // namespace ramcore::store
