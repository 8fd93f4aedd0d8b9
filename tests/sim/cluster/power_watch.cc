#include "sim/cluster/power_watch.h"

#include <algorithm>

namespace ramcore::sim {

void PowerWatch::noteProcesses() {
  for (size_t index = 0; index < cluster_.servers.size(); ++index) {
    if (cluster_.servers[index]->isServing()) machines_[cluster_.servers[index]->master().id()] = index;
  }
}

// What somebody has who is not serving yet was not asked for.
PowerWatch::Log PowerWatch::logOf(const SimServer& server) {
  const master::ReplicaManager* const replicas = server.master().replicas();
  if (!server.isServing() || replicas == nullptr) return {};
  return {.replicas = replicas->replicas(), .is_known = replicas->counts().least > 0};
}

void PowerWatch::noteKill(size_t index) {
  noteProcesses();
  const SimServer& server = *cluster_.servers[index];
  if (server.isServing()) dead_[server.master().id()] = logOf(server);
}

void PowerWatch::noteLoss(size_t index) {
  noteProcesses();
  for (const auto& [server, machine] : machines_) {
    if (machine == index) lost_.insert(server);
  }
}

void PowerWatch::forgetReleased() {
  if (cluster_.coordinator == nullptr || !cluster_.coordinator->coordinator().isServing()) return;
  const coordinator::Coordinator& coordinator = cluster_.coordinator->coordinator();
  std::erase_if(dead_, [&](const auto& dead) { return coordinator.isReleased(dead.first); });
}

bool PowerWatch::mayLose(size_t index) {
  noteProcesses();
  forgetReleased();
  for (size_t other = 0; other < cluster_.servers.size(); ++other) {
    if (!cluster_.isDown(other) && !survivesWithout(index, logOf(*cluster_.servers[other]))) return false;
  }
  return std::all_of(dead_.begin(), dead_.end(), [&](const auto& dead) { return survivesWithout(index, dead.second); });
}

bool PowerWatch::survivesWithout(size_t index, const Log& log) const {
  std::set<SegmentId> open;
  std::set<SegmentId> safe;
  for (const master::ReplicaManager::Known& known : log.replicas) {
    // Nothing was reported yet of what is nowhere certified: of private segments, and of heads that are being opened.
    if (known.certified_bytes == 0) continue;
    open.insert(known.segment);
    const auto machine = machines_.find(known.backup);
    const bool keeps = machine != machines_.end() && machine->second != index && !lost_.contains(known.backup);
    if (known.is_closed || keeps) safe.insert(known.segment);
  }
  return log.is_known && open == safe;
}

}  // namespace ramcore::sim
