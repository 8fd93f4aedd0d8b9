#include "sim/cluster/power_watch.h"

#include <algorithm>

#include "backup/frame_file.h"

namespace ramcore::sim {

void PowerWatch::noteProcesses() {
  for (size_t index = 0; index < cluster_.servers.size(); ++index) {
    if (cluster_.servers[index]->isServing()) machines_[cluster_.servers[index]->master().id()] = index;
  }
}

// The log of a server that does not serve yet counts as empty: nothing of it was acknowledged.
PowerWatch::Log PowerWatch::logOf(const SimServer& server) {
  const master::ReplicaManager* const replicas = server.master().replicas();
  if (!server.isServing() || replicas == nullptr) return {};
  const master::ReplicaManager::Counts counts = replicas->counts();
  return {.replicas = replicas->replicas(), .is_known = counts.least > 0, .is_one_enough = counts.demanded < 2};
}

void PowerWatch::noteKill(size_t index) {
  noteProcesses();
  const SimServer& server = *cluster_.servers[index];
  if (server.isServing()) dead_[server.master().id()] = logOf(server);
}

void PowerWatch::noteLoss(size_t index) {
  noteProcesses();
  for (const auto& [server, machine] : machines_) {
    if (machine != index) continue;
    lost_.insert(server);
    if (cluster_.disks[index]->owesFlushes()) deceived_.insert(server);
  }
}

void PowerWatch::forgetReleased() {
  if (cluster_.coordinator == nullptr || !cluster_.coordinator->coordinator().isServing()) return;
  const coordinator::Coordinator& coordinator = cluster_.coordinator->coordinator();
  std::erase_if(dead_, [&](const auto& dead) { return coordinator.isReleased(dead.first); });
}

// The log of the server on `except` need not survive.
template <typename Survives>
bool PowerWatch::allLogs(Survives survives, std::optional<size_t> except) {
  noteProcesses();
  forgetReleased();
  for (size_t index = 0; index < cluster_.servers.size(); ++index) {
    if (index == except || cluster_.isDown(index)) continue;
    if (!survives(logOf(*cluster_.servers[index]))) return false;
  }
  return std::all_of(dead_.begin(), dead_.end(), [&](const auto& dead) { return survives(dead.second); });
}

bool PowerWatch::mayLose(size_t index) {
  return isOpenable(index) && allLogs([&](const Log& log) { return survivesWithout(index, log); });
}

bool PowerWatch::isOneEnough() {
  return std::any_of(cluster_.servers.begin(), cluster_.servers.end(),
                     [](const auto& server) { return logOf(*server).is_one_enough; });
}

bool PowerWatch::mayRot(size_t index) {
  return !isOneEnough() && allLogs([&](const Log& log) {
    return isSafe(log, [&](const master::ReplicaManager::Known& known) {
      const auto machine = machines_.find(known.backup);
      const bool is_elsewhere = machine != machines_.end() && machine->second != index;
      return is_elsewhere && (known.is_closed ? !deceived_.contains(known.backup) : !lost_.contains(known.backup));
    });
  });
}

bool PowerWatch::mayVanish(size_t index) {
  return allLogs([&](const Log& log) {
    return isSafe(log, [&](const master::ReplicaManager::Known& known) {
      const auto machine = machines_.find(known.backup);
      const bool is_elsewhere = machine != machines_.end() && machine->second != index && machine->second != rotten_;
      return is_elsewhere && !deceived_.contains(known.backup);
    });
  });
}

bool PowerWatch::mayLoseAll() {
  bool is_openable = true;
  bool was_deceived = !deceived_.empty();
  for (size_t index = 0; index < cluster_.disks.size(); ++index) {
    is_openable = is_openable && isOpenable(index);
    was_deceived = was_deceived || cluster_.disks[index]->owesFlushes();
  }
  if (!was_deceived) return true;
  return is_openable && allLogs([&](const Log& log) { return isFlushedSomewhere(log); });
}

// If no superblock is flushed, both may be torn: then the server does not start, and wants another directory.
bool PowerWatch::isOpenable(size_t index) const {
  const runtime::SimDisk& disk = *cluster_.disks[index];
  return disk.isFlushed(backup::FrameFile::kFileName, 0, sizeof(backup::Superblock)) ||
         disk.isFlushed(backup::FrameFile::kFileName, backup::kBlockBytes, sizeof(backup::Superblock));
}

// Whether of each segment one of the replicas is kept.
template <typename Keeps>
bool PowerWatch::isSafe(const Log& log, Keeps keeps) {
  std::set<SegmentId> open;
  std::set<SegmentId> safe;
  for (const master::ReplicaManager::Known& known : log.replicas) {
    // Nothing was reported yet of segments without any certificate: private ones, and heads that are being opened.
    if (known.certified_bytes == 0) continue;
    open.insert(known.segment);
    if (keeps(known)) safe.insert(known.segment);
  }
  return log.is_known && open == safe;
}

bool PowerWatch::survivesWithout(size_t index, const Log& log) const {
  const bool deceives = cluster_.disks[index]->owesFlushes();
  return isSafe(log, [&](const master::ReplicaManager::Known& known) {
    const auto machine = machines_.find(known.backup);
    const bool is_elsewhere = machine != machines_.end() && machine->second != index;
    const bool keeps = is_elsewhere && !lost_.contains(known.backup);
    const bool is_spared = !deceives || (is_elsewhere && machine->second != rotten_);
    const bool keeps_closed = known.is_closed && is_spared && !deceived_.contains(known.backup);
    return keeps_closed || (keeps && is_spared);
  });
}

bool PowerWatch::isFlushedSomewhere(const Log& log) const {
  return isSafe(log, [&](const master::ReplicaManager::Known& known) {
    const auto machine = machines_.find(known.backup);
    if (machine == machines_.end() || machine->second == rotten_ || deceived_.contains(known.backup)) return false;
    return !cluster_.disks[machine->second]->owesFlushes();
  });
}

bool PowerWatch::mayLoseAllBut(size_t index) {
  for (size_t other = 0; other < cluster_.disks.size(); ++other) {
    if (cluster_.disks[other]->owesFlushes() || (other != index && !isOpenable(other))) return false;
  }
  const auto survives = [&](const Log& log) {
    return isSafe(log, [&](const master::ReplicaManager::Known& known) {
      if (known.is_closed) return !deceived_.contains(known.backup);
      const auto machine = machines_.find(known.backup);
      return machine != machines_.end() && machine->second == index && !lost_.contains(known.backup);
    });
  };
  return allLogs(survives, index);
}

bool PowerWatch::hasCopies(size_t index) {
  noteProcesses();
  return isSafe(logOf(*cluster_.servers[index]), [&](const master::ReplicaManager::Known& known) {
    return known.is_closed ? !deceived_.contains(known.backup) : !lost_.contains(known.backup);
  });
}

}  // namespace ramcore::sim
