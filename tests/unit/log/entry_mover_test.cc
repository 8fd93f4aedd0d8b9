#include "log/entry_mover.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/unit/log/log_fixture.h"

namespace ramcore::log {
namespace {

/// One survivor, and what to do when an entry has been looked at and not been moved yet.
struct MoverFixture : LogFixture, MoveTarget {
  class Meddler final : public EntryOwner {
   public:
    explicit Meddler(MoverFixture& fixture) : fixture_(fixture) {}
    Hint willBeRelocated(const EntryView& entry) override {
      if (const std::string key(asText(entry.key())); fixture_.die_meanwhile.erase(key) > 0) {
        EXPECT_EQ(fixture_.owner.put(*fixture_.log, key, "newest"), Status::Ok);
      }
      return 0;
    }
    Moved relocated(EntryRef from, EntryRef to, const EntryView& entry, Hint hint) override {
      return fixture_.owner.relocated(from, to, entry, hint);
    }
    void dropped(EntryRef ref, const EntryView& entry) override { fixture_.owner.dropped(ref, entry); }
    SafeVersionPayload safeVersion() override { return fixture_.owner.safeVersion(); }

   private:
    MoverFixture& fixture_;
  };

  Place place(uint32_t aligned_bytes, bool) override {
    Place place{.segment = survivor, .ref = {}, .before = survivor->cursor()};
    Segment::Cursor cursor = place.before;
    if (!survivor->place(cursor, aligned_bytes, place.ref)) return {};
    survivor->adopt(cursor);
    return place;
  }

  /// Writes to a segment of its own, which is closed then.
  Segment* put(const std::string& key, const std::string& value) {
    EXPECT_EQ(owner.put(*log, key, value), Status::Ok);
    return closeHead();
  }
  Segment* remove(const std::string& key) {
    EXPECT_EQ(owner.remove(*log, key), Status::Ok);
    return closeHead();
  }
  Segment* closeHead() {
    Segment* const segment = log->pool().find(log->headId());
    log->requestRoll();
    reclaim();
    EXPECT_EQ(segment->state(), SegmentState::Closed);
    return segment;
  }
  /// What a pass does with one segment: moves it into a survivor, and lets the digest list that instead.
  Segment* clean(Segment& from) {
    move(from);
    log->closePrivate(*survivor);
    leave(from);
    return survivor;
  }
  void move(Segment& from) {
    survivor = log->openPrivate(SegmentKind::Survivor, 1024);
    ASSERT_NE(survivor, nullptr);
    Meddler meddler(*this);
    EntryMover mover(*log, meddler);
    uint32_t offset = 0;
    log->setInPass(from, true);
    EXPECT_TRUE(mover.move(from, offset, from.committedBytes(), *this));
    EXPECT_EQ(offset, from.committedBytes());
    survivor->commit(survivor->cursor().offset);
    copies.advance(*survivor);
  }
  void leave(Segment& segment) {
    Segment* const leaving = &segment;
    log->exchange(std::span(&survivor, 1), std::span(&leaving, 1));
    EXPECT_TRUE(log->isRolled(log->requestRoll()));
    log->setInPass(segment, false);
    for (int i = 0; i < 3; ++i) reclaim();
    EXPECT_EQ(segment.state(), SegmentState::Free);
  }
  /// What a segment has behind its header.
  std::vector<EntryView> entriesOf(const Segment& segment) {
    std::vector<EntryView> entries;
    for (uint32_t offset = 0; offset < segment.committedBytes();) {
      const EntryView entry = log->view(segment.refAt(offset));
      EXPECT_TRUE(entry.verify());
      if (entry.type() == EntryType::Object || entry.type() == EntryType::Tombstone) entries.push_back(entry);
      offset += entry.alignedBytes();
    }
    return entries;
  }
  std::map<std::string, std::string> recovered() {
    const auto state = recover(copies.replicas());
    EXPECT_TRUE(state);
    return state.value_or(std::map<std::string, std::string>{});
  }

  Segment* survivor = nullptr;
  std::set<std::string> die_meanwhile;
};

// "a" in the first segment keeps it in the log, and with it the first "k".
TEST(EntryMover, DeadObjectLeavesATombstoneWhileWhatItReplacedIsInTheLog) {
  MoverFixture fixture;
  ASSERT_EQ(fixture.owner.put(*fixture.log, "a", "value"), Status::Ok);
  Segment* const first = fixture.put("k", "one");
  Segment* const second = fixture.put("k", "two");
  Segment* const third = fixture.remove("k");
  EXPECT_EQ(first->namedByTombstoneBytes(), alignedTombstoneBytes(1)) << "due since the second one died";
  const int64_t live_bytes = fixture.log->stats().live_bytes.load();
  const SegmentId first_id = first->id();

  Segment* const kept = fixture.clean(*second);
  const std::vector<EntryView> entries = fixture.entriesOf(*kept);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].type(), EntryType::Tombstone);
  EXPECT_EQ(asText(entries[0].key()), "k");
  EXPECT_EQ(entries[0].version(), 2u) << "of everything before the third version";
  EXPECT_EQ(entries[0].namedSegment(), first_id);
  EXPECT_EQ(kept->liveBytes(), alignedTombstoneBytes(1));
  // The tombstone of the removal named the second segment, and has nothing left to hold down.
  EXPECT_EQ(fixture.log->stats().live_bytes.load(), live_bytes - alignedTombstoneBytes(1));

  fixture.clean(*third);
  EXPECT_EQ(fixture.owner.droppedCount(), 1u);
  const std::map<std::string, std::string> state = {{"a", "value"}};
  EXPECT_EQ(fixture.recovered(), state) << "the removed key has come back";

  fixture.clean(*first);
  EXPECT_EQ(kept->liveBytes(), 0);
  EXPECT_EQ(fixture.log->stats().tombstone_bytes.load(), 0);
  EXPECT_EQ(fixture.log->stats().succeeded_bytes.load(), 0);
  EXPECT_TRUE(fixture.entriesOf(*fixture.clean(*kept)).empty());
  EXPECT_EQ(fixture.recovered(), state);
}

TEST(EntryMover, DeadObjectIsForgottenOnceWhatItReplacedIsGone) {
  MoverFixture fixture;
  Segment* const first = fixture.put("k", "one");
  Segment* const second = fixture.put("k", "two");
  EXPECT_EQ(fixture.log->stats().succeeded_bytes.load(), alignedTombstoneBytes(1));
  fixture.clean(*first);
  EXPECT_EQ(fixture.log->stats().succeeded_bytes.load(), 0);
  fixture.put("k", "three");
  EXPECT_EQ(fixture.log->stats().tombstone_bytes.load(), 0);
  EXPECT_TRUE(fixture.entriesOf(*fixture.clean(*second)).empty());
  const std::map<std::string, std::string> state = {{"k", "three"}};
  EXPECT_EQ(fixture.recovered(), state);
}

TEST(EntryMover, CopyNamesASegmentOnlyWhileThatStays) {
  for (const bool leaves_too : {false, true}) {
    MoverFixture fixture;
    ASSERT_EQ(fixture.owner.put(*fixture.log, "a", "value"), Status::Ok);
    Segment* const first = fixture.put("k", "one");
    Segment* const second = fixture.put("k", "two");
    const int64_t live_bytes = fixture.log->stats().live_bytes.load();
    fixture.log->setInPass(*first, leaves_too);
    fixture.move(*second);
    const std::vector<EntryView> entries = fixture.entriesOf(*fixture.survivor);
    ASSERT_EQ(entries.size(), 1u);
    EXPECT_EQ(entries[0].namesSegment(), !leaves_too);
    EXPECT_EQ(asText(entries[0].payload()), "two");
    EXPECT_EQ(fixture.owner.get("k"), "two");
    EXPECT_EQ(fixture.survivor->liveBytes(), entries[0].alignedBytes());
    EXPECT_EQ(second->liveBytes(), 0);
    const uint32_t shorter = alignedEntryBytes(1, 3, false, true) - entries[0].alignedBytes();
    EXPECT_EQ(fixture.log->stats().live_bytes.load(), live_bytes - shorter);
  }
}

TEST(EntryMover, ObjectThatDiesWhileItIsMovedLeavesATombstone) {
  MoverFixture fixture;
  ASSERT_EQ(fixture.owner.put(*fixture.log, "a", "value"), Status::Ok);
  fixture.put("k", "one");
  Segment* const second = fixture.put("k", "two");
  fixture.die_meanwhile = {"k"};
  Segment* const kept = fixture.clean(*second);
  const std::vector<EntryView> entries = fixture.entriesOf(*kept);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].type(), EntryType::Tombstone);
  EXPECT_EQ(kept->liveBytes(), alignedTombstoneBytes(1));
  fixture.remove("k");
  const std::map<std::string, std::string> state = {{"a", "value"}};
  EXPECT_EQ(fixture.recovered(), state);
}

// Entries are copied many at a time. Those behind one that died in between are copied again, to where it was.
TEST(EntryMover, WhatDiesInTheMiddleOfManyLeavesNoGap) {
  MoverFixture fixture;
  constexpr int kObjects = 40;
  const auto key = [](int i) { return "key " + std::to_string(100 + i); };
  for (int i = 0; i < kObjects; ++i) ASSERT_EQ(fixture.owner.put(*fixture.log, key(i), "value"), Status::Ok);
  Segment* const from = fixture.closeHead();
  fixture.die_meanwhile = {key(0), key(3), key(4), key(15), key(16), key(39)};
  const std::set<std::string> dead = fixture.die_meanwhile;
  Segment* const kept = fixture.clean(*from);
  std::vector<std::string> expected;
  for (int i = 0; i < kObjects; ++i) {
    if (!dead.contains(key(i))) expected.push_back(key(i));
    EXPECT_EQ(fixture.owner.get(key(i)), dead.contains(key(i)) ? "newest" : "value");
  }
  std::vector<std::string> found;
  for (const EntryView& entry : fixture.entriesOf(*kept)) {
    EXPECT_EQ(entry.type(), EntryType::Object);
    found.emplace_back(asText(entry.key()));
  }
  EXPECT_EQ(found, expected) << "in their order, each once";
  EXPECT_EQ(kept->liveBytes(), static_cast<int64_t>(expected.size()) * alignedEntryBytes(7, 5, false));
  EXPECT_EQ(fixture.recovered().size(), static_cast<size_t>(kObjects));
}

// A tombstone written for a dead object is never longer than that: what a pass has room for does not grow by deaths.
TEST(EntryMover, TombstoneIsNoLongerThanWhatItStandsFor) {
  for (uint32_t key_bytes = 1; key_bytes < 40; ++key_bytes) {
    EXPECT_LE(alignedTombstoneBytes(key_bytes), alignedEntryBytes(key_bytes, 0, false, true));
  }
}

}  // namespace
}  // namespace ramcore::log
