#include "coordinator/coordinator.h"

#include "base/check.h"
#include "coordinator/coordinator_service.h"
#include "coordinator/rpc_master_calls.h"

namespace ramcore::coordinator {

struct Coordinator::State {
  State(const Environment& environment, const CoordinatorOptions& options)
      : trace(environment.trace),
        journal(environment.store, environment.dispatch, environment.on_failed),
        membership(journal, environment.trace, options.membership),
        clients(journal, options.client_lease_ns),
        masters(environment.caller, journal, membership, options.call_ns),
        status_calls(environment.caller, journal, membership, options.status_call_ns),
        map_lock(environment.dispatch),
        tablet_ids(journal, "tablet"),
        migrations(parts()),
        splits(parts()),
        recoveries(parts()),
        tables(parts(), {&migrations, &splits, &recoveries}),
        service({journal, map, membership, clients, tables, migrations, splits, recoveries, status_calls}, options) {}

  Parts parts() { return {journal, trace, map, map_lock, membership, masters, tablet_ids}; }

  Trace& trace;
  Journal journal;
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
}

Coordinator::~Coordinator() { RC_CHECK(isIdle()); }

void Coordinator::start(std::function<void(Status)> on_started) { run(*state_, std::move(on_started)).detach(); }

runtime::Task<void> Coordinator::run(State& state, std::function<void(Status)> on_started) {
  Journal::Running running(state.journal);
  // Each part relies on the ones before it.
  Status loaded = co_await state.membership.load();
  if (loaded == Status::Ok) loaded = co_await state.clients.load();
  if (loaded == Status::Ok) loaded = co_await state.tablet_ids.load();
  if (loaded == Status::Ok) loaded = co_await state.tables.load();
  if (loaded == Status::Ok) loaded = co_await state.migrations.load();
  if (loaded == Status::Ok) loaded = co_await state.splits.load();
  if (loaded == Status::Ok) loaded = co_await state.recoveries.load();
  if (loaded == Status::Ok && state.journal.stopping()) loaded = Status::Shutdown;
  if (loaded != Status::Ok) {
    const std::string& complaint = state.journal.complaint();
    state.trace.error("the coordinator cannot read its state: " + std::string(name(loaded)) +
                      (complaint.empty() ? "" : ": " + complaint));
    on_started(loaded);
    co_return;
  }
  state.membership.start();
  state.clients.start();
  state.tables.resume();
  state.migrations.resume();
  state.splits.resume();
  state.recoveries.resume();
  state.service.open();
  on_started(Status::Ok);
}

bool Coordinator::isServing() const { return state_->service.isOpen(); }

void Coordinator::stop() {
  state_->service.close();
  state_->journal.stop();
  state_->membership.stop();
  state_->clients.stop();
  state_->tables.stop();
  state_->migrations.stop();
  state_->splits.stop();
  state_->recoveries.stop();
}

bool Coordinator::isIdle() const { return state_->journal.idle(); }

Coordinator::Counts Coordinator::counts() const {
  Counts counts{
      .tables = state_->map.tableCount(), .tablets = state_->map.tabletCount(), .clients = state_->clients.count()};
  counts.servers_to_recover = state_->recoveries.reports().size();
  counts.servers_recovered = state_->recoveries.finished().servers;
  counts.tablets_recovered = state_->recoveries.finished().tablets;
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
