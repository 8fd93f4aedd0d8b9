#include "log/memory/segment_pool.h"

#include <gtest/gtest.h>

#include <random>

namespace ramcore::log {
namespace {

struct PoolFixture {
  PoolFixture() : memory(LogMemory::open(config.memory_bytes).value()), pool(config, *memory) {}
  LogConfig config = LogConfig::forTest();
  std::unique_ptr<LogMemory> memory;
  SegmentPool pool;
};

TEST(SegmentPool, ConfigForTestIsValidAndWrongOnesAreNot) {
  EXPECT_TRUE(LogConfig::forTest().validate().ok());
  EXPECT_TRUE(LogConfig{}.validate().ok());
  LogConfig config = LogConfig::forTest();
  config.seglet_bytes = 5000;
  EXPECT_EQ(config.validate().status(), Status::BadConfig);
  config = LogConfig::forTest();
  config.memory_bytes = 256u << 10;
  EXPECT_EQ(config.validate().status(), Status::BadConfig);
  config = LogConfig::forTest();
  config.segment_bytes = 256u << 20;
  EXPECT_EQ(config.validate().status(), Status::BadConfig);
  config = LogConfig::forTest();
  config.entry_bytes_max = 32u << 10;
  EXPECT_EQ(config.validate().status(), Status::BadConfig);
}

TEST(SegmentPool, HeadsLeaveTheReserveToSurvivors) {
  PoolFixture fixture;
  uint64_t id = 0;
  while (fixture.pool.allocate(SegmentKind::Head, SegmentId(++id)) != nullptr) {
  }
  EXPECT_FALSE(fixture.pool.mayHaveRoom(SegmentKind::Head));
  EXPECT_EQ(fixture.pool.allocate(SegmentKind::Side, SegmentId(++id)), nullptr);
  uint64_t survivors_bytes = 0;
  while (Segment* survivor = fixture.pool.allocate(SegmentKind::Survivor, SegmentId(++id))) {
    survivors_bytes += survivor->capacityBytes();
  }
  EXPECT_GE(survivors_bytes + fixture.config.extentBytesMin(), fixture.config.survivorReserveBytes());
  // Small heads have their own memory when all other is gone.
  for (uint32_t i = 0; i < LogConfig::kSmallHeads; ++i) {
    EXPECT_NE(fixture.pool.allocate(SegmentKind::SmallHead, SegmentId(++id)), nullptr);
  }
  EXPECT_EQ(fixture.pool.allocate(SegmentKind::SmallHead, SegmentId(++id)), nullptr);
}

TEST(SegmentPool, EverythingComesBackWhateverTheOrder) {
  PoolFixture fixture;
  const uint64_t all_bytes = fixture.pool.freeBytes();
  std::mt19937_64 random(3);
  std::vector<Segment*> segments;
  uint64_t id = 0;
  for (int i = 0; i < 3000; ++i) {
    if (random() % 2 == 0) {
      constexpr SegmentKind kKinds[] = {SegmentKind::Head, SegmentKind::Side, SegmentKind::Survivor,
                                        SegmentKind::SmallHead};
      Segment* segment = fixture.pool.allocate(kKinds[random() % 4], SegmentId(++id));
      if (segment == nullptr) continue;
      EXPECT_EQ(fixture.pool.find(SegmentId(id)), segment);
      // Fill some of it, never two segments over the same bytes.
      Segment::Cursor cursor = segment->cursor();
      EntryRef ref;
      const int entries = static_cast<int>(random() % 12);
      for (int k = 0; k < entries && segment->place(cursor, 8 * (1 + random() % 1000), ref); ++k) {
        EXPECT_EQ(fixture.pool.segmentOf(ref), segment);
      }
      segment->adopt(cursor);
      if (random() % 2 == 0) fixture.pool.trim(*segment);
      segments.push_back(segment);
    } else if (!segments.empty()) {
      const size_t at = random() % segments.size();
      fixture.pool.release(*segments[at]);
      segments.erase(segments.begin() + static_cast<ptrdiff_t>(at));
    }
    uint64_t held = 0;
    for (const Segment* segment : segments) {
      if (segment->kind() != SegmentKind::SmallHead) held += segment->memoryBytes();
    }
    ASSERT_EQ(held + fixture.pool.freeBytes(), all_bytes);
  }
  for (Segment* segment : segments) fixture.pool.release(*segment);
  EXPECT_EQ(fixture.pool.freeBytes(), all_bytes);
}

TEST(SegmentPool, LogicalOffsetsRunThroughExtents) {
  PoolFixture fixture;
  std::vector<Segment*> heads;
  uint64_t id = 0;
  while (Segment* head = fixture.pool.allocate(SegmentKind::Survivor, SegmentId(++id))) heads.push_back(head);
  // Every other one leaves its tail: the free runs are shorter than a segment.
  for (size_t i = 0; i < heads.size(); i += 2) {
    Segment::Cursor cursor = heads[i]->cursor();
    EntryRef ref;
    ASSERT_TRUE(heads[i]->place(cursor, 4096, ref));
    ASSERT_TRUE(heads[i]->place(cursor, 4000 * 8 / 8, ref));
    for (int k = 0; k < 4; ++k) ASSERT_TRUE(heads[i]->place(cursor, 8000, ref));
    heads[i]->adopt(cursor);
    fixture.pool.trim(*heads[i]);
  }
  Segment* segment = fixture.pool.allocate(SegmentKind::Survivor, SegmentId(++id));
  ASSERT_NE(segment, nullptr);
  Segment::Cursor cursor = segment->cursor();
  std::vector<std::pair<uint32_t, EntryRef>> entries;
  EntryRef ref;
  uint32_t offset = 0;
  while (segment->place(cursor, 3000 / 8 * 8, ref)) {
    entries.emplace_back(offset, ref);
    offset = cursor.offset;
  }
  segment->adopt(cursor);
  segment->commit(cursor.offset);
  for (const auto& [at, where] : entries) {
    EXPECT_EQ(segment->offsetOf(where), at);
    EXPECT_EQ(segment->refAt(at), where);
  }
  std::array<ByteSpan, Segment::kExtentsMax> pieces;
  const size_t count = segment->spans(0, segment->committedBytes(), pieces);
  EXPECT_GT(count, 1u);
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) bytes += pieces[i].size();
  EXPECT_EQ(bytes, segment->committedBytes());
}

/// Fills a segment with entries of one size; the last `bytes` of it stay empty.
void fill(Segment& segment, uint32_t entry_bytes, uint64_t bytes_left) {
  EntryRef ref;
  Segment::Cursor cursor = segment.cursor();
  while (cursor.offset + entry_bytes + bytes_left <= segment.capacityBytes() &&
         segment.place(cursor, entry_bytes, ref)) {
    segment.adopt(cursor);
  }
  segment.live().noteEntryBytes(entry_bytes);
}

TEST(SegmentPool, SmallEntriesGiveBackTailsByTheSegletAndLargeOnesDoNot) {
  PoolFixture fixture;
  Segment* const small = fixture.pool.allocate(SegmentKind::Head, SegmentId(1));
  Segment* const large = fixture.pool.allocate(SegmentKind::Head, SegmentId(2));
  fill(*small, 104, 6'000);
  fill(*large, 4000, 2'000);
  const uint64_t large_before = large->memoryBytes();
  fixture.pool.trim(*small);
  fixture.pool.trim(*large);
  EXPECT_LT(small->memoryBytes() - small->cursor().offset, fixture.config.seglet_bytes);
  EXPECT_EQ(large_before, large->memoryBytes()) << "less than a block";
}

TEST(SegmentPool, HeadsBeginWithBlocksAndEndWithPieces) {
  PoolFixture fixture;
  // A piece between two segments that stay.
  Segment* const before = fixture.pool.allocate(SegmentKind::Head, SegmentId(1));
  Segment* const after = fixture.pool.allocate(SegmentKind::Head, SegmentId(2));
  fill(*before, 104, 6'000);
  fill(*after, 104, 0);
  fixture.pool.trim(*before);
  fixture.pool.trim(*after);
  const uint64_t piece_bytes = fixture.pool.freeBytes() - fixture.pool.freeBlockBytes();
  ASSERT_EQ(piece_bytes, fixture.config.seglet_bytes);

  EXPECT_EQ(fixture.pool.allocate(SegmentKind::Survivor, SegmentId(3), 8000)->memoryBytes(),
            fixture.config.segment_bytes);
  EXPECT_EQ(fixture.pool.freeBytes() - fixture.pool.freeBlockBytes(), piece_bytes) << "no use to large entries";
  Segment* const head = fixture.pool.allocate(SegmentKind::Head, SegmentId(4));
  EXPECT_EQ(fixture.pool.freeBytes(), fixture.pool.freeBlockBytes());
  EntryRef ref;
  Segment::Cursor cursor = head->cursor();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(head->place(cursor, fixture.config.entry_bytes_max, ref)) << "any group";
}

// Free memory in pieces is of no use to heads. Survivors that go into pieces bring blocks back, however the memory had
// fallen into pieces.
TEST(SegmentPool, MemoryThatFellIntoPiecesMends) {
  PoolFixture fixture;
  SegmentPool& pool = fixture.pool;
  std::mt19937_64 random(11);
  std::vector<Segment*> segments;
  uint64_t id = 0;
  const auto add = [&](SegmentKind kind, uint64_t bytes_left) {
    Segment* const segment = pool.allocate(kind, SegmentId(++id), 104);
    if (segment == nullptr) return false;
    fill(*segment, 104, std::min<uint64_t>(bytes_left, segment->capacityBytes() - 104));
    pool.trim(*segment);
    segments.push_back(segment);
    return true;
  };
  uint64_t passes = 0;
  uint64_t in_pieces_most = 0;
  for (int step = 0; step < 20'000; ++step) {
    const bool added = add(SegmentKind::Head, random() % 3 == 0 ? random() % fixture.config.segment_bytes : 0);
    in_pieces_most = std::max(in_pieces_most, pool.freeBytes() - pool.freeBlockBytes());
    if (added) continue;
    // As in cleaning, some segments go, and most of what they held goes into survivors first.
    ++passes;
    std::shuffle(segments.begin(), segments.end(), random);
    std::vector<Segment*> leaving(segments.end() - 2, segments.end());
    segments.resize(segments.size() - 2);
    std::vector<Segment*> survivors;
    uint64_t left = 0;
    for (const Segment* segment : leaving) left += segment->cursor().offset * 8ull / 10;
    while (left > 0) {
      Segment* const survivor = pool.allocate(SegmentKind::Survivor, SegmentId(++id), 104);
      ASSERT_NE(survivor, nullptr) << "after " << passes << " passes";
      const uint64_t bytes = std::min<uint64_t>(left, survivor->capacityBytes());
      fill(*survivor, 104, survivor->capacityBytes() - bytes);
      pool.trim(*survivor);
      segments.push_back(survivor);
      survivors.push_back(survivor);
      left -= std::min<uint64_t>(left, std::max<uint64_t>(bytes, 104));
    }
    pool.exchange(survivors, leaving);
    for (Segment* segment : leaving) pool.release(*segment);
  }
  EXPECT_GT(passes, 1000u);
  EXPECT_LT(passes, 19'000u) << "passes have to bring memory for heads back";
  EXPECT_GT(in_pieces_most, 4 * fixture.config.seglet_bytes) << "the test's own measure";
}

// Heads may take what is free beyond the rest of the reserve: otherwise no head could be opened from when a pass has
// taken its survivors until it is over.
TEST(SegmentPool, HeadsGetWhatIsLeftOfTheReserveThatSurvivorsHaveTaken) {
  PoolFixture fixture;
  SegmentPool& pool = fixture.pool;
  const uint64_t reserve = fixture.config.survivorReserveBytes();
  uint64_t id = 0;
  std::vector<Segment*> heads;
  const auto takeHeads = [&] {
    while (Segment* const head = pool.allocate(SegmentKind::Head, SegmentId(++id))) heads.push_back(head);
  };
  // A pass takes its survivors, and writers take what is free beyond the reserve, in both orders.
  for (const bool writers_first : {false, true}) {
    if (writers_first) takeHeads();
    std::vector<Segment*> survivors;
    uint64_t taken = 0;
    while (taken < reserve) {
      Segment* const survivor = pool.allocate(SegmentKind::Survivor, SegmentId(++id), 104);
      ASSERT_NE(survivor, nullptr) << "the reserve is whole when a pass begins";
      fill(*survivor, 104, 2000);
      taken += survivor->memoryBytes();
      survivors.push_back(survivor);
    }
    EXPECT_EQ(pool.exchangedBytes(), taken);
    const uint64_t for_heads = pool.freeBytesForHeads();
    EXPECT_EQ(for_heads, pool.freeBytes()) << "survivors have all of the reserve";
    takeHeads();
    EXPECT_LT(pool.freeBytes(), fixture.config.segment_bytes);
    for (Segment* survivor : survivors) pool.trim(*survivor);
    // The segments of which the survivors were made, with more memory than the survivors kept.
    std::vector<Segment*> given_up(heads.end() - static_cast<std::ptrdiff_t>(survivors.size()) - 1, heads.end());
    heads.resize(heads.size() - given_up.size());
    pool.exchange(survivors, given_up);
    EXPECT_GE(pool.exchangedBytes(), taken);
    for (Segment* segment : given_up) pool.release(*segment);
    EXPECT_EQ(pool.exchangedBytes(), 0u);
    EXPECT_GE(pool.freeBytes(), reserve);
    EXPECT_EQ(pool.freeBytesForHeads(), pool.freeBytes() - reserve);
    heads.insert(heads.end(), survivors.begin(), survivors.end());
  }
}

/// A log of the usual proportions: a segment has to have more than half of itself in blocks.
struct UsualPool {
  UsualPool() : memory(LogMemory::open(config.memory_bytes).value()), pool(config, *memory) {
    for (uint64_t id = 1; Segment* const head = pool.allocate(SegmentKind::Head, SegmentId(id)); ++id) {
      heads.push_back(head);
    }
  }
  /// Every head ends in the middle of its last block, and leaves a piece of most of that.
  void makePieces(uint32_t entry_bytes) {
    for (Segment* const head : heads) {
      fill(*head, entry_bytes, config.extentBytesMin() - config.seglet_bytes);
      pool.trim(*head);
    }
  }
  static LogConfig usual() {
    LogConfig config;
    config.memory_bytes = uint64_t{128} << 20;
    return config;
  }
  LogConfig config = usual();
  std::unique_ptr<LogMemory> memory;
  SegmentPool pool;
  std::vector<Segment*> heads;
};

// Pieces that count towards the reserve have to be of use to survivors, or a pass could not open its survivors.
TEST(SegmentPool, PiecesThatCountTowardsTheReserveAreOfUseToSurvivors) {
  UsualPool usual;
  SegmentPool& pool = usual.pool;
  usual.makePieces(152);
  const uint64_t pieces = pool.freeBytes() - pool.freeBlockBytes();
  ASSERT_GT(pieces, usual.config.segment_bytes / 2);
  uint64_t id = 1000;
  while (pool.allocate(SegmentKind::Head, SegmentId(++id)) != nullptr) {
  }
  EXPECT_LT(pool.freeBlockBytes(), usual.config.survivorReserveBytes()) << "some of them count";
  uint64_t room = 0;
  for (uint32_t i = 0; i < usual.config.survivor_segments; ++i) {
    Segment* const survivor = pool.allocate(SegmentKind::Survivor, SegmentId(++id), 152);
    ASSERT_NE(survivor, nullptr) << i;
    room += survivor->capacityBytes();
  }
  EXPECT_GT(room, usual.config.survivorReserveBytes() * 2 / 3);
}

TEST(SegmentPool, WhereLargeEntriesMayHaveToBeMovedNoPieceCounts) {
  UsualPool usual;
  SegmentPool& pool = usual.pool;
  usual.heads.front()->live().noteEntryBytes(usual.config.smallEntryBytesMax() + 8);  // alive or not
  usual.makePieces(152);
  uint64_t id = 1000;
  while (pool.allocate(SegmentKind::Head, SegmentId(++id)) != nullptr) {
  }
  EXPECT_GE(pool.freeBlockBytes(), usual.config.survivorReserveBytes());
  // When that segment has gone, pieces count.
  pool.release(*usual.heads.front());
  while (pool.allocate(SegmentKind::Head, SegmentId(++id)) != nullptr) {
  }
  EXPECT_LT(pool.freeBlockBytes(), usual.config.survivorReserveBytes());
}

// Large entries need passes over more segments, as far as the memory allows.
TEST(SegmentPool, TheReserveGrowsWithTheSegmentsThatHoldLargeEntries) {
  LogConfig config;
  EXPECT_EQ(config.survivorReserveBytes(32), config.survivorReserveBytes()) << "256 MB are too small";
  config.memory_bytes = uint64_t{1} << 30;
  EXPECT_EQ(config.survivorReserveBytes(0), uint64_t{3} * config.segment_bytes);
  EXPECT_EQ(config.survivorReserveBytes(32), config.memory_bytes / 24) << "a quarter of the memory: all";
  EXPECT_EQ(config.survivorReserveBytes(128), config.memory_bytes / 24);
  const uint64_t some = config.survivorReserveBytes(16);
  EXPECT_GT(some, config.survivorReserveBytes(8));
  EXPECT_LT(some, config.survivorReserveBytes(32));
  EXPECT_LT(config.liveBytesMax(0, some), config.liveBytesMax());
  config.memory_bytes = uint64_t{64} << 30;
  EXPECT_EQ(config.survivorReserveBytes(2048), uint64_t{8} * config.segment_bytes);
  config.large_survivor_segments = 2;
  EXPECT_EQ(config.validate().status(), Status::BadConfig);
}

TEST(SegmentPool, HeadsLeaveTheReserveAsItIsNow) {
  LogConfig config = LogConfig::forTest();
  config.memory_bytes = 16u << 20;
  const auto memory = LogMemory::open(config.memory_bytes).value();
  SegmentPool pool(config, *memory);
  const uint64_t usual = pool.survivorReserveBytes();
  EXPECT_EQ(usual, config.survivorReserveBytes());
  std::vector<Segment*> large;
  uint64_t id = 0;
  for (uint32_t i = 0; i < 64; ++i) {
    Segment* const segment = pool.allocate(SegmentKind::Head, SegmentId(++id));
    ASSERT_NE(segment, nullptr);
    segment->live().noteEntryBytes(config.smallEntryBytesMax() + 8);
    pool.trim(*segment);
    large.push_back(segment);
  }
  EXPECT_EQ(pool.survivorReserveBytes(), uint64_t{8} * config.segment_bytes);
  while (pool.allocate(SegmentKind::Head, SegmentId(++id)) != nullptr) {
  }
  EXPECT_GE(pool.freeBlockBytes(), pool.survivorReserveBytes());
  for (Segment* segment : large) pool.release(*segment);
  EXPECT_EQ(pool.survivorReserveBytes(), usual);
}

TEST(LogMemory, PrefaultsEverythingOnce) {
  auto memory = LogMemory::open((130u << 20) + 4096).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->base()) % LogMemory::kAlignmentBytes, 0u);
  int pieces = 0;
  while (memory->prefaultNext()) ++pieces;
  EXPECT_EQ(pieces, 3);
  EXPECT_EQ(memory->prefaultedBytes(), memory->bytes());
  EXPECT_EQ(LogMemory::open(0).status(), Status::BadConfig);
}

}  // namespace
}  // namespace ramcore::log
