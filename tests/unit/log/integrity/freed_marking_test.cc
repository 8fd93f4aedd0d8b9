#include "log/integrity/freed_marking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <tuple>

#include "log/cleaning/cleaner.h"
#include "log/cleaning/compaction.h"
#include "log/format/entry_writer.h"
#include "log/side_log.h"
#include "tests/unit/log/log_fixture.h"

namespace ramcore::log {
namespace {

LogConfig unpoisoned() {
  LogConfig config = LogConfig::forTest();
  config.poison_freed = false;  // what is left in freed memory is what these tests look at
  return config;
}

/// A reader that was told at some time where objects lie. No grace period waits for it, and it takes no pins.
class OneSidedReader {
 public:
  explicit OneSidedReader(const LogMemory& memory) : memory_(memory) {}

  void tell(EntryRef ref) {
    const EntryView entry(memory_.at(ref));
    told_.insert({ref, entry.version(), std::string(asText(entry.key()))});
  }
  void tellOf(const MapOwner& owner) {
    for (const auto& [key, ref] : owner.refs()) tell(ref);
  }
  /// Believes an object that is whole, has the version and the key that the reader was told, and has a state of living
  /// objects.
  bool believes(EntryRef ref, Version version, const std::string& key) const {
    EntryView entry;
    const ByteSpan bytes(memory_.at(ref), memory_.bytes() - ref.offsetBytes());
    if (decodeEntry(bytes, entry) != DecodeError::None || entry.type() != EntryType::Object) return false;
    return entry.version() == version && asText(entry.key()) == key && isKnown(entry.state()) &&
           !isRefused(entry.state());
  }
  /// Checks that the reader believes the objects to which the owner refers, and no others.
  /// @return how many places it refuses
  size_t expectBelievesOnly(const MapOwner& owner) const {
    size_t refused = 0;
    for (const auto& [ref, version, key] : told_) {
      const auto found = owner.refs().find(key);
      const bool is_there =
          found != owner.refs().end() && found->second == ref && EntryView(memory_.at(ref)).version() == version;
      EXPECT_EQ(believes(ref, version, key), is_there) << key << ", version " << version;
      refused += is_there ? 0 : 1;
    }
    return refused;
  }

 private:
  const LogMemory& memory_;
  std::set<std::tuple<EntryRef, Version, std::string>> told_;
};

/// A log, and the entries of the segments that it is about to give back.
struct FreeingLog : LogFixture {
  FreeingLog() : LogFixture(unpoisoned()), reader(*memory) {}

  static std::vector<EntryRef> entriesOf(const Log& log, const Segment& segment) {
    std::vector<EntryRef> refs;
    for (uint32_t offset = 0; offset < segment.committedBytes(); offset += log.view(refs.back()).alignedBytes()) {
      refs.push_back(segment.refAt(offset));
    }
    return refs;
  }
  /// Entries of segments that have left the log, and wait.
  std::vector<EntryRef> waiting() {
    std::vector<EntryRef> refs;
    for (uint32_t i = 0; i < log->pool().slotCount(); ++i) {
      const Segment& segment = log->pool().slot(i);
      if (segment.state() != SegmentState::Unlinked) continue;
      const std::vector<EntryRef> more = entriesOf(*log, segment);
      refs.insert(refs.end(), more.begin(), more.end());
    }
    return refs;
  }
  /// Rounds of the reclaimer until nothing waits.
  /// @return the entries that lie in free memory afterwards
  std::vector<EntryRef> freed() {
    std::vector<EntryRef> refs = waiting();
    for (int i = 0; i < 6; ++i) reclaim();
    EXPECT_TRUE(waiting().empty());
    std::erase_if(refs, [this](EntryRef ref) { return log->pool().segmentOf(ref) != nullptr; });
    return refs;
  }
  EntryState stateOf(EntryRef ref) const { return log->view(ref).state(); }
  uint64_t markedCount() const { return log->stats().entries_marked_freed.load(); }
  Status putIn(SideLog& side, const std::string& key, size_t bytes) {
    const std::string value(bytes, 'x');
    const ByteSpan payload = asBytes(value);
    EntryInput input;
    input.version = 1;
    input.key = asBytes(key);
    input.payload = std::span(&payload, 1);
    const auto appended = side.append(std::span(&input, 1), AppendClass::Write);
    if (appended.ok()) reader.tell(appended->refs[0]);
    return appended.status();
  }
  void compact(SegmentId id) {
    Segment* original = log->pool().find(id);
    SharedCopy copying(*log, owner, 1);
    Compaction compaction(*log, copying);
    ASSERT_TRUE(compaction.begin(std::span(&original, 1)));
    for (int i = 0; i < 1000 && compaction.step(4 << 10) != Compaction::Progress::Done; ++i) {
      rcu.reclaim(16);
      reader.expectBelievesOnly(owner);
    }
    EXPECT_NE(log->pool().find(id), original);
  }

  OneSidedReader reader;
};

TEST(FreedMarking, EntriesOfASideLogThatWasDroppedAreMarked) {
  FreeingLog fixture;
  SideLog side(*fixture.log, fixture.copies);
  for (int i = 0; i < 150; ++i) ASSERT_EQ(fixture.putIn(side, "key" + std::to_string(i), 100 + i * 10), Status::Ok);
  side.abandon();
  const std::vector<EntryRef> freed = fixture.freed();
  EXPECT_GT(freed.size(), 150u);
  for (const EntryRef ref : freed) EXPECT_EQ(fixture.stateOf(ref), EntryState::Freed);
  EXPECT_EQ(fixture.markedCount(), freed.size());
  EXPECT_EQ(fixture.reader.expectBelievesOnly(fixture.owner), 150u);
}

// An object that was moved is as dead in its old place as one that was overwritten, and only this mark says so there.
TEST(FreedMarking, WhatTheCleanerMovedIsMarkedWhereItWas) {
  FreeingLog fixture;
  Cleaner cleaner(*fixture.log, fixture.owner, fixture.copies);
  size_t freed = 0;
  const auto step = [&] {
    (void)cleaner.step(16 << 10);
    fixture.reader.expectBelievesOnly(fixture.owner);
    freed += fixture.freed().size();
  };
  for (int i = 0; i < 4000 && !testing::Test::HasFailure(); ++i) {
    // Some live for long, and are moved.
    const std::string key = "key" + std::to_string(i % 4 == 0 ? i / 4 % 400 : 1000 + i % 200);
    const std::string value(200 + i % 700, 'v');
    Status status = fixture.owner.put(*fixture.log, key, value);
    for (int turn = 0; turn < 1000 && status == Status::RetryLater; ++turn) {
      step();
      status = fixture.owner.put(*fixture.log, key, value);
    }
    ASSERT_EQ(status, Status::Ok) << i;
    fixture.reader.tell(fixture.owner.refs().at(key));
    if (!cleaner.isNeeded() && !cleaner.isBusy()) continue;
    step();
    fixture.reader.tellOf(fixture.owner);
  }
  EXPECT_GT(fixture.log->stats().segments_cleaned.load(), 0u);
  EXPECT_GT(freed, 500u);
  EXPECT_GT(fixture.reader.expectBelievesOnly(fixture.owner), 4000u) << "the moved ones besides the overwritten";
  EXPECT_GT(fixture.markedCount(), 100u);
  // No replica has states.
  fixture.expectCountsAreRight();
  for (const auto& [id, replica] : fixture.copies.replicas()) {
    SegmentReader reader(replica.bytes);
    for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
      for (const EntryView& entry : group) ASSERT_EQ(entry.state(), EntryState::Pending);
    }
  }
}

TEST(FreedMarking, WhatACompactionGaveBackIsMarkedAndItsCopyIsNot) {
  FreeingLog fixture;
  const SegmentId id = fixture.log->headId();
  for (int i = 0; i < 80; ++i) {
    ASSERT_EQ(fixture.owner.put(*fixture.log, "key" + std::to_string(i), std::string(500, 'v')), Status::Ok);
  }
  fixture.reader.tellOf(fixture.owner);
  for (int i = 0; i < 80; ++i) {
    if (i % 4 != 0) EXPECT_EQ(fixture.owner.remove(*fixture.log, "key" + std::to_string(i)), Status::Ok);
  }
  fixture.log->requestRoll();
  fixture.reclaim();
  fixture.compact(id);
  EXPECT_GE(fixture.freed().size(), 80u);
  EXPECT_EQ(fixture.reader.expectBelievesOnly(fixture.owner), 80u);
  EXPECT_EQ(fixture.markedCount(), 20u);
  for (const EntryRef ref : FreeingLog::entriesOf(*fixture.log, *fixture.log->pool().find(id))) {
    EXPECT_EQ(fixture.stateOf(ref), EntryState::Pending);
  }
  for (int i = 0; i < 80; i += 4) EXPECT_TRUE(fixture.owner.get("key" + std::to_string(i)).has_value());
}

// No entry says of these objects that they are dead, as after the drop of their table.
TEST(FreedMarking, WhatTheOwnerDoesNotWantIsMarkedThoughNobodyKilledIt) {
  FreeingLog fixture;
  const SegmentId id = fixture.log->headId();
  for (int i = 0; i < 60; ++i) {
    const std::string key = "key" + std::to_string(i);
    if (i % 6 == 0) {
      ASSERT_EQ(fixture.owner.put(*fixture.log, key, std::string(500, 'v')), Status::Ok);
      continue;
    }
    const auto appended = fixture.append(key, std::string(500, 'v'));
    ASSERT_TRUE(appended.ok());
    fixture.log->pool()
        .segmentOf(appended->refs[0])
        ->live()
        .add(-int64_t{fixture.log->view(appended->refs[0]).alignedBytes()});
    fixture.reader.tell(appended->refs[0]);
    EXPECT_EQ(fixture.stateOf(appended->refs[0]), EntryState::Pending);
  }
  fixture.reader.tellOf(fixture.owner);
  fixture.log->requestRoll();
  fixture.reclaim();
  Segment* original = fixture.log->pool().find(id);
  SharedCopy copying(*fixture.log, fixture.owner, 1);
  Compaction compaction(*fixture.log, copying);
  ASSERT_TRUE(compaction.begin(std::span(&original, 1)));
  for (int i = 0; i < 1000 && compaction.step(4 << 10) != Compaction::Progress::Done; ++i) fixture.rcu.reclaim(16);
  EXPECT_GE(fixture.freed().size(), 60u);
  EXPECT_EQ(fixture.reader.expectBelievesOnly(fixture.owner), 60u);
  EXPECT_EQ(fixture.markedCount(), 60u);
}

// The cleaner does not mark the header of a segment, which is refused by its type. A header that is marked shows that
// all entries were gone over once more.
TEST(FreedMarking, WhatTheCleanerHasBeenThroughIsNotGoneOverAgain) {
  for (const bool is_damaged : {false, true}) {
    FreeingLog fixture;
    const SegmentId id = fixture.log->headId();
    for (int i = 0; i < 80; ++i) {
      ASSERT_EQ(fixture.owner.put(*fixture.log, "key" + std::to_string(i % 20), std::string(500, 'v')), Status::Ok);
    }
    fixture.reader.tellOf(fixture.owner);
    fixture.log->requestRoll();
    fixture.reclaim();
    Segment& original = *fixture.log->pool().find(id);
    const std::vector<EntryRef> entries = FreeingLog::entriesOf(*fixture.log, original);
    if (is_damaged) {
      // Found and restored, before it is moved.
      std::byte& byte = fixture.memory->at(entries.back())[40];
      byte ^= std::byte{1};
      uint32_t next = 0;
      ASSERT_FALSE(fixture.log->integrity().isSound(original, original.offsetOf(entries.back()), next));
      byte ^= std::byte{1};
      EXPECT_FALSE(fixture.log->release(fixture.log->integrity().damages().at(0)).has_died);
    }
    fixture.compact(id);
    EXPECT_FALSE(fixture.freed().empty());
    EXPECT_EQ(fixture.log->view(entries[0]).type(), EntryType::SegmentHeader);
    EXPECT_EQ(fixture.stateOf(entries[0]), is_damaged ? EntryState::Freed : EntryState::Pending);
    EXPECT_EQ(fixture.markedCount(), is_damaged ? 20 + entries.size() : 20);
    EXPECT_EQ(fixture.reader.expectBelievesOnly(fixture.owner), 20u);
  }
}

// A one-sided reader asks no index: neither a bit that flips in the state of a dead entry, nor its restoring, may bring
// the entry back.
TEST(FreedMarking, ADeathIsNotTakenBack) {
  FreeingLog fixture;
  Integrity& integrity = fixture.log->integrity();
  for (int i = 0; i < 2; ++i) ASSERT_EQ(fixture.owner.put(*fixture.log, "key", std::string(100, 'v')), Status::Ok);
  const EntryRef ref = fixture.owner.refs().at("key");
  std::byte* const entry = fixture.memory->at(ref);
  for (const EntryState dead : {EntryState::Superseded, EntryState::Freed}) {
    for (int bit = 0; bit < 8; ++bit) {
      entry[1] = static_cast<std::byte>(dead) ^ static_cast<std::byte>(1 << bit);
      integrity.mendState(ref);
      EXPECT_EQ(fixture.stateOf(ref), EntryState::Freed);
    }
    entry[1] = static_cast<std::byte>(dead);
    entry[40] ^= std::byte{1};
    Segment& segment = *fixture.log->pool().segmentOf(ref);
    uint32_t next = 0;
    ASSERT_FALSE(integrity.isSound(segment, segment.offsetOf(ref), next));
    EXPECT_EQ(fixture.stateOf(ref), EntryState::Damaged);
    entry[40] ^= std::byte{1};
    EXPECT_FALSE(fixture.log->release(integrity.damages().at(0)).has_died);
    EXPECT_EQ(fixture.stateOf(ref), EntryState::Freed);
  }
}

// The state Freed, wherever it comes from, means nothing to the cleaner, which asks the owner.
TEST(FreedMarking, AnObjectThatIsReferredToStaysAlive) {
  FreeingLog fixture;
  const SegmentId id = fixture.log->headId();
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(fixture.owner.put(*fixture.log, "key" + std::to_string(i), std::string(500, 'v')), Status::Ok);
  }
  for (const auto& [key, ref] : fixture.owner.refs()) EXPECT_TRUE(markObjectFreed(fixture.memory->at(ref)));
  fixture.log->requestRoll();
  fixture.reclaim();
  fixture.compact(id);
  for (int i = 0; i < 20; ++i) {
    const std::string key = "key" + std::to_string(i);
    EXPECT_TRUE(fixture.owner.get(key).has_value());
    EXPECT_EQ(fixture.stateOf(fixture.owner.refs().at(key)), EntryState::Pending);
  }
  fixture.expectCountsAreRight();
}

TEST(FreedMarking, WhatIsRefusedStaysWhatItIs) {
  constexpr EntryState kStates[] = {EntryState::Pending,   EntryState::Live,    EntryState::Acknowledged,
                                    EntryState::Freed,     EntryState::Damaged, EntryState::Superseded,
                                    EntryState::Restoring, EntryState{0x04}};
  for (const EntryState state : kStates) {
    std::array<std::byte, kEntryHeaderBytes> object{std::byte{1}, static_cast<std::byte>(state)};
    EXPECT_EQ(markObjectFreed(object.data()), !isRefused(state));
    EXPECT_EQ(EntryView(object.data()).state(), isRefused(state) ? state : EntryState::Freed);
  }
}

// As long as there may be a reader, which gives this state no meaning, the entries stay as they are.
TEST(FreedMarking, WaitsForGracePeriodAndPins) {
  FreeingLog fixture;
  const runtime::RcuReader reader = fixture.rcu.registerThread();
  SideLog side(*fixture.log, fixture.copies);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(fixture.putIn(side, "key" + std::to_string(i), 100), Status::Ok);
  runtime::Pin pin = fixture.pins.take(0);
  side.abandon();
  const std::vector<EntryRef> refs = fixture.waiting();
  ASSERT_GT(refs.size(), 20u);
  const auto expectStates = [&](EntryState state) {
    for (const EntryRef ref : refs) EXPECT_EQ(fixture.stateOf(ref), state);
  };
  for (int i = 0; i < 5; ++i) fixture.reclaim();
  expectStates(EntryState::Pending);
  for (int i = 0; i < 5; ++i) {
    fixture.rcu.quiescent(reader);
    fixture.reclaim();
  }
  expectStates(EntryState::Pending);
  EXPECT_EQ(fixture.waiting(), refs) << "the pin holds them";
  pin.reset();
  for (int i = 0; i < 5; ++i) {
    fixture.rcu.quiescent(reader);
    fixture.reclaim();
  }
  expectStates(EntryState::Freed);
  fixture.rcu.unregisterThread(reader);
}

/// A segment in several runs of memory between segments of others, for a test that marks it itself.
struct ScatteredSegment {
  static constexpr uint32_t kOthersBytes = 24u << 10;

  ScatteredSegment() : memory(LogMemory::open(config.memory_bytes).value()), pool(config, *memory) {
    // All of the memory in short segments, and every other one of them given back.
    std::vector<Segment*> others;
    while (Segment* other = pool.allocate(SegmentKind::Survivor, SegmentId(++id), 1000)) {
      while (other->committedBytes() + 1000 < kOthersBytes) add(*other, "other", 1000 - kEntryHeaderBytes - 5);
      pool.trim(*other);
      others.push_back(other);
    }
    for (size_t i = 0; i < others.size(); i += 2) pool.release(*others[i]);
    segment = pool.allocate(SegmentKind::Survivor, SegmentId(++id), 1000);
    for (uint32_t i = 0;; ++i) {
      const EntryRef ref = add(*segment, "key" + std::to_string(i), 37 + i * 11 % 700);
      if (!ref) break;
      refs.push_back(ref);
    }
    original.assign(memory->base(), memory->base() + config.memory_bytes);
    std::array<ByteSpan, Segment::kExtentsMax> pieces;
    const size_t count = segment->spans(0, segment->committedBytes(), pieces);
    extents.assign(pieces.begin(), pieces.begin() + static_cast<ptrdiff_t>(count));
  }
  EntryRef add(Segment& to, const std::string& key, size_t value_bytes) {
    const std::string value(value_bytes, 'x');
    const ByteSpan payload = asBytes(value);
    EntryInput input;
    input.version = 1;
    input.key = asBytes(key);
    input.payload = std::span(&payload, 1);
    Segment::Cursor cursor = to.cursor();
    EntryRef ref;
    if (!to.place(cursor, input.alignedBytes(), ref)) return {};
    writeEntry(memory->at(ref), input, false, {});
    to.live().noteEntryBytes(input.alignedBytes());
    to.adopt(cursor);
    to.commit(cursor.offset);
    return ref;
  }
  uint32_t mark(uint32_t offset = 0, uint32_t bytes_max = UINT32_MAX) {
    return markSegmentFreed(*segment, *memory, offset, bytes_max, marked);
  }
  EntryView view(EntryRef ref) const { return EntryView(memory->at(ref)); }
  void putBack() { std::memcpy(memory->base(), original.data(), original.size()); }
  /// Checks that nothing outside of the segment's committed bytes has changed.
  void expectOthersUntouched() {
    std::vector<std::byte> now(memory->base(), memory->base() + config.memory_bytes);
    for (const ByteSpan extent : extents) {
      const auto begin = extent.data() - memory->base();
      std::copy_n(original.begin() + begin, extent.size(), now.begin() + begin);
    }
    EXPECT_TRUE(now == original);
  }
  size_t extentOf(EntryRef ref) const {
    const auto holds = [&](ByteSpan extent) {
      return memory->at(ref) >= extent.data() && memory->at(ref) < extent.data() + extent.size();
    };
    return static_cast<size_t>(std::ranges::find_if(extents, holds) - extents.begin());
  }

  const LogConfig config = unpoisoned();
  std::unique_ptr<LogMemory> memory;
  SegmentPool pool;
  uint64_t id = 0;
  Segment* segment = nullptr;
  std::vector<EntryRef> refs;
  std::vector<std::byte> original;
  std::vector<ByteSpan> extents;
  uint64_t marked = 0;
};

TEST(FreedMarking, SlicesAreShortAndTogetherTheyAreAll) {
  ScatteredSegment one;
  ASSERT_GT(one.refs.size(), 60u);
  ASSERT_GT(one.extents.size(), 1u);
  uint32_t offset = 0;
  int slices = 0;
  while (offset < one.segment->committedBytes()) {
    const uint32_t next = one.mark(offset, 1000);
    ASSERT_GT(next, offset);
    ASSERT_LE(next - offset, 1000 + one.segment->live().largestEntryBytes());
    for (const EntryRef ref : one.refs) {
      const bool is_before = one.segment->offsetOf(ref) < next;
      ASSERT_EQ(one.view(ref).state(), is_before ? EntryState::Freed : EntryState::Pending);
    }
    offset = next;
    ++slices;
  }
  EXPECT_GT(slices, 10);
  EXPECT_EQ(one.marked, one.refs.size());
  one.expectOthersUntouched();
}

// A length with a flipped bit leads anywhere. The entries behind it in the extent cannot be marked, and must not be
// found whole either. The next extent begins with an entry, whatever was damaged before.
TEST(FreedMarking, NoEntryStaysBelievableBehindOneThatCannotBeRead) {
  ScatteredSegment one;
  const size_t damaged_index = one.refs.size() / 4;
  const EntryRef damaged = one.refs[damaged_index];
  const size_t extent = one.extentOf(damaged);
  ASSERT_LT(extent + 1, one.extents.size());
  for (uint32_t bit = 0; bit < 8 * offsetof(EntryHeader, version); ++bit) {
    if (bit / 8 == offsetof(EntryHeader, state)) continue;
    one.putBack();
    one.memory->at(damaged)[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_EQ(one.mark(), one.segment->committedBytes());
    one.expectOthersUntouched();
    for (size_t i = 0; i < one.refs.size(); ++i) {
      const EntryRef ref = one.refs[i];
      if (i < damaged_index || one.extentOf(ref) > extent) {
        ASSERT_EQ(one.view(ref).state(), EntryState::Freed) << "bit " << bit << ", entry " << i;
        continue;
      }
      EntryView entry;
      const ByteSpan bytes = one.segment->restOfExtent(one.segment->offsetOf(ref));
      ASSERT_NE(decodeEntry(bytes, entry), DecodeError::None) << "bit " << bit << ", entry " << i;
    }
  }
}

TEST(FreedMarking, OneThatIsNotMarkedIsNoticed) {
  ScatteredSegment one;
  EXPECT_TRUE(holdsBelievable(*one.segment));
  static_cast<void>(one.mark());
  EXPECT_FALSE(holdsBelievable(*one.segment));
  for (const EntryRef ref : one.refs) {
    std::byte& state = one.memory->at(ref)[offsetof(EntryHeader, state)];
    state = static_cast<std::byte>(EntryState::Pending);
    EXPECT_TRUE(holdsBelievable(*one.segment));
    state = static_cast<std::byte>(EntryState::Superseded);
    EXPECT_FALSE(holdsBelievable(*one.segment));
  }
}

// Flipped bits that the checksum does not cover end no walk.
TEST(FreedMarking, AFlippedStateOrPaddingHidesNothing) {
  ScatteredSegment one;
  size_t padded = 0;
  for (const EntryRef ref : one.refs) {
    const EntryView entry = one.view(ref);
    one.memory->at(ref)[offsetof(EntryHeader, state)] ^= std::byte{0x20};
    if (entry.alignedBytes() == entry.bytes()) continue;
    one.memory->at(ref)[entry.bytes()] = std::byte{0x04};
    ++padded;
  }
  ASSERT_GT(padded, 0u);
  EXPECT_EQ(one.mark(), one.segment->committedBytes());
  EXPECT_EQ(one.marked, one.refs.size());
  for (const EntryRef ref : one.refs) EXPECT_EQ(one.view(ref).state(), EntryState::Freed);
}

}  // namespace
}  // namespace ramcore::log
