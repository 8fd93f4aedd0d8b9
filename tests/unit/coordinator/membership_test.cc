#include "coordinator/membership.h"

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
  bench.addServer(2);
  server = Bench::serverOf(3);
  server.format_version = 2;
  EXPECT_EQ(bench.enlist(server).status, Status::WrongFormat);
}

TEST(Membership, SilenceIsJudgedLate) {
  Bench bench;
  const ServerId silent = bench.addServer(1);
  const ServerId talking = bench.addServer(2);
  bench.cluster().machine(silent).up = false;
  bench.passRenewing(2'500 * kMilli);
  EXPECT_FALSE(bench.life().membership.isHeard(silent));
  EXPECT_TRUE(bench.life().membership.isAlive(silent));
  // It may come back until the verdict.
  EXPECT_EQ(bench.life().membership.renew(silent), Status::Ok);
  EXPECT_TRUE(bench.life().membership.isHeard(silent));
  bench.passRenewing(5 * kSecond);
  EXPECT_FALSE(bench.life().membership.isAlive(silent));
  EXPECT_TRUE(bench.life().membership.leaseIsOver(silent));
  EXPECT_EQ(bench.life().membership.renew(silent), Status::Fenced);
  EXPECT_EQ(bench.enlist(Bench::serverOf(1)).status, Status::Fenced);
  EXPECT_TRUE(bench.life().membership.isAlive(talking));
  // For ever.
  bench.restart();
  EXPECT_FALSE(bench.life().membership.isAlive(silent));
  EXPECT_EQ(bench.life().membership.renew(silent), Status::Fenced);
}

TEST(Membership, NoVerdictForALeaseAfterARestart) {
  Bench bench({.membership = {.lease_ns = 2 * kSecond, .verdict_after_ns = 2 * kSecond}});
  const ServerId silent = bench.addServer(1);
  bench.pass(1'900 * kMilli);
  bench.restart();
  bench.pass(1'900 * kMilli);
  EXPECT_TRUE(bench.life().membership.isAlive(silent));
  EXPECT_FALSE(bench.life().membership.leaseIsOver(silent));
  bench.pass(500 * kMilli);
  EXPECT_FALSE(bench.life().membership.isAlive(silent));
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
  bench.disk().setFull(true);
  bench.pass(8 * kSecond);
  EXPECT_TRUE(bench.life().membership.isAlive(server));
  EXPECT_EQ(bench.enlist(Bench::serverOf(2)).status, Status::NoSpace);
  bench.disk().setFull(false);
  bench.pass(2 * kSecond);
  EXPECT_FALSE(bench.life().membership.isAlive(server));
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
  EXPECT_EQ(checked.status, Status::NoSpace);
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
