#include "master/master.h"

#include <algorithm>

#include "base/check.h"

namespace ramcore::master {
namespace {

// A client that has not been confirmed for this long is asked about; a batch at a time.
constexpr int64_t kClientSilenceNs = 30 * runtime::kNanosPerSecond;
constexpr size_t kClientsPerQuestion = 1024;
// A master learns from a client's next call which answers the client has, but some clients make no further call. While
// results take more than one kManyResults-th of the live bytes that are allowed, the coordinator is asked every
// kResultsLookNs about the clients whose results are kept.
constexpr int64_t kResultsLookNs = 500 * runtime::kNanosPerMilli;
constexpr int64_t kManyResults = 32;

/// The first worker is the one that background work runs on.
std::span<runtime::Executor* const> allButFirst(std::span<runtime::Executor* const> workers) {
  return workers.subspan(std::min<size_t>(workers.size(), 1));
}

/// Without workers the dispatch thread does all the cleaning in any case.
store::SoleProcessor soleProcessor(const Master::Environment& environment) {
  if (environment.has_one_processor == nullptr || !environment.dispatch.hasWorkers()) return {};
  return {.dispatch = &environment.dispatch, .is_so = environment.has_one_processor};
}

}  // namespace

Outcome<std::unique_ptr<Master>> Master::open(const MasterConfig& config, const Environment& environment,
                                              MasterObserver& observer) {
  const auto valid = config.log.validate();
  if (!valid.ok()) return valid.error();
  auto index = index::HashIndex::open(config.index, environment.rcu);
  if (!index.ok()) return std::move(index).error();
  auto changes = ChangeKeeper::open(environment.storage, environment.dispatch, environment.trace);
  if (!changes.ok()) return std::move(changes).error();
  return std::unique_ptr<Master>(
      new Master(config, environment, observer, std::move(index).value(), std::move(changes).value()));
}

Master::Master(const MasterConfig& config, const Environment& environment, MasterObserver& observer,
               std::unique_ptr<index::HashIndex> index, std::unique_ptr<ChangeKeeper> changes)
    : config_(config),
      environment_(environment),
      observer_(observer),
      background_(environment.dispatch.backgroundExecutor()),
      index_(std::move(index)),
      pins_(environment.threads.count()),
      tablets_(environment.rcu),
      store_(environment.memory),
      changes_(std::move(changes)),
      link_(environment.caller, environment.dispatch, config.coordinator, lease_, *changes_, *this, environment.trace),
      stop_signal_(environment.dispatch) {
  if (environment_.replicator != nullptr || config_.replication.replicas == 0) return;
  replicas_ = std::make_unique<ReplicaManager>(
      config_.replication,
      ReplicaManager::Environment{.clock = environment_.clock,
                                  .trace = environment_.trace,
                                  .dispatch = environment_.dispatch,
                                  .caller = environment_.caller,
                                  .floors = link_,
                                  .backup = environment_.backup,
                                  .on_spoilt = [this](const std::string& why) { observer_.onRejected(why); }},
      runtime::Random(environment_.seed));
}

log::Replicator& Master::replicator() {
  if (environment_.replicator != nullptr) return *environment_.replicator;
  if (replicas_ != nullptr) return *replicas_;
  return no_replicator_;
}

Master::~Master() { RC_CHECK_MSG(stopped(), "the master was destroyed before it had stopped"); }

Master::Parts::Parts(Master& master, ServerId id, ClusterId cluster)
    : log(master.config_.log, {cluster, id}, master.environment_.memory,
          {master.store_, master.replicator(), master.environment_.rcu, master.pins_}),
      cleaner(log, master.store_, master.replicator(),
              log::cleanersMax(master.config_.cleaners_max,
                               static_cast<uint32_t>(master.environment_.dispatch.workers().size()))),
      maintenance(master.background_, {log, cleaner, master.store_, *master.index_, master.environment_.rcu},
                  allButFirst(master.environment_.dispatch.workers()), soleProcessor(master.environment_)),
      repair({log, master.store_, maintenance, master.environment_.dispatch, master.background_,
              master.environment_.caller, master.environment_.trace, master.replicas_.get()},
             master.config_.scrub),
      admission(master.link_, master.results_, master.environment_.clock),
      pinned(master.config_.pinning, master.config_.log.memory_bytes, log.stats(), master.pins_),
      source(
          {master.store_, log, *master.index_, master.tablets_, master.results_, pinned, master.environment_.threads}),
      target({master.store_, log, master.tablets_, master.results_, admission, master.environment_.caller,
              master.background_, allButFirst(master.environment_.dispatch.workers()), maintenance,
              master.environment_.rcu, master.environment_.trace},
             master.config_.move_slices),
      recovery({master.store_, log, master.tablets_, master.results_, master.environment_.caller, master.background_,
                maintenance, master.environment_.trace}),
      tablet_service({id, master.store_, log, master.tablets_, master.results_, target, recovery, maintenance,
                      master.environment_.rcu, master.background_, master.environment_.trace, *master.changes_}),
      report({id, master.store_, log, pinned, master.environment_.dispatch, master.replicas_.get(),
              master.environment_.backup}),
      tablet_report({id, master.store_, *master.index_, master.tablets_, master.environment_.dispatch}),
      service({master.store_, log, *master.index_, master.tablets_, master.results_, master.lease_, master.link_,
               target.priorityPulls(), maintenance, pinned, master.environment_.threads, master.environment_.clock,
               master.environment_.dispatch}) {
  master.results_.connect(log);
  master.store_.connect(
      {log, *master.index_, master.tablets_, master.results_, master.lease_, master.environment_.clock});
}

void Master::start() {
  ServerDescription self = config_.self;
  self.replicas = config_.replication.local_replica ? 1 : config_.replication.replicas;
  // With a replicator from outside, the number of replicas is that replicator's business.
  const bool needs_others = self.replicas != 0 && environment_.replicator == nullptr;
  self.min_replicas = needs_others ? config_.replication.min_replicas : 0;
  self.local_replica = config_.replication.local_replica;
  link_.start(self);
}

ServerLoad Master::load() const {
  if (!parts_) return {};
  const log::LogStats& stats = parts_->log.stats();
  const auto live = static_cast<uint64_t>(std::max<int64_t>(0, stats.live_bytes.load() + stats.succeeded_bytes.load()));
  return {.live_bytes = live, .room_bytes = parts_->log.limit().roomBytes()};
}

std::vector<IntakeRef> Master::intakes() const {
  std::vector<IntakeRef> intakes;
  for (const store::Tablet& tablet : tablets_.list()) {
    if (tablet.state == store::TabletState::Pulling) intakes.push_back({tablet.id, tablet.epoch});
  }
  return intakes;
}

void Master::onEnlisted(ServerId id, ClusterId cluster) {
  preparing_ = true;
  serve(id, cluster).detach();
}

void Master::onMembers(std::vector<Member> members) {
  if (replicas_ == nullptr || stop_) return;
  replicas_->setMembers(std::move(members));
  if (parts_) parts_->repair.membersChanged();
}

runtime::Task<void> Master::serve(ServerId id, ClusterId cluster) {
  const Status prepared = co_await observer_.prepareServing(id, cluster);
  preparing_ = false;
  if (stop_) co_return;
  if (prepared != Status::Ok) {
    observer_.onRejected("cannot begin to serve: the storage could not be made this server's (" +
                         std::string(name(prepared)) + ")");
    co_return;
  }
  if (replicas_ != nullptr) replicas_->begin(cluster, id);
  parts_ = std::make_unique<Parts>(*this, id, cluster);
  parts_->log.maintain();
  parts_->maintenance.wake();
  parts_->repair.start();
  rpc::ServiceTable& table = environment_.dispatch.services();
  parts_->service.addTo(table);
  parts_->tablet_service.addTo(table);
  parts_->report.addTo(table);
  parts_->tablet_report.addTo(table);
  parts_->source.addTo(table);
  if (replicas_ != nullptr) parts_->replica_service.emplace(*replicas_).addTo(table);
  environment_.dispatch.setOwnId(id.value);
  forgetting_ = true;
  forgetLapsedClients().detach();
  observer_.onServing(id);
}

void Master::onRejected(Status status, const std::string& why) {
  const std::string reason = why + " (" + std::string(name(status)) + ")";
  status == Status::Fenced ? observer_.onFenced(reason) : observer_.onRejected(reason);
}

void Master::stop(bool goodbye) {
  stop_ = true;
  stop_signal_.notifyAll();
  link_.stop(goodbye);
  if (replicas_ != nullptr) replicas_->stop();
  if (!parts_) return;
  // With replication nothing becomes durable any more: all waits end with Fenced, and new appends are refused.
  if (replicas_ != nullptr) parts_->log.fail(Status::Fenced);
  parts_->service.stop();
  parts_->target.stop();
  parts_->recovery.stop();
  parts_->tablet_service.stop();
  parts_->repair.stop();
  parts_->maintenance.stop();
  parts_->maintenance.wake();  // it sees the stop in a slice on its own executor
}

runtime::Task<void> Master::forgetLapsedClients() {
  int64_t all_at_ns = environment_.clock.nowNs() + kClientSilenceNs;
  while (!stop_) {
    const int64_t now_ns = environment_.clock.nowNs();
    [[maybe_unused]] const Status woken = co_await stop_signal_.wait(now_ns + kResultsLookNs);
    if (stop_) break;
    const int64_t asked_ns = environment_.clock.nowNs();
    const bool of_all = asked_ns >= all_at_ns;
    const log::Log& log = parts_->log;
    const int64_t result_bytes = log.stats().result_bytes.load(std::memory_order_relaxed);
    if (!of_all && result_bytes < static_cast<int64_t>(log.limit().liveBytesMax()) / kManyResults) continue;
    if (of_all) all_at_ns = asked_ns + kClientSilenceNs;
    const int64_t silent_ns = of_all ? kClientSilenceNs : kResultsLookNs;
    ClientId after;
    for (bool more = true; more && !stop_;) {
      const std::vector<ClientId> silent =
          results_.silentSince(asked_ns - silent_ns, after, kClientsPerQuestion, !of_all);
      if (silent.empty()) break;
      const CoordinatorLink::ClientCheck check = co_await link_.checkClients(environment_.dispatch, silent);
      if (check.status != Status::Ok) break;
      // Valid clients first: after forget(), the same answer does not count as a confirmation any more (ResultTable).
      for (size_t i = 0; i < silent.size(); ++i) {
        if (check.valid[i]) results_.heard(silent[i], asked_ns, check.acknowledged[i]);
      }
      for (size_t i = 0; i < silent.size(); ++i) {
        if (!check.valid[i]) results_.forget(silent[i], asked_ns);
      }
      after = silent.back();
      more = silent.size() == kClientsPerQuestion;
    }
  }
  forgetting_ = false;
}

bool Master::stopped() const {
  return link_.stopped() && changes_->idle() && !forgetting_ && !preparing_ &&
         (replicas_ == nullptr || replicas_->isIdle()) &&
         (!parts_ || (parts_->target.idle() && parts_->recovery.idle() && parts_->tablet_service.idle() &&
                      parts_->maintenance.stopped() && parts_->repair.stopped()));
}

}  // namespace ramcore::master
