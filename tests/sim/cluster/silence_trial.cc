#include "sim/cluster/silence_trial.h"

#include <algorithm>
#include <map>

#include "base/hash.h"
#include "sim/workload/values.h"

namespace ramcore::sim {
namespace {

// How long calls may still take when the tablets are with others: a pause of 450 ms between two questions, on a clock
// that is 2.4 % slow; up to 10 ms until the client looks whether it is time; and the question and an attempt over a
// network that delays.
constexpr int64_t kKeptNsMax = 500 * kMilli;
// Longer than everything that a recovery waits for and that ends by itself.
constexpr int64_t kWaitsForGoodNs = 60 * kSecond;

}  // namespace

SilenceTrial::SilenceTrial(SimCluster& cluster, SimClient& admin, const std::vector<SimClient*>& clients,
                           const SimTables& tables, DurableCheck& disks, std::function<bool(size_t machine)> may_vanish,
                           std::vector<FinalObject> end)
    : cluster_(cluster),
      admin_(admin),
      tables_(tables),
      disks_(disks),
      may_vanish_(std::move(may_vanish)),
      end_state_(std::move(end)),
      random_(cluster.scheduler.stream("silence trial")),
      start_(*this, &SilenceTrial::run),
      end_(*this, &SilenceTrial::awaitAll) {
  for (SimClient* client : clients) {
    callers_.push_back(std::make_unique<Caller>(*this, *client, callers_.size() % 2 == 0));
  }
}

void SilenceTrial::start() {
  admin_.dispatch().post(start_, runtime::Priority::Client);
  admin_.wake();
}

bool SilenceTrial::isOver() const {
  return is_over_ && std::all_of(callers_.begin(), callers_.end(),
                                 [](const auto& caller) { return !caller->is_ready || caller->answered_ns != 0; });
}

runtime::Task<void> SilenceTrial::run() {
  auto tables = co_await admin_.core().coordinator().allTablets(in(admin_, 60 * kSecond));
  if (!tables.ok() || !chooseVictim(*tables)) {
    is_over_ = true;
    co_return;
  }
  for (const auto& caller : callers_) {
    caller->client.dispatch().post(*caller, runtime::Priority::Client);
    caller->client.wake();
  }
  while (!std::all_of(callers_.begin(), callers_.end(), [](const auto& caller) { return caller->is_ready; })) {
    co_await runtime::sleepFor(admin_.dispatch(), 5 * kMilli);
  }
  silence();
  co_await awaitTaken();
  is_over_ = true;
}

// A server that lives and has a tablet with a key of the workload.
bool SilenceTrial::chooseVictim(const std::vector<client::TableMap>& tables) {
  const size_t first = random_.below(cluster_.servers.size());
  // If a disk is lost already, too few other servers are left for all replicas.
  for (const auto& server : cluster_.servers) {
    if (server->backup() != nullptr && server->backup()->store().isCondemned()) return false;
  }
  for (size_t i = 0; i < cluster_.servers.size(); ++i) {
    victim_ = (first + i) % cluster_.servers.size();
    const SimServer& server = *cluster_.servers[victim_];
    if (cluster_.isDown(victim_) || !server.isServing() || !server.rejected().empty()) continue;
    if (!may_vanish_(victim_)) continue;
    victim_id_ = server.master().id();
    for (const FinalObject& object : end_state_) {
      key_ = keyBytes(object.key);
      for (const client::TableMap& table : tables) {
        if (table.name != tables_.all()[tables_.indexOf(object.key)].name) continue;
        table_ = table.table;
        const bool has_it = std::any_of(table.tablets.begin(), table.tablets.end(), [&](const auto& tablet) {
          return tablet.owner == victim_id_ && tablet.range.contains(hashKey(table.table, asBytes(key_)));
        });
        if (has_it) return true;
      }
    }
  }
  return false;
}

void SilenceTrial::silence() {
  if (random_.below(2) == 0) {
    cluster_.servers[victim_]->node().pause();
  } else {
    cluster_.network.hush(cluster_.servers[victim_]->networkNode());
  }
  is_silent_ = true;
  silent_ns_ = now();
  if (random_.below(2) == 0) killAnother();
}

// Kills a server whose log has a replica of every segment on another server than the silent one. A server for which a
// single replica is enough is not chosen: the only replica of its last writes may be on the silent server, and its
// recovery would wait for that, as promised.
void SilenceTrial::killAnother() {
  const size_t first = random_.below(cluster_.servers.size());
  const auto back_ns = static_cast<int64_t>(random_.between(20 * kMilli, 3 * kSecond));
  for (size_t i = 0; i < cluster_.servers.size(); ++i) {
    const size_t other = (first + i) % cluster_.servers.size();
    if (other == victim_ || cluster_.isDown(other) || !cluster_.servers[other]->isServing()) continue;
    const master::Master& master = cluster_.servers[other]->master();
    const ServerId id = master.id();
    const bool is_one_enough = master.replicas() == nullptr || master.replicas()->counts().demanded < 2;
    if (is_one_enough && !disks_.isWholeWithout(id, victim_)) continue;
    killed_ = id;
    cluster_.killServer(other, false);
    // The trial may be over by then, and with it the run: while the servers are unwound time goes on.
    cluster_.scheduler.call(now() + back_ns, [this, other, trial = std::weak_ptr(alive_)] {
      if (!trial.expired() && cluster_.isDown(other)) cluster_.restartServer(other);
    });
    return;
  }
}

runtime::Task<void> SilenceTrial::call(Caller& caller) {
  client::ClusterClient& core = caller.client.core();
  for (;;) {
    const client::PointResult known = co_await core.read(table_, asBytes(key_), in(caller.client, 10 * kSecond));
    if (known.status == Status::Ok || known.status == Status::NotFound) break;
    if (known.status == Status::Shutdown) co_return;
  }
  caller.is_ready = true;
  while (!is_silent_) co_await runtime::sleepFor(caller.client.dispatch(), kMilli);
  for (;;) {
    // An impatient call ends before its client would ask where the tablet is.
    const int64_t patience_ns =
        caller.is_patient ? 60 * kSecond : static_cast<int64_t>(random_.between(20 * kMilli, 40 * kMilli));
    ++caller.calls;
    const client::PointResult result = co_await core.read(table_, asBytes(key_), in(caller.client, patience_ns));
    if (result.status == Status::Shutdown) co_return;
    if (result.status == Status::Ok || result.status == Status::NotFound) break;
  }
  caller.answered_ns = now();
}

runtime::Task<void> SilenceTrial::awaitTaken() {
  std::optional<int64_t> left_ns;  // when the victim had no tablets any more
  while (!taken_ns_) {
    co_await runtime::sleepFor(admin_.dispatch(), 5 * kMilli);
    auto tables = co_await admin_.core().coordinator().allTablets(in(admin_, 60 * kSecond));
    if (!tables.ok() && tables.error() == Status::Shutdown) co_return;
    if (!tables.ok()) continue;
    bool has_victim_any = false;
    std::set<ServerId> others;
    for (const client::TableMap& table : *tables) {
      for (const client::TabletInfo& tablet : table.tablets) {
        has_victim_any = has_victim_any || tablet.owner == victim_id_;
        if (!tablet.is_available) others.insert(tablet.owner);
      }
    }
    if (has_victim_any) continue;
    if (!left_ns) left_ns = now();
    if (others.empty()) {
      taken_ns_ = now();
    } else if (now() >= silent_ns_ + kWaitsForGoodNs && co_await areWaitingForVictim(others)) {
      taken_ns_ = left_ns;
      waiting_ = others;
    }
  }
}

runtime::Task<bool> SilenceTrial::areWaitingForVictim(const std::set<ServerId>& dead) {
  // The server that was killed lived until then, and had whole replicas on others: its recovery must not wait.
  if (killed_ && dead.contains(*killed_)) co_return false;
  auto status = co_await admin_.core().coordinator().clusterStatus(in(admin_, 60 * kSecond));
  if (!status.ok()) co_return false;
  co_return std::ranges::all_of(dead, [&](ServerId owner) {
    const bool is_said = std::ranges::any_of(status->recoveries, [&](const client::RecoveryProgress& recovery) {
      return recovery.server == owner && std::ranges::find(recovery.away, victim_id_) != recovery.away.end();
    });
    return is_said && disks_.mayWaitFor(owner, victim_);
  });
}

void SilenceTrial::end() {
  if (is_silent_ && !cluster_.isDown(victim_)) {
    cluster_.killServer(victim_, false);
    cluster_.network.unhush(cluster_.servers[victim_]->networkNode());
  }
  is_ended_ = waiting_.empty();
  if (is_ended_) return;
  cluster_.restartServer(victim_);
  admin_.dispatch().post(end_, runtime::Priority::Client);
  admin_.wake();
}

// Until every key can be read, which shows that all of its tablet is there.
runtime::Task<void> SilenceTrial::awaitAll() {
  std::map<std::string, TableId> ids;
  while (ids.size() < tables_.all().size()) {
    auto tables = co_await admin_.core().coordinator().allTablets(in(admin_, 60 * kSecond));
    if (!tables.ok() && tables.error() == Status::Shutdown) co_return;
    if (!tables.ok()) continue;
    for (const client::TableMap& table : *tables) ids[table.name] = table.table;
  }
  for (const FinalObject& object : end_state_) {
    const std::string key = keyBytes(object.key);
    const TableId table = ids.at(tables_.all()[tables_.indexOf(object.key)].name);
    client::PointResult result;
    do {
      result = co_await admin_.core().read(table, asBytes(key), in(admin_, 60 * kSecond));
      if (result.status == Status::Shutdown) co_return;
    } while (result.status != Status::Ok && result.status != Status::NotFound);
    const bool is_there = result.status == Status::Ok;
    std::string value;
    if (is_there) result.takeValue(value);
    const bool is_same = is_there == object.present &&
                         (!is_there || (observe(value) == object.value && result.version == object.version));
    if (!is_same) {
      changed_.push_back("key " + std::to_string(object.key) +
                         " is not what it was, after a storage that was waited for " + "has come back; it is " +
                         (is_there ? describe(observe(value)) : "absent"));
    }
  }
  is_ended_ = true;
}

std::vector<std::string> SilenceTrial::failures() const {
  std::vector<std::string> failures = changed_;
  for (const auto& caller : callers_) {
    if (!caller->is_ready || !taken_ns_ || caller->answered_ns <= *taken_ns_ + kKeptNsMax) continue;
    failures.push_back("a server fell silent for ever: its tablets were with others, and a client whose calls " +
                       std::string(caller->is_patient ? "have time" : "have short deadlines") + " was answered " +
                       std::to_string((caller->answered_ns - *taken_ns_) / kMilli) + " ms later, in call " +
                       std::to_string(caller->calls));
  }
  return failures;
}

}  // namespace ramcore::sim
