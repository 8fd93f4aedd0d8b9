/// What the former owner of a tablet answers to pulls of its parts.
#include <set>

#include "log/format/entry_view.h"
#include "sim/hand_over_fixture.h"
#include "store/range_slice.h"

namespace ramcore::sim::raw {
namespace {

class MasterPullTest : public MasterHandOverTest {
 protected:
  struct Answer {
    Status status = Status::Ok;
    wire::Pull::Response header{};
    std::vector<std::string> keys;
  };
  Answer pull(KeyHash cursor, KeyHash last, uint32_t response_bytes) {
    const wire::Pull::Request ask{.header = header(Opcode::Pull),
                                  .tablet = TabletId(1),
                                  .epoch = TabletEpoch(1),
                                  .cursor = cursor,
                                  .last = last,
                                  .response_bytes = response_bytes};
    const auto call = world.send(world.other_server, join({bytesOf(ask)}), 0);
    Answer out;
    out.status = call->outcome();
    if (out.status != Status::Ok) return out;
    const std::string bytes = bytesOfAnswer(*call);
    EXPECT_TRUE(wire::decode(asBytes(bytes), out.header));
    const std::vector<std::byte> entries = join({asBytes(bytes).subspan(sizeof(out.header))});
    for (ByteSpan rest = entries; !rest.empty();) {
      log::EntryView entry;
      EXPECT_EQ(log::decodeEntry(rest, entry), log::DecodeError::None);
      // A tombstone stands for a key that is lost.
      EXPECT_TRUE(entry.type() == log::EntryType::Object || entry.type() == log::EntryType::Tombstone);
      EXPECT_EQ(entry.table(), TableId(kTable));
      out.keys.emplace_back(asText(entry.key()));
      rest = rest.subspan(entry.alignedBytes());
    }
    return out;
  }
  /// All keys of a part, each once, with as many answers as it takes.
  std::set<std::string> pullAll(KeyHash first, KeyHash last, uint32_t response_bytes) {
    std::set<std::string> keys;
    for (KeyHash cursor = first;;) {
      const Answer answer = pull(cursor, last, response_bytes);
      EXPECT_EQ(answer.status, Status::Ok);
      if (answer.status != Status::Ok) return keys;
      const KeyHash end = answer.header.done != 0 ? last : answer.header.next_cursor - 1;
      for (const std::string& key : answer.keys) {
        const KeyHash hash = hashOf(key);
        EXPECT_TRUE(hash >= cursor && hash <= end) << "of what was answered";
        EXPECT_TRUE(keys.insert(key).second) << key;
      }
      if (answer.header.done != 0) return keys;
      EXPECT_GT(answer.header.next_cursor, cursor);
      if (answer.header.next_cursor <= cursor) return keys;
      cursor = answer.header.next_cursor;
    }
  }
  static KeyHash hashOf(const std::string& key) { return hashKey(TableId(kTable), asBytes(key)); }
  std::set<std::string> expected(KeyHash first, KeyHash last) const {
    std::set<std::string> keys;
    for (const auto& [key, object] : model) {
      if (hashOf(key) >= first && hashOf(key) <= last) keys.insert(key);
    }
    return keys;
  }
  /// A second table, whose entries lie between those of the first one.
  void fillOtherTable(uint64_t count) {
    control::TakeTabletRequest other;
    *other.mutable_tablet() = tabletOf(9, 0, kLast, 1);
    other.mutable_tablet()->set_table(kTable + 1);
    other.set_created_empty(true);
    ASSERT_EQ(world.command(Opcode::TakeTablet, other)->outcome(), Status::Ok);
    for (uint64_t i = 0; i < count; ++i) {
      const std::string key = "other" + std::to_string(i);
      wire::Write::Request ask = writeRequest(Opcode::Write, key, "value", nextSequence(1), {.client = 1});
      ask.table = TableId(kTable + 1);
      ASSERT_EQ(world.send(join({bytesOf(ask), asBytes(key), asBytes(std::string_view("value"))}))->outcome(),
                Status::Ok);
    }
  }
  void freezeAndLend() {
    ASSERT_EQ(freeze(1, 1), Status::Ok);
    ASSERT_EQ(lend(1, 1, 0), Status::Ok);
  }
};

TEST_F(MasterPullTest, APartHasItsKeysAndNoOthers) {
  fill(0, 3000, "value");
  ASSERT_NO_FATAL_FAILURE(fillOtherTable(500));
  ASSERT_NO_FATAL_FAILURE(removeAll(100, 200, 0, 1));
  ASSERT_NO_FATAL_FAILURE(freezeAndLend());
  constexpr KeyHash kSome = 0x3123'4567'89ab'cdef;
  for (const uint32_t response_bytes : {1u, 500u, 20'000u, 4'000'000u}) {
    EXPECT_EQ(pullAll(0, kLast, response_bytes), expected(0, kLast));
    EXPECT_EQ(pullAll(0, kSome, response_bytes), expected(0, kSome));
    EXPECT_EQ(pullAll(kSome + 1, kLast, response_bytes), expected(kSome + 1, kLast));
    EXPECT_EQ(pullAll(kSome, kSome + (kSome >> 6), response_bytes), expected(kSome, kSome + (kSome >> 6)));
  }
  const std::string one = model.begin()->first;
  EXPECT_EQ(pullAll(hashOf(one), hashOf(one), 1), std::set<std::string>{one});
}

/// More than an answer may have in most buckets of the index.
TEST_F(MasterPullTest, ASliceOfBucketsNeverGrowsBeyondItsBound) {
  fill(0, 150, "value");
  master::Master& master = world.servers[0]->master();
  const auto size_of = [&](log::EntryRef ref) { return uint64_t{master.store().entry(ref).alignedBytes()}; };
  for (const uint64_t bytes_max : {250u, 600u, 100'000u}) {
    std::set<std::string> keys;
    std::optional<KeyHash> cursor = 0;
    while (cursor) {
      store::RangeSlice slice{.objects = {}, .lost = {}, .bytes = 100, .next = {}};
      ASSERT_EQ(slice.fillByBuckets(master.store(), master.index(), TableId(kTable), {*cursor, kLast},
                                    {.bytes_wanted = 1000, .bytes_max = bytes_max}, size_of),
                Status::Ok);
      EXPECT_LE(slice.bytes, bytes_max);
      uint64_t bytes = 100;
      for (const log::EntryRef ref : slice.objects) {
        const log::EntryView entry = master.store().entry(ref);
        bytes += size_of(ref);
        EXPECT_TRUE(keys.insert(std::string(asText(entry.key()))).second);
        const KeyHash hash = hashKey(TableId(kTable), entry.key());
        EXPECT_TRUE(hash >= *cursor && (!slice.next || hash < *slice.next));
      }
      EXPECT_EQ(slice.bytes, bytes);
      cursor = slice.next;
    }
    EXPECT_EQ(keys.size(), 150u) << bytes_max;
  }
  store::RangeSlice slice;
  EXPECT_EQ(slice.fillByBuckets(master.store(), master.index(), TableId(kTable), {0, kLast},
                                {.bytes_wanted = 10, .bytes_max = 20}, size_of),
            Status::TooLarge);
}

/// An object whose type has changed in memory is not taken for a key that was removed.
TEST_F(MasterPullTest, NoDamageMakesAKeyLookRemoved) {
  fill(0, 50, "value");
  log::Log& memory = *world.servers[0]->master().log();
  const SegmentId roll = memory.requestRoll();
  ASSERT_TRUE(world.runUntil([&] { return memory.isRolled(roll); }));
  const std::string key = model.begin()->first;
  const store::Found found = world.servers[0]->master().store().lookup(TableId(kTable), hashOf(key), asBytes(key));
  const auto type_at = found.entry.address() - memory.pool().memory().base();
  std::byte* const type = memory.pool().memory().base() + type_at;
  ASSERT_NO_FATAL_FAILURE(freezeAndLend());
  for (const uint8_t flipped : {0x01, 0x02, 0x03, 0x04, 0x08, 0x0f}) {
    *type ^= std::byte{flipped};
    const Answer whole = pull(0, kLast, 1 << 20);
    const Answer alone = pull(hashOf(key), hashOf(key), 1 << 20);
    *type ^= std::byte{flipped};
    // It is lost, and told so, or it is being restored; but it is not left out.
    EXPECT_TRUE(whole.status != Status::Ok || whole.keys.size() == model.size()) << int{flipped};
    EXPECT_TRUE(alone.status != Status::Ok || alone.keys == std::vector<std::string>{key}) << int{flipped};
    for (const log::Damage& damage : memory.integrity().damages()) static_cast<void>(memory.release(damage));
  }
}

TEST_F(MasterPullTest, LongObjectsAreSentFromWhereTheyLie) {
  fill(0, 20, std::string(5'000, 'v'));
  fill(20, 40, "short");
  ASSERT_NO_FATAL_FAILURE(freezeAndLend());
  const master::PinnedValues& pinned = *world.servers[0]->master().pinnedValues();
  const uint64_t before = pinned.stats().values_borrowed.load();
  EXPECT_EQ(pullAll(0, kLast, 4'000'000), expected(0, kLast));
  EXPECT_EQ(pinned.stats().values_borrowed.load() - before, 20u);
  const std::string one = keyOf(7);
  EXPECT_EQ(pullAll(hashOf(one), hashOf(one), 1), std::set<std::string>{one});
  EXPECT_EQ(pinned.stats().values_borrowed.load() - before, 21u);
  EXPECT_TRUE(world.runUntil([&] { return !pinned.isBorrowed(); }));
}

/// Partitions that several workers take, each into a side log of its own.
TEST_F(MasterPullTest, SeveralWorkersTakeATablet) {
  SimServer::Options large;
  large.log.memory_bytes *= 8;
  large.move_slices = {.bytes = 16 * 1024, .bytes_busy = 2 * 1024, .partition_bytes = 64 * 1024, .lane_bytes = 1024};
  const size_t from = world.addServer(large);
  const size_t to = world.addServer(large);
  ASSERT_EQ(take(2, 0, kLast, 1, from), Status::Ok);
  for (uint64_t number = 0; number < 2'000; ++number) put(number, std::string(1000, 'x'), from);
  const log::Log& log = *world.servers[to]->master().log();
  ASSERT_NO_FATAL_FAILURE(handOver(2, 0, kLast, 1, 2, to, from));
  ASSERT_EQ(lend(2, 1, from), Status::Ok);
  ASSERT_EQ(takeArriving(2, 0, kLast, 2, to), Status::Ok);
  for (uint64_t number = 0; number < 2'000; number += 100) put(number, "new", to, 2);
  ASSERT_NO_FATAL_FAILURE(removeAll(50, 60, to, 2));
  ASSERT_EQ(pullProgress(2, to, control::PULL_JOINED).phase(), control::PULL_JOINED);
  ASSERT_EQ(take(2, 0, kLast, 2, to, false), Status::Ok);
  expectAll(to, 2);
  world.runFor(kNanosPerSecond);
  EXPECT_EQ(log.limit().heldBytes(), 0u);
}

}  // namespace
}  // namespace ramcore::sim::raw
