/// The two servers of a tablet that is being handed over when one of them dies, command by command: the other one
/// replays the dead one's log over its own.
#include "sim/recovery_fixture.h"

namespace ramcore::sim::raw {
namespace {

/// Server 0 is the former owner, server 1 the new one; server 2 has nothing to do with it.
class MasterHandOverTest : public MasterRecoveryTest {
 protected:
  MasterHandOverTest() {
    world.addServer();
    addBackup();
  }

  void fill(uint64_t from, uint64_t to, const char* value, size_t server = 0, uint64_t epoch = 1) {
    for (uint64_t number = from; number < to; ++number) put(number, value, server, epoch);
  }
  void removeAll(uint64_t from, uint64_t to, size_t server, uint64_t epoch) {
    for (uint64_t number = from; number < to; ++number) {
      const Answer answer = remove(keyOf(number), nextSequence(1), {.client = 1, .epoch = epoch, .server = server});
      ASSERT_EQ(answer.status, Status::Ok);
      model.erase(keyOf(number));
    }
  }
  /// The tablet is the new owner's, which answers; its contents arrive.
  void handOverAndServe() {
    ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, 1, 0));
    ASSERT_EQ(lend(1, 1, 0), Status::Ok);
    ASSERT_EQ(takeArriving(1, 0, kLast, 2, 1), Status::Ok);
  }
  /// Nothing comes from the former owner any more.
  void cut() { world.network.partition("server1", "server2"); }
  SegmentId firstSegment(size_t server) { return world.servers[server]->master().tablets().get(TabletId(1))->first_segment; }

  /// The backup has the log of this server, which is as good as dead.
  void keepLogOf(size_t server) {
    log = copyLog(world.servers[server]->master());
    backups.back()->segments = log;
  }
  /// Recovers the tablet under an epoch, from the log of `dead`, at a server that has a part of the contents.
  Status recoverOver(size_t dead, size_t survivor, uint64_t epoch) {
    control::RecoverTabletsRequest ask = request();
    ask.set_dead(world.addresses[dead].id);
    ask.set_survivor(true);
    addTablet(ask, 1, 0, kLast, epoch, firstSegment(dead).value);
    ask.mutable_tablets(0)->mutable_logs(1)->set_server(world.addresses[dead].id);
    Status status = Status::RetryLater;
    for (int i = 0; i < 10'000 && status == Status::RetryLater; ++i) {
      status = recover(ask, survivor);
      world.runFor(kNanosPerMilli);
    }
    return status;
  }
  void expectAll(size_t server, uint64_t epoch) {
    for (const auto& [key, highest_version] : highest) {
      const Answer found = read(key, epoch, server);
      const auto there = model.find(key);
      EXPECT_EQ(found.status, there == model.end() ? Status::NotFound : Status::Ok) << key;
      if (there == model.end()) continue;
      EXPECT_EQ(found.version, there->second.version) << key;
      EXPECT_EQ(found.value, there->second.value) << key;
    }
  }
};

TEST_F(MasterHandOverTest, TheNewOwnerReplaysTheFormerOnesLogOverWhatItHas) {
  fill(0, 300, "old");
  removeAll(0, 20, 0, 1);
  // The source is cut off before anything but a few keys has come.
  ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, 1, 0));
  ASSERT_EQ(lend(1, 1, 0), Status::Ok);
  ASSERT_EQ(takeArriving(1, 0, kLast, 2, 1), Status::Ok);
  put(30, "written by the new owner", 1, 2);
  removeAll(40, 45, 1, 2);
  cut();
  keepLogOf(0);
  ASSERT_EQ(recoverOver(0, 1, 3), Status::Ok);
  ASSERT_EQ(pullEnd(1, 1).status(), 0u);
  EXPECT_EQ(world.servers[1]->master().tablets().get(TabletId(1))->epoch, TabletEpoch(2)) << "until it is granted";
  ASSERT_EQ(take(1, 0, kLast, 3, 1, false), Status::Ok);
  ASSERT_EQ(take(1, 0, kLast, 3, 1, false), Status::Ok) << "repeated";
  expectAll(1, 3);
  world.runFor(kNanosPerSecond);
  expectAll(1, 3);
  expectOwnLogSaysTheSame(1);
}

TEST_F(MasterHandOverTest, WhatHasNotArrivedIsClosedWhileTheLogIsReplayed) {
  fill(0, 300, "old");
  fill(0, 300, "new");
  ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, 1, 0));
  ASSERT_EQ(lend(1, 1, 0), Status::Ok);
  cut();
  ASSERT_EQ(takeArriving(1, 0, kLast, 2, 1), Status::Ok);
  keepLogOf(0);
  ASSERT_EQ(recoverOver(0, 1, 3), Status::Ok);
  // Old versions come and go in the index meanwhile.
  for (int i = 0; i < 200; ++i) {
    const Answer found = read(keyOf(static_cast<uint64_t>(i)), 2, 1);
    EXPECT_TRUE(found.status == Status::RetryLater || found.value == "new") << i << ": " << found.value;
  }
  ASSERT_EQ(pullEnd(1, 1).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, 3, 1, false), Status::Ok);
  expectAll(1, 3);
}

TEST_F(MasterHandOverTest, TheFormerOwnerReplaysTheNewOnesLogOverWhatItHas) {
  fill(0, 300, "old");
  removeAll(0, 20, 0, 1);
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  fill(20, 60, "written by the new owner", 1, 2);
  fill(300, 320, "new", 1, 2);
  removeAll(60, 100, 1, 2);
  removeAll(300, 305, 1, 2);
  keepLogOf(1);
  ASSERT_EQ(recoverOver(1, 0, 3), Status::Ok);
  ASSERT_EQ(pullEnd(1, 0).status(), 0u);
  EXPECT_EQ(read(keyOf(200), 1, 0).status, Status::WrongServer) << "until it is granted";
  ASSERT_EQ(take(1, 0, kLast, 3, 0, false), Status::Ok);
  expectAll(0, 3);
  expectOwnLogSaysTheSame(0);
}

TEST_F(MasterHandOverTest, ASurvivorKeepsWhatItHasWhenAnAttemptIsGivenUp) {
  fill(0, 100, "old");
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  fill(0, 10, "written by the new owner", 1, 2);
  keepLogOf(1);
  backups.back()->refuse = [](const wire::ReadReplica::Request&) { return Status::RetryLater; };
  ASSERT_EQ(recoverOver(1, 0, 3), Status::Ok);
  world.runFor(100 * kNanosPerMilli);
  control::DropTabletRequest give_up;
  give_up.set_tablet(1);
  give_up.set_epoch(3);
  give_up.set_keeps_tablet(true);
  ASSERT_EQ(world.command(Opcode::DropTablet, give_up, 0)->outcome(), Status::Ok);
  EXPECT_EQ(world.servers[0]->master().index().entryCount(), 100u);
  backups.back()->refuse = {};
  EXPECT_EQ(recoverOver(1, 0, 3), Status::StaleEpoch) << "a late copy of the order";
  ASSERT_EQ(recoverOver(1, 0, 4), Status::Ok);
  ASSERT_EQ(pullEnd(1, 0).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, 4, 0, false), Status::Ok);
  expectAll(0, 4);
}

TEST_F(MasterHandOverTest, IfBothAreDeadBothLogsAreReplayedTogether) {
  fill(0, 200, "old");
  removeAll(0, 20, 0, 1);
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  fill(20, 60, "written by the new owner", 1, 2);
  removeAll(60, 100, 1, 2);
  // Segments of both logs have the same numbers: each has a backup of its own.
  const auto former = copyLog(world.servers[0]->master());
  const auto present = copyLog(world.servers[1]->master());
  log = former;
  backups.back()->segments = former;
  control::RecoverTabletsRequest ask = request();
  addTablet(ask, 1, 0, kLast, 3, firstSegment(0).value);
  control::LogRef& second_log = *ask.mutable_tablets(0)->mutable_logs(0);
  second_log.set_server(world.addresses[1].id);
  second_log.set_first_segment(firstSegment(1).value);
  log = present;
  addBackup();
  control::DeadLog& second = *ask.mutable_second();
  second.set_dead(world.addresses[1].id);
  control::ReplicaHolder& holder = *second.add_holders();
  holder.set_id(backups.back()->process.identity.id);
  holder.add_locators(backups.back()->process.locator().toString());
  for (const auto& [id, bytes] : present) {
    control::RecoverySegment& segment = *second.add_segments();
    segment.set_segment(id);
    segment.add_holders(0);
    segment.add_replicas()->set_length_bytes(static_cast<uint32_t>(bytes.size()));
  }
  ASSERT_EQ(recover(ask, 2), Status::Ok);
  ASSERT_EQ(pullEnd(1, 2).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, 3, 2, false), Status::Ok);
  expectAll(2, 3);
  expectOwnLogSaysTheSame(2);
}

/// An overwritten key has a version above those of new keys. If versions began below it at the new owner, a new object
/// there would lose to an older one that arrives after it.
TEST_F(MasterHandOverTest, VersionsOfTheNewOwnerBeginAboveAllOfTheFormerOne) {
  for (int i = 0; i < 20; ++i) put(1, "again", 0, 1);
  const Version former = model.at(keyOf(1)).version;
  ASSERT_GE(former, 20u);
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  put(2, "new", 1, 2);
  EXPECT_GT(model.at(keyOf(2)).version, former);
}

}  // namespace
}  // namespace ramcore::sim::raw
