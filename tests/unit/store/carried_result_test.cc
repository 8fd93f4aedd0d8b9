/// Results that lie with the objects that their calls wrote.

#include <gtest/gtest.h>

#include "log/cleaning/cleaner.h"
#include "log/format/log_reader.h"
#include "runtime/sim/sim_epoch.h"
#include "store/foreign_entry.h"
#include "store/object_store.h"

namespace ramcore::store {
namespace {

constexpr TableId kCarryTable{3};
constexpr TabletEpoch kCarryEpoch{1};
constexpr uint32_t kRecordBytes = log::alignedEntryBytes(0, sizeof(log::ResultRecordPayload) + 8, false);

/// One server on one thread, and calls of clients that acknowledge when they are told to.
class CarryingStore {
 public:
  CarryingStore() {
    results.connect(log);
    store.connect({log, *index, tablets, results, lease, clock});
    lease.renewed(clock.nowNs(), runtime::kNever / 2);
    reader = rcu.registerThread();
    log.maintain();
    own();
  }
  ~CarryingStore() {
    rcu.unregisterThread(reader);
    rcu.drain();
  }
  void own() {
    RC_CHECK(tablets.add({.id = TabletId(1),
                          .table = kCarryTable,
                          .range = {.first = 0, .last = UINT64_MAX},
                          .epoch = kCarryEpoch,
                          .first_segment = {},
                          .counters = std::make_shared<TabletCounters>()}) == Status::Ok);
  }
  Answer call(wire::Opcode opcode, uint64_t client, uint64_t sequence, uint64_t acknowledged, const std::string& key,
              const std::string& value = {}) {
    results.admit(ClientId(client), clock.nowNs());
    const ByteSpan piece = asBytes(value);
    const auto answer = store.apply({.opcode = opcode,
                                     .identity = {ClientId(client), Sequence(sequence), Sequence(acknowledged)},
                                     .epoch = kCarryEpoch,
                                     .table = kCarryTable,
                                     .hash = hashKey(kCarryTable, asBytes(key)),
                                     .key = asBytes(key),
                                     .value = std::span(&piece, 1),
                                     .delta = 5},
                                    ObjectStore::Locking::Wait);
    return answer.value_or(Answer{.status = Status::Internal});
  }
  Answer write(uint64_t client, uint64_t sequence, uint64_t acknowledged, const std::string& key) {
    return call(wire::Opcode::Write, client, sequence, acknowledged, key, "value");
  }
  void acknowledge(uint64_t client, uint64_t sequence) {
    const auto known = results.find({ClientId(client), Sequence(sequence + 1000), Sequence(sequence)});
    EXPECT_NE(known.verdict, ResultTable::Verdict::Duplicate);
  }
  Found find(const std::string& key) {
    return store.lookup(kCarryTable, hashKey(kCarryTable, asBytes(key)), asBytes(key));
  }
  int64_t liveBytes() const { return log.stats().live_bytes.load(); }
  int64_t resultBytes() const { return log.stats().result_bytes.load(); }
  /// Closes the head, and cleans everything that can be cleaned until nothing moves any more.
  void clean() {
    ASSERT_TRUE(log.isRolled(log.requestRoll()));
    for (int turns = 0; turns < 1000; ++turns) {
      rcu.quiescent(reader);
      rcu.reclaim(1000);
      log.reclaim(++now_ns);
      log.maintain();
      static_cast<void>(cleaner.step(1 << 20));
    }
    EXPECT_FALSE(cleaner.isBusy());
  }
  /// All entries of the log, as a recovery reads them.
  std::vector<std::byte> bytesOf(SegmentId id) {
    const log::Segment& segment = *log.pool().find(id);
    std::vector<std::byte> bytes(segment.committedBytes());
    segment.copyOut(0, segment.committedBytes(), bytes.data());
    return bytes;
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
  log::Cleaner cleaner{log, store, replicator};
  runtime::RcuReader reader{};
  uint64_t now_ns = 0;
};

TEST(CarriedResult, AWriteIsOneEntryAndAnswersItsRepetition) {
  CarryingStore one;
  const uint64_t before = one.log.stats().appended_entries.load();
  const Answer first = one.write(1, 1, 0, "key");
  ASSERT_EQ(first.status, Status::Ok);
  EXPECT_EQ(one.log.stats().appended_entries.load(), before + 1);
  const Found found = one.find("key");
  ASSERT_TRUE(found.entry.carriesResult());
  EXPECT_EQ(found.entry.carriedResult(),
            (log::CarriedResult{ClientId(1), Sequence(1), Sequence(0), static_cast<uint8_t>(wire::Opcode::Write)}));
  const Answer again = one.write(1, 1, 0, "key");
  EXPECT_TRUE(again.is_duplicate);
  EXPECT_EQ(again.version, first.version);
  EXPECT_EQ(one.find("key").entry.version(), first.version);
  // The carried result is garbage once it is acknowledged; the object is not.
  const int64_t live = one.liveBytes();
  one.acknowledge(1, 1);
  EXPECT_TRUE(one.find("key").entry.isAcknowledged());
  EXPECT_EQ(one.liveBytes(), live - found.entry.resultBytes());
  EXPECT_EQ(one.resultBytes(), 0);
  EXPECT_EQ(one.write(1, 1, 0, "key").status, Status::StaleSequence);
}

TEST(CarriedResult, WhatOverwritesOrRemovesItGivesItARecord) {
  CarryingStore one;
  const int64_t empty = one.liveBytes();
  const Answer written = one.write(1, 1, 0, "key");
  EXPECT_EQ(one.write(2, 1, 0, "key").version, written.version + 1);
  EXPECT_EQ(one.resultBytes(), kRecordBytes + one.find("key").entry.resultBytes());
  Answer again = one.write(1, 1, 0, "key");
  EXPECT_TRUE(again.is_duplicate);
  EXPECT_EQ(again.version, written.version);

  EXPECT_EQ(one.call(wire::Opcode::Remove, 3, 1, 0, "key").status, Status::Ok);
  EXPECT_EQ(one.resultBytes(), 3 * kRecordBytes) << "both writes', and its own";
  again = one.write(2, 1, 0, "key");
  EXPECT_TRUE(again.is_duplicate);
  EXPECT_EQ(again.version, written.version + 1);
  for (uint64_t client = 1; client <= 3; ++client) one.acknowledge(client, 1);
  EXPECT_EQ(one.results.recordCount(), 0u);
  EXPECT_EQ(one.resultBytes(), 0);
  EXPECT_EQ(one.liveBytes(), empty + one.log.stats().tombstone_bytes.load());
}

TEST(CarriedResult, AnAcknowledgedOneNeedsNoRecord) {
  CarryingStore one;
  static_cast<void>(one.write(1, 1, 0, "key"));
  const uint64_t before = one.log.stats().appended_entries.load();
  // The client itself says with the next call that it has seen the answer of the one before.
  EXPECT_EQ(one.write(1, 2, 1, "key").status, Status::Ok);
  EXPECT_EQ(one.log.stats().appended_entries.load(), before + 1);
  EXPECT_EQ(one.results.recordCount(), 1u);
}

TEST(CarriedResult, NumbersThatItHasNoRoomForGetARecord) {
  CarryingStore one;
  const uint64_t far = uint64_t{1} << 48;
  ASSERT_EQ(one.write(1, far, far - 1, "far").status, Status::Ok);
  EXPECT_FALSE(one.find("far").entry.carriesResult());
  ASSERT_EQ(one.write(2, uint64_t{1} << 33, 1, "behind").status, Status::Ok);
  EXPECT_FALSE(one.find("behind").entry.carriesResult());
  EXPECT_EQ(one.resultBytes(), 2 * kRecordBytes);
  EXPECT_TRUE(one.write(1, far, far - 1, "far").is_duplicate);
  EXPECT_TRUE(one.write(2, uint64_t{1} << 33, 1, "behind").is_duplicate);
}

TEST(CarriedResult, TheCleanerKeepsWhatIsNeededAndDropsTheRest) {
  CarryingStore one;
  static_cast<void>(one.write(1, 1, 0, "needed"));
  static_cast<void>(one.write(2, 1, 0, "seen"));
  one.acknowledge(2, 1);
  // Writes garbage, so that a pass is worthwhile.
  for (uint64_t i = 1; i <= 400; ++i) static_cast<void>(one.write(9, i, i - 1, "garbage"));
  const log::EntryRef needed = one.find("needed").ref;
  const log::EntryRef seen = one.find("seen").ref;
  one.clean();
  ASSERT_NE(one.find("needed").ref, needed) << "nothing was cleaned";
  ASSERT_NE(one.find("seen").ref, seen) << "nothing was cleaned";
  EXPECT_TRUE(one.find("needed").entry.carriesResult());
  EXPECT_FALSE(one.find("seen").entry.carriesResult());
  EXPECT_TRUE(one.results.isLive(ClientId(1), Sequence(1), one.find("needed").ref));
  EXPECT_TRUE(one.write(1, 1, 0, "needed").is_duplicate);
  EXPECT_EQ(one.write(1, 2, 1, "needed").status, Status::Ok);
  EXPECT_EQ(one.resultBytes(), one.find("needed").entry.resultBytes() + one.find("garbage").entry.resultBytes());
}

TEST(CarriedResult, ARecoveryTakesItThoughItsObjectIsDead) {
  CarryingStore dead;
  ASSERT_EQ(dead.call(wire::Opcode::Increment, 1, 1, 0, "counter").value, 5);
  const Answer second = dead.call(wire::Opcode::Increment, 2, 7, 0, "counter");
  ASSERT_EQ(second.value, 10);
  ASSERT_EQ(dead.write(3, 4, 0, "other").status, Status::Ok);
  ASSERT_EQ(dead.write(3, 5, 4, "other").status, Status::Ok);
  const std::vector<std::byte> bytes = dead.bytesOf(dead.log.headId());

  // The newest entries come first: older versions are not taken then, but their results are.
  std::vector<log::EntryView> entries;
  log::SegmentReader reader(bytes);
  for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
    for (const log::EntryView& entry : group) {
      if (hashOfForeign(entry)) entries.insert(entries.begin(), entry);
    }
  }
  ASSERT_GE(entries.size(), 5u);
  CarryingStore heir;
  DeadVersions dead_versions(1);
  log::SideLog side(heir.log, heir.replicator);
  for (int times = 0; times < 2; ++times) {
    size_t taken = 0;
    ASSERT_EQ(heir.store.replay().replayBatch(entries, side, taken, &dead_versions), Status::Ok);
    ASSERT_EQ(taken, entries.size());
  }
  EXPECT_EQ(heir.results.recordCount(), 3u) << "the first of client 3 is acknowledged by its second";
  EXPECT_EQ(heir.resultBytes(), 3 * kRecordBytes);
  EXPECT_FALSE(heir.find("counter").entry.carriesResult());
  EXPECT_EQ(heir.find("counter").entry.payloadAs<int64_t>(), 10);

  const Answer first_again = heir.call(wire::Opcode::Increment, 1, 1, 0, "counter");
  EXPECT_TRUE(first_again.is_duplicate);
  EXPECT_EQ(first_again.value, 5);
  const Answer second_again = heir.call(wire::Opcode::Increment, 2, 7, 0, "counter");
  EXPECT_TRUE(second_again.is_duplicate);
  EXPECT_EQ(second_again.value, 10);
  EXPECT_EQ(second_again.version, second.version);
  EXPECT_TRUE(heir.write(3, 5, 4, "other").is_duplicate);
  EXPECT_EQ(heir.write(3, 4, 0, "other").status, Status::StaleSequence);
  side.close();
  side.join();
}

/// The former owner of a tablet that was being moved replays the new owner's log over its own objects. What the new
/// owner had taken over of their results may not have been in its log yet.
TEST(CarriedResult, ASurvivorKeepsThoseOfObjectsThatItReplacesOrRemoves) {
  CarryingStore other;
  for (uint64_t i = 1; i <= 9; ++i) {
    ASSERT_EQ(other.write(8, i, i - 1, "overwritten").status, Status::Ok);
    ASSERT_EQ(other.write(9, i, i - 1, "removed").status, Status::Ok);
  }
  ASSERT_EQ(other.call(wire::Opcode::Remove, 9, 10, 9, "removed").status, Status::Ok);
  const std::vector<std::byte> bytes = other.bytesOf(other.log.headId());
  std::vector<log::EntryView> entries;
  log::SegmentReader reader(bytes);
  for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
    for (const log::EntryView& entry : group) {
      if (entry.type() == log::EntryType::Tombstone) entries = {entry};
    }
  }
  ASSERT_EQ(entries.size(), 1u);
  entries.push_back(other.find("overwritten").entry);

  CarryingStore survivor;
  const Answer overwritten = survivor.write(1, 1, 0, "overwritten");
  const Answer removed = survivor.write(2, 1, 0, "removed");
  DeadVersions dead_versions(1);
  log::SideLog side(survivor.log, survivor.replicator);
  size_t taken = 0;
  ASSERT_EQ(survivor.store.replay().replayBatch(entries, side, taken, &dead_versions), Status::Ok);
  ASSERT_EQ(taken, entries.size());
  // Their objects may be cleaned away from now on, and the side log may never join.
  for (const uint64_t client : {1, 2}) {
    const ResultTable::Lookup kept = survivor.results.find({ClientId(client), Sequence(1), Sequence(0)});
    ASSERT_EQ(kept.verdict, ResultTable::Verdict::Duplicate);
    EXPECT_EQ(survivor.log.pool().segmentOf(kept.record)->id(), survivor.log.headId()) << client;
  }
  side.close();
  side.join();
  EXPECT_EQ(survivor.find("overwritten").entry.version(), entries[1].version());
  EXPECT_FALSE(survivor.find("removed").ref);
  EXPECT_EQ(survivor.resultBytes(), 3 * kRecordBytes) << "these two, and that of the other server's last write";
  const Answer first = survivor.write(1, 1, 0, "overwritten");
  EXPECT_TRUE(first.is_duplicate);
  EXPECT_EQ(first.version, overwritten.version);
  const Answer second = survivor.write(2, 1, 0, "removed");
  EXPECT_TRUE(second.is_duplicate);
  EXPECT_EQ(second.version, removed.version);
}

/// Objects of the survivor's own log, when a part of the other one is lost.
TEST(CarriedResult, ASurvivorRenewsItsObjectsAtTheHead) {
  CarryingStore survivor;
  const Answer written = survivor.write(1, 1, 0, "key");
  std::optional<KeyHash> cursor = 0;
  const Version renewed = written.version + 1000;
  while (cursor) {
    ASSERT_EQ(
        survivor.store.replay().renewSlice(kCarryTable, {.first = 0, .last = UINT64_MAX}, renewed, cursor, nullptr),
        Status::Ok);
  }
  const Found found = survivor.find("key");
  EXPECT_EQ(found.entry.version(), renewed);
  EXPECT_EQ(survivor.log.pool().segmentOf(found.ref)->id(), survivor.log.headId());
  EXPECT_TRUE(survivor.write(1, 1, 0, "key").is_duplicate);
}

TEST(CarriedResult, ForeignOnesAreOfWritesAndIncrements) {
  const auto hashOf = [](uint8_t opcode, size_t value_bytes) {
    const log::CarriedResult carried{ClientId(1), Sequence(2), Sequence(1), opcode};
    const std::string value(value_bytes, 'v');
    const std::array<ByteSpan, 1> payload = {asBytes(value)};
    const log::EntryInput input{.type = log::EntryType::Object,
                                .table = kCarryTable,
                                .version = 4,
                                .key = asBytes(std::string_view("key")),
                                .payload = payload,
                                .result = &carried};
    std::vector<std::byte> bytes(input.alignedBytes());
    log::writeEntry(bytes.data(), input, false, {});
    log::EntryView view;
    EXPECT_EQ(log::decodeEntry(bytes, view), log::DecodeError::None);
    return hashOfForeign(view);
  };
  EXPECT_TRUE(hashOf(static_cast<uint8_t>(wire::Opcode::Write), 3));
  EXPECT_TRUE(hashOf(static_cast<uint8_t>(wire::Opcode::Increment), 8));
  EXPECT_FALSE(hashOf(static_cast<uint8_t>(wire::Opcode::Increment), 7)) << "its answer is the number";
  EXPECT_FALSE(hashOf(static_cast<uint8_t>(wire::Opcode::Remove), 3));
  EXPECT_FALSE(hashOf(0, 3));
}

struct CarriedDamageObserver final : log::DamageObserver {
  bool canRestore() const override { return true; }
  void onDamaged(const log::Damage& damage) override { damages.push_back(damage); }
  std::vector<log::Damage> damages;
};

/// The key is right, and a bit has flipped of the identity whose result the object carries, which no lookup compares.
/// If the object were taken away, the right call would be left with a result that is nowhere.
TEST(CarriedResult, WhoseItIsHasToBeWhatWasWritten) {
  for (const size_t at : {size_t{0}, size_t{9}}) {  // a byte of the client, one of the sequence
    CarryingStore one;
    CarriedDamageObserver observer;
    one.log.integrity().setObserver(&observer);
    const Answer written = one.write(1, 5, 0, "key");
    ASSERT_TRUE(one.log.isRolled(one.log.requestRoll()));
    const log::EntryRef ref = one.find("key").ref;
    std::byte* const entry = one.memory->at(ref);
    const std::vector<std::byte> right(entry, entry + one.find("key").entry.alignedBytes());
    entry[log::kEntryHeaderBytes + at] ^= std::byte{2};

    EXPECT_EQ(one.write(2, 1, 0, "key").status, Status::RetryLater);
    ASSERT_EQ(observer.damages.size(), 1u);
    EXPECT_EQ(observer.damages[0].ref, ref);
    EXPECT_EQ(one.call(wire::Opcode::Remove, 2, 2, 0, "key").status, Status::RetryLater);
    ASSERT_EQ(one.log.integrity().restore(observer.damages[0], right), Status::Ok);
    ASSERT_EQ(one.store.damages().reconcile(observer.damages[0]), Status::Ok);
    EXPECT_FALSE(one.log.release(observer.damages[0]).has_died);
    EXPECT_EQ(one.write(2, 1, 0, "key").version, written.version + 1);
    EXPECT_TRUE(one.write(1, 5, 0, "key").is_duplicate);
    EXPECT_EQ(one.results.recordCount(), 2u);
    EXPECT_EQ(one.resultBytes(), kRecordBytes + one.find("key").entry.resultBytes());
  }
}

TEST(CarriedResult, APurgeLeavesWhatIsDamaged) {
  CarryingStore one;
  CarriedDamageObserver observer;
  one.log.integrity().setObserver(&observer);
  const int64_t empty = one.liveBytes();
  static_cast<void>(one.write(1, 5, 0, "key"));
  ASSERT_TRUE(one.log.isRolled(one.log.requestRoll()));
  const log::EntryRef ref = one.find("key").ref;
  std::byte* const entry = one.memory->at(ref);
  const std::vector<std::byte> right(entry, entry + one.find("key").entry.alignedBytes());
  entry[log::kEntryHeaderBytes] ^= std::byte{2};
  ASSERT_EQ(one.tablets.remove(TabletId(1)), Status::Ok);
  EXPECT_FALSE(one.store.purge().purgeSlice(kCarryTable, {.first = 0, .last = UINT64_MAX}, 0));
  ASSERT_EQ(observer.damages.size(), 1u);
  EXPECT_EQ(one.results.recordCount(), 1u) << "whose it is, is not known";
  EXPECT_EQ(one.store.objectCount(), 1u);
  ASSERT_EQ(one.log.integrity().restore(observer.damages[0], right), Status::Ok);
  ASSERT_EQ(one.store.damages().reconcile(observer.damages[0]), Status::Ok);
  ASSERT_TRUE(one.log.release(observer.damages[0]).has_died);
  EXPECT_EQ(one.results.recordCount(), 0u);
  EXPECT_EQ(one.store.objectCount(), 0u);
  EXPECT_EQ(one.liveBytes(), empty);
  EXPECT_EQ(one.resultBytes(), 0);
}

/// The tablet is gone, and its results with it: none refers to an entry that the cleaner drops.
TEST(CarriedResult, APurgedObjectLeavesNoneBehind) {
  CarryingStore one;
  const int64_t empty = one.liveBytes();
  static_cast<void>(one.write(1, 1, 0, "key"));
  ASSERT_EQ(one.tablets.remove(TabletId(1)), Status::Ok);
  EXPECT_FALSE(one.store.purge().purgeSlice(kCarryTable, {.first = 0, .last = UINT64_MAX}, 0));
  EXPECT_EQ(one.results.recordCount(), 0u);
  EXPECT_EQ(one.liveBytes(), empty);
  EXPECT_EQ(one.resultBytes(), 0);
}

}  // namespace
}  // namespace ramcore::store
