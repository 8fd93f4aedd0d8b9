// Faults of the coordinator besides its death: it is cut off, or another coordinator takes its place.
#include <algorithm>

#include "sim/cluster/nemesis.h"

namespace ramcore::sim {
// ---- cut off

/// One time in which some servers do not reach the coordinator, and it does not reach them.
struct Nemesis::Cut {
  bool is_from_all = false;
  bool is_short = false;  ///< over before any of them may be declared dead
  uint32_t life = 0;      ///< of the coordinator
  std::vector<std::string> processes;
  uint64_t verdicts = 0;  ///< by silence, before there could be one because of it
  bool is_judged = false;
};

// From all of them, from half, or from one; for less time than the silence together takes, mostly.
void Nemesis::cutCoordinator() {
  if (coordinator_down_ || cutting_off_ || spared_ || !cut_off_.empty()) return;
  // Together they would keep a server silent for too long where nothing can be recovered.
  if (!options_.crashes && (paused_ > 0 || retired_)) return;
  const size_t count = cluster_.servers.size();
  const uint64_t kind = random_.below(3);
  const size_t wanted = kind == 0 ? count : kind == 1 ? (count + 1) / 2 : 1;
  ++(kind == 0 ? counts_.cuts_from_all : kind == 1 ? counts_.cuts_from_half : counts_.cuts_from_one);
  const size_t first = random_.below(count);
  for (size_t i = 0; i < wanted; ++i) {
    const size_t index = (first + i) % count;
    cut_off_.insert(index);
    cluster_.network.partition(nodeOf(index), SimCluster::kCoordinatorNode);
  }
  auto cut = std::make_shared<Cut>();
  cut->is_from_all = kind == 0;
  // Without crashes nothing could bring back what a verdict costs.
  cut->is_short = !options_.crashes || random_.below(4) != 0;
  cut->life = cluster_.coordinator_lives;
  for (const auto& server : cluster_.servers) cut->processes.push_back(server->node().name());
  const int64_t now_ns = cluster_.scheduler.nowNs();
  const int64_t together_ns = cluster_.process_options.togetherNs();
  const int64_t longest_ns =
      cut->is_short ? std::min(together_ns - 2 * kSecond, 12 * kSecond) : together_ns + 4 * kSecond;
  // A single server is declared dead soon: without crashes there is no way back from that.
  const bool is_risky = !options_.crashes && kind != 0;
  const int64_t until_ns = now_ns + draw(random_, 1 * kSecond, is_risky ? 3 * kSecond : longest_ns);
  const int64_t silent_ns = now_ns + cluster_.process_options.lease_ns / 10 * 11;
  if (until_ns > silent_ns) {
    later(silent_ns, [this, cut] { judgeCut(cut); });
  }
  later(until_ns, [this, cut] { endCut(cut); });
}

// All are silent by now, or the cut says nothing.
void Nemesis::judgeCut(const std::shared_ptr<Cut>& cut) {
  if (cluster_.coordinator == nullptr || stopped_) return;
  cut->verdicts = cluster_.coordinator->coordinator().counts().verdicts_by_silence;
  cut->is_judged = cut->is_from_all && cut->is_short;
}

void Nemesis::endCut(const std::shared_ptr<Cut>& cut) {
  std::vector<std::string> processes;
  for (const auto& server : cluster_.servers) processes.push_back(server->node().name());
  // A process that was started meanwhile is not cut off and has reached the coordinator.
  const bool says_something = cut->is_judged && !stopped_ && cluster_.coordinator != nullptr &&
                              cut->life == cluster_.coordinator_lives && cut->processes == processes;
  if (says_something) {
    ++counts_.cuts_judged;
    const uint64_t verdicts = cluster_.coordinator->coordinator().counts().verdicts_by_silence;
    if (verdicts != cut->verdicts) {
      failures_.push_back(std::to_string(verdicts - cut->verdicts) +
                          " servers were declared dead while the coordinator was cut off from all of them");
    }
  }
  cut_off_.clear();
  healNetwork();
}

// ---- another one in its place

void Nemesis::copyState() {
  if (cluster_.coordinator == nullptr || copy_ != nullptr) return;
  copy_ = std::make_unique<coordinator::MemoryDisk>(cluster_.disk);
}

// Each server that speaks then finds the copy out. Where some had heard of no more than it has, what it did until then
// would be true for them.
bool Nemesis::haveAllHeardMore() const {
  if (copy_ == nullptr) return false;
  for (size_t index = 0; index < cluster_.servers.size(); ++index) {
    if (cluster_.isDown(index) || !cluster_.servers[index]->isServing()) return false;
    if (cluster_.servers[index]->master().heard().number <= copy_->changeNumber()) return false;
  }
  return true;
}

// Starts another coordinator in place of the right one: on an empty directory, which makes it one of another cluster,
// or on an older copy of its own directory. After a while an operator notices, and puts the right one back.
void Nemesis::replaceCoordinator() {
  if (coordinator_down_ || cutting_off_ || spared_ || !cut_off_.empty() || starting_ != 0) return;
  const bool is_copy = haveAllHeardMore() && random_.below(4) != 0;
  std::unique_ptr<coordinator::MemoryDisk> disk;
  if (is_copy) {
    disk = std::move(copy_);
  } else {
    disk = std::make_unique<coordinator::MemoryDisk>(ClusterId(cluster_.disk.cluster().value + 2),
                                                     SimCluster::kClusterName);
  }
  ++(is_copy ? counts_.older_copies : counts_.other_clusters);
  coordinator_down_ = true;
  cluster_.killCoordinator();
  cluster_.startImpostor(std::move(disk));
  later(cluster_.scheduler.nowNs() + draw(random_, 100 * kMilli, 4 * kSecond), [this, is_copy] {
    const std::optional<Status> started = cluster_.impostor->started();
    const bool is_found =
        started.has_value() && *started == Status::Ok && !cluster_.impostor->coordinator().isServing();
    if (is_copy && is_found) ++counts_.older_copies_found;
    cluster_.killImpostor();
    cluster_.startCoordinator();
    coordinator_down_ = false;
  });
}

}  // namespace ramcore::sim
