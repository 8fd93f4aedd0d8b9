#include "sim/cluster/sim_server.h"

#include "base/check.h"

namespace ramcore::sim {
namespace {

rpc::PeerAddress simAddress(const std::string& node) {
  auto locator = transport::Locator::parse("sim://" + node);
  return {.id = 0, .locators = {std::move(locator).value()}};
}

}  // namespace

SimServer::SimServer(runtime::SimScheduler& scheduler, runtime::SimTraceLog& log, transport::SimNetwork& network,
                     const std::string& name, const runtime::SimClock::Options& clock, const Options& options)
    : network_node_(options.network_node.empty() ? name : options.network_node),
      network_(network),
      disk_(options.disk),
      node_(scheduler, log, name, clock),
      threads_(rcu_),
      identity_{.role = transport::Role::Server, .id = 0, .cluster_name = options.cluster_name, .secret = {}},
      transport_(network, node_.clock(), network_node_, [this] { dispatch_.wake(); }),
      dispatch_(node_, rpc::DispatchOptions{}, options.dispatch_delays) {
  rpc::Dispatch& dispatch = dispatch_.dispatch();
  dispatch.setHooks(threads_.add());
  threads_.bind(0, dispatch);
  std::vector<runtime::Executor*> workers;
  for (uint32_t i = 0; i < options.worker_count; ++i) {
    runtime::SimExecutor& worker = node_.makeExecutor("worker" + std::to_string(i));
    worker.setHooks(threads_.add());
    threads_.bind(i + 1, worker);
    workers.push_back(&worker);
    workers_.push_back(&worker);
  }
  if (disk_ == nullptr) {
    replicator_ = std::make_unique<SimReplicator>(scheduler, *workers.front(), node_.stream("replicator"),
                                                  options.ledger, options.replication);
  }
  dispatch.setWorkers(std::move(workers));
  endpoint_ = transport_.makeEndpoint(identity_);
  RC_CHECK(endpoint_->listen(simAddress(network_node_).locators.front()).ok());
  dispatch.addEndpoint(*endpoint_);
  caller_ = std::make_unique<rpc::Caller>(dispatch);

  if (disk_ != nullptr) {
    storage_ = std::move(disk_->open()).value();
    runtime::SimExecutor& disk_thread = node_.makeExecutor("disk");
    disk_->occupy(disk_thread);
    auto backup = backup::Backup::open({.storage_bytes = options.storage_bytes,
                                        .segment_bytes = options.log.segment_bytes,
                                        .scrub = options.scrub,
                                        .write_thread = options.write_thread},
                                       {.storage = *storage_,
                                        .clock = node_.clock(),
                                        .trace = node_.trace(),
                                        .dispatch = dispatch,
                                        .disk = disk_thread,
                                        .caller = *caller_,
                                        .coordinator = simAddress(options.coordinator_node),
                                        .on_fence = [this] { master_->refreshMembers(); },
                                        .obeys = [this](uint64_t start) { return master_->obeys(start); }});
    RC_CHECK_MSG(backup.ok(), "a simulated server cannot open its storage");
    backup_ = std::move(backup).value();
    backup_->addTo(dispatch.services());
    gauge_.emplace(backup_->store(), 0);
    identity_.cluster = backup_->store().cluster().value;
  }
  memory_ = std::move(log::LogMemory::open(options.log.memory_bytes)).value();
  master::MasterConfig config{.log = options.log,
                              .index = options.index,
                              .self = {.locators = {"sim://" + network_node_},
                                       .name = name,
                                       .memory_bytes = options.log.memory_bytes,
                                       .former = backup_ != nullptr ? backup_->formerServer() : ServerId(),
                                       .former_cluster = backup_ != nullptr ? backup_->store().cluster() : ClusterId(),
                                       .keeps_replicas = backup_ != nullptr,
                                       .failure_domain = {},
                                       .drawn_storage = node_.entropy().next(),
                                       .nonce = node_.entropy().next()},
                              .coordinator = simAddress(options.coordinator_node),
                              .replication = options.replicas,
                              .borrowing = {},
                              .scrub = options.memory_scrub,
                              .cleaners_max = options.cleaners_max};
  bool (*const has_one_processor)() = options.has_one_processor ? +[] { return true; } : nullptr;
  const master::Master::Environment environment{.clock = node_.clock(),
                                                .trace = node_.trace(),
                                                .dispatch = dispatch,
                                                .caller = *caller_,
                                                .rcu = rcu_,
                                                .threads = threads_,
                                                .memory = *memory_,
                                                .replicator = replicator_.get(),
                                                .seed = node_.entropy().next(),
                                                .backup = gauge_ ? &*gauge_ : nullptr,
                                                .storage = storage_.get(),
                                                .has_one_processor = has_one_processor};
  master_ = std::move(master::Master::open(config, environment, *this)).value();
  master_->start();
  dispatch_.wake();
}

SimServer::~SimServer() {
  slow_reader_.abandon();
  if (node_.isPaused()) node_.resume();
  constexpr uint64_t kEventsMax = 1'000'000;
  dispatch_.runNow([this] {
    master_->stop(false);
    if (backup_ != nullptr) backup_->stop();
    caller_->shutDown();
  });
  // What it waits for are timers and its own threads: simulated time goes on until it is done.
  const auto ended = [this] {
    return master_->stopped() && !master_->hasPinnedMemory() && (replicator_ == nullptr || replicator_->isIdle()) &&
           (backup_ == nullptr || backup_->stopped()) && !dispatch_.dispatch().hasRequests();
  };
  node_.scheduler().runUntil(ended, kEventsMax);
  RC_CHECK_MSG(ended(), "a simulated server could not be unwound");
  // Requests that waited for the last reports.
  RC_CHECK(dispatch_.drain(kEventsMax) && node_.drain(kEventsMax) && dispatch_.drain(kEventsMax));
  dispatch_.end();
  node_.kill();
  master_.reset();
  backup_.reset();
  rcu_.drain();
}

void SimServer::stopInOrder() {
  dispatch_.dispatch().post(stop_, runtime::Priority::Membership);
  dispatch_.wake();
}

void SimServer::beginToStop() {
  stopping_ = true;
  master_->stop(true);
  if (backup_ != nullptr) backup_->stop();
}

void SimServer::kill(bool power) {
  if (disk_ != nullptr && power) disk_->losePower();
  if (disk_ != nullptr && !power) disk_->killProcess();
  if (!power) network_.cutAll(network_node_);
  network_.isolate(network_node_);
  network_.silence(network_node_);
  node_.pause();
}

runtime::Task<Status> SimServer::prepareServing(ServerId id, ClusterId cluster) {
  identity_.id = id.value;
  identity_.cluster = cluster.value;
  if (backup_ == nullptr) co_return Status::Ok;
  co_return co_await backup_->begin(id, cluster);
}

void SimServer::onServing(ServerId id) {
  identity_.id = id.value;
  serving_ = true;
}

}  // namespace ramcore::sim
