#include "coordinator/members/membership.h"

#include <set>

#include "unit/coordinator/coordinator_fixture.h"

namespace ramcore::coordinator {
namespace {

TEST(Membership, ServersGetIdsThatAreNeverReused) {
  Bench bench;
  const ServerId first = bench.addServer(11);
  const ServerId second = bench.addServer(12);
  EXPECT_EQ(first, ServerId(1));
  EXPECT_EQ(second, ServerId(2));
  bench.restart();
  EXPECT_TRUE(bench.life().membership.isAlive(first));
  const ServerId third = bench.addServer(13);
  EXPECT_GT(third, second);
}

TEST(Membership, RepeatedEnlistmentIsTheSameServer) {
  Bench bench;
  const ServerId id = bench.addServer(11);
  EXPECT_EQ(bench.enlist(Bench::serverOf(11)).id, id);
  bench.restart();
  EXPECT_EQ(bench.enlist(Bench::serverOf(11)).id, id);
  EXPECT_EQ(bench.life().membership.servers().size(), 1u);
}

TEST(Membership, BadEnlistmentsAreRefused) {
  Bench bench;
  Server server = Bench::serverOf(1);
  server.nonce = 0;
  EXPECT_EQ(bench.enlist(server).status, Status::BadRequest);
  server = Bench::serverOf(1);
  server.locators = {};
  EXPECT_EQ(bench.enlist(server).status, Status::BadRequest);
  server.locators = {"nonsense"};
  EXPECT_EQ(bench.enlist(server).status, Status::BadRequest);
  server = Bench::serverOf(1);
  server.name = std::string(256, 'x');
  EXPECT_EQ(bench.enlist(server).status, Status::BadRequest);
  // A server that asks for more replicas than a log may have could never be replaced, and would never be declared dead.
  server = Bench::serverOf(1);
  server.replicas = 9;
  EXPECT_EQ(bench.enlist(server).status, Status::BadRequest);
  server = Bench::serverOf(1);
  server.min_replicas = 9;
  EXPECT_EQ(bench.enlist(server).status, Status::BadRequest);
  bench.addServer(2);
  server = Bench::serverOf(3);
  server.format_version = 2;
  EXPECT_EQ(bench.enlist(server).status, Status::WrongFormat);
}

TEST(Membership, TheNameOfAStorageIsKept) {
  Bench bench;
  Server server = Bench::serverOf(11);
  server.storage = 0xfedcba9876543210;
  const ServerId named = bench.enlist(server).id;
  const ServerId other = bench.addServer(12);
  bench.restart();
  ASSERT_NE(bench.life().membership.find(named), nullptr);
  EXPECT_EQ(bench.life().membership.find(named)->storage, 0xfedcba9876543210);
  EXPECT_EQ(bench.life().membership.find(other)->storage, 0u);
}

TEST(Membership, AFormerServerThatNeverWasIsRefused) {
  Bench bench;
  const ServerId first = bench.addServer(1);
  EXPECT_EQ(bench.enlist(Bench::serverOf(2), first).status, Status::Ok);
  EXPECT_EQ(bench.enlist(Bench::serverOf(3), ServerId(first.value + 1000)).status, Status::BadRequest);
}

TEST(Membership, SilenceIsJudgedLate) {
  Bench bench;
  const ServerId silent = bench.addServer(1);
  const ServerId talking = bench.addServer(2);
  bench.cluster().machine(silent).up = false;
  bench.passRenewing(2'500 * kMilli);
  EXPECT_FALSE(bench.life().membership.hasReported(silent));
  EXPECT_TRUE(bench.life().membership.isAlive(silent));
  // The server may come back until the verdict.
  EXPECT_EQ(bench.life().membership.renew(silent), Status::Ok);
  EXPECT_TRUE(bench.life().membership.hasReported(silent));
  bench.passRenewing(5 * kSecond);
  EXPECT_FALSE(bench.life().membership.isAlive(silent));
  EXPECT_TRUE(bench.life().membership.leaseIsOver(silent));
  EXPECT_EQ(bench.life().membership.renew(silent), Status::Fenced);
  EXPECT_EQ(bench.enlist(Bench::serverOf(1)).status, Status::Fenced);
  EXPECT_TRUE(bench.life().membership.isAlive(talking));
  // The verdict lasts over restarts.
  bench.restart();
  EXPECT_FALSE(bench.life().membership.isAlive(silent));
  EXPECT_EQ(bench.life().membership.renew(silent), Status::Fenced);
}

TEST(Membership, NoVerdictForALeaseAfterARestart) {
  Bench bench({.membership = {.lease_ns = 2 * kSecond, .verdict_after_ns = 2 * kSecond, .together_ns = 2 * kSecond}});
  const ServerId silent = bench.addServer(1);
  bench.addServer(2);
  bench.cluster().machine(silent).up = false;
  bench.passRenewing(1'900 * kMilli);
  bench.restart();
  bench.passRenewing(1'900 * kMilli);
  EXPECT_TRUE(bench.life().membership.isAlive(silent));
  EXPECT_FALSE(bench.life().membership.leaseIsOver(silent));
  bench.passRenewing(500 * kMilli);
  EXPECT_FALSE(bench.life().membership.isAlive(silent));
}

// A server with the longer lease may answer until that is over, however often the coordinator is started meanwhile.
TEST(Membership, ALeaseThatWasLoweredIsWaitedForOverSeveralStarts) {
  const auto options = [](int64_t lease_ns) {
    return MembershipOptions{.lease_ns = lease_ns, .verdict_after_ns = lease_ns, .together_ns = lease_ns};
  };
  Bench bench({.membership = options(10 * kSecond)});
  const ServerId silent = bench.addServer(1);
  bench.addServer(2);
  bench.addServer(3);
  bench.cluster().machine(silent).up = false;
  bench.setMembership(options(2 * kSecond));
  for (int start = 0; start < 3; ++start) {
    bench.pass(100 * kMilli);
    bench.restart();
  }
  bench.passRenewing(9 * kSecond);
  EXPECT_FALSE(bench.life().membership.leaseIsOver(silent));
  bench.passRenewing(2 * kSecond);
  EXPECT_TRUE(bench.life().membership.leaseIsOver(silent));
  // Leases that were granted since are short.
  const ServerId next = bench.addServer(4);
  bench.cluster().machine(next).up = false;
  bench.restart();
  bench.passRenewing(2'500 * kMilli);
  EXPECT_TRUE(bench.life().membership.leaseIsOver(next));
}

TEST(Membership, VerdictsWaitWhenTheCoordinatorItselfStoodStill) {
  Bench bench;
  const ServerId server = bench.addServer(1);
  bench.passRenewing(kSecond);
  bench.life().node.pause();
  bench.pass(20 * kSecond);
  bench.life().node.resume();
  bench.pass(100 * kMilli);
  EXPECT_TRUE(bench.life().membership.isAlive(server));
  bench.renewAll();
  bench.passRenewing(5 * kSecond);
  EXPECT_TRUE(bench.life().membership.isAlive(server));
}

// The coordinator was about to judge a silent server, and waited for the lock behind an enlistment while it stood
// still. When it goes on, the silence of the others proves nothing.
TEST(Membership, VerdictsWaitWhenTheCoordinatorStoodStillWhileItWaitedForTheLock) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Bench bench({.seed = seed});
    const ServerId silent = bench.addServer(1);
    const ServerId others[] = {bench.addServer(2), bench.addServer(3)};
    bench.renewAll();
    bench.cluster().machine(silent).up = false;
    bench.passRenewing(4 * kSecond - kMilli);
    // The commit of the enlistment takes up to 10 ms. The silent server becomes due meanwhile.
    auto enlisting = Bench::enlistOn(bench.life(), Bench::serverOf(4), {});
    bench.pass(kMilli + kMilli / 10);
    bench.life().node.pause();
    bench.pass(20 * kSecond);
    bench.life().node.resume();
    EXPECT_EQ(bench.run(std::move(enlisting)).status, Status::Ok);
    bench.pass(500 * kMilli);
    for (const ServerId server : others) EXPECT_TRUE(bench.life().membership.isAlive(server)) << seed;
  }
}

// The coordinator stands still, and the first event after that is no timer.
TEST(Membership, VerdictsWaitWhenSomebodyHasComeMeanwhile) {
  Bench bench;
  const ServerId server = bench.addServer(1);
  bench.passRenewing(5 * kSecond);
  auto enlisting = Bench::enlistOn(bench.life(), Bench::serverOf(2), {});
  bench.pass(50'000);
  bench.life().node.pause();
  bench.pass(20 * kSecond);
  bench.life().node.resume();
  EXPECT_EQ(bench.run(std::move(enlisting)).status, Status::Ok);
  bench.pass(500 * kMilli);
  EXPECT_TRUE(bench.life().membership.isAlive(server));
}

// The time of a lease in which the coordinator stood still does not count.
TEST(Membership, AStartThatStoodStillIsNotSettled) {
  Bench bench;
  bench.addServer(1);
  bench.restart();
  EXPECT_FALSE(bench.life().membership.isSettled());
  bench.life().node.pause();
  bench.pass(20 * kSecond);
  bench.life().node.resume();
  EXPECT_FALSE(bench.life().membership.isSettled());
  bench.pass(1'900 * kMilli);
  EXPECT_FALSE(bench.life().membership.isSettled());
  bench.pass(200 * kMilli);
  EXPECT_TRUE(bench.life().membership.isSettled()) << "nobody has spoken in a lease";
}

TEST(Membership, AStartIsSettledAtTheLatestAfterALease) {
  Bench bench;
  bench.addServer(1);
  bench.restart();
  bench.pass(1'900 * kMilli);
  EXPECT_FALSE(bench.life().membership.isSettled());
  bench.pass(200 * kMilli);
  EXPECT_TRUE(bench.life().membership.isSettled());
}

TEST(Membership, GoodbyeNeedsNoWaiting) {
  Bench bench;
  const ServerId server = bench.addServer(1);
  EXPECT_EQ(bench.goodbye(server), Status::Ok);
  EXPECT_FALSE(bench.life().membership.isAlive(server));
  EXPECT_TRUE(bench.life().membership.leaseIsOver(server));
  EXPECT_EQ(bench.goodbye(server), Status::Ok);
  EXPECT_EQ(bench.goodbye(ServerId(99)), Status::Ok);
}

TEST(Membership, HolderOfTheDirectoryEndsItsFormerSelf) {
  Bench bench;
  const ServerId former = bench.addServer(1);
  const Membership::Enlistment now = bench.enlist(Bench::serverOf(2), former);
  EXPECT_EQ(now.status, Status::Ok);
  EXPECT_NE(now.id, former);
  EXPECT_FALSE(bench.life().membership.isAlive(former));
  EXPECT_TRUE(bench.life().membership.leaseIsOver(former));
}

TEST(Membership, FullDiskDelaysVerdicts) {
  Bench bench;
  const ServerId server = bench.addServer(1);
  bench.addServer(3);
  bench.cluster().machine(server).up = false;
  bench.disk().setFull(true);
  bench.passRenewing(8 * kSecond);
  EXPECT_TRUE(bench.life().membership.isAlive(server));
  EXPECT_EQ(bench.enlist(Bench::serverOf(2)).status, Status::CoordinatorFull);
  // 5 s of them the verdict waited for room.
  EXPECT_GT(bench.disk().refusedCount(), 10u);
  EXPECT_LT(bench.disk().refusedCount(), 50u) << "it is tried without a pause";
  bench.disk().setFull(false);
  bench.passRenewing(2 * kSecond);
  EXPECT_FALSE(bench.life().membership.isAlive(server));
}

TEST(Membership, TheVersionTellsOfEveryChangeAndOfEveryStart) {
  Bench bench;
  std::set<uint64_t> seen{0};
  const auto expectNew = [&] { EXPECT_TRUE(seen.insert(bench.life().membership.version()).second); };
  expectNew();
  const ServerId server = bench.addServer(1);
  expectNew();
  const ServerId silent = bench.addServer(2);
  expectNew();
  bench.kill(silent);
  expectNew();
  const uint64_t version = bench.life().membership.version();
  bench.renewAll();
  EXPECT_EQ(bench.enlist(Bench::serverOf(1)).id, server);
  EXPECT_EQ(bench.life().membership.version(), version) << "nobody came or went";
  for (int i = 0; i < 5; ++i) {
    bench.restart();
    expectNew();
  }
}

TEST(Membership, FloorsRiseAsAPairAndOutliveTheCoordinator) {
  Bench bench;
  const ServerId server = bench.addServer(1);
  const auto floor = [&] { return bench.life().membership.find(server)->floor; };
  EXPECT_EQ(bench.raiseFloor(server, {SegmentId(5), 2}), Status::Ok);
  const uint64_t commits = bench.disk().commitCount();
  for (const ReplicaFloor lower : {ReplicaFloor{SegmentId(5), 2}, {SegmentId(5), 1}, {SegmentId(4), 9}}) {
    EXPECT_EQ(bench.raiseFloor(server, lower), Status::Ok);
    EXPECT_EQ(floor(), (ReplicaFloor{SegmentId(5), 2}));
  }
  EXPECT_EQ(bench.disk().commitCount(), commits) << "nothing to store";
  EXPECT_EQ(bench.raiseFloor(server, {SegmentId(6), 0}), Status::Ok);
  bench.restart();
  EXPECT_EQ(floor(), (ReplicaFloor{SegmentId(6), 0}));
  EXPECT_EQ(bench.raiseFloor(server, {SegmentId(0), 1}), Status::BadRequest);
  EXPECT_EQ(bench.raiseFloor(ServerId(99), {SegmentId(1), 1}), Status::Fenced);
  bench.disk().setFull(true);
  EXPECT_EQ(bench.raiseFloor(server, {SegmentId(7), 1}), Status::CoordinatorFull);
  EXPECT_EQ(floor(), (ReplicaFloor{SegmentId(6), 0})) << "what is not stored does not count";
}

TEST(Membership, AVerdictForbidsRenewalsFloorsAndTheListOfMembers) {
  Bench bench;
  const ServerId silent = bench.addServer(1);
  bench.addServer(2);
  EXPECT_EQ(bench.life().membership.mayAsk(silent), Status::Ok);
  bench.kill(silent);
  EXPECT_EQ(bench.life().membership.renew(silent), Status::Fenced);
  EXPECT_EQ(bench.raiseFloor(silent, {SegmentId(1), 1}), Status::Fenced);
  EXPECT_EQ(bench.life().membership.mayAsk(silent), Status::Fenced);
  EXPECT_EQ(bench.life().membership.mayAsk(ServerId(99)), Status::Fenced);
}

// Neither is answered before the outcome of the other is known: a floor is in the record of the verdict, or refused.
TEST(Membership, FloorsAndVerdictsDoNotOvertakeEachOther) {
  int raised = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Bench bench({.seed = seed});
    const ServerId server = bench.addServer(1);
    auto goodbye = Bench::goodbyeOn(bench.life(), server);
    bench.pass(static_cast<int64_t>(seed % 10) * 100'000);
    auto raise = Bench::raiseFloorOn(bench.life(), server, {SegmentId(5), 1});
    const Status answer = bench.run(std::move(raise));
    EXPECT_EQ(bench.run(std::move(goodbye)), Status::Ok);
    const ReplicaFloor floor = bench.life().membership.find(server)->floor;
    EXPECT_TRUE(answer == Status::Fenced || answer == Status::RetryLater) << name(answer);
    EXPECT_EQ(floor, ReplicaFloor{});
    bench.restart();
    EXPECT_EQ(bench.life().membership.find(server)->floor, ReplicaFloor{});
    raised += answer == Status::RetryLater ? 1 : 0;
  }
  EXPECT_GT(raised, 5);
}

TEST(Membership, TheDeadAreRememberedUntilTheyAreRecovered) {
  Bench bench;
  const ServerId first = bench.addServer(1);
  ASSERT_EQ(bench.create("t", 1).status, Status::Ok);
  std::vector<ServerId> others;
  for (uint64_t nonce = 2; nonce <= 301; ++nonce) {
    others.push_back(bench.addServer(nonce));
    bench.renewAll();
  }
  // The first server owns a tablet, and no server keeps replicas of its log.
  EXPECT_EQ(bench.goodbye(first), Status::Ok);
  for (const ServerId other : others) EXPECT_EQ(bench.goodbye(other), Status::Ok);
  bench.pass(kSecond);
  const Server* record = bench.life().membership.find(first);
  ASSERT_NE(record, nullptr);
  EXPECT_FALSE(record->recovered);
  EXPECT_EQ(bench.life().membership.find(others.front()), nullptr) << "one of many of whom nothing is left";
  EXPECT_FALSE(bench.life().membership.isStillToCome(others.front()));
  EXPECT_TRUE(bench.life().membership.isStillToCome(ServerId(10'000)));
  bench.restart();
  ASSERT_NE(bench.life().membership.find(first), nullptr);
}

// A loop of starts that fail must not push out a server whose storage a recovery waits for.
TEST(Membership, TheDeadWhoseStorageIsAwayAreRememberedLongest) {
  Bench bench;
  Server keeper = Bench::serverOf(1);
  keeper.keeps_replicas = true;
  const ServerId away = bench.enlist(keeper).id;
  EXPECT_EQ(bench.goodbye(away), Status::Ok);
  ServerId former;
  for (uint64_t i = 0; i < 300; ++i) {
    Server server = Bench::serverOf(100 + i);
    server.keeps_replicas = true;
    const ServerId id = bench.enlist(server, former).id;
    EXPECT_EQ(bench.goodbye(id), Status::Ok);
    bench.pass(50 * kMilli);
    former = id;
  }
  EXPECT_NE(bench.life().membership.find(away), nullptr);
  EXPECT_LT(bench.life().membership.servers().size(), 270u) << "those whose storage was back went";
}

TEST(ClientLeases, EndsAreFinal) {
  Bench bench;
  const ClientId client = bench.openClient(5).id;
  EXPECT_EQ(client, ClientId(1));
  EXPECT_EQ(bench.openClient(5).id, client);
  EXPECT_EQ(bench.openClient(0).status, Status::BadRequest);
  bench.pass(20 * kSecond);
  EXPECT_EQ(bench.life().clients.renew(client), Status::Ok);
  bench.pass(20 * kSecond);
  ClientLeases::Checked checked = bench.check({client, ClientId(77)});
  EXPECT_EQ(checked.valid, (std::vector<bool>{true, false}));
  EXPECT_GT(checked.checked_for_ns, 8 * kSecond);
  EXPECT_LE(checked.checked_for_ns, 9 * kSecond);
  bench.pass(11 * kSecond);
  checked = bench.check({client});
  EXPECT_EQ(checked.valid, std::vector<bool>{false});
  EXPECT_EQ(bench.life().clients.renew(client), Status::LeaseExpired);
  bench.restart();
  EXPECT_EQ(bench.life().clients.renew(client), Status::LeaseExpired);
  EXPECT_GT(bench.openClient(6).id, client);
}

TEST(ClientLeases, TellWhatClientsAcknowledge) {
  Bench bench;
  const ClientId client = bench.openClient(5).id;
  const ClientId other = bench.openClient(6).id;
  EXPECT_EQ(bench.check({client}).acknowledged, std::vector<Sequence>{Sequence()});
  EXPECT_EQ(bench.life().clients.renew(client, Sequence(7)), Status::Ok);
  EXPECT_EQ(bench.life().clients.renew(client, Sequence(4)), Status::Ok) << "an answer that was overtaken";
  EXPECT_EQ(bench.check({other, client, ClientId(77)}).acknowledged,
            (std::vector<Sequence>{Sequence(), Sequence(7), Sequence()}));
  // What clients have acknowledged is not stored. Masters keep what they heard, and the client says it again.
  bench.restart();
  EXPECT_EQ(bench.check({client}).acknowledged, std::vector<Sequence>{Sequence()});
}

TEST(ClientLeases, RestartGivesAFullLease) {
  Bench bench;
  const ClientId client = bench.openClient(5).id;
  bench.pass(25 * kSecond);
  bench.restart();
  bench.pass(25 * kSecond);
  EXPECT_EQ(bench.check({client}).valid, std::vector<bool>{true});
  bench.pass(6 * kSecond);
  EXPECT_EQ(bench.check({client}).valid, std::vector<bool>{false});
}

// Until the longer lease is over, the client goes on with its identity, and servers to which it was confirmed believe
// it.
TEST(ClientLeases, WhoWasGrantedALongerLeaseHasItOverRestarts) {
  Bench bench({.client_lease_ns = 30 * kSecond});
  const ClientId client = bench.openClient(1).id;
  bench.setClientLeaseNs(5 * kSecond);
  for (int start = 0; start < 3; ++start) {
    bench.pass(100 * kMilli);
    bench.restart();
  }
  // A renewal for a shorter time may not reach the client, and does not shorten the lease.
  EXPECT_EQ(bench.life().clients.renew(client), Status::Ok);
  bench.pass(29 * kSecond);
  EXPECT_EQ(bench.check({client}).valid, std::vector<bool>{true});
  bench.pass(2 * kSecond);
  EXPECT_EQ(bench.check({client}).valid, std::vector<bool>{false});
  // Leases that were granted since are shorter.
  const ClientId next = bench.openClient(2).id;
  bench.restart();
  bench.pass(6 * kSecond);
  EXPECT_EQ(bench.check({next}).valid, std::vector<bool>{false});
}

TEST(ClientLeases, CloseEndsAtOnce) {
  Bench bench;
  const ClientId client = bench.openClient(5).id;
  EXPECT_EQ(bench.closeClient(client), Status::Ok);
  EXPECT_EQ(bench.closeClient(client), Status::Ok);
  EXPECT_EQ(bench.check({client}).valid, std::vector<bool>{false});
  EXPECT_NE(bench.openClient(5).id, client);
}

TEST(ClientLeases, NothingIsSaidToBeOverThatIsNotStored) {
  Bench bench;
  const ClientId client = bench.openClient(5).id;
  bench.disk().setFull(true);
  bench.pass(31 * kSecond);
  const ClientLeases::Checked checked = bench.check({client});
  EXPECT_EQ(checked.status, Status::CoordinatorFull);
  bench.disk().setFull(false);
  EXPECT_EQ(bench.check({client}).valid, std::vector<bool>{false});
}

TEST(ClientLeases, StandstillOfTheCoordinatorCostsNobodyALease) {
  Bench bench;
  const ClientId client = bench.openClient(5).id;
  bench.life().node.pause();
  bench.pass(60 * kSecond);
  bench.life().node.resume();
  EXPECT_EQ(bench.check({client}).valid, std::vector<bool>{true});
  EXPECT_EQ(bench.life().clients.renew(client), Status::Ok);
}

}  // namespace
}  // namespace ramcore::coordinator
