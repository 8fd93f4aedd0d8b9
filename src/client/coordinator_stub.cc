#include "client/coordinator_stub.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/histogram.h"
#include "client/tablet_decoding.h"
#include "rpc/control_call.h"
#include "runtime/await.h"

namespace ramcore::client {
namespace {

namespace control = wire::control;
using runtime::Task;
using wire::Opcode;

// One attempt waits at most this long for an answer, so that a coordinator that hangs does not use up a whole deadline.
constexpr int64_t kAttemptNs = runtime::kNanosPerSecond;

// True if another attempt, at this or another coordinator, may end otherwise.
bool isPassing(Status status) {
  return isRetryable(status) || status == Status::Unreachable || status == Status::SessionLost ||
         status == Status::DeadlineExceeded || status == Status::Cancelled ||
         status == Status::WrongCluster ||  // the right one will be back there
         status == Status::OutcomeUnknown;  // stored, or perhaps: to be asked again until it is finished
}

template <typename Messages>
std::vector<TransportSessions> sessionsOf(const Messages& messages) {
  std::vector<TransportSessions> out;
  for (const control::TransportSessions& transport : messages) {
    TransportSessions& sessions = out.emplace_back();
    sessions.name = transport.name();
    sessions.sessions = transport.sessions();
    for (const control::OpenSession& open : transport.open()) {
      const bool is_role = open.peer_role() <= static_cast<uint32_t>(transport::Role::Admin);
      sessions.open.push_back(
          {.peer_role = is_role ? static_cast<transport::Role>(open.peer_role()) : transport::Role{},
           .peer_id = open.peer_id(),
           .peer_address = open.peer_address()});
    }
  }
  return out;
}

bool parseCallTimes(const control::CallTimes& times, std::map<uint32_t, uint64_t>& counts) {
  if (times.buckets_size() != times.counts_size()) return false;
  for (int i = 0; i < times.buckets_size(); ++i) {
    const bool is_next = times.buckets(i) < LogLinearHistogram::kBucketCount &&
                         (counts.empty() || times.buckets(i) > counts.rbegin()->first);
    if (!is_next) return false;
    counts.emplace_hint(counts.end(), times.buckets(i), times.counts(i));
  }
  return true;
}

void fillAnswered(const control::ServerStateResponse& state, ServerStatus& known) {
  known.has_answered = true;
  static_cast<wire::ServerNumbers&>(known) = wire::numbersIn(state);
  known.frames_free = std::min(known.frames_free, known.frames_total);
  known.transports = sessionsOf(state.transports());
}

RecoveryProgress progressOf(const control::RecoveryStatus& recovery) {
  RecoveryProgress progress;
  progress.server = ServerId(recovery.server());
  progress.server_name = recovery.server_name();
  progress.tablets_left = recovery.tablets_left();
  for (const uint64_t segment : recovery.missing_segments()) progress.missing.emplace_back(segment);
  progress.missing_count = recovery.missing_count();
  for (const uint64_t server : recovery.servers_away()) progress.away.emplace_back(server);
  progress.text = recovery.text();
  progress.away_for_ns.assign(recovery.away_for_ns().begin(), recovery.away_for_ns().end());
  progress.away_for_ns.resize(progress.away.size(), -1);
  progress.missing_servers = recovery.missing_servers();
  progress.missing_storage_bytes = recovery.missing_storage_bytes();
  progress.loss_token = recovery.loss_token();
  const bool is_end = control::LossEnd_IsValid(static_cast<int>(recovery.loss_end()));
  progress.loss_end = is_end ? static_cast<RecoveryProgress::End>(recovery.loss_end()) : RecoveryProgress::End::Unknown;
  progress.loss_list = SegmentId(recovery.loss_list());
  progress.segments_whole = recovery.segments_whole();
  progress.segments_in_part = recovery.segments_in_part();
  progress.loss_accepted = recovery.loss_accepted();
  return progress;
}

void read(const control::MigrationStatusResponse& response, MigrationStatus& out) {
  switch (response.state()) {
    case control::MIGRATION_RUNNING:
      out.state = MigrationStatus::State::Running;
      break;
    case control::MIGRATION_DONE:
      out.state = MigrationStatus::State::Done;
      break;
    case control::MIGRATION_CANCELLED:
      out.state = MigrationStatus::State::Cancelled;
      break;
    case control::MIGRATION_FAILED:
      out.state = MigrationStatus::State::Failed;
      break;
    default:
      break;
  }
  out.objects = response.objects();
  out.bytes = response.bytes();
  out.fraction = response.fraction() >= 0 && response.fraction() <= 1 ? response.fraction() : 0;
  out.reason = response.reason();
  out.step = response.step();
  out.lacks_room = response.lacks_room();
}

}  // namespace

CoordinatorStub::CoordinatorStub(rpc::Caller& caller, Pacer& pacer, std::vector<rpc::PeerAddress> coordinators,
                                 const RetrySettings& retry, runtime::Random random)
    : caller_(caller), pacer_(pacer), coordinators_(std::move(coordinators)), retry_(retry), random_(random) {}

bool CoordinatorStub::isWorthRepeating(Status status, const rpc::PeerAddress& asked) const {
  if (status == Status::Unreachable) return has_answered_ || !coordinators_.areHopeless(caller_);
  if (status != Status::Refused) return isPassing(status);
  // If the handshake was refused, another coordinator may accept this client. Refused as an answer to a call is final.
  return caller_.connection(asked).openFailure().isLasting() && !coordinators_.areHopeless(caller_);
}

template <typename RequestMessage, typename ResponseMessage>
Task<Status> CoordinatorStub::call(Opcode opcode, RequestMessage request, ResponseMessage& response, Effect effect,
                                   int64_t deadline_ns, int64_t* sent_ns) {
  co_await pacer_.enter();
  Backoff backoff(retry_);
  bool may_have_happened = false;
  Status lack = Status::Ok;  // what the last coordinator that answered lacks: room, or the newest copy of its state
  for (;;) {
    if (pacer_.stopped()) {
      const bool is_known = !may_have_happened || effect == Effect::None;
      co_return is_known ? Status::Shutdown : Status::OutcomeUnknown;
    }
    const int64_t now_ns = pacer_.nowNs();
    const rpc::CallSettings settings{.deadline_ns = std::min(deadline_ns, addNs(now_ns, kAttemptNs))};
    const rpc::PeerAddress& asked = coordinators_.current();
    if (sent_ns != nullptr) *sent_ns = now_ns;
    const rpc::ControlOutcome outcome =
        co_await rpc::callControl(caller_, pacer_.executor(), coordinators_, opcode, request, response, settings);
    has_answered_ |= caller_.connection(asked).isOpen();
    // Each time that a move is to be taken back its tablet is frozen for a moment: once is enough where there is no
    // room.
    const bool is_final = opcode == Opcode::CancelMigration && outcome.status == Status::NoSpace;
    if (is_final || !isWorthRepeating(outcome.status, asked)) {
      const bool tells = effect != Effect::Once || !may_have_happened || outcome.status == Status::Ok;
      const bool is_gone = effect == Effect::Removal && outcome.status == Status::NoSuchTable;
      if (is_gone && may_have_happened) co_return Status::Ok;
      if (effect != Effect::None && outcome.status == Status::Corrupt) co_return Status::OutcomeUnknown;
      co_return tells ? outcome.status : Status::OutcomeUnknown;
    }
    may_have_happened |= outcome.may_have_happened || outcome.status == Status::OutcomeUnknown;
    const bool is_away = outcome.status == Status::Unreachable || outcome.status == Status::SessionLost ||
                         outcome.status == Status::DeadlineExceeded;
    const bool is_lack = outcome.status == Status::StateBehind || outcome.status == Status::CoordinatorFull;
    // The time may end while an attempt has no answer: what the coordinator said before stays the cause.
    if (!is_away) lack = is_lack ? outcome.status : Status::Ok;
    const int64_t resume_ns = addNs(pacer_.nowNs(), backoff.nextNs(outcome.retry_after_us, random_));
    if (resume_ns >= deadline_ns) {
      // What is stored of a change goes on when there is room, so the caller has to learn this cause. Of what is not
      // begun again it would say that it has not happened, and the attempt without an answer may have done it.
      const bool tells_all = effect != Effect::Once || outcome.status == lack;
      if (lack == Status::CoordinatorFull && tells_all) co_return lack;
      if (may_have_happened && effect != Effect::None) co_return Status::OutcomeUnknown;
      if (lack != Status::Ok) co_return lack;
      const bool is_cause = outcome.status == Status::Unreachable || outcome.status == Status::Refused ||
                            outcome.status == Status::NoSpace || outcome.status == Status::WrongCluster ||
                            (outcome.status == Status::RetryLater && effect == Effect::Once);
      co_return is_cause ? outcome.status : Status::DeadlineExceeded;
    }
    [[maybe_unused]] const Status woken = co_await pacer_.pauseUntil(resume_ns);
  }
}

Task<Status> CoordinatorStub::ping(int64_t deadline_ns) {
  control::Empty response;
  co_return co_await call(Opcode::Ping, control::Empty(), response, Effect::None, deadline_ns);
}

std::string CoordinatorStub::whyNoAnswer() const {
  if (!isReached()) return coordinators_.explain(caller_, "client");
  return "the coordinator at " + places() +
         " answers, but does not serve yet: it reads its state, or another one is in charge; try again, its log says "
         "more";
}

// ---- tables

Task<Result<TableId>> CoordinatorStub::createTable(std::string name, uint32_t tablet_count, int64_t deadline_ns,
                                                   Durability durability) {
  control::CreateTableRequest request;
  request.set_name(name);
  request.set_tablet_count(tablet_count);
  request.set_nonce(random_.next() | 1);
  request.set_durability(durability == Durability::Sync ? control::DURABILITY_SYNC : control::DURABILITY_BUFFERED);
  control::CreateTableResponse response;
  const Status status = co_await call(Opcode::CreateTable, request, response, Effect::Idempotent, deadline_ns);
  if (status != Status::Ok) co_return status;
  if (response.id() == 0) co_return Status::Corrupt;
  co_return TableId(response.id());
}

Task<Status> CoordinatorStub::dropTable(TableId table, int64_t deadline_ns) {
  control::DropTableRequest request;
  request.set_table(table.value);
  control::Empty response;
  co_return co_await call(Opcode::DropTable, request, response, Effect::Removal, deadline_ns);
}

Task<Result<std::vector<TableInfo>>> CoordinatorStub::listTables(int64_t deadline_ns) {
  control::ListTablesResponse response;
  const Status status = co_await call(Opcode::ListTables, control::Empty(), response, Effect::None, deadline_ns);
  if (status != Status::Ok) co_return status;
  std::vector<TableInfo> tables;
  for (const control::Table& table : response.tables()) {
    if (table.id() == 0) co_return Status::Corrupt;
    tables.push_back({.table = Table{table.id()}, .name = table.name(), .durability = durabilityOf(table)});
  }
  co_return tables;
}

Task<Result<TableMap>> CoordinatorStub::tabletsOf(std::string table_name, int64_t deadline_ns) {
  // An empty name would ask for all tables.
  if (table_name.empty()) co_return Status::NoSuchTable;
  control::GetTabletsRequest request;
  request.set_table_name(table_name);
  control::GetTabletsResponse response;
  const Status status = co_await call(Opcode::GetTablets, request, response, Effect::None, deadline_ns);
  if (status != Status::Ok) co_return status;
  std::vector<TableMap> maps;
  if (!decodeTableMaps(response.tables(), response.tablets(), response.servers(), maps)) co_return Status::Corrupt;
  if (maps.size() != 1 || maps.front().name != table_name) co_return Status::Corrupt;
  co_return std::move(maps.front());
}

Task<Result<TableMap>> CoordinatorStub::tabletsOf(TableId table, int64_t deadline_ns) {
  if (!table) co_return Status::NoSuchTable;
  control::GetTabletsRequest request;
  request.set_table(table.value);
  control::GetTabletsResponse response;
  const Status status = co_await call(Opcode::GetTablets, request, response, Effect::None, deadline_ns);
  if (status != Status::Ok) co_return status;
  std::vector<TableMap> maps;
  if (!decodeTableMaps(response.tables(), response.tablets(), response.servers(), maps)) co_return Status::Corrupt;
  if (maps.size() != 1 || maps.front().table != table) co_return Status::Corrupt;
  co_return std::move(maps.front());
}

Task<Result<std::vector<TableMap>>> CoordinatorStub::allTablets(int64_t deadline_ns) {
  control::GetTabletsResponse response;
  const Status status =
      co_await call(Opcode::GetTablets, control::GetTabletsRequest(), response, Effect::None, deadline_ns);
  if (status != Status::Ok) co_return status;
  std::vector<TableMap> maps;
  if (!decodeTableMaps(response.tables(), response.tablets(), response.servers(), maps)) co_return Status::Corrupt;
  co_return maps;
}

// ---- client leases

Task<Result<CoordinatorStub::Lease>> CoordinatorStub::openClient(uint64_t nonce, int64_t deadline_ns) {
  control::OpenClientRequest request;
  request.set_nonce(nonce);
  control::OpenClientResponse response;
  Lease lease;
  const Status status = co_await call(Opcode::OpenClient, request, response, Effect::None, deadline_ns, &lease.sent_ns);
  if (status != Status::Ok) co_return status;
  if (response.client() == 0 || response.lease_ns() <= 0) co_return Status::Corrupt;
  lease.client = ClientId(response.client());
  lease.lease_ns = response.lease_ns();
  caller_.settleCluster(response.cluster());  // the identity is one of that cluster alone
  co_return lease;
}

Task<Result<CoordinatorStub::Lease>> CoordinatorStub::renewClient(ClientId client, Sequence acknowledged,
                                                                  int64_t deadline_ns) {
  control::RenewClientRequest request;
  request.set_client(client.value);
  request.set_acknowledged(acknowledged.value);
  control::RenewClientResponse response;
  Lease lease{.client = client};
  const Status status =
      co_await call(Opcode::RenewClient, request, response, Effect::None, deadline_ns, &lease.sent_ns);
  if (status != Status::Ok) co_return status;
  if (response.lease_ns() <= 0) co_return Status::Corrupt;
  lease.lease_ns = response.lease_ns();
  co_return lease;
}

Task<Status> CoordinatorStub::closeClient(ClientId client, int64_t deadline_ns) {
  control::CloseClientRequest request;
  request.set_client(client.value);
  control::Empty response;
  co_return co_await call(Opcode::CloseClient, request, response, Effect::Idempotent, deadline_ns);
}

// ---- administration

Task<Result<uint64_t>> CoordinatorStub::moveTablet(TabletId tablet, ServerId destination, int64_t deadline_ns,
                                                   uint64_t rate_max) {
  control::MoveTabletRequest request;
  request.set_tablet(tablet.value);
  request.set_destination(destination.value);
  request.set_rate_max(rate_max);
  control::MoveTabletResponse response;
  const Status status = co_await call(Opcode::MoveTablet, request, response, Effect::Once, deadline_ns);
  if (status != Status::Ok) co_return status;
  if (response.migration() == 0) co_return Status::Corrupt;
  co_return response.migration();
}

Task<Result<CoordinatorStub::Halves>> CoordinatorStub::splitTable(TableId table, KeyHash at, int64_t deadline_ns) {
  control::SplitTableRequest request;
  request.set_table(table.value);
  request.set_at_hash(at);
  control::SplitTableResponse response;
  const Status status = co_await call(Opcode::SplitTable, request, response, Effect::Once, deadline_ns);
  if (status != Status::Ok) co_return status;
  const Halves halves{.lower = TabletId(response.lower_tablet()), .upper = TabletId(response.upper_tablet())};
  if (!halves.lower || !halves.upper) co_return Status::Corrupt;
  co_return halves;
}

Task<Result<MigrationStatus>> CoordinatorStub::migrationStatus(uint64_t migration, int64_t deadline_ns) {
  control::MigrationStatusRequest request;
  request.set_migration(migration);
  control::MigrationStatusResponse response;
  const Status status = co_await call(Opcode::MigrationStatus, request, response, Effect::None, deadline_ns);
  if (status != Status::Ok) co_return status;
  MigrationStatus out;
  read(response, out);
  co_return out;
}

Task<Result<std::vector<MigrationRecord>>> CoordinatorStub::listMigrations(int64_t deadline_ns) {
  control::ListMigrationsResponse response;
  const Status status = co_await call(Opcode::ListMigrations, control::Empty(), response, Effect::None, deadline_ns);
  if (status != Status::Ok) co_return status;
  std::vector<MigrationRecord> out;
  for (const control::MigrationRecord& record : response.migrations()) {
    MigrationRecord& to = out.emplace_back();
    read(record.status(), to);
    to.migration = record.migration();
    to.tablet = TabletId(record.tablet());
    to.table = TableId(record.table());
    to.source = ServerId(record.source());
    to.destination = ServerId(record.destination());
    to.age_ns = std::max<int64_t>(record.age_ns(), -1);
    to.over_for_ns = std::max<int64_t>(record.over_for_ns(), -1);
    to.rate_max = record.rate_max();
  }
  co_return out;
}

Task<Status> CoordinatorStub::setMigrationRate(uint64_t migration, uint64_t rate_max, int64_t deadline_ns) {
  control::SetMigrationRateRequest request;
  request.set_migration(migration);
  request.set_rate_max(rate_max);
  control::Empty response;
  co_return co_await call(Opcode::SetMigrationRate, request, response, Effect::Idempotent, deadline_ns);
}

Task<Status> CoordinatorStub::cancelMigration(uint64_t migration, int64_t deadline_ns) {
  control::CancelMigrationRequest request;
  request.set_migration(migration);
  control::Empty response;
  co_return co_await call(Opcode::CancelMigration, request, response, Effect::Idempotent, deadline_ns);
}

Task<Status> CoordinatorStub::acceptLoss(ServerId dead, uint64_t token, int64_t deadline_ns) {
  control::AcceptLossRequest request;
  request.set_server(dead.value);
  request.set_token(token);
  control::Empty response;
  co_return co_await call(Opcode::AcceptLoss, request, response, Effect::Idempotent, deadline_ns);
}

Task<Result<ClusterLoads>> CoordinatorStub::clusterLoads(int64_t deadline_ns, bool only_calls) {
  control::LoadsRequest request;
  request.set_only_calls(only_calls);
  control::ClusterLoadsResponse response;
  const Status status = co_await call(Opcode::ClusterLoads, request, response, Effect::None, deadline_ns);
  if (status != Status::Ok) co_return status;
  ClusterLoads out;
  for (const control::TabletLoadsResponse& server : response.servers()) {
    ServerCalls& calls = out.calls.emplace_back();
    calls.server = ServerId(server.id());
    if (!parseCallTimes(server.calls(), calls.counts)) co_return Status::Corrupt;
    for (const control::TabletLoad& load : server.tablets()) {
      TabletLoad& to = out.tablets.emplace_back();
      to.server = ServerId(server.id());
      to.tablet = TabletId(load.tablet());
      to.objects = load.objects();
      to.bytes = load.bytes();
      to.calls = load.reads() + load.writes();
      to.called.assign(load.called().begin(), load.called().end());
      std::ranges::sort(to.called);
      to.hot_key = load.hot_key();
    }
  }
  co_return out;
}

Task<Result<ClusterStatus>> CoordinatorStub::clusterStatus(int64_t deadline_ns, bool lists_sessions) {
  control::ClusterStatusRequest request;
  request.set_lists_sessions(lists_sessions);
  control::ClusterStatusResponse response;
  const Status status = co_await call(Opcode::ClusterStatus, request, response, Effect::None, deadline_ns);
  if (status != Status::Ok) co_return status;
  ClusterStatus out;
  out.cluster = ClusterId(response.cluster());
  out.name = response.cluster_name();
  out.coordinator_transports = sessionsOf(response.transports());
  out.is_coordinator_full = response.storage_full();
  std::map<uint64_t, size_t> places;
  for (const control::Server& server : response.servers()) {
    if (!places.emplace(server.id(), out.servers.size()).second) co_return Status::Corrupt;
    ServerStatus& known = out.servers.emplace_back();
    known.id = ServerId(server.id());
    known.name = server.name();
    known.locators.assign(server.locators().begin(), server.locators().end());
    known.is_alive = server.alive();
    known.memory_bytes = server.memory_bytes();
  }
  for (const control::ServerStateResponse& state : response.states()) {
    const auto place = places.find(state.id());
    if (place == places.end()) co_return Status::Corrupt;
    ServerStatus& known = out.servers[place->second];
    fillAnswered(state, known);
  }
  for (const control::RecoveryStatus& recovery : response.recoveries()) {
    out.recoveries.push_back(progressOf(recovery));
  }
  for (const control::ServerSilence& silence : response.silences()) {
    const bool is_known = control::SilenceWait_IsValid(static_cast<int>(silence.wait()));
    out.silences.push_back(
        {.server = ServerId(silence.server()),
         .silent_ns = silence.silent_ns(),
         .wait = is_known ? static_cast<ServerSilence::Wait>(silence.wait()) : ServerSilence::Wait::Unknown});
  }
  if (!decodeTableMaps(response.tables(), response.tablets(), response.servers(), out.tables)) {
    co_return Status::Corrupt;
  }
  co_return out;
}

}  // namespace ramcore::client
