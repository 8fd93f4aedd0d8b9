/// Keys that were written again, or given up, while nobody knew that their entry was damaged.

#include <gtest/gtest.h>

#include <algorithm>

#include "log/entry_writer.h"
#include "log/log_reader.h"
#include "log/memory_scrubber.h"
#include "master/object_store.h"
#include "runtime/sim/sim_epoch.h"

namespace ramcore::master {
namespace {

constexpr TableId kLostTable{7};
constexpr TabletEpoch kLostEpoch{1};

struct RestoringObserver final : log::DamageObserver {
  bool canRestore() const override { return true; }
  void onDamaged(const log::Damage& damage) override { damages.push_back(damage); }
  std::vector<log::Damage> damages;
};

/// One server on one thread.
class ReconcileTest : public ::testing::Test {
 protected:
  ReconcileTest() {
    results.connect(log);
    store.connect({log, *index, tablets, results, lease, clock});
    lease.renewed(clock.nowNs(), runtime::kNever / 2);
    log.integrity().setObserver(&observer);
    reader = rcu.registerThread();
    log.maintain();
    own({});
    results.admit(ClientId(1), clock.nowNs());
  }
  ~ReconcileTest() override {
    rcu.unregisterThread(reader);
    rcu.drain();
  }
  void own(SegmentId first_segment) {
    ASSERT_EQ(tablets.add({.id = TabletId(1),
                           .table = kLostTable,
                           .range = {.first = 0, .last = UINT64_MAX},
                           .epoch = kLostEpoch,
                           .first_segment = first_segment,
                           .counters = std::make_shared<TabletCounters>()}),
              Status::Ok);
  }
  Answer mutate(wire::Opcode opcode, const std::string& key, const std::string& value = {}) {
    const ByteSpan piece = asBytes(value);
    ++sequence;
    const auto answer = store.apply({.opcode = opcode,
                                     .identity = {ClientId(1), Sequence(sequence), Sequence(sequence - 1)},
                                     .epoch = kLostEpoch,
                                     .table = kLostTable,
                                     .hash = hashKey(kLostTable, asBytes(key)),
                                     .key = asBytes(key),
                                     .value = std::span(&piece, 1)},
                                    ObjectStore::Locking::Wait);
    return answer.value_or(Answer{.status = Status::Internal});
  }
  Answer write(const std::string& key, const std::string& value) { return mutate(wire::Opcode::Write, key, value); }
  Found find(const std::string& key) {
    return store.lookup(kLostTable, hashKey(kLostTable, asBytes(key)), asBytes(key));
  }
  std::string valueOf(const std::string& key) {
    const Found found = find(key);
    return found.ref && damageOf(found.ref) == Status::Ok ? std::string(asText(found.entry.payload())) : "";
  }
  void roll() {
    const SegmentId request = log.requestRoll();
    ASSERT_TRUE(log.isRolled(request));
  }
  void keep(const std::string& key) {
    flipped = find(key).ref;
    right.assign(store.entry(flipped).address(), store.entry(flipped).address() + store.entry(flipped).alignedBytes());
  }
  /// A bit of its key, so that nobody recognizes it.
  void flipKeyOf(const std::string& key) {
    keep(key);
    const size_t at = static_cast<size_t>(store.entry(flipped).key().data() - store.entry(flipped).address());
    memory->at(flipped)[at] ^= std::byte{4};
    ASSERT_FALSE(find(key).ref);
  }
  void scrub() {
    log::MemoryScrubber scrubber(log);
    while (scrubber.step(1 << 20) >= 1 << 20) {
    }
  }
  /// What MemoryRepair does with bytes from a replica.
  Status restore() {
    const log::Damage damage = observer.damages.at(0);
    EXPECT_EQ(damage.ref, flipped);
    EXPECT_EQ(log.integrity().restore(damage, right), Status::Ok);
    const Status status = store.reconcile(damage);
    if (status == Status::Ok && log.integrity().release(damage)) log.markDead(damage.ref);
    return status;
  }
  /// What a server has that replays this log, in the order in which it was written or in the opposite one.
  std::string replayed(const std::string& key, bool backwards);

  const log::LogConfig config = log::LogConfig::forTest();
  runtime::ManualClock clock;
  runtime::SimRcu rcu;
  runtime::PinRegistry pins{1};
  std::unique_ptr<log::LogMemory> memory = log::LogMemory::open(config.memory_bytes).value();
  std::unique_ptr<index::HashIndex> index = index::HashIndex::open(index::IndexConfig::forTest(), rcu).value();
  ServerLease lease;
  TabletTable tablets{rcu};
  ResultTable results;
  ObjectStore store{*memory};
  log::NoReplicator replicator;
  log::Log log{config, {ClusterId(1), ServerId(2)}, *memory, {store, replicator, rcu, pins}};
  RestoringObserver observer;
  runtime::RcuReader reader{};
  uint64_t sequence = 0;
  log::EntryRef flipped;
  std::vector<std::byte> right;
};

struct Replayed : ReconcileTest {
  void TestBody() override {}
  using ReconcileTest::log;
  using ReconcileTest::replicator;
  using ReconcileTest::store;
  using ReconcileTest::valueOf;
};

std::string ReconcileTest::replayed(const std::string& key, bool backwards) {
  std::vector<std::vector<std::byte>> segments;
  for (uint32_t i = 0; i < log.pool().slotCount(); ++i) {
    const log::Segment& segment = log.pool().slot(i);
    if (segment.committedBytes() == 0) continue;
    segments.emplace_back(segment.committedBytes());
    segment.copyOut(0, segment.committedBytes(), segments.back().data());
  }
  std::vector<log::EntryView> entries;
  for (const auto& bytes : segments) {
    log::SegmentReader walk(bytes);
    for (auto group = walk.nextGroup(); !group.empty(); group = walk.nextGroup()) {
      for (const log::EntryView& entry : group) {
        const bool has_key = entry.type() == log::EntryType::Object || entry.type() == log::EntryType::Tombstone;
        if (has_key) entries.push_back(entry);
      }
    }
  }
  if (backwards) std::ranges::reverse(entries);
  Replayed other;
  log::SideLog side(other.log, other.replicator);
  DeadVersions dead;
  size_t taken = 0;
  EXPECT_EQ(other.store.replayBatch(entries, side, taken, &dead), Status::Ok);
  EXPECT_EQ(taken, entries.size());
  std::string value = other.valueOf(key);
  side.close();
  side.join();
  return value;
}

TEST_F(ReconcileTest, WhatWasWrittenMeanwhileStays) {
  for (const bool higher : {true, false}) {
    SCOPED_TRACE(higher ? "the newer one has the higher version" : "the older one has the higher version");
    const std::string key = higher ? "key" : "yek";
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(write(higher ? "other" + std::to_string(i) : key, "old").status, Status::Ok);
    }
    ASSERT_EQ(write(key, "old").status, Status::Ok);
    const Version before = find(key).entry.version();
    roll();
    const uint64_t objects = store.objectCount();
    flipKeyOf(key);
    const Answer written = write(key, "new");
    ASSERT_EQ(written.status, Status::Ok);
    ASSERT_EQ(written.version > before, higher);
    observer.damages.clear();
    scrub();
    ASSERT_EQ(observer.damages.size(), 1u);
    EXPECT_EQ(restore(), Status::Ok);

    EXPECT_EQ(valueOf(key), "new");
    EXPECT_EQ(find(key).entry.version(), higher ? written.version : before + 1);
    EXPECT_EQ(store.objectCount(), objects);
    EXPECT_EQ(log.integrity().rangeStatus(), Status::Ok);
    EXPECT_EQ(replayed(key, false), "new");
    EXPECT_EQ(replayed(key, true), "new");
    ASSERT_EQ(mutate(wire::Opcode::Remove, key).status, Status::Ok);
    store.reapTombstones(100);
    EXPECT_FALSE(find(key).ref) << "the removal uncovers the older one";
    EXPECT_EQ(replayed(key, false), "");
    EXPECT_EQ(replayed(key, true), "");
  }
}

TEST_F(ReconcileTest, CountingSurvives) {
  for (int i = 0; i < 5; ++i) ASSERT_EQ(write("key", "old").status, Status::Ok);
  const auto [live, tombstones] = std::pair(log.stats().live_bytes.load(), log.stats().tombstone_bytes.load());
  roll();
  const int64_t rolled = log.stats().live_bytes.load() - live;
  flipKeyOf("key");  // it names the segment of the one before
  ASSERT_EQ(write("key", "new").status, Status::Ok);
  scrub();
  ASSERT_EQ(restore(), Status::Ok);
  EXPECT_EQ(log.stats().live_bytes.load() - log.stats().tombstone_bytes.load(), live - tombstones + rolled);
}

TEST_F(ReconcileTest, WhatWasGivenUpMeanwhileDoesNotComeBack) {
  ASSERT_EQ(write("key", "old").status, Status::Ok);
  roll();
  flipKeyOf("key");
  ASSERT_EQ(tablets.remove(TabletId(1)), Status::Ok);
  std::optional<KeyHash> cursor = 0;
  while (cursor) cursor = store.purgeSlice(kLostTable, {.first = 0, .last = UINT64_MAX}, *cursor);
  ASSERT_EQ(store.objectCount(), 1u) << "it was not recognized";
  roll();
  own(log.headId());
  scrub();
  ASSERT_EQ(restore(), Status::Ok);
  EXPECT_EQ(store.objectCount(), 0u);
  EXPECT_FALSE(find("key").ref);
}

TEST_F(ReconcileTest, AReplayWaitsForWhatMayBeItsKey) {
  ASSERT_EQ(write("key", "older").status, Status::Ok);
  keep("key");
  const std::vector<std::byte> older = right;
  ASSERT_EQ(write("key", "old").status, Status::Ok);
  roll();
  flipKeyOf("key");
  scrub();
  const log::EntryView foreign(older.data());
  log::SideLog side(log, replicator);
  size_t taken = 0;
  EXPECT_EQ(store.replayBatch(std::span(&foreign, 1), side, taken), Status::RetryLater);
  DeadVersions dead;
  EXPECT_EQ(store.replayBatch(std::span(&foreign, 1), side, taken, &dead), Status::RetryLater);
  EXPECT_EQ(taken, 0u);
  EXPECT_EQ(store.objectCount(), 1u);
  log.integrity().giveUp(observer.damages.at(0));
  EXPECT_EQ(store.replayBatch(std::span(&foreign, 1), side, taken), Status::Corrupt);
  ASSERT_EQ(restore(), Status::Ok);
  EXPECT_EQ(store.replayBatch(std::span(&foreign, 1), side, taken), Status::Ok);
  EXPECT_EQ(valueOf("key"), "old");
  EXPECT_EQ(store.objectCount(), 1u);
  side.close();
  side.join();
}

TEST_F(ReconcileTest, ATombstoneIsNotReplayedPastWhatMayBeItsKey) {
  ASSERT_EQ(write("key", "old").status, Status::Ok);
  roll();
  keep("key");
  const log::EntryRef object = flipped;
  ASSERT_EQ(mutate(wire::Opcode::Remove, "key").status, Status::Ok);
  // The tombstone as another log may have it, and the object as if it had not been removed.
  std::vector<std::byte> removal(log::alignedTombstoneBytes(3));
  log::writeEntry(removal.data(),
                  {.type = log::EntryType::Tombstone,
                   .table = kLostTable,
                   .version = log.view(object).version(),
                   .key = asBytes("key"),
                   .payload = {},
                   .dead = object},
                  false, SegmentId(1));
  const log::EntryView tombstone(removal.data());
  ASSERT_TRUE(tombstone.verify());
  ASSERT_EQ(write("key", "new").status, Status::Ok);
  roll();
  flipKeyOf("key");
  scrub();
  log::SideLog side(log, replicator);
  DeadVersions dead;
  size_t taken = 0;
  EXPECT_EQ(store.replayBatch(std::span(&tombstone, 1), side, taken, &dead), Status::RetryLater);
  EXPECT_EQ(taken, 0u);
  ASSERT_EQ(restore(), Status::Ok);
  EXPECT_EQ(store.replayBatch(std::span(&tombstone, 1), side, taken, &dead), Status::Ok);
  EXPECT_EQ(valueOf("key"), "new");
  side.close();
  side.join();
}

TEST_F(ReconcileTest, WhatIsOfAFormerOwnershipIsInNoReplaysWay) {
  ASSERT_EQ(write("key", "old").status, Status::Ok);
  ASSERT_EQ(write("key", "old").status, Status::Ok);
  roll();
  flipKeyOf("key");
  scrub();
  ASSERT_EQ(tablets.remove(TabletId(1)), Status::Ok);
  roll();
  own(log.headId());
  const log::EntryView foreign(right.data());
  log::SideLog side(log, replicator);
  size_t taken = 0;
  ASSERT_EQ(store.replayBatch(std::span(&foreign, 1), side, taken), Status::Ok);
  side.close();
  side.join();
  ASSERT_EQ(restore(), Status::Ok);
  EXPECT_EQ(store.objectCount(), 1u);
  EXPECT_EQ(valueOf("key"), "old");
  EXPECT_NE(find("key").ref, flipped);
}

TEST_F(ReconcileTest, DamageGetsNoNewChecksum) {
  constexpr HashRange kAll{.first = 0, .last = UINT64_MAX};
  ASSERT_EQ(write("key", "value").status, Status::Ok);
  roll();
  keep("key");
  const ByteSpan payload = store.entry(flipped).payload();
  memory->at(flipped)[static_cast<size_t>(payload.data() - store.entry(flipped).address())] ^= std::byte{1};
  log::SideLog side(log, replicator);
  std::optional<KeyHash> cursor = 0;
  EXPECT_EQ(store.renewSlice(kLostTable, kAll, 1000, cursor, side), Status::RetryLater);
  ASSERT_EQ(observer.damages.size(), 1u) << "it is found by this";
  EXPECT_EQ(store.renewSlice(kLostTable, kAll, 1000, cursor, side), Status::RetryLater);
  ASSERT_EQ(restore(), Status::Ok);
  while (cursor) ASSERT_EQ(store.renewSlice(kLostTable, kAll, 1000, cursor, side), Status::Ok);
  EXPECT_EQ(valueOf("key"), "value");
  EXPECT_EQ(find("key").entry.version(), 1000u);
  side.close();
  side.join();
}

TEST_F(ReconcileTest, APurgeDoesNotBelieveADamagedVersion) {
  ASSERT_EQ(write("key", "old").status, Status::Ok);
  roll();
  keep("key");
  memory->at(flipped)[offsetof(log::EntryHeader, version) + 4] ^= std::byte{1};
  scrub();
  ASSERT_EQ(tablets.remove(TabletId(1)), Status::Ok);
  std::optional<KeyHash> cursor = 0;
  while (cursor) cursor = store.purgeSlice(kLostTable, {.first = 0, .last = UINT64_MAX}, *cursor);
  EXPECT_LT(store.safeVersionNow(), 100u);
  ASSERT_EQ(restore(), Status::Ok);
  EXPECT_EQ(store.objectCount(), 0u);
}

TEST_F(ReconcileTest, WhatWasNotTouchedIsThere) {
  ASSERT_EQ(write("key", "old").status, Status::Ok);
  roll();
  flipKeyOf("key");
  scrub();
  ASSERT_EQ(restore(), Status::Ok);
  EXPECT_EQ(valueOf("key"), "old");
  EXPECT_EQ(store.objectCount(), 1u);
}

}  // namespace
}  // namespace ramcore::master
