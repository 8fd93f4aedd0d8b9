#include "unit/client/fake_cluster.h"

#include "wire/control.h"

namespace ramcore::client {
namespace {

namespace control = wire::control;
using rpc::Request;
using wire::Opcode;

const runtime::SimClock::Options kExactClock{.offset_ns_max = 0, .wall_error_ns_max = 0, .drift_ppm_max = 0};

template <typename Message>
void answerControl(Request request, const Message& message) {
  const uint32_t bytes = wire::controlBytes(message);
  transport::TxMessage response = request.allocate(static_cast<uint32_t>(sizeof(wire::ResponseHeader)) + bytes);
  response.appendHead(wire::ResponseHeader{.status = Status::Ok});
  wire::storeControl(message, response.extendHead(bytes));
  request.reply(std::move(response));
}

template <typename Message>
Message parse(const Request& request) {
  Message message;
  RC_CHECK(wire::parseControl(request.head().subspan(sizeof(wire::RequestHeader)), message));
  return message;
}

}  // namespace

FakeProcess::FakeProcess(FakeCluster& owner, const std::string& node_name, transport::Role role, uint64_t id)
    : cluster(owner),
      node(node_name),
      clock(owner.scheduler, node_name, kExactClock),
      identity{.role = role, .id = id, .cluster_name = "test", .secret = {}},
      transport(owner.network, clock, node_name, [] {}),
      dispatch(clock, silentTrace(), sleeper, {}),
      endpoint(transport.makeEndpoint(identity)) {
  dispatch.addEndpoint(*endpoint);
  dispatch.setOwnId(id);
}

// ---- FakeServer

FakeServer::FakeServer(FakeCluster& owner, const std::string& node_name, uint64_t id)
    : FakeProcess(owner, node_name, transport::Role::Server, id) {
  const auto rules = [](size_t bytes) {
    return rpc::OpcodeRules{.roles = rpc::allow({transport::Role::Client}),
                            .request_bytes_min = static_cast<uint32_t>(bytes)};
  };
  rpc::ServiceTable& services = dispatch.services();
  services.add<&FakeServer::read>(Opcode::Read, *this, rules(sizeof(wire::Read::Request)));
  services.add<&FakeServer::write>(Opcode::Write, *this, rules(sizeof(wire::Write::Request)));
  services.add<&FakeServer::write>(Opcode::Remove, *this, rules(sizeof(wire::Write::Request)));
  services.add<&FakeServer::increment>(Opcode::Increment, *this, rules(sizeof(wire::Increment::Request)));
  services.add<&FakeServer::multiRead>(Opcode::MultiRead, *this, rules(sizeof(wire::MultiRead::Request)));
  services.add<&FakeServer::multiMutate>(Opcode::MultiMutate, *this, rules(sizeof(wire::MultiMutate::Request)));
  services.add<&FakeServer::scan>(Opcode::Scan, *this, rules(sizeof(wire::Scan::Request)));
  RC_CHECK(endpoint->listen(transport::Locator::parse("sim://" + node_name).value()).ok());
}

Fate FakeServer::nextFate() {
  if (fates.empty()) return Fate::Serve;
  const Fate fate = fates.front();
  fates.pop_front();
  return fate;
}

bool FakeServer::putsOff(Request& request) {
  if (put_off == 0) return false;
  --put_off;
  request.reply(Status::RetryLater);
  return true;
}

bool FakeServer::owns(TableId asked, std::string_view key) const {
  if (asked != cluster.table) return false;
  const bool second = hashKey(asked, asBytes(key)) >> 63 != 0 || cluster.all_at_second;
  return second == (identity.id == 2);
}

void FakeServer::read(Request request) {
  if (putsOff(request)) return;
  if (!answer_reads) {
    held.push_back(std::move(request));
    return;
  }
  const auto ask = loadAs<wire::Read::Request>(request.head().data());
  const std::string key(asText(request.head().subspan(sizeof(ask), ask.key_bytes)));
  if (!owns(ask.table, key)) return refuseElsewhere(std::move(request));
  if (ask.epoch.value != cluster.epoch && !owns_any_epoch) return request.reply(Status::StaleEpoch);
  const auto found = objects.find(key);
  if (found == objects.end()) return request.reply(Status::NotFound);
  const std::string& value = found->second.value;
  transport::TxMessage response = request.allocate(static_cast<uint32_t>(sizeof(wire::Read::Response) + value.size()));
  response.appendHead(wire::Read::Response{.header = {.status = Status::Ok},
                                           .version = found->second.version,
                                           .value_bytes = static_cast<uint32_t>(value.size())});
  response.appendHead(asBytes(value));
  response->contiguous_bytes = sizeof(wire::Read::Response);
  request.reply(std::move(response));
}

std::pair<Status, Version> FakeServer::mutate(const Seen& identity_of_call, const std::string& key,
                                              const std::optional<std::string>& value, wire::Condition condition,
                                              Version condition_version) {
  const auto call = std::pair(identity_of_call.client.value, identity_of_call.sequence.value);
  if (const auto known = results.find(call); known != results.end()) return known->second;
  const auto found = objects.find(key);
  const Version present = found == objects.end() ? 0 : found->second.version;
  Status status = Status::Ok;
  if (condition == wire::Condition::MustExist && present == 0) status = Status::NotFound;
  if (condition == wire::Condition::MustNotExist && present != 0) status = Status::ObjectExists;
  if (condition == wire::Condition::VersionEquals && present != condition_version) status = Status::WrongVersion;
  Version version = present;
  if (status == Status::Ok) {
    ++carried_out;
    if (value) {
      version = ++last_version;
      objects[key] = {*value, version};
    } else {
      objects.erase(key);
    }
  }
  return results[call] = {status, version};
}

void FakeServer::write(Request request) {
  if (putsOff(request)) return;
  const auto ask = loadAs<wire::Write::Request>(request.head().data());
  seen.push_back({ask.identity.client, ask.identity.sequence, ask.identity.acknowledged});
  const Fate fate = nextFate();
  if (fate == Fate::Hold) {
    held.push_back(std::move(request));
    return;
  }
  if (fate == Fate::WrongServer) return refuseElsewhere(std::move(request));
  if (fate == Fate::RetryLater) return request.reply(Status::RetryLater, 2000);
  if (fate == Fate::LeaseExpired) return request.reply(Status::LeaseExpired);
  if (fate == Fate::Corrupt) return request.reply(Status::Corrupt);
  const std::string key(asText(request.head().subspan(sizeof(ask), ask.key_bytes)));
  if (!owns(ask.table, key)) return refuseElsewhere(std::move(request));
  if (ask.epoch.value != cluster.epoch && !owns_any_epoch) return request.reply(Status::StaleEpoch);
  std::string value;
  rpc::MessageCursor cursor(request.message());
  RC_CHECK(cursor.skip(sizeof(ask) + ask.key_bytes) && cursor.takeText(value, ask.value_bytes) && cursor.atEnd());
  const bool removes = request.opcode() == Opcode::Remove;
  const auto [status, version] =
      mutate(seen.back(), key, removes ? std::nullopt : std::optional(value), ask.condition, ask.condition_version);
  if (fate == Fate::ServeAndCut) cluster.network.cut("client", node);
  if (fate == Fate::Nonsense) return request.reply(static_cast<Status>(777));
  request.replyWith(wire::Write::Response{.header = {.status = status}, .version = version});
}

void FakeServer::refuseElsewhere(Request request) {
  if (!moved) return request.reply(Status::WrongServer);
  transport::TxMessage response = request.allocate(sizeof(wire::ResponseHeader) + sizeof(*moved));
  response.appendHead(wire::ResponseHeader{.status = Status::WrongServer});
  response.appendHead(*moved);
  request.reply(std::move(response));
}

void FakeServer::increment(Request request) {
  const auto ask = loadAs<wire::Increment::Request>(request.head().data());
  const std::string key(asText(request.head().subspan(sizeof(ask), ask.key_bytes)));
  if (!owns(ask.table, key)) return refuseElsewhere(std::move(request));
  int64_t value = ask.delta;
  if (const auto found = objects.find(key); found != objects.end()) {
    if (found->second.value.size() != sizeof(value)) return request.reply(Status::TypeMismatch);
    value += loadAs<int64_t>(asBytes(found->second.value).data());
  }
  const auto [status, version] = mutate({ask.identity.client, ask.identity.sequence, ask.identity.acknowledged}, key,
                                        std::string(asText(bytesOf(value))), ask.condition, ask.condition_version);
  request.replyWith(wire::Increment::Response{.header = {.status = status}, .version = version, .value = value});
}

void FakeServer::multiRead(Request request) {
  if (putsOff(request)) return;
  const auto ask = loadAs<wire::MultiRead::Request>(request.head().data());
  wire::Cursor cursor(request.head().subspan(sizeof(ask)));
  std::vector<std::byte> body;
  std::vector<std::byte> values;
  const auto append = [&body](ByteSpan bytes) { body.insert(body.end(), bytes.begin(), bytes.end()); };
  for (uint32_t i = 0; i < ask.count; ++i) {
    wire::MultiRead::RequestPart part;
    ByteSpan key;
    RC_CHECK(cursor.take(part) && cursor.takeBytes(part.key_bytes, key) && cursor.takePadding(part.key_bytes));
    const auto found = objects.find(std::string(asText(key)));
    wire::MultiRead::ResponsePart answer{.version = 0, .value_bytes = 0, .status = Status::NotFound};
    if (!owns(part.table, asText(key))) answer.status = Status::WrongServer;
    if (answer.status == Status::NotFound && found != objects.end()) {
      answer = {.version = found->second.version,
                .value_bytes = static_cast<uint32_t>(found->second.value.size()),
                .status = Status::Ok};
    }
    append(bytesOf(answer));
    if (answer.value_bytes == 0) continue;
    const ByteSpan value = asBytes(found->second.value);
    values.insert(values.end(), value.begin(), value.end());
  }
  RC_CHECK(cursor.atEnd());
  const auto parts_bytes = static_cast<uint32_t>(body.size());
  append(values);
  const wire::MultiRead::Response header{.header = {.status = Status::Ok}, .count = ask.count};
  transport::TxMessage response = request.allocate(static_cast<uint32_t>(sizeof(header) + body.size()));
  response.appendHead(header);
  response.appendHead(body);
  response->contiguous_bytes = sizeof(header) + parts_bytes;
  request.reply(std::move(response));
}

void FakeServer::multiMutate(Request request) {
  if (putsOff(request)) return;
  const auto ask = loadAs<wire::MultiMutate::Request>(request.head().data());
  const Fate fate = nextFate();
  if (fate == Fate::LeaseExpired) return request.reply(Status::LeaseExpired);
  wire::Cursor cursor(request.head().subspan(sizeof(ask)));
  transport::TxMessage response = request.allocate(
      static_cast<uint32_t>(sizeof(wire::MultiMutate::Response) + ask.count * sizeof(wire::MultiMutate::ResponsePart)));
  response.appendHead(wire::MultiMutate::Response{.header = {.status = Status::Ok}, .count = ask.count});
  for (uint32_t i = 0; i < ask.count; ++i) {
    wire::MultiMutate::RequestPart part;
    ByteSpan key;
    ByteSpan value;
    RC_CHECK(cursor.take(part) && cursor.takeBytes(part.key_bytes, key) && cursor.takeBytes(part.value_bytes, value) &&
             cursor.takePadding(size_t{part.key_bytes} + part.value_bytes));
    seen.push_back({ask.client, part.sequence, ask.acknowledged});
    wire::MultiMutate::ResponsePart answer{.version = 0, .status = Status::WrongServer};
    if (owns(part.table, asText(key)) && part.epoch.value == cluster.epoch) {
      const bool writes = part.kind == wire::MultiMutate::Kind::Write;
      const auto [status, version] = mutate(seen.back(), std::string(asText(key)),
                                            writes ? std::optional(std::string(asText(value))) : std::nullopt,
                                            part.condition, part.condition_version);
      answer = {.version = version, .status = fate == Fate::Unknown ? Status::OutcomeUnknown : status};
    }
    response.appendHead(answer);
  }
  RC_CHECK(cursor.atEnd());
  if (fate == Fate::ServeAndCut) cluster.network.cut("client", node);
  request.reply(std::move(response));
}

void FakeServer::scan(Request request) {
  if (putsOff(request)) return;
  const auto ask = loadAs<wire::Scan::Request>(request.head().data());
  const KeyHash last = identity.id == 1 ? ~uint64_t{0} >> 1 : ~uint64_t{0};
  std::map<KeyHash, std::string> by_hash;
  for (const auto& [key, stored] : objects) {
    const KeyHash hash = hashKey(ask.table, asBytes(key));
    if (hash >= ask.cursor && hash <= last) by_hash[hash] = key;
  }
  wire::Scan::Response header{};
  header.range_last = last;
  header.range_done = 1;
  std::vector<std::byte> body;
  const auto append = [&body](ByteSpan bytes) { body.insert(body.end(), bytes.begin(), bytes.end()); };
  for (const auto& [hash, key] : by_hash) {
    if (header.count == scan_objects_max) {
      header.range_done = 0;
      header.next_cursor = hash;
      break;
    }
    const Stored& stored = objects[key];
    append(bytesOf(wire::Scan::Part{.version = stored.version,
                                    .value_bytes = static_cast<uint32_t>(stored.value.size()),
                                    .key_bytes = static_cast<uint16_t>(key.size())}));
    append(asBytes(key));
    append(asBytes(stored.value));
    body.resize(alignUp(body.size(), 8));
    ++header.count;
  }
  transport::TxMessage response = request.allocate(static_cast<uint32_t>(sizeof(header) + body.size()));
  response.appendHead(header);
  response.appendHead(body);
  response->contiguous_bytes = sizeof(header);
  request.reply(std::move(response));
}

void FakeServer::releaseHeld() {
  for (Request& request : held) request.reply(Status::RetryLater);
  held.clear();
}

// ---- FakeCluster

FakeCluster::FakeCluster(uint64_t seed)
    : scheduler(seed), network(scheduler, {.mode = transport::SimMode::Stream}), entropy(seed) {
  coordinator = std::make_unique<FakeProcess>(*this, "coordinator", transport::Role::Coordinator, 0);
  rpc::OpcodeRules rules{.roles = rpc::allow({transport::Role::Client})};
  rules.any_target = true;
  rpc::ServiceTable& services = coordinator->dispatch.services();
  services.add<&FakeCluster::createTable>(Opcode::CreateTable, *this, rules);
  services.add<&FakeCluster::dropTable>(Opcode::DropTable, *this, rules);
  services.add<&FakeCluster::listTables>(Opcode::ListTables, *this, rules);
  services.add<&FakeCluster::getTablets>(Opcode::GetTablets, *this, rules);
  services.add<&FakeCluster::openClient>(Opcode::OpenClient, *this, rules);
  services.add<&FakeCluster::renewClient>(Opcode::RenewClient, *this, rules);
  services.add<&FakeCluster::closeClient>(Opcode::CloseClient, *this, rules);
  RC_CHECK(coordinator->endpoint->listen(transport::Locator::parse("sim://coordinator").value()).ok());
  for (const uint64_t id : {1, 2}) {
    servers.push_back(std::make_unique<FakeServer>(*this, "server" + std::to_string(id), id));
  }
  client_process = std::make_unique<FakeProcess>(*this, "client", transport::Role::Client, 0);
  caller = std::make_unique<rpc::Caller>(client_process->dispatch);
  rpc::PeerAddress address{.id = 0, .locators = {transport::Locator::parse("sim://coordinator").value()}};
  client = std::make_unique<ClusterClient>(*caller, entropy, std::vector{address}, ClusterClientOptions{});
}

FakeCluster::~FakeCluster() {
  for (auto& server : servers) server->releaseHeld();
  answerHeldQuestions();
  client->stop();
  caller->shutDown();
  RC_CHECK(runUntil([&] { return client->isIdle(); }));
  passTime(5 * runtime::kNanosPerSecond);
  client.reset();
  caller.reset();
}

void FakeCluster::round() {
  bool found = coordinator->dispatch.step();
  for (auto& server : servers) found |= server->dispatch.step();
  if (!client_stands_still) found |= client_process->dispatch.step();
  if (found) return;
  int64_t next_ns = scheduler.nowNs() + runtime::kNanosPerMilli;
  const int64_t timer_ns = client_process->dispatch.earliestNs();
  if (timer_ns != runtime::kNever && !client_stands_still)
    next_ns = std::min(next_ns, client_process->clock.simTimeOf(timer_ns));
  scheduler.runUntil(std::max(next_ns, scheduler.nowNs()), 1);
}

void FakeCluster::passTime(int64_t duration_ns) {
  const int64_t end_ns = scheduler.nowNs() + duration_ns;
  RC_CHECK(runUntil([&] { return scheduler.nowNs() >= end_ns; }));
}

void FakeCluster::createTable(Request request) {
  const auto ask = parse<control::CreateTableRequest>(request);
  if (table && ask.nonce() != table_nonce) return request.reply(Status::TableExists);
  if (!table) {
    table = TableId(++last_table);
    table_name = ask.name();
    table_nonce = ask.nonce();
  }
  loseChangeAnswer();
  control::CreateTableResponse response;
  response.set_id(table.value);
  answerControl(std::move(request), response);
}

void FakeCluster::dropTable(Request request) {
  const auto ask = parse<control::DropTableRequest>(request);
  if (!table || ask.table() != table.value) return request.reply(Status::NoSuchTable);
  table = TableId();
  loseChangeAnswer();
  request.reply(change_is_slow ? Status::OutcomeUnknown : Status::Ok);
}

void FakeCluster::loseChangeAnswer() {
  if (!on_lost_answer) return;
  const std::function<void()> happens = std::exchange(on_lost_answer, nullptr);
  network.cut("client", "coordinator");
  happens();
}

void FakeCluster::listTables(Request request) {
  control::ListTablesResponse response;
  if (table) {
    response.add_tables()->set_id(table.value);
    response.mutable_tables(0)->set_name(table_name);
  }
  answerControl(std::move(request), response);
}

void FakeCluster::getTablets(Request request) {
  const auto ask = parse<control::GetTabletsRequest>(request);
  ++tablet_questions;
  if (!answer_tablets) {
    held_questions.push_back(std::move(request));
    return;
  }
  if (tablets_status != Status::Ok) return request.reply(tablets_status);
  if (!table || (ask.table() != table.value && ask.table_name() != table_name)) {
    return request.reply(Status::NoSuchTable);
  }
  control::GetTabletsResponse response;
  response.add_tables()->set_id(table.value);
  response.mutable_tables(0)->set_name(table_name);
  for (const uint64_t id : {1, 2}) {
    control::Tablet& tablet = *response.add_tablets();
    tablet.set_id(10 + id);
    tablet.set_table(table.value);
    tablet.set_first_hash(id == 1 ? 0 : uint64_t{1} << 63);
    tablet.set_last_hash(id == 1 ? ~uint64_t{0} >> 1 : ~uint64_t{0});
    tablet.set_epoch(epoch);
    tablet.set_state(control::TABLET_NORMAL);
    tablet.set_owner(all_at_second ? 2 : id);
    control::Server& server = *response.add_servers();
    server.set_id(id);
    server.add_locators("sim://server" + std::to_string(id));
  }
  answerControl(std::move(request), response);
}

void FakeCluster::answerHeldQuestions() {
  answer_tablets = true;
  for (Request& request : std::exchange(held_questions, {})) getTablets(std::move(request));
}

void FakeCluster::openClient(Request request) {
  control::OpenClientResponse response;
  response.set_client(100 + ++clients_opened);
  response.set_lease_ns(client_lease_ns);
  answerControl(std::move(request), response);
}

void FakeCluster::renewClient(Request request) {
  ++renewals;
  if (!renews_clients) return request.reply(Status::LeaseExpired);
  control::RenewClientResponse response;
  response.set_lease_ns(client_lease_ns);
  answerControl(std::move(request), response);
}

void FakeCluster::closeClient(Request request) { request.reply(Status::Ok); }

}  // namespace ramcore::client
