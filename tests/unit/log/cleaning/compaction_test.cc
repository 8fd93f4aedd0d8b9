#include "log/cleaning/compaction.h"

#include <gtest/gtest.h>

#include <random>

#include "log/cleaning/cleaner.h"
#include "tests/unit/log/crash_trial.h"

namespace ramcore::log {
namespace {

constexpr uint32_t kStepBytes = 4u << 10;

struct CompactionFixture : LogFixture {
  explicit CompactionFixture(bool replicated = true)
      : LogFixture(LogConfig::forTest(), replicated),
        copying(*log, owner, 1),
        compaction(*log, copying),
        cleaner(*log, owner, replicated ? static_cast<Replicator&>(copies) : none) {
    copies.setStoragePercent(80);  // the cleaner itself combines
  }
  void put(const std::string& key, size_t bytes) {
    ASSERT_EQ(owner.put(*log, key, std::string(bytes, 'v')), Status::Ok);
  }
  /// A closed segment of which one entry in `share` is alive, and the tombstones of the rest elsewhere.
  Segment& sparseSegment(int share = 4) {
    const SegmentId id = log->headId();
    for (int i = 0; log->headId() == id; ++i) {
      put("key" + std::to_string(i), 500);
      if (log->pool().find(id)->committedBytes() > config.segment_bytes * 3 / 4) log->requestRoll();
    }
    for (int i = 0; owner.refs().contains("key" + std::to_string(i)); ++i) {
      const std::string key = "key" + std::to_string(i);
      if (i % share != 0) EXPECT_EQ(owner.remove(*log, key), Status::Ok);
    }
    log->requestRoll();
    reclaim();
    return *log->pool().find(id);
  }
  bool compact(Segment& segment) {
    Segment* const one = &segment;
    if (!compaction.begin(std::span(&one, 1))) return false;
    for (int i = 0; i < 1000; ++i) {
      const auto progress = compaction.step(kStepBytes);
      reclaim();
      if (progress == Compaction::Progress::Done) return true;
    }
    return false;
  }
  /// Begins compactions as a cleaner does, whatever decide() would choose.
  bool beginAny(size_t count_max) {
    std::vector<Segment*> cleanable;
    log->listCleanable(cleanable);
    std::erase_if(cleanable, [&](const Segment* one) { return Compaction::gainOf(*one, config) == 0; });
    if (cleanable.size() > count_max) cleanable.resize(count_max);
    return !cleanable.empty() && compaction.begin(cleanable);
  }
  void passes() {
    for (int i = 0; i < 200; ++i) {
      cleaner.step(kStepBytes);
      reclaim();
    }
  }

  SharedCopy copying;
  Compaction compaction;
  Cleaner cleaner;
};

class CompactionTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(WithAndWithoutCopies, CompactionTest, testing::Bool());

TEST_P(CompactionTest, WhatIsAliveMovesToLessMemoryAndTheSegmentStaysWhatItIs) {
  CompactionFixture fixture(GetParam());
  Segment& original = fixture.sparseSegment();
  const SegmentId id = original.id();
  const uint64_t memory_before = original.memoryBytes();
  const uint64_t free_before = fixture.log->pool().freeBytes();
  const auto refs_before = fixture.owner.refs();
  const auto replica_before = GetParam() ? fixture.copies.replicas().at(id) : CopyingReplicator::Replica{};
  const SegmentId head_before = fixture.log->headId();
  ASSERT_GT(Compaction::gainOf(original, fixture.config), 0u);
  ASSERT_TRUE(fixture.compact(original));
  for (int i = 0; i < 4; ++i) fixture.reclaim();
  Segment* const copy = fixture.log->pool().find(id);
  ASSERT_NE(copy, &original);
  EXPECT_EQ(copy->id(), id);
  EXPECT_EQ(copy->state(), SegmentState::Closed);
  EXPECT_EQ(original.state(), SegmentState::Free);
  EXPECT_LT(copy->memoryBytes(), memory_before / 2);
  EXPECT_EQ(fixture.log->pool().freeBytes() - free_before, memory_before - copy->memoryBytes());
  EXPECT_EQ(fixture.log->headId(), head_before) << "no head is rolled for it";
  for (const auto& [key, ref] : fixture.owner.refs()) {
    EXPECT_TRUE(fixture.owner.get(key).has_value());
    if (refs_before.at(key) == ref) continue;
    EXPECT_EQ(fixture.log->pool().segmentOf(ref), copy);
    EXPECT_EQ(fixture.log->durability().endOf(ref).segment, id);
    EXPECT_TRUE(fixture.log->durability().isDurable(ref));
  }
  fixture.expectCountsAreRight();
  EXPECT_EQ(Compaction::gainOf(*copy, fixture.config), 0u) << "nothing has died since";
  if (!GetParam()) return;
  EXPECT_TRUE(fixture.copies.replicas().at(id) == replica_before);
  const auto& order = fixture.copies.order();
  EXPECT_EQ(std::ranges::count(order, "moved " + std::to_string(id.value)), 1);
  EXPECT_EQ(std::ranges::count(order, "free " + std::to_string(id.value)), 0);
  // A replica that is made of the compacted segment is that of a head.
  const auto again = fixture.copies.replicasMadeAgain([](SegmentId) { return true; });
  SegmentPreamble preamble;
  ASSERT_EQ(readPreamble(again.at(id).bytes, preamble), Status::Ok);
  EXPECT_TRUE(preamble.has_digest);
  EXPECT_LT(again.at(id).bytes.size(), replica_before.bytes.size());
}

TEST_P(CompactionTest, TombstonesThatNameTheSegmentStayUntilItLeavesTheLog) {
  CompactionFixture fixture(GetParam());
  Segment& original = fixture.sparseSegment();
  const SegmentId id = original.id();
  const uint64_t named_before = original.live().namedByTombstoneBytes();
  ASSERT_GT(named_before, 0u);
  // The mover has met them, and knows where the segment they name lies.
  SegmentId holder = fixture.log->headId();
  ASSERT_TRUE(fixture.compact(original));
  for (int i = 0; i < 4; ++i) fixture.reclaim();
  EXPECT_EQ(fixture.log->pool().find(id)->live().namedByTombstoneBytes(), named_before);
  // Other segments take the slot of the original, and the tombstones are moved about.
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 40; ++i) fixture.put("other" + std::to_string(i % 3), 500);
    fixture.log->requestRoll();
    fixture.reclaim();
    std::vector<Segment*> cleanable;
    fixture.log->listCleanable(cleanable);
    for (Segment* const segment : cleanable) {
      if (segment->id() != id) fixture.compact(*segment);
    }
    EXPECT_EQ(fixture.log->pool().find(id)->live().namedByTombstoneBytes(), named_before) << "round " << round;
    EXPECT_EQ(fixture.owner.droppedCount(), 0u);
    fixture.expectCountsAreRight();
  }
  fixture.passes();
  EXPECT_EQ(fixture.log->pool().find(id), nullptr) << "a pass takes it as any other";
  EXPECT_GT(fixture.owner.droppedCount(), 0u);
  fixture.expectCountsAreRight();
  EXPECT_NE(fixture.log->headId(), holder);
}

TEST(Compaction, TheOriginalStaysUntilTheDeathsAreFlushed) {
  CompactionFixture fixture;
  Segment& original = fixture.sparseSegment();
  const SegmentId id = original.id();
  fixture.copies.setAutomatic(false);
  ASSERT_EQ(fixture.owner.remove(*fixture.log, "key0"), Status::Ok);
  Segment* const one = &original;
  ASSERT_TRUE(fixture.compaction.begin(std::span(&one, 1)));
  for (int i = 0; i < 100; ++i) {
    fixture.compaction.step(kStepBytes);
    fixture.copies.deliverAdvances();
    fixture.reclaim();
  }
  EXPECT_TRUE(fixture.log->durability().isDurable(fixture.owner.end()));
  EXPECT_EQ(fixture.log->pool().find(id), &original) << "its replicas are the only ones that may be made again";
  EXPECT_FALSE(fixture.copies.wantedFlushes().empty());
  fixture.copies.deliverFlushes();
  EXPECT_EQ(fixture.compaction.step(kStepBytes), Compaction::Progress::Done);
  EXPECT_NE(fixture.log->pool().find(id), &original);
}

// A reader that found an entry in the original goes on reading it.
TEST(Compaction, PinsDelayTheReturnOfTheMemory) {
  CompactionFixture fixture;
  Segment& original = fixture.sparseSegment();
  const EntryRef ref = fixture.owner.refs().at("key0");
  runtime::Pin pin = fixture.pins.take(0);
  ASSERT_TRUE(fixture.compact(original));
  for (int i = 0; i < 10; ++i) fixture.reclaim();
  EXPECT_EQ(original.state(), SegmentState::Unlinked);
  EXPECT_NE(fixture.owner.refs().at("key0"), ref);
  EXPECT_TRUE(fixture.log->view(ref).verify());
  pin = {};
  for (int i = 0; i < 4; ++i) fixture.reclaim();
  EXPECT_EQ(original.state(), SegmentState::Free);
}

TEST(Compaction, WithoutMemoryNothingBegins) {
  CompactionFixture fixture;
  Segment& original = fixture.sparseSegment();
  std::vector<Segment*> taken;
  while (Segment* const segment = fixture.log->privateSegments().open(SegmentKind::Survivor)) taken.push_back(segment);
  Segment* const one = &original;
  EXPECT_FALSE(fixture.compaction.begin(std::span(&one, 1)));
  EXPECT_FALSE(fixture.compaction.isBusy());
  for (Segment* const segment : taken) fixture.log->privateSegments().drop(*segment);
  for (int i = 0; i < 4; ++i) fixture.reclaim();
  EXPECT_TRUE(fixture.compact(original));
}

// Replicas of compacted segments, of some or of all, are made again, and a crash comes at any time.
TEST(Compaction, WhateverCopiesWereMadeAgainACrashLeavesTheAcknowledgedState) {
  uint64_t compacted = 0;
  uint64_t passes = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    CompactionFixture fixture;
    CrashTrial trial{.seed = seed,
                     .judged_every = 11,
                     .keys = 60,
                     .value_bytes_max = 950,
                     .flush_percent = 50,
                     .lost_percents = {0, 50, 100}};
    trial.run(fixture, [&](std::mt19937_64& random) {
      // A pass or a compaction at a time, as in a cleaner.
      if (fixture.compaction.isBusy()) {
        fixture.compaction.step(2048);
      } else if (fixture.cleaner.isBusy() || random() % 3 == 0) {
        fixture.cleaner.step(2048);
      } else {
        fixture.beginAny(1 + random() % 3);
      }
    });
    if (HasFatalFailure()) return;
    fixture.expectCountsAreRight();
    compacted += fixture.log->stats().segments_compacted.load();
    passes += fixture.log->stats().cleaner_passes.load();
  }
  EXPECT_GT(compacted, 80u);
  EXPECT_GT(passes, 16u);
}

// The cleaner decides by itself: replicas make combining dear, so it compacts; and it combines before tombstones pile
// up.
TEST(Compaction, TheCleanerUsesBothLevels) {
  LogConfig config = LogConfig::forTest();
  config.memory_bytes = 8u << 20;
  LogFixture fixture(config);
  Cleaner cleaner(*fixture.log, fixture.owner, fixture.copies);
  std::mt19937_64 random(5);
  std::map<std::string, std::string> expected;
  const LogStats& stats = fixture.log->stats();
  for (int i = 0; stats.appended_bytes.load() < 6 * config.memory_bytes; ++i) {
    const std::string key = "key" + std::to_string(random() % 4000);
    const std::string value(900 + random() % 300, static_cast<char>('a' + i % 26));
    Status status = Status::RetryLater;
    for (int attempt = 0; attempt < 10000 && status == Status::RetryLater; ++attempt) {
      if (cleaner.isNeeded() || cleaner.isBusy()) cleaner.step(kStepBytes);
      status = fixture.owner.put(*fixture.log, key, value);
      fixture.reclaim();
    }
    ASSERT_EQ(status, Status::Ok) << i;
    expected[key] = value;
  }
  EXPECT_GT(stats.segments_compacted.load(), 50u);
  EXPECT_GT(stats.segments_cleaned.load(), 50u);
  EXPECT_LT(stats.tombstone_bytes.load(), stats.live_bytes.load() / 5);
  EXPECT_TRUE(recover(fixture.copies.replicas()) == expected);
  EXPECT_TRUE(recover(fixture.copies.replicasMadeAgain([](SegmentId) { return true; })) == expected);
}

}  // namespace
}  // namespace ramcore::log
