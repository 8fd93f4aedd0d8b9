#include "log/integrity/integrity.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "log/cleaning/cleaner.h"
#include "log/cleaning/compaction.h"
#include "log/cleaning/memory_scrubber.h"
#include "log/format/entry_writer.h"
#include "tests/unit/log/log_fixture.h"

namespace ramcore::log {
namespace {

struct NotingObserver final : DamageObserver {
  bool canRestore() const override { return has_replicas; }
  void onDamaged(const Damage& damage) override { damages.push_back(damage); }
  bool has_replicas = true;
  std::vector<Damage> damages;
};

constexpr EntryState kStates[] = {EntryState::Pending,     EntryState::Live,      EntryState::Superseded,
                                  EntryState::Freed,       EntryState::Restoring, EntryState::Damaged,
                                  EntryState::Acknowledged};

/// A log with closed segments of live and dead objects.
struct DamagedLog : LogFixture {
  explicit DamagedLog(bool replicated = true)
      : LogFixture(LogConfig::forTest(), replicated),
        cleaner(*log, owner, replicated ? static_cast<Replicator&>(copies) : none),
        scrubber(*log) {
    observer.has_replicas = replicated;
    log->integrity().setObserver(&observer);
    for (int round = 0; round < 4; ++round) {
      for (int i = 0; i < 250; ++i) {
        if (round < 1 || i % 2 == 1) put("key" + std::to_string(i), std::to_string(i) + std::string(90, 'v'));
      }
    }
    roll();
  }
  ~DamagedLog() { log.reset(); }

  void put(const std::string& key, const std::string& value) {
    EXPECT_EQ(owner.put(*log, key, value), Status::Ok);
    model[key] = value;
  }
  void roll() {
    const SegmentId request = log->requestRoll();
    EXPECT_TRUE(log->isRolled(request));
    for (int i = 0; i < 4; ++i) reclaim();
  }
  void scrub() {
    while (scrubber.step(16 << 10) >= 16 << 10) {
    }
  }
  /// A whole pass from its beginning.
  void scrubAll() {
    scrub();
    scrub();
  }
  Segment& segmentOf(EntryRef ref) { return *log->pool().segmentOf(ref); }
  std::byte* at(EntryRef ref) { return memory->at(ref); }
  void flip(EntryRef ref, uint32_t bit) { at(ref)[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8)); }
  /// An entry of a closed segment that was overwritten.
  EntryRef someDead() {
    for (uint32_t i = 0; i < log->pool().slotCount(); ++i) {
      Segment& segment = log->pool().slot(i);
      if (segment.state() != SegmentState::Closed) continue;
      for (uint32_t offset = 0; offset < segment.committedBytes();) {
        const EntryRef ref = segment.refAt(offset);
        if (log->view(ref).state() == EntryState::Superseded) return ref;
        offset += log->view(ref).alignedBytes();
      }
    }
    ADD_FAILURE() << "nothing is dead";
    return {};
  }
  ByteSpan replicaFrom(const Damage& damage) {
    return ByteSpan(copies.replicas().at(damage.segment).bytes).subspan(damage.offset_bytes);
  }
  void restore(const Damage& damage) {
    EXPECT_EQ(log->integrity().restore(damage, replicaFrom(damage)), Status::Ok);
    EXPECT_FALSE(log->release(damage).has_died);
  }
  bool clean() {
    for (int i = 0; i < 10000; ++i) {
      const auto progress = cleaner.step(16 << 10);
      reclaim();
      if (progress == Cleaner::Progress::Idle) return false;
      if (!cleaner.isBusy()) return true;
      if (progress == Cleaner::Progress::Waiting && isBlocked()) return false;
    }
    ADD_FAILURE() << "a pass without end";
    return false;
  }
  bool isBlocked() const { return !log->integrity().damages().empty(); }
  void expectModel(const std::string& but = "") {
    for (const auto& [key, value] : model) {
      if (key != but) EXPECT_EQ(owner.get(key), value) << key;
    }
  }

  Cleaner cleaner;
  MemoryScrubber scrubber;
  NotingObserver observer;
  std::map<std::string, std::string> model;
};

TEST(EntryStates, DifferInFourBits) {
  for (const EntryState a : kStates) {
    EXPECT_TRUE(isKnown(a));
    for (const EntryState b : kStates) {
      if (a == b) continue;
      EXPECT_GE(std::popcount(static_cast<uint8_t>(static_cast<uint8_t>(a) ^ static_cast<uint8_t>(b))), 4);
    }
    for (int bit = 0; bit < 8; ++bit) {
      EXPECT_FALSE(isKnown(static_cast<EntryState>(static_cast<uint8_t>(a) ^ (1u << bit))));
    }
  }
}

TEST(Integrity, WhatIsSoundIsLeftAlone) {
  DamagedLog fixture;
  fixture.scrubAll();
  EXPECT_TRUE(fixture.observer.damages.empty());
  EXPECT_GT(fixture.log->stats().scrubbed_bytes.load(), 100'000u);
  EXPECT_EQ(fixture.log->stats().mended_states.load(), 0u);
}

/// Type, flags, lengths, table, checksum, version, key, payload: each bit alone.
TEST(Integrity, EveryBitIsFoundAndRestored) {
  DamagedLog fixture;
  const EntryRef ref = fixture.owner.refs().at("key0");
  ASSERT_EQ(fixture.segmentOf(ref).state(), SegmentState::Closed);
  const EntryView entry = fixture.log->view(ref);
  const std::vector<std::byte> before(entry.address(), entry.address() + entry.alignedBytes());
  const uint32_t bits = entry.bytes() * 8;
  ASSERT_LT(entry.bytes(), entry.alignedBytes()) << "there is no padding";
  for (uint32_t bit = 0; bit < bits && !testing::Test::HasFailure(); ++bit) {
    if (bit / 8 == offsetof(EntryHeader, state)) continue;
    SCOPED_TRACE("bit " + std::to_string(bit));
    fixture.flip(ref, bit);
    fixture.scrubAll();
    ASSERT_EQ(fixture.observer.damages.size(), 1u);
    const Damage damage = fixture.observer.damages[0];
    EXPECT_EQ(damage.ref, ref);
    EXPECT_EQ(damage.segment, fixture.segmentOf(ref).id());
    EXPECT_EQ(damage.offset_bytes, fixture.segmentOf(ref).offsetOf(ref));
    EXPECT_EQ(fixture.log->view(ref).state(), EntryState::Restoring);
    EXPECT_TRUE(fixture.segmentOf(ref).isDamaged());
    EXPECT_EQ(fixture.log->integrity().rangeStatus(), Status::RetryLater);
    fixture.restore(damage);
    EXPECT_TRUE(std::ranges::equal(before, ByteSpan(fixture.at(ref), before.size())));
    EXPECT_FALSE(fixture.segmentOf(ref).isDamaged());
    EXPECT_EQ(fixture.log->integrity().rangeStatus(), Status::Ok);
    fixture.observer.damages.clear();
  }
  fixture.scrubAll();
  EXPECT_TRUE(fixture.observer.damages.empty());
  EXPECT_EQ(fixture.log->stats().restored_entries.load(), bits - 8);
}

/// The replicas of the segment were made before: they hold more entries, and some that name segments which have gone
/// since.
TEST(Integrity, ACompactedSegmentIsRestoredFromALongerReplica) {
  DamagedLog fixture;
  SharedCopy copying(*fixture.log, fixture.owner, 1);
  std::vector<Segment*> cleanable;
  fixture.log->listCleanable(cleanable);
  std::set<SegmentId> compacted;
  for (Segment* const segment : cleanable) {
    if (segment->live().bytes() + 8192 > static_cast<int64_t>(segment->committedBytes())) continue;
    Compaction compaction(*fixture.log, copying);
    const SegmentId id = segment->id();
    ASSERT_TRUE(compaction.begin(std::span(&segment, 1)));
    for (int i = 0; i < 1000 && compaction.isBusy(); ++i) {
      compaction.step(16 << 10);
      fixture.reclaim();
    }
    ASSERT_FALSE(compaction.isBusy());
    ASSERT_LT(fixture.log->pool().find(id)->committedBytes(), fixture.copies.replicas().at(id).bytes.size());
    compacted.insert(id);
  }
  ASSERT_FALSE(compacted.empty());
  size_t restored = 0;
  for (const SegmentId id : compacted) {
    const Segment& segment = *fixture.log->pool().find(id);
    for (uint32_t offset = 0; offset < segment.committedBytes() && !testing::Test::HasFailure();) {
      const EntryRef ref = segment.refAt(offset);
      const EntryView entry = fixture.log->view(ref);
      const uint32_t bytes = entry.alignedBytes();
      const std::vector<std::byte> before(entry.address(), entry.address() + bytes);
      // Not a bit of the lengths: then the entries behind would not be found before the lengths are right again.
      fixture.flip(ref, (kEntryHeaderBytes + offset % (entry.bytes() - kEntryHeaderBytes)) * 8 + 3);
      fixture.scrubAll();
      ASSERT_EQ(fixture.observer.damages.size(), 1u);
      const Damage damage = fixture.observer.damages[0];
      EXPECT_EQ(damage.ref, ref);
      const ByteSpan replica = fixture.copies.replicas().at(id).bytes;
      EXPECT_EQ(fixture.log->integrity().restoreFrom(damage, replica), Status::Ok);
      EXPECT_FALSE(fixture.log->release(damage).has_died);
      EXPECT_TRUE(std::ranges::equal(before, ByteSpan(fixture.at(ref), bytes)));
      fixture.observer.damages.clear();
      offset += bytes;
      ++restored;
    }
  }
  EXPECT_GT(restored, 50u);
  fixture.expectModel();
}

/// Without replicas the damage stays, and a compaction that comes to it ends all the same.
TEST(Integrity, ACompactionLeavesDamageBehindWithoutReplicas) {
  DamagedLog fixture(false);
  SharedCopy copying(*fixture.log, fixture.owner, 1);
  std::vector<Segment*> cleanable;
  fixture.log->listCleanable(cleanable);
  ASSERT_FALSE(cleanable.empty());
  const EntryRef ref = fixture.owner.refs().at("key100");
  Segment* const one = &fixture.segmentOf(ref);
  ASSERT_EQ(one->state(), SegmentState::Closed);
  Compaction compaction(*fixture.log, copying);
  ASSERT_TRUE(compaction.begin(std::span(&one, 1)));
  fixture.flip(ref, (kEntryHeaderBytes + 12) * 8);
  for (int i = 0; i < 1000 && compaction.isBusy(); ++i) {
    compaction.step(1 << 10);
    fixture.reclaim();
  }
  EXPECT_FALSE(compaction.isBusy());
  EXPECT_TRUE(one->isDamaged());
  EXPECT_EQ(fixture.observer.damages.size(), 1u);
  fixture.expectModel("key100");
  // Tombstones of entries that die in the copy name the id that it has in common with the original. Nothing is counted
  // twice when the tombstones move.
  for (int i = 0; i < 250; ++i) {
    if (i != 100) EXPECT_EQ(fixture.owner.remove(*fixture.log, "key" + std::to_string(i)), Status::Ok);
  }
  fixture.roll();
  EXPECT_LT(fixture.log->stats().tombstone_bytes.load(), 1 << 20);
  for (int i = 0; i < 8; ++i) fixture.clean();
  EXPECT_GE(fixture.log->stats().tombstone_bytes.load(), 0);
  EXPECT_LT(fixture.log->stats().tombstone_bytes.load(), 1 << 20);
  EXPECT_GE(fixture.log->stats().live_bytes.load(), 0);
}

TEST(Integrity, PaddingAndStateAreMended) {
  DamagedLog fixture;
  const EntryRef ref = fixture.owner.refs().at("key0");
  const EntryView entry = fixture.log->view(ref);
  uint64_t mended = 0;
  for (uint32_t bit = entry.bytes() * 8; bit < entry.alignedBytes() * 8; ++bit) {
    fixture.flip(ref, bit);
    fixture.scrubAll();
    EXPECT_EQ(fixture.log->stats().mended_states.load(), ++mended);
  }
  for (uint32_t bit = 8; bit < 16; ++bit) {
    fixture.flip(ref, bit);
    EXPECT_NE(entry.state(), EntryState::Superseded);
    EXPECT_FALSE(isDamaged(entry.state()));
    fixture.scrubAll();
    EXPECT_EQ(fixture.log->stats().mended_states.load(), ++mended);
    EXPECT_EQ(entry.state(), EntryState::Pending);
  }
  EXPECT_TRUE(fixture.observer.damages.empty());
}

/// A flipped bit of the state byte must not pass for a death: the cleaner would leave a live entry behind.
TEST(Integrity, AFlippedStateKeepsAnEntryAlive) {
  for (uint32_t bit = 8; bit < 16 && !testing::Test::HasFailure(); ++bit) {
    DamagedLog fixture;
    for (const auto& [key, ref] : fixture.owner.refs()) fixture.flip(ref, bit);
    while (fixture.clean()) {
    }
    EXPECT_GT(fixture.log->stats().segments_cleaned.load(), 0u);
    fixture.expectModel();
  }
}

/// The entries behind a damaged one are verified when its lengths are right again.
TEST(Integrity, AWrongLengthHidesNothingForGood) {
  DamagedLog fixture;
  const EntryRef first = fixture.owner.refs().at("key0");
  const EntryRef second = fixture.owner.refs().at("key2");
  ASSERT_EQ(&fixture.segmentOf(first), &fixture.segmentOf(second));
  fixture.flip(first, offsetof(EntryHeader, payload_bytes) * 8 + 9);
  fixture.flip(second, 500);
  fixture.scrubAll();
  ASSERT_FALSE(fixture.observer.damages.empty());
  EXPECT_EQ(fixture.observer.damages[0].ref, first);
  for (size_t i = 0; i < fixture.observer.damages.size(); ++i) {
    fixture.restore(fixture.observer.damages[i]);
    fixture.scrubAll();
  }
  EXPECT_EQ(fixture.observer.damages.size(), 2u);
  fixture.expectModel();
}

/// No lookup leads to an entry that the cleaner has dealt with, so no range lacks it.
TEST(Integrity, WhatIsFreedIsNotMissed) {
  DamagedLog fixture;
  const EntryRef ref = fixture.owner.refs().at("key0");
  for (const EntryState state : {EntryState::Freed, EntryState::Superseded, EntryState::Pending}) {
    fixture.memory->at(ref)[1] = static_cast<std::byte>(state);
    fixture.flip(ref, offsetof(EntryHeader, key_bytes) * 8 + 1);
    fixture.scrubAll();
    const Damage damage = fixture.observer.damages.back();
    EXPECT_EQ(damage.was_dead, state != EntryState::Pending);
    fixture.log->integrity().giveUp(damage);
    EXPECT_EQ(fixture.log->integrity().rangeStatus(), damage.was_dead ? Status::Ok : Status::Corrupt);
    fixture.restore(damage);
  }
  EXPECT_EQ(fixture.observer.damages.size(), 3u);
}

TEST(Integrity, GarbageIsRestoredToo) {
  DamagedLog fixture;
  const EntryRef dead = fixture.someDead();
  fixture.flip(dead, offsetof(EntryHeader, key_bytes) * 8 + 1);
  fixture.scrubAll();
  ASSERT_EQ(fixture.observer.damages.size(), 1u);
  EXPECT_TRUE(fixture.observer.damages[0].was_dead);
  fixture.restore(fixture.observer.damages[0]);
  while (fixture.clean()) {
  }
  fixture.expectModel();
  EXPECT_EQ(recover(fixture.copies.replicas()), fixture.model);
}

/// The cleaner comes before the scrubber.
TEST(Integrity, ACleanerWaitsForReplicas) {
  for (const uint32_t bit :
       {uint32_t{0}, uint32_t{5 * 8 + 1}, uint32_t{2 * 8 + 3}, uint32_t{12 * 8}, uint32_t{60 * 8}}) {
    SCOPED_TRACE("bit " + std::to_string(bit));
    DamagedLog fixture;
    const EntryRef ref = fixture.owner.refs().at("key0");
    fixture.flip(ref, bit);
    while (fixture.clean()) {
    }
    ASSERT_EQ(fixture.observer.damages.size(), 1u);
    EXPECT_EQ(fixture.observer.damages[0].ref, ref);
    EXPECT_EQ(fixture.owner.refs().at("key0"), ref) << "it was moved as it is";
    EXPECT_EQ(fixture.cleaner.step(1 << 16), Cleaner::Progress::Waiting);
    fixture.restore(fixture.observer.damages[0]);
    while (fixture.clean()) {
    }
    EXPECT_NE(fixture.owner.refs().at("key0"), ref);
    fixture.expectModel();
    EXPECT_EQ(recover(fixture.copies.replicas()), fixture.model);
  }
}

/// The owner still has to decide what becomes of the restored entry, which it knows by its place.
TEST(Integrity, APassDoesNotMoveWhatIsRestoredBeforeItIsUnmarked) {
  DamagedLog fixture;
  const EntryRef ref = fixture.owner.refs().at("key0");
  fixture.flip(ref, 60 * 8);
  while (fixture.clean()) {
  }
  ASSERT_EQ(fixture.observer.damages.size(), 1u);
  const Damage damage = fixture.observer.damages[0];
  ASSERT_EQ(damage.ref, ref);
  ASSERT_TRUE(fixture.cleaner.isBusy());
  ASSERT_EQ(fixture.log->integrity().restore(damage, fixture.replicaFrom(damage)), Status::Ok);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(fixture.cleaner.step(1 << 16), Cleaner::Progress::Waiting);
    fixture.reclaim();
  }
  EXPECT_EQ(fixture.owner.refs().at("key0"), ref) << "it was moved under its mark";
  EXPECT_FALSE(fixture.log->release(damage).has_died);
  while (fixture.clean()) {
  }
  EXPECT_NE(fixture.owner.refs().at("key0"), ref) << "it was left behind";
  fixture.expectModel();
  EXPECT_EQ(recover(fixture.copies.replicas()), fixture.model);
}

TEST(Integrity, ACompactionDoesNotMoveWhatIsRestoredBeforeItIsUnmarked) {
  DamagedLog fixture;
  SharedCopy copying(*fixture.log, fixture.owner, 1);
  const EntryRef ref = fixture.owner.refs().at("key100");
  Segment* const one = &fixture.segmentOf(ref);
  ASSERT_EQ(one->state(), SegmentState::Closed);
  Compaction compaction(*fixture.log, copying);
  ASSERT_TRUE(compaction.begin(std::span(&one, 1)));
  fixture.flip(ref, (kEntryHeaderBytes + 12) * 8);
  const auto step = [&](int count) {
    for (int i = 0; i < count && compaction.isBusy(); ++i) {
      compaction.step(1 << 10);
      fixture.reclaim();
    }
  };
  step(1000);
  ASSERT_EQ(fixture.observer.damages.size(), 1u);
  const Damage damage = fixture.observer.damages[0];
  ASSERT_EQ(fixture.log->integrity().restore(damage, fixture.replicaFrom(damage)), Status::Ok);
  step(1000);
  EXPECT_TRUE(compaction.isBusy());
  EXPECT_EQ(fixture.owner.refs().at("key100"), ref) << "it was moved under its mark";
  EXPECT_FALSE(fixture.log->release(damage).has_died);
  step(1000);
  EXPECT_FALSE(compaction.isBusy());
  EXPECT_NE(fixture.owner.refs().at("key100"), ref) << "it was left behind";
  fixture.expectModel();
  EXPECT_EQ(recover(fixture.copies.replicas()), fixture.model);
}

TEST(Integrity, AKnownDamageIsNotCleaned) {
  DamagedLog fixture;
  const EntryRef ref = fixture.owner.refs().at("key0");
  fixture.flip(ref, 400);
  fixture.scrubAll();
  while (!fixture.cleaner.isBusy() && fixture.cleaner.step(1 << 16) != Cleaner::Progress::Idle) {
  }
  std::vector<Segment*> cleanable;
  fixture.log->listCleanable(cleanable);
  EXPECT_EQ(std::ranges::count(cleanable, &fixture.segmentOf(ref)), 0);
}

TEST(Integrity, WithoutReplicasACleanerLeavesItBehind) {
  for (const uint32_t bit :
       {uint32_t{0}, uint32_t{4 * 8 + 3}, uint32_t{5 * 8 + 1}, uint32_t{12 * 8}, uint32_t{60 * 8}}) {
    SCOPED_TRACE("bit " + std::to_string(bit));
    DamagedLog fixture(false);
    const EntryRef ref = fixture.owner.refs().at("key100");
    const SegmentId in = fixture.segmentOf(ref).id();
    fixture.flip(ref, bit);
    for (int i = 0; i < 100; ++i) {
      while (fixture.clean()) {
      }
      for (int k = 1; k < 60; k += 2) fixture.put("key" + std::to_string(k), std::string(90, 'w'));
      fixture.roll();
    }
    EXPECT_GT(fixture.log->stats().segments_cleaned.load(), 10u);
    EXPECT_EQ(fixture.owner.refs().at("key100"), ref);
    EXPECT_EQ(fixture.segmentOf(ref).id(), in);
    EXPECT_EQ(fixture.log->view(ref).state(), EntryState::Damaged);
    EXPECT_FALSE(fixture.log->view(ref).verify()) << "it has a fresh checksum";
    EXPECT_EQ(fixture.log->integrity().rangeStatus(), Status::Corrupt);
    fixture.expectModel("key100");
  }
}

TEST(Integrity, OtherBytesAreRefused) {
  DamagedLog fixture;
  const EntryRef ref = fixture.owner.refs().at("key0");
  const uint32_t bytes = fixture.log->view(ref).alignedBytes();
  fixture.flip(ref, 500);
  fixture.scrubAll();
  ASSERT_EQ(fixture.observer.damages.size(), 1u);
  const Damage damage = fixture.observer.damages[0];
  const ByteSpan right = fixture.replicaFrom(damage);
  Integrity& integrity = fixture.log->integrity();
  EXPECT_EQ(integrity.restore(damage, {}), Status::Corrupt);
  EXPECT_EQ(integrity.restore(damage, right.first(bytes - 8)), Status::Corrupt);
  EXPECT_EQ(integrity.restore(damage, right.subspan(bytes)), Status::Corrupt) << "a valid entry, but another one";
  std::vector<std::byte> large(7000);
  const std::vector<std::byte> zeros(6900);
  const ByteSpan payload(zeros);
  writeEntry(large.data(),
             {.table = TableId(1), .version = 1, .key = asBytes("key0"), .payload = std::span(&payload, 1)}, false, {});
  EXPECT_EQ(integrity.restore(damage, large), Status::Corrupt);
  std::vector<std::byte> wrong(right.begin(), right.end());
  for (uint32_t bit = 0; bit < bytes * 8; ++bit) {
    if (bit / 8 == offsetof(EntryHeader, state)) continue;
    wrong[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_EQ(integrity.restore(damage, wrong), Status::Corrupt) << "bit " << bit;
    wrong[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
  EXPECT_EQ(integrity.restore({.segment = SegmentId(999), .ref = ref}, right), Status::NotFound);
  fixture.restore(damage);
  fixture.expectModel();
}

/// The bytes have the right checksum, but are longer than what is left of the extent.
TEST(Integrity, NothingIsWrittenBehindTheExtent) {
  DamagedLog fixture;
  EntryRef last;
  for (const auto& [key, ref] : fixture.owner.refs()) {
    const Segment& segment = fixture.segmentOf(ref);
    if (segment.state() != SegmentState::Closed) continue;
    if (segment.restOfExtent(segment.offsetOf(ref)).size() < 2000) last = ref;
  }
  ASSERT_TRUE(last);
  std::vector<std::byte> large(4000);
  const std::vector<std::byte> zeros(3500);
  const ByteSpan value(zeros);
  writeEntry(large.data(), {.table = TableId(1), .version = 1, .key = asBytes("key0"), .payload = std::span(&value, 1)},
             false, {});
  std::memcpy(fixture.at(last) + offsetof(EntryHeader, crc), large.data() + offsetof(EntryHeader, crc), 4);
  fixture.scrubAll();
  ASSERT_EQ(fixture.observer.damages.size(), 1u);
  ASSERT_EQ(fixture.observer.damages[0].ref, last);
  EXPECT_EQ(fixture.log->integrity().restore(fixture.observer.damages[0], large), Status::Corrupt);
}

// A compacted segment keeps its id, and here its slot as well, but its entries lie elsewhere. If the scrubber went on
// in the middle of one, it would mark it as damaged.
TEST(Integrity, ASegmentThatIsCompactedBetweenStepsIsBegunAgain) {
  for (uint32_t first = 0; first < 130'000 && !testing::Test::HasFailure(); first += 3001) {
    DamagedLog fixture;
    const auto key = [](int i) { return "key" + std::to_string(i); };
    for (int i = 0; i < 300; ++i) fixture.put(key(i < 100 ? i % 5 : i - 100), std::string(80 + i % 64, 'w'));
    Segment* segment = &fixture.segmentOf(fixture.owner.refs().at(key(150)));
    const SegmentId id = segment->id();
    const uint32_t slot = segment->slot();
    fixture.roll();
    ASSERT_EQ(segment->state(), SegmentState::Closed);
    fixture.scrubber.step(first);
    SharedCopy copying(*fixture.log, fixture.owner, 1);
    for (int round = 0; round < 2; ++round) {
      Compaction compaction(*fixture.log, copying);
      ASSERT_TRUE(compaction.begin(std::span(&segment, 1)));
      for (int i = 0; i < 1000 && compaction.isBusy(); ++i) {
        compaction.step(16 << 10);
        fixture.reclaim();
      }
      segment = fixture.log->pool().find(id);
      for (int i = 0; i < 100; ++i) fixture.put(key(i), "newer");
    }
    ASSERT_EQ(segment->slot(), slot);
    ASSERT_EQ(segment->compactionCount(), 2u);
    fixture.scrubAll();
    EXPECT_TRUE(fixture.observer.damages.empty()) << "after " << first << " bytes";
    fixture.expectModel();
  }
}

TEST(Integrity, ReplicasOfHostileBackupsHarmNobody) {
  DamagedLog fixture;
  const EntryRef ref = fixture.owner.refs().at("key1");
  fixture.flip(ref, 500);
  fixture.scrubAll();
  const Damage damage = fixture.observer.damages.at(0);
  // The version is 0: there is none before it that a tombstone could name.
  const ByteSpan value = asBytes("value");
  const EntryInput input{
      .type = EntryType::Object, .table = TableId(1), .key = asBytes("key1"), .payload = std::span(&value, 1)};
  std::vector<std::byte> replica(alignedEntryBytes(4, 5, false, true));
  writeEntry(replica.data(), input, false, SegmentId(3));
  EXPECT_EQ(fixture.log->integrity().restoreFrom(damage, replica), Status::Corrupt);
  EXPECT_EQ(fixture.log->integrity().restoreFrom(damage, {}), Status::Corrupt);
}

// The object names the segment of the version before it, so a tombstone becomes due when it dies.
TEST(Integrity, TheDeathOfWhatNamesASegmentIsCountedOnce) {
  DamagedLog fixture;
  const EntryRef ref = fixture.owner.refs().at("key1");
  ASSERT_TRUE(fixture.log->view(ref).namesSegment());
  fixture.flip(ref, offsetof(EntryHeader, key_bytes) * 8 + 9);
  fixture.scrubAll();
  const Damage damage = fixture.observer.damages.at(0);
  const LogStats& stats = fixture.log->stats();
  const int64_t live = stats.live_bytes.load();
  const int64_t succeeded = stats.succeeded_bytes.load();
  const int64_t tombstones = stats.tombstone_bytes.load();
  fixture.log->markDead(ref);
  EXPECT_EQ(stats.live_bytes.load(), live);
  EXPECT_EQ(stats.succeeded_bytes.load(), succeeded);
  EXPECT_EQ(stats.tombstone_bytes.load(), tombstones);
  EXPECT_EQ(fixture.log->integrity().restore(damage, fixture.replicaFrom(damage)), Status::Ok);
  ASSERT_TRUE(fixture.log->release(damage).has_died);
  const int64_t due = alignedTombstoneBytes(4);
  const int64_t bytes = fixture.log->view(ref).alignedBytes();
  EXPECT_EQ(stats.tombstone_bytes.load(), tombstones + due);
  EXPECT_EQ(stats.succeeded_bytes.load(), succeeded - due);
  EXPECT_EQ(stats.live_bytes.load(), live - bytes + due);
}

/// The lengths of the entry are wrong when it dies: live bytes are counted by the right ones.
TEST(Integrity, ADeathInBetweenIsCountedOnce) {
  DamagedLog fixture;
  const EntryRef ref = fixture.owner.refs().at("key0");
  const int64_t bytes = fixture.log->view(ref).alignedBytes();
  fixture.flip(ref, offsetof(EntryHeader, payload_bytes) * 8 + 9);
  fixture.scrubAll();
  const Damage damage = fixture.observer.damages.at(0);
  const int64_t before = fixture.log->stats().live_bytes.load();
  fixture.log->markDead(ref);
  EXPECT_EQ(fixture.log->stats().live_bytes.load(), before);
  EXPECT_EQ(fixture.log->integrity().restore(damage, fixture.replicaFrom(damage)), Status::Ok);
  ASSERT_TRUE(fixture.log->release(damage).has_died);
  EXPECT_EQ(fixture.log->stats().live_bytes.load(), before - bytes);
  EXPECT_EQ(fixture.log->view(ref).state(), EntryState::Superseded);
}

/// What is noted of an entry that has gone does not hold for another entry that lies in its place.
TEST(Integrity, WhatLayThereBeforeIsAnotherOne) {
  DamagedLog fixture;
  const EntryRef ref = fixture.owner.refs().at("key0");
  fixture.flip(ref, 500);
  fixture.scrubAll();
  Integrity& integrity = fixture.log->integrity();
  const Damage damage = fixture.observer.damages.at(0);
  Damage gone = damage;
  gone.segment = SegmentId(damage.segment.value + 1000);
  integrity.giveUp(gone);
  EXPECT_EQ(fixture.log->view(ref).state(), EntryState::Restoring);
  EXPECT_EQ(integrity.rangeStatus(), Status::RetryLater);
  integrity.giveUp(damage);
  integrity.notePlaced(gone);
  EXPECT_EQ(integrity.rangeStatus(), Status::Corrupt);
  fixture.log->markDead(ref);
  EXPECT_FALSE(integrity.isRestored(gone));
  EXPECT_FALSE(fixture.log->release(gone).has_died) << "somebody else's death";
  EXPECT_EQ(fixture.log->view(ref).state(), EntryState::Damaged);
  EXPECT_TRUE(fixture.segmentOf(ref).isDamaged());
  EXPECT_EQ(fixture.log->stats().restored_entries.load(), 0u);
  EXPECT_FALSE(integrity.isRestored(damage));
  ASSERT_EQ(integrity.restore(damage, fixture.replicaFrom(damage)), Status::Ok);
  EXPECT_TRUE(integrity.isRestored(damage));
  EXPECT_TRUE(fixture.log->release(damage).has_died);
  EXPECT_EQ(fixture.log->stats().restored_entries.load(), 1u);
}

TEST(Integrity, WhatIsGivenUpMayComeBack) {
  DamagedLog fixture;
  const EntryRef ref = fixture.owner.refs().at("key0");
  fixture.flip(ref, 500);
  fixture.scrubAll();
  const Damage damage = fixture.observer.damages.at(0);
  fixture.log->integrity().giveUp(damage);
  EXPECT_EQ(fixture.log->view(ref).state(), EntryState::Damaged);
  EXPECT_EQ(fixture.log->integrity().rangeStatus(), Status::Corrupt);
  fixture.log->integrity().notePlaced(damage);
  EXPECT_EQ(fixture.log->integrity().rangeStatus(), Status::Ok);
  EXPECT_EQ(fixture.log->stats().damaged_now.load(), 1u);
  fixture.restore(damage);
  EXPECT_EQ(fixture.log->stats().damaged_now.load(), 0u);
  fixture.expectModel();
}

}  // namespace
}  // namespace ramcore::log
