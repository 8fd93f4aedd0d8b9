#include "sim/cluster/nemesis.h"

#include <algorithm>

#include "coordinator/state/stored_state.h"
#include "sim/cluster/transitions.h"

namespace ramcore::sim {
namespace {

// Shorter than the silence after which a server would be declared dead: its tablets could not be recovered yet.
constexpr int64_t kPauseNsMin = 2'500 * kMilli;
constexpr int64_t kPauseNsMax = 6'000 * kMilli;

}  // namespace

Nemesis::Nemesis(SimCluster& cluster, SimClient& admin, std::vector<SimClient*> clients, RunCounts& counts,
                 const Options& options)
    : cluster_(cluster),
      admin_(admin),
      clients_(std::move(clients)),
      counts_(counts),
      options_(options),
      random_(cluster.scheduler.stream("nemesis")),
      options_random_(cluster.scheduler.stream("nemesis options")),
      operate_(*this),
      rotten_(random_.below(cluster.servers.size())),
      power_watch_(cluster, rotten_),
      power_rarity_(random_.below(2) == 0 ? 8 : 40),
      lies_(random_.below(2) == 0),
      watches_cleaning_(!options.crashes || random_.below(2) == 0) {}

void Nemesis::start() {
  scheduleNext();
  if (options_.pauses_clients) pauseClientLater();
}

void Nemesis::later(int64_t at_ns, std::function<void()> action) {
  cluster_.scheduler.call(at_ns, [alive = std::weak_ptr<int>(alive_), action = std::move(action)] {
    if (!alive.expired()) action();
  });
}

void Nemesis::scheduleNext() {
  const int64_t pause_ns = stopped_ ? 500 * kMilli : draw(random_, 2 * kMilli, 60 * kMilli);
  later(cluster_.scheduler.nowNs() + pause_ns, [this] {
    // To the end: what a server keeps that was declared dead counts when it is started again.
    if (stopped_) {
      replaceRejected();
    } else {
      step();
    }
    scheduleNext();
  });
}

void Nemesis::stop() {
  stopped_ = true;
  cut_off_.clear();
  healAll();
}

void Nemesis::step() {
  replaceRejected();
  if (alone()) return;
  if (options_.changes_options && options_random_.below(250) == 0) return lowerLease();
  // With one backup less, a server that is spared could not go on without its floor.
  const bool may_kill = options_.crashes && !spared_;
  if (may_kill && random_.below(150) == 0) return killSome();
  if (watches_cleaning_ && may_kill && random_.below(125) == 0) awaitCleaning();
  if (watches_cleaning_ && random_.below(16) == 0) awaitToRead();
  if (may_kill && random_.below(500) == 0) {
    static_cast<void>(stopInOrder(random_.below(cluster_.servers.size())));
    return;
  }
  if (may_kill && options_.faults && random_.below(1200) == 0) return silence(random_.below(cluster_.servers.size()));
  if (may_kill && options_.faults && random_.below(8) == 0) return spoilDisk();
  if (options_.faults && random_.below(100) == 0) copyState();
  if (options_.faults && random_.below(250) == 0) return cutCoordinator();
  if (options_.faults && random_.below(400) == 0) return replaceCoordinator();
  const uint64_t kind = random_.below(100);
  // A recovery takes seconds: after each of these a lease has to be over first. Time for some to come to their end.
  if (options_.crashes && kind >= 80 && kind < 90 && random_.below(8) != 0) return;
  if (kind < 40 || !options_.faults) {
    if (operating_) return;
    operating_ = true;
    admin_.dispatch().post(operate_, runtime::Priority::Client);
    admin_.wake();
  } else if (kind < 55) {
    changeRates();
  } else if (kind < 70) {
    partitionSome();
  } else if (kind < 80) {
    cutSome();
  } else if (kind < 84) {
    pauseServer();
  } else if (kind < 90) {
    restartCoordinator();
  } else {
    healAll();
  }
}

void Nemesis::changeRates() {
  transport::SimFaultRates rates;
  if (random_.below(3) != 0) rates.lose_ppm = static_cast<uint32_t>(random_.below(20'000));
  if (random_.below(3) != 0) rates.delay_ppm = static_cast<uint32_t>(random_.below(100'000));
  if (random_.below(3) != 0) rates.reorder_ppm = static_cast<uint32_t>(random_.below(100'000));
  if (random_.below(3) != 0) rates.duplicate_ppm = static_cast<uint32_t>(random_.below(100'000));
  if (random_.below(3) != 0) {
    rates.late_ppm = static_cast<uint32_t>(random_.below(20'000));
    rates.lose_notice_ppm = 500'000;
  }
  cluster_.network.setRates(rates);
}

void Nemesis::partitionSome() {
  if (cutting_off_) return;
  const size_t index = random_.below(cluster_.servers.size());
  const size_t other_index = random_.below(cluster_.servers.size());
  if (index == spared_ || other_index == spared_) return;
  const std::string server = nodeOf(index);
  const std::string other = random_.below(3) == 0 ? SimCluster::kCoordinatorNode : nodeOf(other_index);
  switch (random_.below(4)) {
    case 0:
      cluster_.network.isolate(server);
      break;
    case 1:
      cluster_.network.partitionOneWay(server, other);
      break;
    case 2:
      cluster_.network.partitionOneWay(other, server);
      break;
    default:
      cluster_.network.partition(server, other);
      break;
  }
  // Silence that lasts longer than the verdict takes would cost data that nothing can recover yet.
  later(cluster_.scheduler.nowNs() + draw(random_, 10 * kMilli, 4 * kSecond), [this] { healNetwork(); });
}

void Nemesis::cutSome() {
  const size_t index = random_.below(cluster_.servers.size());
  if (index != spared_) cluster_.network.cutAll(nodeOf(index));
}

void Nemesis::pauseServer() {
  if (paused_ > 0 || cutting_off_ || (!options_.crashes && !cut_off_.empty())) return;
  const size_t index = random_.below(cluster_.servers.size());
  if (cluster_.isDown(index)) return;
  ++paused_;
  if (!options_.crashes || random_.below(4) == 0) return pauseNow(index);
  // The server stops with a write that it has accepted and not replicated. When it goes on, it replicates that write,
  // though it has usually been declared dead, fenced and recovered by then. No lease protects from that: the lease is
  // not checked again before the answer to the write.
  constexpr int64_t kAwaitWriteNs = 2 * kSecond;
  pauses_at_write_ = index;
  later(cluster_.scheduler.nowNs() + kAwaitWriteNs, [this] {
    if (pauses_at_write_) pauseNow(*pauses_at_write_);
  });
}

bool Nemesis::hasUnsentWrites(size_t index) const {
  const master::Master& master = cluster_.servers[index]->master();
  if (cluster_.isDown(index) || master.log() == nullptr || master.replicas() == nullptr) return false;
  const log::Segment* const head = master.log()->pool().find(master.log()->headId());
  if (head == nullptr || master.log()->durability().durableUpTo() >= LogPosition{head->id(), head->committedBytes()})
    return false;
  bool any = false;
  for (const auto& replica : master.replicas()->replicas()) {
    if (replica.segment != head->id()) continue;
    any = true;
    if (replica.sent_bytes >= head->committedBytes()) return false;
  }
  return any;
}

void Nemesis::pauseNow(size_t index) {
  pauses_at_write_.reset();
  if (cluster_.isDown(index)) {
    --paused_;
    return;
  }
  runtime::SimNode& node = cluster_.servers[index]->node();
  ++counts_.long_pauses;
  const bool spares = options_.crashes && hasUnsentWrites(index) && random_.below(2) == 0;
  // From an event of its own: a node is paused between its jobs.
  node.pause();
  const int64_t now_ns = cluster_.scheduler.nowNs();
  if (spares) {
    spared_ = index;
    return resumeSpared(index, node, now_ns + kPauseNsMax);
  }
  later(now_ns + draw(random_, kPauseNsMin, kPauseNsMax), [this, index, &node] { resume(index, node); });
}

void Nemesis::resume(size_t index, runtime::SimNode& node) {
  --paused_;
  // A server that was killed meanwhile stays dead.
  if (&cluster_.servers[index]->node() == &node && !cluster_.isDown(index)) node.resume();
}

// Resumes the server soon after it was declared dead, when it can do the most harm: clients still wait for its answers,
// its log may have been read for the recovery, and its backups still have its replicas.
void Nemesis::resumeSpared(size_t index, runtime::SimNode& node, int64_t until_ns) {
  const bool is_declared_dead = isDeclaredDead(index);
  const int64_t now_ns = cluster_.scheduler.nowNs();
  if (!is_declared_dead && now_ns < until_ns && !stopped_) {
    return later(now_ns + 10 * kMilli, [this, index, &node, until_ns] { resumeSpared(index, node, until_ns); });
  }
  later(now_ns + draw(random_, 0, 1 * kSecond), [this, index, &node, is_declared_dead] {
    if (is_declared_dead && !cluster_.isDown(index)) ++counts_.late_writers;
    resume(index, node);
    later(cluster_.scheduler.nowNs() + 20 * kMilli, [this] { spared_.reset(); });
  });
}

// A process that is stopped for good, or a machine behind a network that swallows everything: no session of its peers
// ends, as long as it is not killed.
void Nemesis::silence(size_t index) {
  constexpr int64_t kSilentNsMax = 20 * kSecond;
  if (silent_ || paused_ > 0 || cutting_off_ || isCrowded() || cluster_.isDown(index)) return;
  silent_ = index;
  ++counts_.silent_for_ever;
  const bool is_stopped = random_.below(2) == 0;
  if (is_stopped) {
    ++paused_;
    cluster_.servers[index]->node().pause();
  } else {
    cluster_.network.hush(nodeOf(index));
  }
  endSilence(cluster_.servers[index].get(), is_stopped, cluster_.scheduler.nowNs() + kSilentNsMax);
}

// Restarts the silent server when others have had its tablets for a while. Another fault may have killed it before.
void Nemesis::endSilence(const SimServer* server, bool is_stopped, int64_t until_ns) {
  const size_t index = *silent_;
  const int64_t now_ns = cluster_.scheduler.nowNs();
  const bool is_there = cluster_.servers[index].get() == server && !cluster_.isDown(index);
  if (is_there && !isDeclaredDead(index) && now_ns < until_ns && !stopped_) {
    return later(now_ns + 10 * kMilli,
                 [this, server, is_stopped, until_ns] { endSilence(server, is_stopped, until_ns); });
  }
  later(now_ns + draw(random_, 0, 4 * kSecond), [this, index, server, is_stopped] {
    if (is_stopped) --paused_;
    if (cluster_.servers[index].get() == server && !cluster_.isDown(index)) kill(index);
    cluster_.network.unhush(nodeOf(index));
    silent_.reset();
  });
}

bool Nemesis::isDeclaredDead(size_t index) const {
  if (coordinator_down_ || !cluster_.coordinator->coordinator().isServing()) return false;
  return cluster_.coordinator->coordinator().isDead(cluster_.servers[index]->master().id());
}

// Whether so many dead servers wait for their recovery that no more may die. Their replicas and those of the recoveries
// need frames: with more dead servers no recovery could end, unless a server is added.
bool Nemesis::isCrowded() const {
  constexpr size_t kDeadMax = 4;
  if (!options_.small_storage) return false;
  size_t dead = 0;
  const auto& records = cluster_.disk.contents();
  const std::string prefix(coordinator::kServerPrefix);
  for (auto at = records.lower_bound(prefix); at != records.end() && at->first.starts_with(prefix); ++at) {
    coordinator::Server server;
    if (coordinator::decode(at->second, server) && !server.alive && !server.recovered) ++dead;
  }
  return dead >= kDeadMax;
}

void Nemesis::killSome() {
  if (isCrowded()) return;
  if (random_.below(8) != 0) {
    const size_t index = random_.below(cluster_.servers.size());
    if (!cluster_.isDown(index)) kill(index);
    return;
  }
  if (options_.all_sync && random_.below(2) == 0) return loseAllPower();
  killAll();
}

void Nemesis::killAll() {
  ++counts_.clusters_killed;
  for (size_t index = 0; index < cluster_.servers.size(); ++index) {
    if (!cluster_.isDown(index)) kill(index);
  }
}

void Nemesis::kill(size_t index) {
  ++counts_.servers_killed;
  take(index, false);
}

// Kills the server, or takes the power of its machine, and starts it again after a while.
void Nemesis::take(size_t index, bool power) {
  ++starting_;
  power_watch_.noteKill(index);
  cluster_.killServer(index, power);
  later(cluster_.scheduler.nowNs() + draw(random_, 50 * kMilli, 6 * kSecond), [this, index] {
    if (options_.changes_options) changeServers();
    cluster_.restartServer(index);
    --starting_;
  });
}

// A server that learns that it was declared dead ends. Its supervisor starts it again.
void Nemesis::replaceRejected() {
  if (!options_.crashes) return;
  for (size_t index = 0; index < cluster_.servers.size(); ++index) {
    if (cluster_.isDown(index) || cluster_.servers[index]->rejected().empty()) continue;
    ++counts_.servers_rejected;
    kill(index);
  }
}

// Each new coordinator gives silent servers their time again.
bool Nemesis::mayRestartCoordinator() const {
  return !coordinator_down_ && !cutting_off_ && !spared_ && cut_off_.empty();
}

void Nemesis::restartCoordinator() {
  if (!mayRestartCoordinator()) return;
  coordinator_down_ = true;
  ++counts_.coordinator_restarts;
  countInterrupted(cluster_.disk, counts_);
  cluster_.killCoordinator();
  if (options_.changes_options && options_random_.below(2) == 0) changeCoordinator(0);
  later(cluster_.scheduler.nowNs() + draw(random_, 1 * kMilli, 1'500 * kMilli), [this] {
    cluster_.startCoordinator();
    coordinator_down_ = false;
  });
}

void Nemesis::healAll() {
  cluster_.network.setRates({});
  healNetwork();
}

void Nemesis::healNetwork() {
  if (!retired_ && cut_off_.empty()) return cluster_.network.healAll();
  // healAll() would connect nodes that stay cut off for an instant, and what their streams hold would be delivered.
  std::vector<std::string> nodes = {SimCluster::kCoordinatorNode};
  for (size_t i = 0; i < cluster_.servers.size(); ++i) nodes.push_back(nodeOf(i));
  for (size_t a = 0; a < nodes.size(); ++a) {
    cluster_.network.rejoin(nodes[a]);
    for (size_t b = a + 1; b < nodes.size(); ++b) {
      if (a != 0 || !isCutOff(b - 1)) cluster_.network.heal(nodes[a], nodes[b]);
    }
  }
}

}  // namespace ramcore::sim
