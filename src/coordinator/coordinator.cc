#include "coordinator/coordinator.h"

#include "base/check.h"
#include "coordinator/calls/rpc_master_calls.h"
#include "coordinator/coordinator_service.h"

namespace ramcore::coordinator {

struct Coordinator::State {
  State(const Environment& environment, const CoordinatorOptions& options)
      : trace(environment.trace),
        journal(environment.store, environment.dispatch, environment.on_failed),
        history(journal, environment.start),
        given_up_change(options.given_up_change),
        on_behind(environment.on_behind),
        membership(journal, environment.trace, options.membership),
        clients(journal, options.client_lease_ns),
        masters(environment.caller, journal, membership, history, options.call_ns),
        status_calls(environment.caller, journal, membership, history, options.status_call_ns),
        map_lock(environment.dispatch),
        tablet_ids(journal, "tablet"),
        migrations(parts()),
        splits(parts(), migrations),
        recoveries(parts()),
        tables(parts(), {&migrations, &splits, &recoveries}),
        service({journal, history, map, membership, clients, tables, migrations, splits, recoveries, status_calls,
                 environment.trace},
                options) {}

  Parts parts() { return {journal, trace, map, map_lock, membership, masters, tablet_ids}; }

  Trace& trace;
  Journal journal;
  ChangeHistory history;
  const uint64_t given_up_change;
  const std::function<void()> on_behind;
  bool has_begun = false;  ///< start() or resume() was called on the parts
  bool stores_missing = false;
  /// A missing change was noted that is not stored: it came while others were being stored, or storing failed.
  bool has_more_missing = false;
  bool told_behind = false;
  Membership membership;
  ClientLeases clients;
  RpcMasterCalls masters;
  RpcMasterCalls status_calls;
  TabletMap map;
  AsyncMutex map_lock;
  IdAllocator tablet_ids;
  MigrationManager migrations;
  SplitManager splits;
  RecoveryManager recoveries;
  TableManager tables;
  CoordinatorService service;
};

Coordinator::Coordinator(const Environment& environment, const CoordinatorOptions& options)
    : state_(std::make_unique<State>(environment, options)) {
  state_->service.addTo(environment.dispatch.services());
  state_->service.gate().setOnMissing([this](ServerId server, ChangeRef missing) {
    // Requests that arrive later in this round are refused, too.
    state_->service.gate().close(Status::StateBehind);
    const bool is_new = state_->history.noteMissing(missing);
    if (is_new || state_->has_more_missing) endForMissing(*state_, server).detach();
  });
}

Coordinator::~Coordinator() { RC_CHECK(isIdle()); }

void Coordinator::start(std::function<void(Status)> on_started) { run(*state_, std::move(on_started)).detach(); }

runtime::Task<void> Coordinator::run(State& state, std::function<void(Status)> on_started) {
  Journal::Running running(state.journal);
  // Each part relies on the ones before it.
  Status loaded = co_await readHistory(state, state.given_up_change);
  if (loaded == Status::StateBehind || loaded == Status::BadConfig) {
    if (loaded == Status::StateBehind) state.service.gate().close(loaded);
    on_started(loaded);
    co_return;
  }
  if (loaded == Status::Ok) loaded = co_await state.membership.load();
  if (loaded == Status::Ok) loaded = co_await state.clients.load();
  if (loaded == Status::Ok) loaded = co_await state.tablet_ids.load();
  if (loaded == Status::Ok) loaded = co_await state.tables.load();
  if (loaded == Status::Ok) loaded = co_await state.migrations.load();
  if (loaded == Status::Ok) loaded = co_await state.splits.load();
  if (loaded == Status::Ok) loaded = co_await state.recoveries.load();
  if (loaded == Status::Ok && state.journal.stopping()) loaded = Status::Shutdown;
  if (loaded != Status::Ok) {
    const std::string& warning = state.journal.warning();
    state.trace.error("the coordinator cannot read its state: " + std::string(name(loaded)) +
                      (warning.empty() ? "" : ": " + warning));
    on_started(loaded);
    co_return;
  }
  state.has_begun = true;
  state.membership.start();
  state.clients.start();
  state.tables.resume();
  state.migrations.resume();
  state.splits.resume();
  state.recoveries.resume();
  state.service.gate().open();
  on_started(Status::Ok);
}

runtime::Task<Status> Coordinator::readHistory(State& state, uint64_t given_up_change) {
  ChangeHistory& history = state.history;
  const Status loaded = co_await history.load();
  if (loaded != Status::Ok) co_return loaded;
  if (given_up_change != 0 && given_up_change != history.missingNumber()) {
    state.trace.error("nothing is known to be missing up to change " + std::to_string(given_up_change) +
                      (history.isBehind() ? "; " + history.describeMissing() : std::string()));
    co_return Status::BadConfig;
  }
  if (history.isBehind() && given_up_change == 0) {
    state.trace.error(history.describeMissing() + "; nobody is served");
    co_return Status::StateBehind;
  }
  const Status begun = co_await history.begin();
  if (begun != Status::Ok || !history.isBehind()) co_return begun;
  state.trace.warning("going on without the changes up to " + std::to_string(given_up_change) +
                      ", as it was asked for");
  co_return co_await history.giveUpMissing();
}

// A server has heard of a change that is not in this state. Others may have been promised what is not known here, so
// all that is under way ends as when the process stops.
runtime::Task<void> Coordinator::endForMissing(State& state, ServerId server) {
  Journal::Running running(state.journal);
  state.has_more_missing = true;
  if (state.stores_missing) co_return;
  state.stores_missing = true;
  Status stored = Status::Ok;
  // Changes that servers name meanwhile are stored with the next commit.
  while (state.has_more_missing && stored == Status::Ok) {
    state.has_more_missing = false;
    stored = co_await state.history.storeMissing();
  }
  state.stores_missing = false;
  // If storing failed, it is tried again when a server names a missing change again.
  if (stored != Status::Ok) state.has_more_missing = true;
  // Traced once: servers go on naming missing changes, and would fill the log. The next start says what is missing.
  if (state.told_behind || state.journal.stopping()) co_return;
  state.told_behind = true;
  state.trace.error(state.history.describeMissing() + (server ? ", says server " + std::to_string(server.value) : "") +
                    "; nobody is served" +
                    (stored == Status::Ok ? "" : ", and that could not be stored (" + std::string(name(stored)) + ")"));
  if (state.on_behind) state.on_behind();
  if (state.has_begun) endParts(state);
}

bool Coordinator::isServing() const { return state_->service.gate().isOpen(); }

bool Coordinator::isStorageFull() const { return state_->journal.isFull(); }

void Coordinator::stop() {
  state_->service.gate().close(Status::NotLeader);
  state_->journal.stop();
  endParts(*state_);
}

void Coordinator::endParts(State& state) {
  state.journal.endWork();
  state.membership.stop();
  state.clients.stop();
  state.tables.stop();
  state.migrations.stop();
  state.splits.stop();
  state.recoveries.stop();
}

bool Coordinator::isIdle() const { return state_->journal.idle(); }

Coordinator::Counts Coordinator::counts() const {
  Counts counts{
      .tables = state_->map.tableCount(), .tablets = state_->map.tabletCount(), .clients = state_->clients.count()};
  const std::vector<RecoveryReport> reports = state_->recoveries.reports();
  counts.servers_to_recover = reports.size();
  for (const RecoveryReport& report : reports) {
    counts.missing_servers = std::max(counts.missing_servers, report.missing_places.servers);
    counts.missing_storage_bytes = std::max(counts.missing_storage_bytes, report.missing_places.storage_bytes);
  }
  counts.servers_recovered = state_->recoveries.finished().servers;
  counts.recoveries_given_up = state_->recoveries.finished().given_up;
  counts.tablets_recovered = state_->recoveries.finished().tablets;
  counts.verdicts_by_silence = state_->membership.verdictsBySilence();
  for (const Server* server : state_->membership.servers()) counts.servers_alive += server->alive ? 1 : 0;
  return counts;
}

bool Coordinator::isReleased(ServerId id) const {
  const Server* const server = state_->membership.find(id);
  return server == nullptr || server->recovered;
}

bool Coordinator::isDead(ServerId id) const {
  const Server* const server = state_->membership.find(id);
  return server == nullptr || !server->alive;
}

}  // namespace ramcore::coordinator
