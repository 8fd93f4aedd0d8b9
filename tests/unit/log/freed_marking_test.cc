#include "log/freed_marking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "log/cleaner.h"
#include "log/compaction.h"
#include "log/entry_writer.h"
#include "log/side_log.h"
#include "tests/unit/log/log_fixture.h"

namespace ramcore::log {
namespace {

LogConfig configWith(bool marks_freed) {
  LogConfig config = LogConfig::forTest();
  config.poison_freed = false;  // what is left in freed memory is what these tests look at
  config.marks_freed = marks_freed;
  return config;
}

/// A log, and what lies in the segments that it is about to give back.
struct FreeingLog : LogFixture {
  explicit FreeingLog(bool marks_freed = true) : LogFixture(configWith(marks_freed)) {}

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
  /// Rounds of the reclaimer until nothing waits. Every entry that lies in memory which is free then, and that nobody
  /// has taken meanwhile, has the state.
  /// @return how many did
  size_t expectFreedAre(EntryState state) {
    const std::vector<EntryRef> refs = waiting();
    for (int i = 0; i < 6; ++i) reclaim();
    EXPECT_TRUE(waiting().empty());
    size_t count = 0;
    for (const EntryRef ref : refs) {
      if (log->pool().segmentOf(ref) != nullptr) continue;
      EXPECT_EQ(log->view(ref).state(), state);
      ++count;
    }
    return count;
  }
  EntryState stateOf(EntryRef ref) const { return log->view(ref).state(); }
  Status putIn(SideLog& side, const std::string& key, size_t bytes) {
    const std::string value(bytes, 'x');
    const ByteSpan payload = asBytes(value);
    EntryInput input;
    input.version = 1;
    input.key = asBytes(key);
    input.payload = std::span(&payload, 1);
    return side.append(std::span(&input, 1), AppendClass::Write).status();
  }
};

TEST(FreedMarking, EntriesOfASideLogThatWasDroppedAreMarked) {
  FreeingLog fixture;
  SideLog side(*fixture.log, fixture.copies);
  for (int i = 0; i < 150; ++i) ASSERT_EQ(fixture.putIn(side, "key" + std::to_string(i), 100 + i * 10), Status::Ok);
  side.abandon();
  ASSERT_GT(fixture.waiting().size(), 150u);
  EXPECT_GT(fixture.expectFreedAre(EntryState::Freed), 150u);
  EXPECT_GT(fixture.log->stats().entries_marked_freed.load(), 150u);
}

TEST(FreedMarking, NothingIsMarkedUnlessItWasAskedFor) {
  EXPECT_FALSE(LogConfig().marks_freed);
  FreeingLog fixture(false);
  SideLog side(*fixture.log, fixture.copies);
  for (int i = 0; i < 150; ++i) ASSERT_EQ(fixture.putIn(side, "key" + std::to_string(i), 100), Status::Ok);
  side.abandon();
  EXPECT_GT(fixture.expectFreedAre(EntryState::Pending), 150u);
  EXPECT_EQ(fixture.log->stats().entries_marked_freed.load(), 0u);
}

// What was moved is as dead in its old place as what was overwritten: nothing else says so there.
TEST(FreedMarking, WhatTheCleanerMovedIsMarkedWhereItWas) {
  FreeingLog fixture;
  Cleaner cleaner(*fixture.log, fixture.owner, fixture.copies);
  size_t count = 0;
  for (int i = 0; i < 4000; ++i) {
    // Some live for long, and are moved.
    const int key = i % 4 == 0 ? i / 4 % 400 : 1000 + i % 200;
    Status status = fixture.owner.put(*fixture.log, "key" + std::to_string(key), std::string(200 + i % 700, 'v'));
    for (int turn = 0; turn < 1000 && status == Status::RetryLater; ++turn) {
      (void)cleaner.step(16 << 10);
      count += fixture.expectFreedAre(EntryState::Freed);
      status = fixture.owner.put(*fixture.log, "key" + std::to_string(key), std::string(200 + i % 700, 'v'));
    }
    ASSERT_EQ(status, Status::Ok) << i;
    if (!cleaner.isNeeded() && !cleaner.isBusy()) continue;
    (void)cleaner.step(16 << 10);
    count += fixture.expectFreedAre(EntryState::Freed);
  }
  EXPECT_GT(fixture.log->stats().segments_cleaned.load(), 0u);
  EXPECT_GT(count, 500u);
  // Nobody else's entries were touched, and no copy of a segment knows of states.
  for (const auto& [key, ref] : fixture.owner.refs()) EXPECT_EQ(fixture.stateOf(ref), EntryState::Pending) << key;
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
  for (int i = 0; i < 80; ++i) {
    if (i % 4 != 0) EXPECT_EQ(fixture.owner.remove(*fixture.log, "key" + std::to_string(i)), Status::Ok);
  }
  fixture.log->requestRoll();
  fixture.reclaim();
  Segment* original = fixture.log->pool().find(id);
  const std::vector<EntryRef> before = FreeingLog::entriesOf(*fixture.log, *original);
  SharedCopy copying(*fixture.log, fixture.owner, 1);
  Compaction compaction(*fixture.log, copying);
  ASSERT_TRUE(compaction.begin(std::span(&original, 1)));
  for (int i = 0; i < 1000 && compaction.step(4 << 10) != Compaction::Progress::Done; ++i) fixture.rcu.reclaim(16);
  EXPECT_GE(fixture.expectFreedAre(EntryState::Freed), before.size());
  const Segment* const copy = fixture.log->pool().find(id);
  ASSERT_NE(copy, original);
  for (const EntryRef ref : FreeingLog::entriesOf(*fixture.log, *copy)) {
    EXPECT_EQ(fixture.stateOf(ref), EntryState::Pending);
  }
  for (int i = 0; i < 80; i += 4) EXPECT_TRUE(fixture.owner.get("key" + std::to_string(i)).has_value());
}

// A reader knows nothing of this state: as long as there may be one, its bytes are what they were.
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
    to.noteEntryBytes(input.alignedBytes());
    to.adopt(cursor);
    to.commit(cursor.offset);
    return ref;
  }
  uint32_t mark(uint32_t offset = 0, uint32_t bytes_max = UINT32_MAX) {
    return markFreed(*segment, *memory, offset, bytes_max, marked);
  }
  EntryView view(EntryRef ref) const { return EntryView(memory->at(ref)); }
  void putBack() { std::memcpy(memory->base(), original.data(), original.size()); }
  /// Nothing outside of what was committed of the segment has changed.
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

  const LogConfig config = configWith(false);
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
    ASSERT_LE(next - offset, 1000 + one.segment->largestEntryBytes());
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

// A length with a flipped bit leads anywhere. What lies behind cannot be marked, and must not be found whole either;
// but an extent begins with an entry, whatever was damaged in those before it.
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

// Bits beside the checksum: they end no walk.
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
