// Faults of runs whose settings ask for them: clients that stand still, and processes that are started again with other
// options.
#include <algorithm>
#include <iterator>

#include "sim/cluster/nemesis.h"

namespace ramcore::sim {

// ---- clients

void Nemesis::pauseClientLater() {
  later(cluster_.scheduler.nowNs() + draw(options_random_, 50 * kMilli, 3 * kSecond), [this] {
    if (stopped_) return;
    pauseClient();
    pauseClientLater();
  });
}

// For a part of its lease, mostly. Else until the lease may be over for some of those who know it, and not for others.
void Nemesis::pauseClient() {
  runtime::SimNode& node = clients_[options_random_.below(clients_.size())]->node();
  if (node.isPaused()) return;
  const int64_t lease_ns = cluster_.process_options.client_lease_ns;
  const bool is_long = options_random_.below(4) == 0;
  const int64_t ns = is_long ? draw(options_random_, lease_ns / 10 * 9, lease_ns / 10 * 13)
                             : draw(options_random_, 10 * kMilli, std::min(lease_ns, 3 * kSecond));
  ++counts_.clients_paused;
  counts_.clients_paused_long += ns > lease_ns ? 1 : 0;
  node.pause();
  later(cluster_.scheduler.nowNs() + ns, [&node] { node.resume(); });
}

// ---- options

// Draws the options of the next coordinator.
// @param lease_ns  of servers; 0: drawn as well
void Nemesis::changeCoordinator(int64_t lease_ns) {
  SimProcessOptions& options = cluster_.process_options;
  constexpr int64_t kLeasesNs[] = {500 * kMilli, 1 * kSecond, 2 * kSecond, 4 * kSecond, 8 * kSecond};
  // Without crashes no server is started again after a verdict, so silence in these runs is shorter than the time to
  // it.
  const size_t lease_count = options_.crashes ? std::size(kLeasesNs) : std::size(kLeasesNs) - 1;
  if (lease_ns == 0) lease_ns = kLeasesNs[options_random_.below(lease_count)];
  counts_.leases_raised += lease_ns > options.lease_ns ? 1 : 0;
  counts_.leases_lowered += lease_ns < options.lease_ns ? 1 : 0;
  options.lease_ns = lease_ns;
  const int64_t verdict_ns = cluster_.options.verdict_after_ns;
  options.verdict_after_ns = options_.crashes ? draw(options_random_, lease_ns, std::max(verdict_ns, 2 * lease_ns))
                                              : draw(options_random_, verdict_ns, 2 * verdict_ns);
  const int64_t client_ns = cluster_.options.client_lease_ns;
  options.client_lease_ns = draw(options_random_, client_ns / 2, client_ns * 2);
}

// Draws the options of servers that are started from now on.
void Nemesis::changeServers() {
  SimProcessOptions& options = cluster_.process_options;
  const auto replicas = static_cast<uint32_t>(options_random_.between(1, 3));
  options.replicas.replicas = replicas;
  options.replicas.min_replicas = static_cast<uint32_t>(options_random_.between(1, std::min(2u, replicas)));
  const uint64_t segment_bytes = cluster_.options.log.segment_bytes;
  const uint64_t usual = cluster_.options.log.memory_bytes / segment_bytes;
  options.memory_bytes = options_random_.between(std::max<uint64_t>(11, usual - 2), usual + 4) * segment_bytes;
  ++counts_.servers_changed;
}

// A server under a long lease is cut off from the coordinator, but not from clients, while the coordinator is started
// again and again with a shorter one: other servers must get its tablets as soon as its own lease has ended, and not
// before. Some clients stand still meanwhile, and still take the server for the owner of the tablets when they go on.
void Nemesis::lowerLease() {
  if (!options_.crashes || !options_.faults || stopped_ || isCrowded()) return;
  if (coordinator_down_ || cutting_off_ || spared_ || silent_ || !stalled_.empty() || !cut_off_.empty()) return;
  const int64_t lease_ns = cluster_.process_options.lease_ns;
  const size_t index = options_random_.below(cluster_.servers.size());
  if (lease_ns < 2 * kSecond || cluster_.isDown(index) || !cluster_.servers[index]->isServing()) return;
  ++counts_.lowered_and_cut;
  cut_off_.insert(index);
  cluster_.network.partition(nodeOf(index), SimCluster::kCoordinatorNode);
  for (SimClient* client : clients_) {
    if (client->node().isPaused() || options_random_.below(2) == 0) continue;
    client->node().pause();
    stalled_.push_back(client);
  }
  changeCoordinator(500 * kMilli);
  cluster_.process_options.verdict_after_ns = 500 * kMilli;
  restartSoon(2 + static_cast<uint32_t>(options_random_.below(2)));
  endLowering(index, cluster_.servers[index].get(), cluster_.scheduler.nowNs() + 2 * lease_ns);
}

// Restarts the coordinator several times in a row, as a supervisor does when a process ends at once.
void Nemesis::restartSoon(uint32_t times) {
  coordinator_down_ = true;
  ++counts_.coordinator_restarts;
  cluster_.killCoordinator();
  later(cluster_.scheduler.nowNs() + draw(options_random_, 1 * kMilli, 100 * kMilli), [this, times] {
    cluster_.startCoordinator();
    coordinator_down_ = false;
    if (times == 1) return;
    later(cluster_.scheduler.nowNs() + draw(options_random_, 20 * kMilli, 200 * kMilli), [this, times] {
      if (!coordinator_down_) restartSoon(times - 1);
    });
  });
}

// Ends what lowerLease() began, a while after the server was declared dead.
void Nemesis::endLowering(size_t index, const SimServer* server, int64_t until_ns) {
  const int64_t now_ns = cluster_.scheduler.nowNs();
  const bool is_there = cluster_.servers[index].get() == server && !cluster_.isDown(index);
  if (is_there && !isDeclaredDead(index) && now_ns < until_ns && !stopped_) {
    return later(now_ns + 10 * kMilli, [this, index, server, until_ns] { endLowering(index, server, until_ns); });
  }
  // Others may have had its tablets for some time by now, and what is in them changes.
  later(now_ns + draw(options_random_, 100 * kMilli, 3 * kSecond), [this] {
    for (SimClient* client : stalled_) client->node().resume();
    stalled_.clear();
    later(cluster_.scheduler.nowNs() + draw(options_random_, 100 * kMilli, 1 * kSecond), [this] {
      cut_off_.clear();
      healNetwork();
    });
  });
}

}  // namespace ramcore::sim
