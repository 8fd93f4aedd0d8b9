/// Keys that are read, written, or given up, when their entry is damaged and the damage is not known yet.

#include <gtest/gtest.h>

#include <bit>

#include "log/cleaning/memory_scrubber.h"
#include "log/format/entry_writer.h"
#include "runtime/sim/sim_epoch.h"
#include "store/object_store.h"
#include "store/range_slice.h"

namespace ramcore::store {
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
  /// Flips a bit of the entry's key, so that lookups do not recognize it.
  void flipKeyOf(const std::string& key) {
    keep(key);
    const size_t at = static_cast<size_t>(store.entry(flipped).key().data() - store.entry(flipped).address());
    memory->at(flipped)[at] ^= std::byte{4};
  }
  KeyHash hashOfChanged() const { return hashKey(store.entry(flipped).table(), store.entry(flipped).key()); }
  void scrub() {
    log::MemoryScrubber scrubber(log);
    while (scrubber.step(1 << 20) >= 1 << 20) {
    }
  }
  /// Restores the entry as MemoryRepair does with bytes from a replica.
  Status restore() {
    const log::Damage damage = observer.damages.at(0);
    EXPECT_EQ(damage.ref, flipped);
    EXPECT_EQ(log.integrity().restore(damage, right), Status::Ok);
    const Status status = store.damages().reconcile(damage);
    if (status == Status::Ok) log.release(damage);
    return status;
  }
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

/// Whichever bit has flipped of those that lookups compare: a lookup finds the damage, and no answer says that there is
/// no such key.
TEST_F(ReconcileTest, WhoAsksForAKeyFindsThatItHasChanged) {
  ASSERT_EQ(write("key", "old").status, Status::Ok);
  roll();
  keep("key");
  const size_t key_at = static_cast<size_t>(store.entry(flipped).key().data() - store.entry(flipped).address());
  std::vector<size_t> bits;
  for (size_t bit = 8 * key_at; bit < 8 * (key_at + 3); ++bit) bits.push_back(bit);
  for (size_t bit = 0; bit < 32; ++bit) bits.push_back(8 * offsetof(log::EntryHeader, table) + bit);
  for (size_t bit = 0; bit < 16; ++bit) bits.push_back(8 * offsetof(log::EntryHeader, key_bytes) + bit);
  bits.push_back(std::countr_zero(static_cast<unsigned>(log::kNamesSegment)));
  const KeyHash hash = hashKey(kLostTable, asBytes("key"));
  for (size_t i = 0; i < bits.size(); ++i) {
    SCOPED_TRACE("bit " + std::to_string(bits[i]));
    observer.damages.clear();
    memory->at(flipped)[bits[i] / 8] ^= static_cast<std::byte>(1u << (bits[i] % 8));
    switch (i % 4) {
      case 0:
        EXPECT_EQ(find("key").ref, kRestoringRef);
        break;
      case 1: {
        const ObjectStore::Key key{kLostTable, asBytes("key")};
        log::EntryRef found;
        store.lookupBatch(std::span(&key, 1), std::span(&hash, 1), std::span(&found, 1));
        EXPECT_EQ(found, kRestoringRef);
        break;
      }
      case 2:
        EXPECT_EQ(write("key", "new").status, Status::RetryLater);
        break;
      case 3:
        EXPECT_EQ(mutate(wire::Opcode::Remove, "key").status, Status::RetryLater);
        break;
    }
    ASSERT_EQ(observer.damages.size(), 1u);
    ASSERT_EQ(restore(), Status::Ok);
    ASSERT_EQ(valueOf("key"), "old");
  }
  EXPECT_EQ(store.objectCount(), 1u);
  ASSERT_EQ(write("key", "new").status, Status::Ok);
  EXPECT_EQ(valueOf("key"), "new");
  EXPECT_EQ(store.objectCount(), 1u);
}

/// A list of the range does not leave the key out silently.
TEST_F(ReconcileTest, WhoListsARangeFindsThatAKeyHasChanged) {
  for (int i = 0; i < 200; ++i) ASSERT_EQ(write("key" + std::to_string(i), "old").status, Status::Ok);
  roll();
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    const std::string key = "key" + std::to_string(i);
    keep(key);
    memory->at(flipped)[offsetof(log::EntryHeader, table)] ^= std::byte{1};
    observer.damages.clear();
    // A part of the range in which the key lies.
    const KeyHash hash = hashKey(kLostTable, asBytes(key));
    const HashRange range{.first = hash - hash % (1ull << 50), .last = hash | ((1ull << 50) - 1)};
    const auto list = [&] {
      RangeSlice slice;
      return slice.fill(
          store, *index, kLostTable, range, {.bytes_wanted = 1000, .bytes_max = 10'000},
          [](log::EntryRef) { return uint64_t{1}; }, [](log::EntryRef) {});
    };
    EXPECT_EQ(list(), Status::RetryLater);
    ASSERT_EQ(observer.damages.size(), 1u);
    ASSERT_EQ(restore(), Status::Ok);
    EXPECT_EQ(list(), Status::Ok);
  }
}

/// The same in the open head, which the scrubber does not verify.
TEST_F(ReconcileTest, WhoAsksFindsWhatTheScrubberDoesNotLookAtYet) {
  ASSERT_EQ(write("key", "old").status, Status::Ok);
  flipKeyOf("key");
  scrub();
  ASSERT_EQ(observer.damages.size(), 0u);
  EXPECT_EQ(find("key").ref, kRestoringRef);
  ASSERT_EQ(observer.damages.size(), 1u);
  ASSERT_EQ(restore(), Status::Ok);
  EXPECT_EQ(valueOf("key"), "old");
}

/// An entry of another key with the same bits of the hash is not damaged.
TEST_F(ReconcileTest, AnotherKeyOfTheSameBitsIsNoDamage) {
  ASSERT_EQ(write("key", "old").status, Status::Ok);
  roll();
  flipKeyOf("key");
  const KeyHash hash = hashOfChanged();
  // The index has the entry under the bits of the changed key here, so the entry is what it seems.
  {
    const index::StripeGuard from(*index, hashKey(kLostTable, asBytes("key")));
    ASSERT_TRUE(index->erase(from, flipped));
  }
  {
    const index::StripeGuard to(*index, hash);
    ASSERT_EQ(index->insert(to, flipped), Status::Ok);
  }
  const auto found = store.lookup(kLostTable, hash, asBytes("of the same bits"));
  EXPECT_FALSE(found.ref);
  EXPECT_TRUE(observer.damages.empty());
}

TEST_F(ReconcileTest, WhatWasGivenUpMeanwhileDoesNotComeBack) {
  ASSERT_EQ(write("key", "old").status, Status::Ok);
  roll();
  flipKeyOf("key");
  ASSERT_EQ(tablets.remove(TabletId(1)), Status::Ok);
  std::optional<KeyHash> cursor = 0;
  while (cursor) cursor = store.purge().purgeSlice(kLostTable, {.first = 0, .last = UINT64_MAX}, *cursor);
  ASSERT_EQ(store.objectCount(), 1u) << "it was not recognized";
  ASSERT_EQ(observer.damages.size(), 1u) << "somebody has come across it";
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
  EXPECT_EQ(store.replay().replayBatch(std::span(&foreign, 1), side, taken), Status::RetryLater);
  DeadVersions dead(1);
  EXPECT_EQ(store.replay().replayBatch(std::span(&foreign, 1), side, taken, &dead), Status::RetryLater);
  EXPECT_EQ(taken, 0u);
  EXPECT_EQ(store.objectCount(), 1u);
  log.integrity().giveUp(observer.damages.at(0));
  EXPECT_EQ(store.replay().replayBatch(std::span(&foreign, 1), side, taken), Status::Corrupt);
  ASSERT_EQ(restore(), Status::Ok);
  EXPECT_EQ(store.replay().replayBatch(std::span(&foreign, 1), side, taken), Status::Ok);
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
  // The tombstone as another server's log may have it, and the object as if it had not been removed.
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
  DeadVersions dead(1);
  size_t taken = 0;
  EXPECT_EQ(store.replay().replayBatch(std::span(&tombstone, 1), side, taken, &dead), Status::RetryLater);
  EXPECT_EQ(taken, 0u);
  ASSERT_EQ(restore(), Status::Ok);
  EXPECT_EQ(store.replay().replayBatch(std::span(&tombstone, 1), side, taken, &dead), Status::Ok);
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
  ASSERT_EQ(store.replay().replayBatch(std::span(&foreign, 1), side, taken), Status::Ok);
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
  EXPECT_EQ(store.replay().renewSlice(kLostTable, kAll, 1000, cursor, &side), Status::RetryLater);
  ASSERT_EQ(observer.damages.size(), 1u) << "it is found by this";
  EXPECT_EQ(store.replay().renewSlice(kLostTable, kAll, 1000, cursor, &side), Status::RetryLater);
  ASSERT_EQ(restore(), Status::Ok);
  while (cursor) ASSERT_EQ(store.replay().renewSlice(kLostTable, kAll, 1000, cursor, &side), Status::Ok);
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
  while (cursor) cursor = store.purge().purgeSlice(kLostTable, {.first = 0, .last = UINT64_MAX}, *cursor);
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
}  // namespace ramcore::store
