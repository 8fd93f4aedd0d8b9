// A coordinator whose state is an older copy serves no process as soon as a server names a change that it lacks.
#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "coordinator/state/change_history.h"
#include "unit/coordinator/coordinator_service_fixture.h"

namespace ramcore::coordinator {
namespace {

class CoordinatorBehind : public CoordinatorServiceBench {};

// A coordinator that serves with an older copy of the state gives away what others have.
TEST_F(CoordinatorBehind, ServesNobodyOnceAServerHasHeardOfAChangeThatIsNotHere) {
  start();
  control::EnlistResponse enlisted;
  ASSERT_EQ(enlist(5, enlisted), Status::Ok);
  EXPECT_EQ(enlisted.change().start(), 41U);
  control::RenewServerLeaseRequest renew;
  renew.set_nonce(5);
  renew.set_id(enlisted.id());
  renew.set_cluster(7);
  *renew.mutable_heard() = enlisted.change();
  control::RenewServerLeaseResponse renewed;
  ASSERT_EQ(ask(server_, Opcode::RenewServerLease, renew, renewed), Status::Ok);
  renew.mutable_heard()->set_number(renewed.change().number() + 1);
  EXPECT_EQ(ask(server_, Opcode::RenewServerLease, renew, renewed), Status::StateBehind);

  *renew.mutable_heard() = enlisted.change();
  EXPECT_EQ(ask(server_, Opcode::RenewServerLease, renew, renewed), Status::StateBehind)
      << "for everybody, and for good";
  for (const Opcode opcode : kServerOpcodes) EXPECT_EQ(askRaw(server_, opcode, ""), Status::StateBehind);
  for (const Opcode opcode : kUserOpcodes) EXPECT_EQ(askRaw(client_, opcode, ""), Status::StateBehind);
  for (const Opcode opcode : kAdminOpcodes) EXPECT_EQ(askRaw(admin_, opcode, ""), Status::StateBehind);
  EXPECT_FALSE(coordinator_.isServing());
  scheduler_.runUntil([&] { return coordinator_.isIdle(); }, 1'000'000);
  EXPECT_TRUE(coordinator_.isIdle()) << "nothing is under way any more";
  StoredHistory stored;
  ASSERT_TRUE(decode(disk_.contents().at(std::string(kHistoryKey)), stored));
  ASSERT_EQ(stored.missing.size(), 1U);
  EXPECT_EQ(stored.missing[0].start, 41U);
  EXPECT_GT(stored.missing[0].number, enlisted.change().number());
}

// A process that hears Ok relies on it, and this state is not the one that counts.
TEST_F(CoordinatorBehind, ConfirmsNothingThatWasStoredWhileAMissingChangeWasNamed) {
  start();
  control::EnlistResponse enlisted;
  ASSERT_EQ(enlist(5, enlisted), Status::Ok);
  control::RaiseFloorRequest raise;
  raise.set_cluster(7);
  raise.set_id(enlisted.id());
  raise.set_segment(4);
  raise.set_replica_epoch(2);
  const uint64_t commits = disk_.commitCount();
  sim::NotedCall raising;
  sim::NotedCall naming;
  begin(server_, Opcode::RaiseFloor, raise, raising);
  // A message takes up to 20 us, and a commit 100 us at least.
  scheduler_.runUntil(scheduler_.nowNs() + 60 * runtime::kNanosPerMicro, 1'000'000);
  begin(server_, Opcode::RenewServerLease, renewalThatHasHeard(99, 1'000), naming);
  scheduler_.runUntil([&] { return raising.ended != 0 && naming.ended != 0; }, 1'000'000);
  EXPECT_EQ(naming.outcome(), Status::StateBehind);
  EXPECT_EQ(raising.outcome(), Status::StateBehind);
  scheduler_.runUntil([&] { return coordinator_.isIdle(); }, 1'000'000);
  EXPECT_GE(disk_.commitCount(), commits + 2) << "the floor and what is missing";
}

TEST_F(CoordinatorBehind, StoresAllThatIsMissingWhoeverNamesItAndSaysSoOnce) {
  start();
  control::EnlistResponse enlisted;
  ASSERT_EQ(enlist(5, enlisted), Status::Ok);
  std::deque<sim::NotedCall> namings;
  for (uint64_t start = 90; start < 93; ++start) {
    begin(server_, Opcode::RenewServerLease, renewalThatHasHeard(start, 1'000), namings.emplace_back());
  }
  scheduler_.runUntil([&] { return coordinator_.isIdle() && namings.back().ended != 0; }, 1'000'000);
  // Changes that are named when nothing runs any more count, too.
  control::RenewServerLeaseResponse renewed;
  EXPECT_EQ(ask(server_, Opcode::RenewServerLease, renewalThatHasHeard(95, 2'000), renewed), Status::StateBehind);
  scheduler_.runUntil([&] { return coordinator_.isIdle(); }, 1'000'000);
  StoredHistory stored;
  ASSERT_TRUE(decode(disk_.contents().at(std::string(kHistoryKey)), stored));
  std::set<uint64_t> starts;
  for (const ChangeRef& missing : stored.missing) starts.insert(missing.start);
  EXPECT_EQ(starts, (std::set<uint64_t>{90, 91, 92, 95}));
  EXPECT_EQ(linesWith("nobody is served"), 1);
}

TEST_F(CoordinatorBehind, WhatIsMissingIsStoredWhenThereIsRoomAgain) {
  start();
  control::EnlistResponse enlisted;
  ASSERT_EQ(enlist(5, enlisted), Status::Ok);
  control::RenewServerLeaseResponse renewed;
  disk_.setFull(true);
  EXPECT_EQ(ask(server_, Opcode::RenewServerLease, renewalThatHasHeard(99, 1'000), renewed), Status::StateBehind);
  scheduler_.runUntil([&] { return coordinator_.isIdle(); }, 1'000'000);
  EXPECT_GT(disk_.refusedCount(), 0u);
  EXPECT_EQ(linesWith("could not be stored"), 1);
  disk_.setFull(false);
  EXPECT_EQ(ask(server_, Opcode::RenewServerLease, renewalThatHasHeard(99, 1'000), renewed), Status::StateBehind);
  scheduler_.runUntil([&] { return coordinator_.isIdle(); }, 1'000'000);
  StoredHistory stored;
  ASSERT_TRUE(decode(disk_.contents().at(std::string(kHistoryKey)), stored));
  EXPECT_EQ(stored.missing, (std::vector<ChangeRef>{{.start = 99, .number = 1'000}}));
  EXPECT_EQ(linesWith("nobody is served"), 1);
}

// No copy is behind by so much, and giving up such a change must not bring the numbers to their end.
TEST_F(CoordinatorBehind, AChangeThatIsTooFarAheadIsNonsense) {
  start();
  control::EnlistResponse enlisted;
  ASSERT_EQ(enlist(5, enlisted), Status::Ok);
  const uint64_t far = disk_.changeNumber() + (uint64_t{1} << 48);
  control::RenewServerLeaseResponse renewed;
  for (const uint64_t number : {far + 1, ~uint64_t{0}}) {
    EXPECT_EQ(ask(server_, Opcode::RenewServerLease, renewalThatHasHeard(99, number), renewed), Status::BadRequest);
  }
  EXPECT_EQ(linesWith("refusing server 1, which names change"), 1) << "once";
  *renewed.mutable_change() = enlisted.change();
  EXPECT_EQ(ask(server_, Opcode::RenewServerLease,
                renewalThatHasHeard(enlisted.change().start(), enlisted.change().number()), renewed),
            Status::Ok);
  EXPECT_EQ(ask(server_, Opcode::RenewServerLease, renewalThatHasHeard(99, far), renewed), Status::StateBehind);
}

TEST_F(CoordinatorBehind, ServesNobodyWhereWhoEnlistsHasHeardOfAStartThatIsNotKnown) {
  start();
  control::EnlistRequest request;
  request.add_locators("sim://server");
  request.set_format_version(1);
  request.set_nonce(5);
  request.set_former_cluster(7);
  request.mutable_heard()->set_start(99);
  request.mutable_heard()->set_number(1'000'000);
  control::EnlistResponse refused;
  EXPECT_EQ(ask(server_, Opcode::Enlist, request, refused), Status::StateBehind);
  control::ListTablesResponse tables;
  EXPECT_EQ(ask(client_, Opcode::ListTables, control::Empty(), tables), Status::StateBehind);
}

}  // namespace
}  // namespace ramcore::coordinator
