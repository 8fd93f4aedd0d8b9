#include "sim/cluster/sim_cluster.h"

#include <algorithm>

#include "base/check.h"

namespace ramcore::sim {
namespace {

void addCounts(SimServer& server, RunCounts& counts) {
  const master::Master& master = server.master();
  counts.guards.addRefusals(server.dispatch());
  if (const master::MasterService* service = master.service()) {
    counts.stale_epochs += service->stats().stale_epochs.load();
    counts.lease_refusals += service->stats().lease_refusals.load();
    counts.duplicates_answered += service->stats().duplicates_answered.load();
    counts.guards.add(Guard::WaitForRoom, service->stats().waits_for_room.load());
  }
  if (const master::RecoveryTarget* target = master.recoveryTarget()) {
    counts.guards.add(Guard::RecoveryWaits, target->stats().waits_for_room.load());
    counts.guards.add(Guard::RecoveryJoinsEarly, target->stats().early_joins.load());
  }
  if (const log::Log* log = master.log()) {
    counts.segments_cleaned += log->stats().segments_cleaned.load();
    counts.segments_compacted += log->stats().segments_compacted.load();
    counts.bytes_shared += log->stats().cleaner_bytes_shared.load();
    counts.guards.add(Guard::RefusedNoSpace, log->stats().refused_no_space.load());
    counts.guards.add(Guard::RefusedNoHead, log->stats().refused_retry_later.load());
    counts.guards.add(Guard::SmallHead, log->stats().small_heads_opened.load());
  }
  if (const master::ReplicaManager* replicas = master.replicas()) {
    counts.replicas_lost += replicas->stats().replicas_lost.load();
    counts.floors_raised += replicas->stats().floors_raised.load();
    counts.replicas_repaired += replicas->stats().repairs.load();
    counts.flushes_requested += replicas->stats().flushes.load();
  }
  if (server.backup() != nullptr) {
    counts.fenced_refusals += server.backup()->service().fencedRefusals();
    counts.refused_full += server.backup()->store().stats().refused_full.load();
    counts.writes_queued += server.backup()->store().writer().handedOver();
    counts.bytes_scrubbed += server.backup()->store().stats().checked_bytes.load();
    counts.replicas_rotten += server.backup()->store().stats().corrupt_frames.load();
  }
  const index::IndexStats of_index = master.index().stats();
  counts.bucket_splits += of_index.splits;
  counts.guards.add(Guard::SplitPutOff, of_index.splits_put_off);
  counts.guards.add(Guard::RelocationRefused, of_index.relocations_refused);
  if (const master::PinnedValues* pinned = master.pinnedValues()) {
    counts.guards.add(Guard::ValueCopied, pinned->stats().values_copied.load());
  }
}

void addCounts(SimCoordinator& coordinator, RunCounts& counts) {
  counts.guards.addRefusals(coordinator.dispatch());
  const coordinator::Coordinator::Counts of_life = coordinator.coordinator().counts();
  counts.servers_recovered += of_life.servers_recovered;
  counts.recoveries_given_up += of_life.recoveries_given_up;
  counts.tablets_recovered += of_life.tablets_recovered;
  counts.verdicts_by_silence += of_life.verdicts_by_silence;
}

}  // namespace

SimCluster::SimCluster(uint64_t seed, const SimClusterOptions& chosen)
    : options(chosen),
      process_options{.verdict_after_ns = chosen.verdict_after_ns,
                      .client_lease_ns = chosen.client_lease_ns,
                      .replicas = chosen.replicas,
                      .memory_bytes = chosen.log.memory_bytes},
      scheduler(seed),
      trace(scheduler),
      network(scheduler, options.network),
      disk(ClusterId(seed | 1), kClusterName) {}

SimCluster::~SimCluster() {
  coordinator.reset();
  impostor.reset();
  servers.clear();
  dead_.clear();
}

std::unique_ptr<SimCoordinator> SimCluster::makeCoordinator(coordinator::MemoryDisk& on) {
  // A name of its own for each life, so that it does not draw the same numbers again; the node on the network stays.
  const std::string name = std::string(kCoordinatorNode) + "#" + std::to_string(++coordinator_lives);
  coordinator::CoordinatorOptions coordinator_options;
  coordinator_options.membership = {.lease_ns = process_options.lease_ns,
                                    .verdict_after_ns = process_options.verdict_after_ns,
                                    .together_ns = process_options.togetherNs()};
  coordinator_options.client_lease_ns = process_options.client_lease_ns;
  return std::make_unique<SimCoordinator>(scheduler, trace, network, name, kCoordinatorNode, on, coordinator_options);
}

void SimCluster::startCoordinator() { coordinator = makeCoordinator(disk); }

void SimCluster::startImpostor(std::unique_ptr<coordinator::MemoryDisk> other) {
  RC_CHECK(coordinator == nullptr && impostor == nullptr);
  impostor_disk = std::move(other);
  impostor = makeCoordinator(*impostor_disk);
}

void SimCluster::killImpostor() {
  impostor.reset();
  impostor_disk.reset();
}

void SimCluster::killCoordinator() {
  if (coordinator == nullptr) return;
  addCounts(*coordinator, counts_of_coordinators_);
  coordinator.reset();
  if (on_fault) on_fault("after the coordinator was killed");
}

// Processes stay until the cluster goes, so what they counted is asked at the end.
RunCounts SimCluster::countAll() const {
  RunCounts counts = counts_of_coordinators_;
  for (const auto& server : servers) addCounts(*server, counts);
  for (const auto& server : dead_) addCounts(*server, counts);
  if (coordinator != nullptr) addCounts(*coordinator, counts);
  for (const auto& disk : disks) {
    counts.writes_stalled += disk->counts().stalls;
    counts.flushes_failed += disk->counts().failed_flushes;
    counts.sectors_lost += disk->counts().lost_sectors;
    counts.sectors_torn += disk->counts().torn_sectors;
    counts.bits_flipped += disk->counts().flipped_bits;
    counts.lies += disk->counts().lies;
    counts.power_losses_after_lies += disk->counts().power_losses_after_lies;
  }
  return counts;
}

void SimCluster::addServer(uint64_t storage_bytes_min) {
  const size_t index = servers.size();
  lives_.push_back(0);
  storage_bytes_.push_back(std::max(options.storage_bytes, storage_bytes_min));
  if (options.durable) {
    disks.push_back(std::make_unique<runtime::SimDisk>(scheduler, serverNode(index), runtime::SimDiskOptions{}));
  }
  servers.push_back(makeServer(index));
}

std::unique_ptr<SimServer> SimCluster::makeServer(size_t index) {
  SimServer::Options server;
  server.cluster_name = kClusterName;
  server.coordinator_node = kCoordinatorNode;
  server.log = options.log;
  server.log.memory_bytes = process_options.memory_bytes;
  server.worker_count = options.worker_count;
  server.cleaners_max = options.cleaners_max;
  server.index.initial_buckets_log2 = options.initial_buckets_log2;
  server.replication = options.replication;
  server.ledger = options.ledger;
  if (options.durable) server.disk = disks[index].get();
  server.storage_bytes = storage_bytes_[index];
  server.scrub = options.scrub;
  server.memory_scrub = options.memory_scrub;
  // Tablets are small, and are to arrive in several slices all the same.
  server.move_slices = {.bytes = 16 * 1024, .bytes_busy = 2 * 1024, .partition_bytes = 4 * 1024};
  server.replicas = process_options.replicas;
  server.has_one_processor = options.one_processor && index % 3 == 1;
  server.dispatch_delays = options.dispatch_delays;
  // Half of them as if their disks were always slow: their writes wait for a thread.
  const bool writes_elsewhere = scheduler.stream("write thread of " + serverNode(index)).below(2) == 0;
  server.write_thread = writes_elsewhere ? backup::WriteThread::Disk : backup::WriteThread::Auto;
  // Each process has a name of its own: it neither repeats the draws of an earlier one nor gets its messages.
  const uint32_t life = ++lives_[index];
  const std::string name = serverNode(index) + (life == 1 ? "" : "." + std::to_string(life));
  began_ns_[name] = scheduler.nowNs();
  // An Ethernet address is the machine's: what was on its way to the dead process comes to this one.
  if (network.options().mode == transport::SimMode::Frames) server.network_node = serverNode(index);
  return std::make_unique<SimServer>(scheduler, trace, network, name, runtime::SimClock::Options{}, server);
}

bool SimCluster::hasLostPowerSince(size_t index, const std::string& process) const {
  const auto lost = power_lost_ns_.find(index);
  const auto began = began_ns_.find(process);
  return lost != power_lost_ns_.end() && began != began_ns_.end() && lost->second >= began->second;
}

bool SimCluster::allServe() const {
  return std::all_of(servers.begin(), servers.end(), [](const auto& server) { return server->isServing(); });
}

void SimCluster::killServer(size_t index, bool power) {
  RC_CHECK(options.durable && !isDown(index));
  if (on_fault) on_fault("before a server is killed");
  servers[index]->kill(power);
  down_.insert(index);
  if (power) {
    powerless_.insert(index);
    power_lost_ns_[index] = scheduler.nowNs();
  }
  if (on_fault) on_fault("after a server was killed");
}

void SimCluster::restartServer(size_t index) {
  RC_CHECK(isDown(index));
  // A machine that is up again says of old sessions that it knows nothing of them.
  network.cutAll(servers[index]->networkNode());
  if (network.options().mode == transport::SimMode::Frames) network.rejoin(servers[index]->networkNode());
  dead_.push_back(std::move(servers[index]));
  servers[index] = makeServer(index);
  down_.erase(index);
  powerless_.erase(index);
  if (on_fault) on_fault("after a server was started again");
}

}  // namespace ramcore::sim
