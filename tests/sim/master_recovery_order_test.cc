/// A recovery of logs that are written by hand, each with one key: what is dead stays so whatever comes when, and no
/// longer than necessary is kept of what tombstones said. Segments are replayed newest first.
#include <gtest/gtest.h>

#include "log/format/entry_writer.h"
#include "sim/recovery_fixture.h"

namespace ramcore::sim::raw {
namespace {

class MasterRecoveryOrderTest : public MasterRecoveryTest {
 protected:
  static constexpr uint64_t kMany = 5000;

  /// The segments begin with the header of the dead server's head, whatever their ids are; nobody looks at it here.
  void SetUp() override {
    put(1, "value");
    die();
    const log::EntryView header(log.begin()->second.data());
    header_.assign(header.address(), header.address() + header.alignedBytes());
    log.clear();
  }
  /// @param named  0: names no segment, and is an object
  void add(uint64_t segment, log::EntryType type, uint64_t number, Version version, uint64_t named) {
    const std::string key = keyOf(number);
    const std::string value = "version " + std::to_string(version);
    const ByteSpan payload = asBytes(value);
    log::EntryInput entry;
    entry.type = type;
    entry.table = TableId(kTable);
    entry.version = version;
    entry.key = asBytes(key);
    if (type == log::EntryType::Object) entry.payload = std::span(&payload, 1);
    if (named != 0) entry.dead = log::EntryRef::fromOffset(log::EntryRef::kFirstBytes);
    auto& bytes = log[segment];
    if (bytes.empty()) bytes = header_;
    const size_t at = bytes.size();
    bytes.resize(at + entry.alignedBytes());
    log::writeEntry(bytes.data() + at, entry, false, SegmentId(named));
  }
  void object(uint64_t segment, Version version, uint64_t named = 0, uint64_t number = 1) {
    add(segment, log::EntryType::Object, number, version, named);
  }
  void tombstone(uint64_t segment, Version version, uint64_t named, uint64_t number = 1) {
    add(segment, log::EntryType::Tombstone, number, version, named);
  }
  void recoverIt() {
    addBackup();
    ASSERT_EQ(recoverAll(2), Status::Ok);
    ASSERT_EQ(take(5, 0, kLast, 2, 1, false), Status::Ok);
  }
  const master::RecoveryTarget::Stats& notes() { return world.servers[1]->master().recoveryTarget()->stats(); }
  void expectGone() {
    EXPECT_EQ(read(keyOf(1), 2, 1).status, Status::NotFound) << "it came back: " << read(keyOf(1), 2, 1).value;
    EXPECT_EQ(world.servers[1]->master().index().entryCount(), 0u);
    expectOwnLogSaysTheSame(1);
  }
  void expectThere(Version version) {
    EXPECT_EQ(read(keyOf(1), 2, 1).value, "version " + std::to_string(version));
    expectOwnLogSaysTheSame(1);
  }

 private:
  std::vector<std::byte> header_;
};

TEST_F(MasterRecoveryOrderTest, WhatWasRemovedStaysRemoved) {
  object(10, 5);
  tombstone(20, 5, 10);
  recoverIt();
  expectGone();
}

TEST_F(MasterRecoveryOrderTest, WhatWasRemovedInTheSameSegmentStaysRemoved) {
  object(10, 5);
  tombstone(10, 5, 10);
  recoverIt();
  expectGone();
}

/// The older version is held down by the newer one alone, which is dead itself and left out.
TEST_F(MasterRecoveryOrderTest, WhatAnOverwriteReplacedStaysDeadWhenThatIsLeftOut) {
  object(10, 5);
  object(20, 6, 10);
  tombstone(30, 6, 20);
  recoverIt();
  expectGone();
}

TEST_F(MasterRecoveryOrderTest, SoThroughAnyNumberOfOverwrites) {
  object(10, 5);
  object(20, 6, 10);
  object(30, 7, 20);
  object(40, 8, 30);
  tombstone(50, 8, 40);
  recoverIt();
  expectGone();
}

/// Of a dead object that named a segment the cleaner has left a tombstone.
TEST_F(MasterRecoveryOrderTest, SoByTheTombstoneThatTheCleanerHasMadeOfTheOverwrite) {
  object(10, 5);
  tombstone(50, 6, 20);
  tombstone(60, 5, 10);
  recoverIt();
  expectGone();
}

/// A pass was copying segment 10 to 20 when the server died: both have the object, the index had that in 20, and no
/// digest lists 20 yet.
TEST_F(MasterRecoveryOrderTest, WhatWasRemovedWhileItWasCopiedStaysRemoved) {
  object(10, 5);
  tombstone(30, 5, 20);
  recoverIt();
  expectGone();
}

TEST_F(MasterRecoveryOrderTest, WhatWasReplacedWhileItWasCopiedStaysDead) {
  object(10, 5);
  object(30, 6, 20);
  tombstone(40, 6, 30);
  recoverIt();
  expectGone();
}

/// Survivor 30 is newer than head 20, in which its object was removed: that comes first, and with it goes what it held
/// down.
TEST_F(MasterRecoveryOrderTest, WhatAnObjectHeldDownThatIsTakenOutStaysDead) {
  object(10, 5);
  tombstone(20, 6, 30);
  object(30, 6, 10);
  recoverIt();
  expectGone();
}

TEST_F(MasterRecoveryOrderTest, WhatWasWrittenAgainIsThere) {
  object(10, 5);
  object(20, 6, 10);
  tombstone(30, 6, 20);
  object(40, 9);
  recoverIt();
  expectThere(9);
}

TEST_F(MasterRecoveryOrderTest, WhatWasWrittenAgainBeforeTheTombstoneIsThere) {
  object(10, 5);
  object(15, 9);  // a survivor that is older than the one with the tombstone
  tombstone(20, 5, 10);
  recoverIt();
  expectThere(9);
}

/// Notes that wait for a segment are forgotten when it has been replayed, so each segment may be replayed only once.
TEST_F(MasterRecoveryOrderTest, APlanThatHasASegmentTwiceIsRefused) {
  object(10, 5);
  tombstone(20, 5, 10);
  addBackup();
  control::RecoverTabletsRequest ask = wholeTable(2);
  *ask.add_segments() = control::RecoverySegment(ask.segments(0));
  EXPECT_EQ(recover(ask), Status::BadRequest);
}

TEST_F(MasterRecoveryOrderTest, NothingIsKeptOfTombstonesWhoseSegmentsWereReplayed) {
  object(40, 5);
  for (uint64_t number = 2; number < kMany; ++number) tombstone(20, 10 + number, 40, number);
  recoverIt();
  EXPECT_EQ(notes().notes_bytes_max.load(), 0u);
  EXPECT_GT(notes().replayed_bytes.load(), kMany * 32);
  expectThere(5);
}

TEST_F(MasterRecoveryOrderTest, OfTombstonesWhoseSegmentsAreToComeALittleIsKeptUntilThen) {
  for (uint64_t number = 2; number < kMany; ++number) object(10, 10 + number, 0, number);
  for (uint64_t number = 2; number < kMany; ++number) tombstone(20, 10 + number, 10, number);
  recoverIt();
  EXPECT_GE(notes().notes_bytes_max.load(), (kMany - 2) * 24);
  // Beside what the smallest tables take.
  EXPECT_LE(notes().notes_bytes_max.load(), kMany * 38 + 64 * 16 * 24);
  EXPECT_EQ(notes().notes_bytes.load(), 0u);
  EXPECT_EQ(world.servers[1]->master().index().entryCount(), 0u);
}

}  // namespace
}  // namespace ramcore::sim::raw
