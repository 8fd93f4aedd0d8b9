#include "coordinator/coordinator_service.h"

#include <algorithm>
#include <set>

#include "base/mutation.h"
#include "coordinator/calls/control_records.h"
#include "coordinator/request_gate_inline.h"
#include "rpc/control_call.h"

namespace ramcore::coordinator {
namespace {

namespace control = wire::control;
using rpc::allow;
using rpc::Request;
using transport::Role;
using wire::Opcode;

// Masters in one CheckMasters request. A backup has replicas of far fewer.
constexpr int kMastersCheckedMax = 4'096;
// Tablets that are looked at in one renewal, of those that the server says it fetches. It names no more.
constexpr size_t kIntakesMax = 256;

std::vector<RecoveryAttempts::Intake> intakesOf(const control::RenewServerLeaseRequest& message) {
  std::vector<RecoveryAttempts::Intake> intakes;
  for (const control::Intake& intake : message.intakes()) {
    if (intakes.size() == kIntakesMax) break;
    if (intake.tablet() == 0 || intake.epoch() == 0) continue;
    intakes.push_back({TabletId(intake.tablet()), TabletEpoch(intake.epoch())});
  }
  return intakes;
}

// @param server  nullptr: there is no record of it
control::MasterStanding standingOf(const Server* server, bool is_still_to_come) {
  if (server != nullptr && server->alive) return control::STANDING_ALIVE;
  if (server != nullptr && !server->recovered) return control::STANDING_NEEDED;
  // A record is forgotten only after its server was recovered.
  return server == nullptr && is_still_to_come ? control::STANDING_UNKNOWN : control::STANDING_RELEASED;
}

}  // namespace

void CoordinatorService::addTo(rpc::ServiceTable& table) {
  const uint32_t servers = allow({Role::Server});
  const uint32_t users = allow({Role::Client, Role::Admin});
  const uint32_t admins = allow({Role::Admin});
  const uint32_t all = allow({Role::Client, Role::Server, Role::Coordinator, Role::Admin});
  const auto rules = [](uint32_t roles) {
    return rpc::OpcodeRules{.roles = roles, .any_target = true, .dispatch_only = true};
  };
  using Self = CoordinatorService;
  table.add<&Self::ping>(Opcode::Ping, *this, rules(all));
  table.add<&Self::enlist>(Opcode::Enlist, *this, rules(servers));
  table.add<&Self::renewServer>(Opcode::RenewServerLease, *this, rules(servers));
  table.add<&Self::goodbye>(Opcode::Goodbye, *this, rules(servers));
  table.add<&Self::getMembership>(Opcode::GetMembership, *this, rules(servers));
  table.add<&Self::raiseFloor>(Opcode::RaiseFloor, *this, rules(servers));
  table.add<&Self::checkMasters>(Opcode::CheckMasters, *this, rules(servers));
  table.add<&Self::checkClients>(Opcode::CheckClient, *this, rules(servers));
  table.add<&Self::createTable>(Opcode::CreateTable, *this, rules(users));
  table.add<&Self::dropTable>(Opcode::DropTable, *this, rules(users));
  table.add<&Self::listTables>(Opcode::ListTables, *this, rules(users));
  table.add<&Self::getTablets>(Opcode::GetTablets, *this, rules(users | servers));
  table.add<&Self::openClient>(Opcode::OpenClient, *this, rules(users));
  table.add<&Self::renewClient>(Opcode::RenewClient, *this, rules(users));
  table.add<&Self::closeClient>(Opcode::CloseClient, *this, rules(users));
  table.add<&StatusService::clusterStatus>(Opcode::ClusterStatus, status_, rules(users));
  table.add<&StatusService::clusterLoads>(Opcode::ClusterLoads, status_, rules(admins));
  table.add<&Self::acceptLoss>(Opcode::AcceptLoss, *this, rules(admins));
  moves_.addTo(table);
}

void CoordinatorService::ping(Request request) { request.reply(gate_.state()); }

// ---- servers

runtime::Task<void> CoordinatorService::enlist(Request request) {
  Journal::Running running(services_.journal);
  control::EnlistRequest message;
  if (!rpc::parseRequest(request, message)) co_return refuse(std::move(request), gate_.refusal());
  const Status heard = gate_.checkHeard(ServerId(message.former_id()), ClusterId(message.former_cluster()),
                                        wire::changeOf(message.heard()));
  if (heard != Status::Ok) co_return refuse(std::move(request), heard);
  if (!gate_.isOpen()) co_return refuse(std::move(request), gate_.state());
  // Ids are valid in one cluster only. The storage of a server of another cluster would seem to prove that a living
  // server of this cluster is dead.
  const ClusterId cluster = services_.journal.store().cluster();
  const ClusterId former_cluster(message.former_cluster());
  if ((message.former_id() != 0 || former_cluster) && former_cluster != cluster) {
    co_return refuse(std::move(request), Status::WrongCluster);
  }
  // This server has named the latest change that it has heard of. Other servers may know later ones.
  services_.membership.noteSpoken(ServerId(message.former_id()));
  if (!services_.membership.isSettled()) co_return refuse(std::move(request), Status::RetryLater);
  Server server;
  server.locators.assign(message.locators().begin(), message.locators().end());
  server.name = message.name();
  server.memory_bytes = message.memory_bytes();
  server.format_version = message.format_version();
  server.nonce = message.nonce();
  server.keeps_replicas = message.keeps_replicas();
  server.failure_domain = message.failure_domain();
  server.replicas = message.replicas();
  server.min_replicas = message.min_replicas();
  server.local_replica = message.local_replica();
  server.storage = message.storage();
  const Membership::Enlistment enlisted =
      co_await services_.membership.enlist(std::move(server), ServerId(message.former_id()));
  const Status admitted = gate_.unlessBehind(enlisted.status);
  if (admitted != Status::Ok) co_return refuse(std::move(request), admitted);
  control::EnlistResponse response;
  response.set_id(enlisted.id.value);
  response.set_cluster(cluster.value);
  response.set_lease_ns(services_.membership.leaseNs());
  response.set_membership(services_.membership.version());
  wire::fillChange(services_.history.latest(), *response.mutable_change());
  response.set_start(services_.history.start());
  rpc::replyControl(std::move(request), response);
}

void CoordinatorService::renewServer(Request request) {
  control::RenewServerLeaseRequest message;
  if (!rpc::parseRequest(request, message)) return refuse(std::move(request), gate_.refusal());
  const ServerId id(message.id());
  const bool is_own = request.peerId() == 0 || request.peerId() == message.id();
  const Status heard =
      is_own ? gate_.checkHeard(id, ClusterId(message.cluster()), wire::changeOf(message.heard())) : Status::BadRequest;
  if (heard != Status::Ok) return refuse(std::move(request), heard);
  const Status received = gate_.receiveOfMember(request, message);
  if (received != Status::Ok) return refuse(std::move(request), received);
  const Status renewed = services_.membership.renew(
      id, Membership::Renewal{
              .nonce = message.nonce(), .live_bytes = message.live_bytes(), .room_bytes = message.room_bytes()});
  if (renewed != Status::Ok) return refuse(std::move(request), renewed);
  if (gate_.isReliable(request)) services_.recoveries.reviewIntakes(id, intakesOf(message));
  control::RenewServerLeaseResponse response;
  response.set_lease_ns(services_.membership.leaseNs());
  response.set_membership(services_.membership.version());
  response.set_start(services_.history.start());
  response.set_clock_ns(services_.journal.nowNs());
  // An older copy must not hand out its changes before it is found out: the server would keep such a change, and would
  // take the right state, once that is back, for an older copy, because it lacks the change.
  if (services_.membership.isSettled()) {
    wire::fillChange(services_.history.latest(), *response.mutable_change());
  }
  rpc::replyControl(std::move(request), response);
}

runtime::Task<void> CoordinatorService::goodbye(Request request) {
  Journal::Running running(services_.journal);
  control::GoodbyeRequest message;
  Status status = gate_.receiveOfMember(request, message);
  if (status == Status::Ok && !gate_.isReliable(request)) status = Status::RetryLater;
  if (status == Status::Ok) status = co_await services_.membership.goodbye(ServerId(message.id()));
  replyStatus(std::move(request), status);
}

void CoordinatorService::getMembership(Request request) {
  control::GetMembershipRequest message;
  Status status = gate_.receiveOfMember(request, message);
  if (status == Status::Ok && !gate_.isReliable(request)) status = Status::RetryLater;
  const bool asks_nobody = RC_MUTATION("tell-the-condemned-who-is-there");
  if (status == Status::Ok && !asks_nobody) status = services_.membership.mayAsk(ServerId(message.id()));
  if (status != Status::Ok) return refuse(std::move(request), status);
  control::GetMembershipResponse response;
  response.set_version(services_.membership.version());
  response.set_start(services_.history.start());
  for (const Server* server : services_.membership.servers()) {
    if (server->alive) fillMember(*server, *response.add_members());
  }
  rpc::replyControl(std::move(request), response);
}

runtime::Task<void> CoordinatorService::raiseFloor(Request request) {
  Journal::Running running(services_.journal);
  control::RaiseFloorRequest message;
  Status status = gate_.receiveOfMember(request, message);
  if (status == Status::Ok && !gate_.isReliable(request)) status = Status::RetryLater;
  if (status == Status::Ok) {
    const ReplicaFloor floor{SegmentId(message.segment()), message.replica_epoch()};
    status = gate_.unlessBehind(co_await services_.membership.raiseFloor(ServerId(message.id()), floor));
  }
  if (status != Status::Ok) co_return refuse(std::move(request), status);
  control::RaiseFloorResponse response;
  wire::fillChange(services_.history.latest(), *response.mutable_change());
  response.set_start(services_.history.start());
  rpc::replyControl(std::move(request), response);
}

void CoordinatorService::checkMasters(Request request) {
  control::CheckMastersRequest message;
  Status status = gate_.receiveSettled(request, message);
  if (status == Status::Ok && message.masters_size() > kMastersCheckedMax) status = Status::BadRequest;
  if (status != Status::Ok) return refuse(std::move(request), status);
  control::CheckMastersResponse response;
  response.set_start(services_.history.start());
  std::set<ServerId> named;
  for (const uint64_t id : message.masters()) {
    const Server* server = services_.membership.find(ServerId(id));
    response.add_standings(standingOf(server, services_.membership.isStillToCome(ServerId(id))));
    const bool is_new = server != nullptr && server->alive && named.insert(server->id).second;
    if (is_new) fillMember(*server, *response.add_masters());
  }
  rpc::replyControl(std::move(request), response);
}

runtime::Task<void> CoordinatorService::checkClients(Request request) {
  Journal::Running running(services_.journal);
  control::CheckClientRequest message;
  const Status received = gate_.receiveSettled(request, message);
  if (received != Status::Ok) co_return refuse(std::move(request), received);
  std::vector<ClientId> ids;
  for (const uint64_t id : message.clients()) ids.emplace_back(id);
  const ClientLeases::Checked checked = co_await services_.clients.check(std::move(ids));
  const Status sure = gate_.unlessBehind(checked.status);
  if (sure != Status::Ok) co_return refuse(std::move(request), sure);
  control::CheckClientResponse response;
  for (const bool valid : checked.valid) response.add_valid(valid);
  for (const Sequence acknowledged : checked.acknowledged) response.add_acknowledged(acknowledged.value);
  response.set_checked_for_ns(checked.checked_for_ns);
  response.set_start(services_.history.start());
  rpc::replyControl(std::move(request), response);
}

// ---- clients

runtime::Task<void> CoordinatorService::openClient(Request request) {
  Journal::Running running(services_.journal);
  control::OpenClientRequest message;
  const Status received = gate_.receiveSettled(request, message);
  if (received != Status::Ok) co_return refuse(std::move(request), received);
  // A cluster that never had servers is mostly an empty directory in the place of the right one. A client that got its
  // identity there could not go on with the right one. It loses nothing by waiting: without servers nothing can be
  // changed.
  if (!services_.membership.hasHadServers()) co_return refuse(std::move(request), Status::RetryLater);
  const ClientLeases::Opened opened = co_await services_.clients.open(message.nonce());
  const Status given = gate_.unlessBehind(opened.status);
  if (given != Status::Ok) co_return refuse(std::move(request), given);
  control::OpenClientResponse response;
  response.set_client(opened.id.value);
  response.set_cluster(services_.journal.store().cluster().value);
  response.set_lease_ns(services_.clients.leaseNs());
  rpc::replyControl(std::move(request), response);
}

void CoordinatorService::renewClient(Request request) {
  control::RenewClientRequest message;
  Status status = gate_.receiveSettled(request, message);
  if (status == Status::Ok)
    status = services_.clients.renew(ClientId(message.client()), Sequence(message.acknowledged()));
  if (status != Status::Ok) return refuse(std::move(request), status);
  control::RenewClientResponse response;
  response.set_lease_ns(services_.clients.leaseNs());
  rpc::replyControl(std::move(request), response);
}

runtime::Task<void> CoordinatorService::closeClient(Request request) {
  Journal::Running running(services_.journal);
  control::CloseClientRequest message;
  Status status = gate_.receiveSettled(request, message);
  if (status == Status::Ok) status = gate_.unlessBehind(co_await services_.clients.close(ClientId(message.client())));
  replyStatus(std::move(request), status);
}

// ---- tables

runtime::Task<void> CoordinatorService::createTable(Request request) {
  Journal::Running running(services_.journal);
  control::CreateTableRequest message;
  Status received = gate_.receiveSettled(request, message);
  // A newer client may ask for a level that is not known here.
  const bool is_level =
      message.durability() == control::DURABILITY_BUFFERED || message.durability() == control::DURABILITY_SYNC;
  if (received == Status::Ok && !is_level) received = Status::BadRequest;
  if (received != Status::Ok) co_return refuse(std::move(request), received);
  const Durability durability =
      message.durability() == control::DURABILITY_SYNC ? Durability::Sync : Durability::Buffered;
  const TableManager::Created created = co_await services_.tables.create(message.name(), message.tablet_count(),
                                                                         durability, message.nonce(), waitDeadlineNs());
  const Status made = gate_.ofChange(created.status);
  if (made != Status::Ok && made != Status::TableExists) co_return refuse(std::move(request), made);
  control::CreateTableResponse response;
  response.set_id(created.id.value);
  rpc::replyControl(std::move(request), response, made);
}

runtime::Task<void> CoordinatorService::dropTable(Request request) {
  Journal::Running running(services_.journal);
  control::DropTableRequest message;
  Status status = gate_.receiveSettled(request, message);
  if (status != Status::Ok) co_return refuse(std::move(request), status);
  status = co_await services_.tables.drop(TableId(message.table()), waitDeadlineNs());
  replyStatus(std::move(request), gate_.ofChange(status));
}

void CoordinatorService::listTables(Request request) {
  control::Empty message;
  const Status received = gate_.receiveSettled(request, message);
  if (received != Status::Ok) return refuse(std::move(request), received);
  control::ListTablesResponse response;
  for (const Table* table : services_.map.tables()) {
    if (table->state != TableState::Ready) continue;
    fillTable(*table, *response.add_tables());
  }
  rpc::replyControl(std::move(request), response);
}

void CoordinatorService::getTablets(Request request) {
  control::GetTabletsRequest message;
  const Status received = gate_.receiveSettled(request, message);
  if (received != Status::Ok) return refuse(std::move(request), received);
  const bool all = message.table_name().empty() && message.table() == 0;
  const Table* wanted = !message.table_name().empty() ? services_.map.findTable(message.table_name())
                                                      : services_.map.findTable(TableId(message.table()));
  if (!all && (wanted == nullptr || wanted->state != TableState::Ready)) {
    // If the table is being created, the caller may ask again and find it.
    const bool soon = wanted != nullptr && wanted->state == TableState::Creating;
    return refuse(std::move(request), soon ? Status::RetryLater : Status::NoSuchTable);
  }
  control::GetTabletsResponse response;
  std::set<ServerId> owners;
  for (const Table* table : services_.map.tables()) {
    if (table->state != TableState::Ready || (!all && table != wanted)) continue;
    fillTable(*table, *response.add_tables());
    for (const Tablet* tablet : services_.map.tabletsOf(table->id)) {
      fillTablet(*tablet, services_.membership.isAlive(tablet->owner), *response.add_tablets());
      owners.insert(tablet->owner);
    }
  }
  for (const ServerId owner : owners) {
    if (const Server* server = services_.membership.find(owner)) fillServer(*server, *response.add_servers());
  }
  rpc::replyControl(std::move(request), response);
}

// ---- recoveries

runtime::Task<void> CoordinatorService::acceptLoss(Request request) {
  Journal::Running running(services_.journal);
  control::AcceptLossRequest message;
  Status status = gate_.receiveSettled(request, message);
  if (status == Status::Ok) {
    status = gate_.ofChange(co_await services_.recoveries.acceptLoss(ServerId(message.server()), message.token()));
  }
  replyStatus(std::move(request), status);
}

}  // namespace ramcore::coordinator
