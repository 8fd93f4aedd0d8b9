#include "log/cleaning/entry_mover.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "tests/unit/log/log_fixture.h"

namespace ramcore::log {
namespace {

/// Moves into one survivor, with an owner that interferes when an entry has been looked at and not been moved yet.
struct MoverFixture : LogFixture, MoveTarget {
  using LogFixture::LogFixture;

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
      if (fixture_.at_swap) fixture_.at_swap(from);
      if (fixture_.not_wanted.contains(std::string(asText(entry.key())))) return Moved::No;
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
    if (places_left == 0) return {};
    --places_left;
    if (!survivor->place(cursor, aligned_bytes, place.ref)) return {};
    survivor->adopt(cursor);
    return place;
  }

  /// Writes to a segment of its own, and closes that.
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
  /// Does what a pass does with one segment: moves it into a survivor, which the digest lists instead.
  Segment* clean(Segment& from) {
    move(from);
    log->privateSegments().close(*survivor);
    leave(from);
    return survivor;
  }
  void move(Segment& from) {
    survivor = log->privateSegments().open(SegmentKind::Survivor, 1024);
    ASSERT_NE(survivor, nullptr);
    Meddler meddler(*this);
    EntryMover mover(*log, meddler);
    uint32_t offset = 0;
    log->counts().setInPass(from, true);
    EXPECT_TRUE(mover.move(from, offset, from.committedBytes(), *this));
    EXPECT_EQ(offset, from.committedBytes());
    survivor->commit(survivor->cursor().offset);
    copies.advance(*survivor);
  }
  void leave(Segment& segment) {
    Segment* const leaving = &segment;
    log->members().exchange(std::span(&survivor, 1), std::span(&leaving, 1));
    EXPECT_TRUE(log->isRolled(log->requestRoll()));
    log->counts().setInPass(segment, false);
    for (int i = 0; i < 3; ++i) reclaim();
    EXPECT_EQ(segment.state(), SegmentState::Free);
  }
  /// The objects and tombstones of a segment.
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
  std::set<std::string> not_wanted;            ///< no lookup leads to them, and no entry tells that they died
  std::function<void(EntryRef from)> at_swap;  ///< called before the owner swaps its reference
  size_t places_left = SIZE_MAX;
};

/// A mover of one segment that is called as often as a test wants.
struct MoveInSteps {
  MoveInSteps(MoverFixture& mover_fixture, Segment& segment)
      : fixture(mover_fixture), from(segment), meddler(fixture), mover(*fixture.log, meddler) {
    fixture.survivor = fixture.log->privateSegments().open(SegmentKind::Survivor, 1024);
    fixture.log->counts().setInPass(from, true);
  }
  bool step(size_t places) {
    fixture.places_left = places;
    const bool is_done = mover.move(from, offset, from.committedBytes(), fixture);
    fixture.survivor->commit(fixture.survivor->cursor().offset);
    fixture.copies.advance(*fixture.survivor);
    return is_done;
  }
  void leave() {
    fixture.log->privateSegments().close(*fixture.survivor);
    fixture.leave(from);
  }

  MoverFixture& fixture;
  Segment& from;
  MoverFixture::Meddler meddler;
  EntryMover mover;
  uint32_t offset = 0;
};

// "a" in the first segment keeps it in the log, and with it the first "k".
TEST(EntryMover, DeadObjectLeavesATombstoneWhileWhatItReplacedIsInTheLog) {
  MoverFixture fixture;
  ASSERT_EQ(fixture.owner.put(*fixture.log, "a", "value"), Status::Ok);
  Segment* const first = fixture.put("k", "one");
  Segment* const second = fixture.put("k", "two");
  Segment* const third = fixture.remove("k");
  EXPECT_EQ(first->live().namedByTombstoneBytes(), alignedTombstoneBytes(1)) << "due since the second one died";
  const int64_t live_bytes = fixture.log->stats().live_bytes.load();
  const SegmentId first_id = first->id();

  Segment* const kept = fixture.clean(*second);
  const std::vector<EntryView> entries = fixture.entriesOf(*kept);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].type(), EntryType::Tombstone);
  EXPECT_EQ(asText(entries[0].key()), "k");
  EXPECT_EQ(entries[0].version(), 2u) << "of everything before the third version";
  EXPECT_EQ(entries[0].namedSegment(), first_id);
  EXPECT_EQ(kept->live().bytes(), alignedTombstoneBytes(1));
  // The tombstone of the removal named the second segment, and has nothing left to hold down.
  EXPECT_EQ(fixture.log->stats().live_bytes.load(), live_bytes - alignedTombstoneBytes(1));

  fixture.clean(*third);
  EXPECT_EQ(fixture.owner.droppedCount(), 1u);
  const std::map<std::string, std::string> state = {{"a", "value"}};
  EXPECT_EQ(fixture.recovered(), state) << "the removed key has come back";

  fixture.clean(*first);
  EXPECT_EQ(kept->live().bytes(), 0);
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
    fixture.log->counts().setInPass(*first, leaves_too);
    fixture.move(*second);
    const std::vector<EntryView> entries = fixture.entriesOf(*fixture.survivor);
    ASSERT_EQ(entries.size(), 1u);
    EXPECT_EQ(entries[0].namesSegment(), !leaves_too);
    EXPECT_EQ(asText(entries[0].payload()), "two");
    EXPECT_EQ(fixture.owner.get("k"), "two");
    EXPECT_EQ(fixture.survivor->live().bytes(), entries[0].alignedBytes());
    EXPECT_EQ(second->live().bytes(), 0);
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
  EXPECT_EQ(kept->live().bytes(), alignedTombstoneBytes(1));
  fixture.remove("k");
  const std::map<std::string, std::string> state = {{"a", "value"}};
  EXPECT_EQ(fixture.recovered(), state);
}

// Entries are copied many at a time. If one has died in between, those behind it are copied again, to where its copy
// was.
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
  EXPECT_EQ(kept->live().bytes(), static_cast<int64_t>(expected.size()) * alignedEntryBytes(7, 5, false));
  EXPECT_EQ(fixture.recovered().size(), static_cast<size_t>(kObjects));
}

// Objects that were moved are marked freed in their old places, and no others: the owner still refers to those that
// found no room.
TEST(EntryMover, WhatFoundNoRoomIsMovedLaterAndMarkedThen) {
  MoverFixture fixture;
  constexpr int kObjects = 50;
  for (int i = 0; i < kObjects; ++i) {
    ASSERT_EQ(fixture.owner.put(*fixture.log, "key " + std::to_string(100 + i), "value"), Status::Ok);
  }
  const std::map<std::string, EntryRef> before = fixture.owner.refs();
  MoveInSteps moving(fixture, *fixture.closeHead());
  size_t steps = 1;
  for (size_t moved_min = 3;; moved_min += 3, ++steps) {
    const bool is_done = moving.step(3);
    size_t moved = 0;
    for (const auto& [key, ref] : before) {
      const bool is_moved = fixture.owner.refs().at(key) != ref;
      moved += is_moved ? 1 : 0;
      EXPECT_EQ(fixture.log->view(ref).state(), is_moved ? EntryState::Freed : EntryState::Pending) << key;
      EXPECT_EQ(fixture.log->view(fixture.owner.refs().at(key)).state(), EntryState::Pending) << key;
    }
    EXPECT_EQ(fixture.log->stats().entries_marked_freed.load(), moved);
    if (is_done) break;
    ASSERT_EQ(moved, moved_min);
  }
  EXPECT_EQ(steps, 17u);
  EXPECT_EQ(moving.offset, moving.from.committedBytes());
  for (const auto& [key, ref] : before) EXPECT_EQ(fixture.owner.get(key), "value");
  fixture.expectCountsAreRight();
  moving.leave();
  EXPECT_EQ(fixture.log->stats().entries_marked_freed.load(), size_t{kObjects});
  EXPECT_EQ(fixture.recovered().size(), size_t{kObjects});
}

// The object may not be marked before its tombstone is there: the owner is asked again.
TEST(EntryMover, UnwantedObjectWhoseTombstoneFindsNoRoomIsAskedAboutAgain) {
  MoverFixture fixture;
  ASSERT_EQ(fixture.owner.put(*fixture.log, "a", "value"), Status::Ok);
  fixture.put("k", "one");
  Segment* const second = fixture.put("k", "two");
  const EntryRef ref = fixture.owner.refs().at("k");
  fixture.not_wanted = {"k"};
  MoveInSteps moving(fixture, *second);
  EXPECT_FALSE(moving.step(1)) << "that was for the copy";
  EXPECT_EQ(fixture.log->view(ref).state(), EntryState::Pending);
  EXPECT_TRUE(fixture.entriesOf(*fixture.survivor).empty());
  EXPECT_TRUE(moving.step(2));
  EXPECT_EQ(fixture.log->view(ref).state(), EntryState::Freed);
  const std::vector<EntryView> entries = fixture.entriesOf(*fixture.survivor);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].type(), EntryType::Tombstone);
  EXPECT_EQ(entries[0].version(), 2u);
}

// A segment that could not be moved to its end is moved once more, from its beginning.
TEST(EntryMover, WhatWasMovedBeforeIsNotMovedAgain) {
  MoverFixture fixture;
  for (const char* key : {"a", "b", "c", "d"}) ASSERT_EQ(fixture.owner.put(*fixture.log, key, "value"), Status::Ok);
  Segment& from = *fixture.closeHead();
  MoveInSteps first(fixture, from);
  EXPECT_FALSE(first.step(2));
  const std::map<std::string, EntryRef> between = fixture.owner.refs();
  MoveInSteps second(fixture, from);
  EXPECT_TRUE(second.step(SIZE_MAX));
  EXPECT_EQ(fixture.entriesOf(*fixture.survivor).size(), 2u);
  for (const char* key : {"a", "b"}) EXPECT_EQ(fixture.owner.refs().at(key), between.at(key));
  for (const auto& [key, ref] : fixture.owner.refs()) {
    EXPECT_EQ(fixture.owner.get(key), "value");
    EXPECT_EQ(fixture.log->view(ref).state(), EntryState::Pending);
  }
}

// A reader that was led to the object still has to see that it is damaged. After it is restored, its state is that of a
// living object.
TEST(EntryMover, WhatIsFoundDamagedMeanwhileStaysMarkedAsThat) {
  LogConfig config = LogConfig::forTest();
  config.poison_freed = false;
  MoverFixture fixture(config);
  for (const char* key : {"a", "b", "c"}) ASSERT_EQ(fixture.owner.put(*fixture.log, key, "value"), Status::Ok);
  const EntryRef damaged = fixture.owner.refs().at("b");
  const EntryRef sound = fixture.owner.refs().at("c");
  Segment& from = *fixture.closeHead();
  const auto flip = [&] { fixture.memory->at(damaged)[kEntryHeaderBytes] ^= std::byte{1}; };
  fixture.at_swap = [&](EntryRef ref) {
    if (ref != damaged) return;
    flip();
    uint32_t next = 0;
    EXPECT_FALSE(fixture.log->integrity().isSound(from, from.offsetOf(ref), next));
  };
  MoveInSteps moving(fixture, from);
  EXPECT_TRUE(moving.step(SIZE_MAX));
  EXPECT_NE(fixture.owner.refs().at("b"), damaged);
  EXPECT_EQ(fixture.log->view(damaged).state(), EntryState::Damaged);
  EXPECT_EQ(fixture.log->view(sound).state(), EntryState::Freed);
  flip();
  EXPECT_FALSE(fixture.log->release(fixture.log->integrity().damages().at(0)).has_died);
  EXPECT_EQ(fixture.log->view(damaged).state(), EntryState::Pending);
  moving.leave();
  EXPECT_EQ(fixture.log->view(damaged).state(), EntryState::Freed);
  EXPECT_EQ(fixture.log->view(sound).state(), EntryState::Freed);
}

// The state Superseded tells that the object was counted out, so the mover leaves it as it is.
TEST(EntryMover, WhatDiesWhileItIsMovedStaysMarkedAsDead) {
  MoverFixture fixture;
  for (const char* key : {"a", "b", "c"}) ASSERT_EQ(fixture.owner.put(*fixture.log, key, "value"), Status::Ok);
  const std::map<std::string, EntryRef> before = fixture.owner.refs();
  MoveInSteps moving(fixture, *fixture.closeHead());
  fixture.die_meanwhile = {"b"};
  EXPECT_TRUE(moving.step(SIZE_MAX));
  EXPECT_EQ(fixture.log->view(before.at("a")).state(), EntryState::Freed);
  EXPECT_EQ(fixture.log->view(before.at("b")).state(), EntryState::Superseded);
  EXPECT_EQ(fixture.log->view(before.at("c")).state(), EntryState::Freed);
  EXPECT_EQ(fixture.log->stats().entries_marked_freed.load(), 2u);
}

// A tombstone that takes the place of a dead object is never longer than the object: deaths do not add to the room that
// a pass needs.
TEST(EntryMover, TombstoneIsNoLongerThanWhatItStandsFor) {
  for (uint32_t key_bytes = 1; key_bytes < 40; ++key_bytes) {
    EXPECT_LE(alignedTombstoneBytes(key_bytes), alignedEntryBytes(key_bytes, 0, false, true));
  }
}

}  // namespace
}  // namespace ramcore::log
