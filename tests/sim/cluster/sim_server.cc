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
  std::vector<runtime::Executor*> workers;
  for (uint32_t i = 0; i < options.worker_count; ++i) {
    runtime::SimExecutor& worker = node_.makeExecutor("worker" + std::to_string(i));
    worker.setHooks(threads_.add());
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

  const server::Server::Environment environment{.clock = node_.clock(),
                                                .entropy = node_.entropy(),
                                                .trace = node_.trace(),
                                                .identity = identity_,
                                                .dispatch = dispatch,
                                                .caller = *caller_,
                                                .rcu = rcu_,
                                                .threads = threads_,
                                                .coordinator = simAddress(options.coordinator_node),
                                                .observer = *this};
  server_ = std::make_unique<server::Server>(environment);
  if (disk_ != nullptr) {
    storage_ = std::move(disk_->open()).value();
    runtime::SimExecutor& disk_thread = node_.makeExecutor("disk");
    disk_->occupy(disk_thread);
    const auto kept = server_->openBackup({.storage_bytes = options.storage_bytes,
                                           .segment_bytes = options.log.segment_bytes,
                                           .scrub = options.scrub,
                                           .write_thread = options.write_thread},
                                          *storage_, disk_thread, 0);
    RC_CHECK_MSG(kept.ok(), "a simulated server cannot open its storage");
  }
  memory_ = std::move(log::LogMemory::open(options.log.memory_bytes)).value();
  const master::MasterConfig config{.log = options.log,
                                    .index = options.index,
                                    .self = {.locators = {"sim://" + network_node_}, .name = name},
                                    .coordinator = {},
                                    .replication = options.replicas,
                                    .pinning = {},
                                    .scrub = options.memory_scrub,
                                    .move_slices = options.move_slices,
                                    .cleaners_max = options.cleaners_max};
  bool (*const has_one_processor)() = options.has_one_processor ? +[] { return true; } : nullptr;
  const auto opened = server_->openMaster(config, {.memory = *memory_,
                                                   .storage = storage_.get(),
                                                   .replicator = replicator_.get(),
                                                   .has_one_processor = has_one_processor});
  RC_CHECK_MSG(opened.ok(), "a simulated server cannot open its master");
  server_->start();
  dispatch_.wake();
}

SimServer::~SimServer() {
  slow_reader_.abandon();
  if (node_.isPaused()) node_.resume();
  constexpr uint64_t kEventsMax = 1'000'000;
  dispatch_.runNow([this] {
    server_->stop(false);
    caller_->shutDown();
  });
  // The server still waits for timers and its own threads: simulated time goes on until it has stopped.
  const auto ended = [this] {
    return server_->stopped() && (replicator_ == nullptr || replicator_->isIdle()) &&
           !dispatch_.dispatch().hasRequests();
  };
  node_.scheduler().runUntil(ended, kEventsMax);
  RC_CHECK_MSG(ended(), "a simulated server could not be unwound");
  // Requests that waited for the last reports.
  RC_CHECK(dispatch_.drain(kEventsMax) && node_.drain(kEventsMax) && dispatch_.drain(kEventsMax));
  dispatch_.end();
  node_.kill();
  server_.reset();
  rcu_.drain();
}

void SimServer::stopInOrder() {
  dispatch_.dispatch().post(stop_, runtime::Priority::Membership);
  dispatch_.wake();
}

void SimServer::beginToStop() {
  stopping_ = true;
  server_->stop(true);
}

void SimServer::kill(bool power) {
  if (disk_ != nullptr && power) disk_->losePower();
  if (disk_ != nullptr && !power) disk_->killProcess();
  if (!power) network_.cutAll(network_node_);
  network_.isolate(network_node_);
  network_.silence(network_node_);
  node_.pause();
}

}  // namespace ramcore::sim
