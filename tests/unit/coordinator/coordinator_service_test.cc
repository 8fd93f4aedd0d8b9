#include <gtest/gtest.h>

#include <deque>

#include "coordinator/calls/control_records.h"
#include "coordinator/tablets/table_manager.h"
#include "rpc/session_report.h"
#include "unit/coordinator/coordinator_service_fixture.h"

namespace ramcore::coordinator {
namespace {

class CoordinatorService : public CoordinatorServiceBench {};

TEST_F(CoordinatorService, NotLeaderBeforeItHasReadItsState) {
  for (const Opcode opcode : kServerOpcodes) EXPECT_EQ(askRaw(server_, opcode, ""), Status::NotLeader);
  for (const Opcode opcode : kUserOpcodes) EXPECT_EQ(askRaw(client_, opcode, ""), Status::NotLeader);
  for (const Opcode opcode : kAdminOpcodes) EXPECT_EQ(askRaw(admin_, opcode, ""), Status::NotLeader);
}

TEST_F(CoordinatorService, GarbageIsABadRequest) {
  start();
  const std::string_view garbage("\xff\xff\xff\xff\xff\xff", 6);
  for (const Opcode opcode : kServerOpcodes) EXPECT_EQ(askRaw(server_, opcode, garbage), Status::BadRequest);
  for (const Opcode opcode : kUserOpcodes) EXPECT_EQ(askRaw(client_, opcode, garbage), Status::BadRequest);
  for (const Opcode opcode : kAdminOpcodes) EXPECT_EQ(askRaw(admin_, opcode, garbage), Status::BadRequest);
}

TEST_F(CoordinatorService, RolesAreKeptApart) {
  start();
  // The answer to each role that may ask, and the refusal of each that may not.
  control::SplitTableRequest split;
  split.set_at_hash(1);
  const std::string split_bytes = split.SerializeAsString();
  EXPECT_EQ(askRaw(server_, Opcode::CheckClient, ""), Status::Ok);
  EXPECT_EQ(askRaw(client_, Opcode::CheckClient, ""), Status::BadRequest);
  EXPECT_EQ(askRaw(admin_, Opcode::CheckClient, ""), Status::BadRequest);
  EXPECT_EQ(askRaw(server_, Opcode::RenewServerLease, ""), Status::WrongCluster);
  EXPECT_EQ(askRaw(client_, Opcode::RenewServerLease, ""), Status::BadRequest);
  for (const Opcode opcode : {Opcode::GetMembership, Opcode::RaiseFloor, Opcode::CheckMasters}) {
    for (sim::RpcProcess* asker : {&client_, &admin_}) EXPECT_EQ(askRaw(*asker, opcode, ""), Status::BadRequest);
  }
  EXPECT_EQ(askRaw(server_, Opcode::GetMembership, ""), Status::WrongCluster);
  EXPECT_EQ(askRaw(server_, Opcode::CheckMasters, ""), Status::Ok);
  EXPECT_EQ(askRaw(admin_, Opcode::MoveTablet, ""), Status::NotFound);
  EXPECT_EQ(askRaw(client_, Opcode::MoveTablet, ""), Status::BadRequest);
  EXPECT_EQ(askRaw(server_, Opcode::MoveTablet, ""), Status::BadRequest);
  EXPECT_EQ(askRaw(admin_, Opcode::SplitTable, split_bytes), Status::NoSuchTable);
  EXPECT_EQ(askRaw(client_, Opcode::SplitTable, split_bytes), Status::BadRequest);
  EXPECT_EQ(askRaw(admin_, Opcode::CancelMigration, ""), Status::NotFound);
  EXPECT_EQ(askRaw(admin_, Opcode::AcceptLoss, ""), Status::NotFound);
  EXPECT_EQ(askRaw(client_, Opcode::AcceptLoss, ""), Status::BadRequest);
  EXPECT_EQ(askRaw(server_, Opcode::AcceptLoss, ""), Status::BadRequest);
  EXPECT_EQ(askRaw(client_, Opcode::CancelMigration, ""), Status::BadRequest);
  EXPECT_EQ(askRaw(client_, Opcode::ListTables, ""), Status::Ok);
  EXPECT_EQ(askRaw(server_, Opcode::ListTables, ""), Status::BadRequest);
}

TEST_F(CoordinatorService, ServersAndClientsComeAndGo) {
  start();
  control::EnlistResponse enlisted;
  ASSERT_EQ(enlist(5, enlisted), Status::Ok);
  EXPECT_EQ(enlisted.id(), 1u);
  EXPECT_EQ(enlisted.cluster(), 7u);
  EXPECT_EQ(enlisted.lease_ns(), 2 * runtime::kNanosPerSecond);

  control::OpenClientRequest open;
  open.set_nonce(9);
  control::OpenClientResponse opened;
  ASSERT_EQ(ask(client_, Opcode::OpenClient, open, opened), Status::Ok);
  control::CheckClientRequest check;
  check.add_clients(opened.client());
  check.add_clients(1'000);
  control::CheckClientResponse checked;
  ASSERT_EQ(ask(server_, Opcode::CheckClient, check, checked), Status::Ok);
  ASSERT_EQ(checked.valid_size(), 2);
  EXPECT_TRUE(checked.valid(0));
  EXPECT_FALSE(checked.valid(1));
  EXPECT_GT(checked.checked_for_ns(), 0);

  control::CloseClientRequest close;
  close.set_client(opened.client());
  control::Empty nothing;
  EXPECT_EQ(ask(client_, Opcode::CloseClient, close, nothing), Status::Ok);
  control::RenewClientRequest renew;
  renew.set_client(opened.client());
  control::RenewClientResponse renewed;
  EXPECT_EQ(ask(client_, Opcode::RenewClient, renew, renewed), Status::LeaseExpired);

  control::GoodbyeRequest goodbye;
  goodbye.set_cluster(7);
  goodbye.set_id(enlisted.id());
  EXPECT_EQ(ask(server_, Opcode::Goodbye, goodbye, nothing), Status::Ok);
  control::RenewServerLeaseRequest renew_server;
  renew_server.set_cluster(7);
  renew_server.set_id(enlisted.id());
  control::RenewServerLeaseResponse server_renewed;
  EXPECT_EQ(ask(server_, Opcode::RenewServerLease, renew_server, server_renewed), Status::Fenced);
}

// The first server may be dead already. It cannot be told from one that runs on a copy of the storage.
TEST_F(CoordinatorService, TwoThatBeganWithTheSameStorageAreWarnedOf) {
  start();
  const auto enlistWith = [this](uint64_t nonce, uint64_t storage, uint64_t former) {
    control::EnlistRequest request;
    request.add_locators("sim://server");
    request.set_name("s" + std::to_string(nonce));
    request.set_format_version(1);
    request.set_nonce(nonce);
    request.set_storage(storage);
    request.set_former_id(former);
    request.set_former_cluster(former == 0 ? 0 : 7);
    control::EnlistResponse response;
    EXPECT_EQ(ask(server_, Opcode::Enlist, request, response), Status::Ok);
    return response.id();
  };
  const uint64_t first = enlistWith(5, 77, 0);
  enlistWith(6, 78, 0);
  enlistWith(7, 0, 0);
  enlistWith(8, 0, 0);
  EXPECT_EQ(linesWith("began with the same storage"), 0);
  enlistWith(9, 77, 0);
  EXPECT_EQ(linesWith("began with the same storage"), 1);
  EXPECT_EQ(linesWith("(s5) and a new one (s9) began with the same storage, in which no server had written yet"), 1);
  enlistWith(10, 77, first);
  EXPECT_EQ(linesWith("began with the same storage"), 1) << "it found the first one's name, as it should";
  enlistWith(11, 77, first);
  EXPECT_EQ(linesWith("(s10) and a new one (s11) began with the same storage, of server " + std::to_string(first)), 1);
}

// Ids begin at 1 in every cluster: the storage of a server 1 of another one says nothing of the server 1 that lives
// here.
TEST_F(CoordinatorService, AStorageOfAnotherClusterProvesNobodysDeath) {
  start();
  control::EnlistResponse living;
  ASSERT_EQ(enlist(5, living), Status::Ok);
  control::EnlistRequest request;
  request.add_locators("sim://stranger");
  request.set_format_version(1);
  request.set_nonce(6);
  request.set_former_id(living.id());
  control::EnlistResponse refused;
  for (const uint64_t cluster : {uint64_t{8}, uint64_t{0}}) {
    request.set_former_cluster(cluster);
    EXPECT_EQ(ask(server_, Opcode::Enlist, request, refused), Status::WrongCluster) << cluster;
  }
  control::RenewServerLeaseRequest renew;
  renew.set_nonce(5);
  renew.set_cluster(7);
  renew.set_id(living.id());
  control::RenewServerLeaseResponse renewed;
  EXPECT_EQ(ask(server_, Opcode::RenewServerLease, renew, renewed), Status::Ok);

  // A storage of this cluster proves it.
  request.set_former_cluster(7);
  EXPECT_EQ(ask(server_, Opcode::Enlist, request, refused), Status::Ok);
  EXPECT_EQ(ask(server_, Opcode::RenewServerLease, renew, renewed), Status::Fenced);
}

// Ids begin at 1 in every cluster: what is known here of a server 1 says nothing of the server 1 of another one, which
// has found this coordinator at its own one's address.
TEST_F(CoordinatorService, AServerOfAnotherClusterIsNotJudged) {
  start();
  control::EnlistResponse living;
  ASSERT_EQ(enlist(5, living), Status::Ok);
  for (const uint64_t id : {living.id(), living.id() + 1000}) {
    for (const uint64_t cluster : {uint64_t{8}, uint64_t{0}}) {
      control::RenewServerLeaseRequest renew;
      renew.set_id(id);
      renew.set_nonce(5);
      renew.set_cluster(cluster);
      control::RenewServerLeaseResponse renewed;
      EXPECT_EQ(ask(server_, Opcode::RenewServerLease, renew, renewed), Status::WrongCluster) << id;
      control::GoodbyeRequest goodbye;
      goodbye.set_id(id);
      goodbye.set_cluster(cluster);
      control::Empty nothing;
      EXPECT_EQ(ask(server_, Opcode::Goodbye, goodbye, nothing), Status::WrongCluster) << id;
      control::GetMembershipRequest question;
      question.set_id(id);
      question.set_cluster(cluster);
      control::GetMembershipResponse members;
      EXPECT_EQ(ask(server_, Opcode::GetMembership, question, members), Status::WrongCluster) << id;
      control::RaiseFloorRequest raise;
      raise.set_id(id);
      raise.set_cluster(cluster);
      raise.set_segment(4);
      control::RaiseFloorResponse raised;
      EXPECT_EQ(ask(server_, Opcode::RaiseFloor, raise, raised), Status::WrongCluster) << id;
    }
  }
  control::RenewServerLeaseRequest renew;
  renew.set_nonce(5);
  renew.set_id(living.id());
  renew.set_cluster(7);
  control::RenewServerLeaseResponse renewed;
  EXPECT_EQ(ask(server_, Opcode::RenewServerLease, renew, renewed), Status::Ok) << "nobody has said its goodbye for it";
}

// Two servers have the same id, because an older copy of the state handed it out again before it was found out.
TEST_F(CoordinatorService, AnIdAloneProvesNobody) {
  start();
  control::EnlistResponse enlisted;
  ASSERT_EQ(enlist(5, enlisted), Status::Ok);
  control::RenewServerLeaseRequest renew;
  renew.set_id(enlisted.id());
  renew.set_cluster(7);
  renew.set_nonce(6);
  control::RenewServerLeaseResponse renewed;
  EXPECT_EQ(ask(server_, Opcode::RenewServerLease, renew, renewed), Status::Fenced);
  renew.set_nonce(5);
  EXPECT_EQ(ask(server_, Opcode::RenewServerLease, renew, renewed), Status::Ok);
}

TEST_F(CoordinatorService, ServersLearnWhoLivesAndWhoseReplicasAreNeeded) {
  start();
  control::EnlistRequest enlist_first;
  enlist_first.add_locators("sim://first");
  enlist_first.set_format_version(1);
  enlist_first.set_nonce(5);
  enlist_first.set_keeps_replicas(true);
  enlist_first.set_failure_domain("rack 1");
  control::EnlistResponse first;
  ASSERT_EQ(ask(server_, Opcode::Enlist, enlist_first, first), Status::Ok);
  control::EnlistResponse second;
  ASSERT_EQ(enlist(6, second), Status::Ok);
  EXPECT_NE(second.membership(), first.membership());
  control::RenewServerLeaseRequest renew;
  renew.set_nonce(5);
  renew.set_cluster(7);
  renew.set_id(first.id());
  control::RenewServerLeaseResponse renewed;
  ASSERT_EQ(ask(server_, Opcode::RenewServerLease, renew, renewed), Status::Ok);
  EXPECT_EQ(renewed.membership(), second.membership());

  control::GetMembershipRequest question;
  question.set_cluster(7);
  question.set_id(second.id());
  control::GetMembershipResponse members;
  ASSERT_EQ(ask(server_, Opcode::GetMembership, question, members), Status::Ok);
  EXPECT_EQ(members.version(), second.membership());
  ASSERT_EQ(members.members_size(), 2);
  EXPECT_EQ(members.members(0).id(), first.id());
  EXPECT_EQ(members.members(0).locators(0), "sim://first");
  EXPECT_TRUE(members.members(0).keeps_replicas());
  EXPECT_EQ(members.members(0).failure_domain(), "rack 1");
  EXPECT_FALSE(members.members(1).keeps_replicas());

  control::RaiseFloorRequest raise;
  raise.set_cluster(7);
  raise.set_id(first.id());
  raise.set_segment(4);
  raise.set_replica_epoch(2);
  control::RaiseFloorResponse raised;
  EXPECT_EQ(ask(server_, Opcode::RaiseFloor, raise, raised), Status::Ok);
  EXPECT_EQ(raised.change().start(), 41U);
  EXPECT_GT(raised.change().number(), renewed.change().number()) << "it is stored in a change of its own";
  control::Empty nothing;

  control::GoodbyeRequest goodbye;
  goodbye.set_cluster(7);
  goodbye.set_id(second.id());
  ASSERT_EQ(ask(server_, Opcode::Goodbye, goodbye, nothing), Status::Ok);
  EXPECT_EQ(ask(server_, Opcode::GetMembership, question, members), Status::Fenced);
  raise.set_id(second.id());
  EXPECT_EQ(ask(server_, Opcode::RaiseFloor, raise, nothing), Status::Fenced);
  scheduler_.runUntil(scheduler_.nowNs() + 100 * runtime::kNanosPerMilli, 1'000'000);

  control::CheckMastersRequest check;
  for (const uint64_t id : {first.id(), second.id(), uint64_t{0}, uint64_t{1'000'000}, first.id()})
    check.add_masters(id);
  control::CheckMastersResponse checked;
  ASSERT_EQ(ask(server_, Opcode::CheckMasters, check, checked), Status::Ok);
  ASSERT_EQ(checked.standings_size(), 5);
  EXPECT_EQ(checked.standings(0), control::STANDING_ALIVE);
  EXPECT_EQ(checked.standings(1), control::STANDING_RELEASED) << "it had no tablets";
  EXPECT_EQ(checked.standings(2), control::STANDING_UNKNOWN);
  EXPECT_EQ(checked.standings(3), control::STANDING_UNKNOWN);
  EXPECT_EQ(checked.standings(4), control::STANDING_ALIVE);
  ASSERT_EQ(checked.masters_size(), 1) << "each is named once";
  EXPECT_EQ(checked.masters(0).id(), first.id());
  for (int i = 0; i < 5'000; ++i) check.add_masters(1);
  EXPECT_EQ(ask(server_, Opcode::CheckMasters, check, checked), Status::BadRequest);
}

TEST_F(CoordinatorService, UnknownThingsAreTypedErrors) {
  start();
  control::GetTabletsRequest tablets;
  tablets.set_table_name("nothing");
  control::GetTabletsResponse found;
  EXPECT_EQ(ask(client_, Opcode::GetTablets, tablets, found), Status::NoSuchTable);
  control::MigrationStatusRequest status;
  status.set_migration(3);
  control::MigrationStatusResponse migration;
  EXPECT_EQ(ask(client_, Opcode::MigrationStatus, status, migration), Status::NotFound);
  control::CreateTableRequest create;
  create.set_name("t");
  create.set_nonce(1);
  control::CreateTableResponse created;
  EXPECT_EQ(ask(client_, Opcode::CreateTable, create, created), Status::RetryLater);  // no server
  create.set_name(std::string(256, 'x'));
  EXPECT_EQ(ask(client_, Opcode::CreateTable, create, created), Status::BadRequest);
  control::ClusterStatusResponse cluster;
  EXPECT_EQ(ask(client_, Opcode::ClusterStatus, control::Empty(), cluster), Status::Ok);
  EXPECT_EQ(cluster.cluster_name(), "rpc");
}

/// Two servers that say Ok to every command, and of themselves what the test wants.
class CoordinatorOfLiars : public CoordinatorService {
 protected:
  CoordinatorOfLiars() {
    for (sim::RpcProcess* liar : {&first_, &second_}) prepare(*liar);
  }
  void prepare(sim::RpcProcess& liar) {
    const rpc::OpcodeRules rules{.roles = rpc::allow({Role::Coordinator})};
    rpc::ServiceTable& table = liar.dispatch().services();
    for (const Opcode opcode :
         {Opcode::TakeTablet, Opcode::DropTablet, Opcode::FreezeTablet, Opcode::UnfreezeTablet, Opcode::PullTablet}) {
      table.add<&CoordinatorOfLiars::agree>(opcode, *this, rules);
    }
    table.add<&CoordinatorOfLiars::tellProgress>(Opcode::PullProgress, *this, rules);
    table.add<&CoordinatorOfLiars::tellState>(Opcode::ServerState, *this, rules);
    liar.listen();
  }
  void SetUp() override {
    start();
    for (sim::RpcProcess* liar : {&first_, &second_}) enlistAs(*liar);
  }
  void enlistAs(sim::RpcProcess& liar) {
    control::EnlistRequest request;
    request.add_locators(liar.locator().toString());
    request.set_nonce(liar.identity.id);
    control::EnlistResponse response;
    ASSERT_EQ(ask(liar, Opcode::Enlist, request, response), Status::Ok);
    ASSERT_EQ(response.id(), liar.identity.id);
  }
  control::ClusterStatusResponse status(bool lists_sessions) { return statusFor(admin_, lists_sessions); }
  control::ClusterStatusResponse statusFor(sim::RpcProcess& asker, bool lists_sessions) {
    control::ClusterStatusRequest request;
    request.set_lists_sessions(lists_sessions);
    control::ClusterStatusResponse status;
    EXPECT_EQ(ask(asker, Opcode::ClusterStatus, request, status), Status::Ok);
    return status;
  }
  static control::CreateTableRequest tableOfOneTablet() {
    control::CreateTableRequest create;
    create.set_name("t");
    create.set_tablet_count(1);
    create.set_nonce(7);
    return create;
  }
  int statesInStatus() { return status(false).states_size(); }
  // As many as a server lists, with addresses of so many bytes.
  void listSessions(size_t count, size_t address_bytes) {
    control::TransportSessions& transport = *state_.add_transports();
    transport.set_name("tcp");
    transport.set_sessions(static_cast<uint32_t>(count));
    for (size_t i = 0; i < count; ++i) transport.add_open()->set_peer_address(std::string(address_bytes, 'x'));
  }

  sim::RpcProcess first_{scheduler_, log_, network_, "first", {.role = Role::Server, .id = 1}};
  sim::RpcProcess second_{scheduler_, log_, network_, "second", {.role = Role::Server, .id = 2}};
  control::ServerStateResponse state_;
  control::PullProgressResponse progress_;
  Status command_answer_ = Status::Ok;
  uint64_t first_segment_ = 1;  // that is told of a tablet that is taken
  int commands_ = 0;
  bool heard_lists_sessions_ = false;
  bool tells_own_id_ = false;

 private:
  void agree(rpc::Request request) {
    ++commands_;
    const bool takes = request.opcode() == Opcode::TakeTablet && command_answer_ == Status::Ok;
    if (!takes) return request.reply(command_answer_);
    control::TakeTabletResponse answer;
    answer.mutable_log()->set_first_segment(first_segment_);
    rpc::replyControl(std::move(request), answer);
  }
  void tellProgress(rpc::Request request) { rpc::replyControl(std::move(request), progress_); }
  void tellState(rpc::Request request) {
    control::ServerStateRequest message;
    EXPECT_TRUE(rpc::parseRequest(request, message));
    heard_lists_sessions_ = message.lists_sessions();
    if (tells_own_id_) state_.set_id(loadAs<wire::RequestHeader>(request.head().data()).target.value);
    rpc::replyControl(std::move(request), state_);
  }
};

// A server fetches a tablet that is no more, or says so.
TEST_F(CoordinatorOfLiars, WhoFetchesATabletThatIsNoMoreIsToldToForgetIt) {
  control::RenewServerLeaseRequest renew;
  renew.set_id(1);
  renew.set_cluster(7);
  renew.set_nonce(1);
  control::RenewServerLeaseResponse response;
  ASSERT_EQ(ask(first_, Opcode::RenewServerLease, renew, response), Status::Ok);
  EXPECT_EQ(commands_, 0);
  control::Intake& intake = *renew.add_intakes();
  intake.set_tablet(99);
  intake.set_epoch(3);
  ASSERT_EQ(ask(first_, Opcode::RenewServerLease, renew, response), Status::Ok);
  ASSERT_EQ(scheduler_.runUntil([&] { return commands_ == 1; }, 100'000), runtime::SimScheduler::Stop::Done);
  for (uint64_t tablet = 100; tablet < 100'000; ++tablet) renew.add_intakes()->set_tablet(tablet);
  ASSERT_EQ(ask(first_, Opcode::RenewServerLease, renew, response), Status::Ok);
  // The two enlisted servers go on being served.
  tells_own_id_ = true;
  EXPECT_EQ(statesInStatus(), 2);
  EXPECT_LE(commands_, 1 + 16);
}

// Clients would refuse the status of the whole cluster because of one such answer.
TEST_F(CoordinatorOfLiars, NobodySpeaksForAnotherServerInTheStatus) {
  state_.set_id(2);
  EXPECT_EQ(statesInStatus(), 1);
  state_.set_id(99);
  EXPECT_EQ(statesInStatus(), 0);
  state_.set_id(1);
  EXPECT_EQ(statesInStatus(), 1);
  state_.add_transports()->set_name(std::string(100'000, 'x'));
  EXPECT_EQ(statesInStatus(), 0);
}

TEST_F(CoordinatorOfLiars, SessionsAreListedForWhoAsksForThem) {
  state_.set_id(1);
  listSessions(rpc::kSessionsListedMax, rpc::kPeerAddressBytesMax);
  const control::ClusterStatusResponse listed = status(true);
  ASSERT_EQ(listed.states_size(), 1);
  EXPECT_TRUE(heard_lists_sessions_);
  EXPECT_EQ(listed.states(0).transports(0).sessions(), rpc::kSessionsListedMax);
  EXPECT_EQ(listed.states(0).transports(0).open_size(), static_cast<int>(rpc::kSessionsListedMax));
  // The sessions of the coordinator: with two servers, which it has also called, and with the asker.
  ASSERT_EQ(listed.transports_size(), 1);
  EXPECT_GE(listed.transports(0).sessions(), 3u);
  EXPECT_EQ(listed.transports(0).open_size(), static_cast<int>(listed.transports(0).sessions()));

  // A server that lists without being asked: the counts are kept, as are those of the coordinator.
  const control::ClusterStatusResponse counted = status(false);
  ASSERT_EQ(counted.states_size(), 1);
  EXPECT_FALSE(heard_lists_sessions_);
  EXPECT_EQ(counted.states(0).transports(0).sessions(), rpc::kSessionsListedMax);
  EXPECT_EQ(counted.states(0).transports(0).open_size(), 0);
  EXPECT_GE(counted.transports(0).sessions(), 3u);
  EXPECT_EQ(counted.transports(0).open_size(), 0);
}

// A client learns nothing about other clients.
TEST_F(CoordinatorOfLiars, ClientsAreToldCountsAlone) {
  state_.set_id(1);
  listSessions(2, 10);
  const control::ClusterStatusResponse seen = statusFor(client_, true);
  ASSERT_EQ(seen.states_size(), 1);
  EXPECT_FALSE(heard_lists_sessions_);
  EXPECT_EQ(seen.states(0).transports(0).sessions(), 2u);
  EXPECT_EQ(seen.states(0).transports(0).open_size(), 0);
  EXPECT_GE(seen.transports(0).sessions(), 3u);
  EXPECT_EQ(seen.transports(0).open_size(), 0);
}

TEST_F(CoordinatorOfLiars, ListsOfManyServersStayWithinWhatAnAnswerMayBe) {
  constexpr uint64_t kLiars = 80;
  std::deque<sim::RpcProcess> more;
  for (uint64_t id = 3; id <= kLiars; ++id) {
    const std::string name = "liar" + std::to_string(id);
    prepare(
        more.emplace_back(scheduler_, log_, network_, name, sim::RpcProcess::Options{.role = Role::Server, .id = id}));
    enlistAs(more.back());
  }
  tells_own_id_ = true;
  listSessions(rpc::kSessionsListedMax, rpc::kPeerAddressBytesMax);
  const control::ClusterStatusResponse seen = status(true);
  ASSERT_EQ(seen.states_size(), static_cast<int>(kLiars));
  int listing = 0;
  for (const control::ServerStateResponse& state : seen.states()) {
    EXPECT_EQ(state.transports(0).sessions(), rpc::kSessionsListedMax);
    listing += state.transports(0).open_size() != 0 ? 1 : 0;
  }
  EXPECT_GT(listing, 20);
  EXPECT_LT(listing, static_cast<int>(kLiars));
  EXPECT_LT(seen.ByteSizeLong(), 3u * 1024 * 1024);
}

TEST_F(CoordinatorOfLiars, AListThatIsLongerThanListsGetIsNotHandedOn) {
  state_.set_id(1);
  listSessions(rpc::kSessionsListedMax, rpc::kPeerAddressBytesMax + 100);
  EXPECT_EQ(status(true).states_size(), 0);
}

// Each attempt is a new intent in the store: without pauses it would be hundreds in a second, for ever.
TEST_F(CoordinatorOfLiars, ATableThatAllServersRefuseIsTriedWithPauses) {
  command_answer_ = Status::BadRequest;
  sim::NotedCall call;
  begin(admin_, Opcode::CreateTable, tableOfOneTablet(), call);
  scheduler_.runUntil(scheduler_.nowNs() + runtime::kNanosPerSecond, 10'000'000);
  EXPECT_GT(commands_, 3);
  EXPECT_LT(commands_, 30);
  scheduler_.runUntil([&] { return call.ended != 0; }, 10'000'000);
}

// Servers may have done their part of the change already, and it goes on when the right state is put back.
TEST_F(CoordinatorOfLiars, AChangeThatWasBegunMayHappenAlsoWhereTheStateIsOlder) {
  control::CreateTableResponse created;
  ASSERT_EQ(ask(admin_, Opcode::CreateTable, tableOfOneTablet(), created), Status::Ok);
  command_answer_ = Status::RetryLater;  // so that it takes its time
  control::DropTableRequest drop;
  drop.set_table(created.id());
  sim::NotedCall dropping;
  commands_ = 0;
  begin(admin_, Opcode::DropTable, drop, dropping);
  ASSERT_EQ(scheduler_.runUntil([&] { return commands_ != 0; }, 10'000'000), runtime::SimScheduler::Stop::Done);
  control::RenewServerLeaseResponse renewed;
  control::RenewServerLeaseRequest renew = renewalThatHasHeard(99, 1'000);
  renew.set_nonce(1);
  EXPECT_EQ(ask(first_, Opcode::RenewServerLease, renew, renewed), Status::StateBehind);
  ASSERT_EQ(scheduler_.runUntil([&] { return dropping.ended != 0; }, 10'000'000), runtime::SimScheduler::Stop::Done);
  EXPECT_EQ(dropping.outcome(), Status::OutcomeUnknown);
  control::Empty nothing;
  EXPECT_EQ(ask(admin_, Opcode::DropTable, drop, nothing), Status::StateBehind) << "and nothing new begins";
}

// Nobody could recover it.
TEST_F(CoordinatorOfLiars, ATabletThatIsInNoLogIsNotServed) {
  first_segment_ = 0;
  control::CreateTableResponse created;
  EXPECT_NE(ask(admin_, Opcode::CreateTable, tableOfOneTablet(), created), Status::Ok);
  first_segment_ = 1;
  EXPECT_EQ(ask(admin_, Opcode::CreateTable, tableOfOneTablet(), created), Status::Ok);
}

// 65,536 is 0, which is Ok, in the 16 bits of a status.
TEST_F(CoordinatorOfLiars, ANumberThatIsNoStatusIsNotTakenForOk) {
  control::CreateTableResponse created;
  ASSERT_EQ(ask(admin_, Opcode::CreateTable, tableOfOneTablet(), created), Status::Ok);
  control::GetTabletsResponse map;
  ASSERT_EQ(ask(admin_, Opcode::GetTablets, control::GetTabletsRequest(), map), Status::Ok);
  ASSERT_EQ(map.tablets_size(), 1);

  progress_.set_done(true);
  progress_.set_status(65'536);
  control::MoveTabletRequest move;
  move.set_tablet(map.tablets(0).id());
  move.set_destination(3 - map.tablets(0).owner());
  control::MoveTabletResponse moved;
  ASSERT_EQ(ask(admin_, Opcode::MoveTablet, move, moved), Status::Ok);
  control::MigrationStatusRequest question;
  question.set_migration(moved.migration());
  control::MigrationStatusResponse answer;
  for (int i = 0; i < 1000 && answer.state() <= control::MIGRATION_RUNNING; ++i) {
    ASSERT_EQ(ask(admin_, Opcode::MigrationStatus, question, answer), Status::Ok);
  }
  EXPECT_EQ(answer.state(), control::MIGRATION_FAILED);
}

// The list of all tablets, at its longest, and half a megabyte for the servers.
TEST(ControlMessages, AllTabletsOfTheLargestClusterFitIntoOne) {
  constexpr uint64_t kMany = uint64_t{1} << 48;  // far more ids and epochs than a cluster ever gives
  const Tablet tablet{.id = TabletId(kMany),
                      .table = TableId(~uint32_t{0}),
                      .range = {KeyHash{1}, ~KeyHash{0}},
                      .epoch = TabletEpoch(kMany),
                      .last_epoch = TabletEpoch(kMany),
                      .state = TabletState::Moving,
                      .owner = ServerId(kMany),
                      .logs = {{ServerId(kMany), SegmentId(kMany)}}};
  control::GetTabletsResponse response;
  fillTablet(tablet, true, *response.add_tablets());
  const uint64_t tablet_bytes = wire::controlBytes(response);
  response.clear_tablets();
  response.add_tables()->set_id(~uint32_t{0});
  response.mutable_tables(0)->set_name(std::string(255, 'x'));
  const uint64_t table_bytes = wire::controlBytes(response);
  const uint64_t bytes = TabletMap::kTabletsMax * tablet_bytes + TableManager::kTablesMax * table_bytes;
  EXPECT_LE(bytes, wire::kControlBytesMax - 512 * 1024);
}

}  // namespace
}  // namespace ramcore::coordinator
