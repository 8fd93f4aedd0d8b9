// Faults of servers' machines: power and disks.

#include <cstddef>

#include "log/format/segment_format.h"
#include "sim/cluster/nemesis.h"

namespace ramcore::sim {
// A machine that loses its power loses the ends of open replicas that were not flushed, and comes back when it likes.
// Several may, at once or one after the other, while processes are killed: as long as the promise holds, see
// PowerWatch.
void Nemesis::losePower() {
  // Seldom possible.
  if (random_.below(8) == 0) return losePowerButOne();
  if (random_.below(power_rarity_) != 0) return;
  const size_t count = cluster_.servers.size();
  const size_t wanted = random_.below(3) == 0 ? 1 + random_.below(count) : 1;
  const size_t first = random_.below(count);
  uint32_t lost = 0;
  for (size_t i = 0; i < count && lost < wanted; ++i) {
    const size_t index = (first + i) % count;
    if (!power_watch_.mayLose(index)) continue;
    losePower(index);
    ++lost;
  }
  counts_.power_losses += lost;
  if (lost > 1) ++counts_.power_losses_at_once;
}

// The machine loses its power, also if no process runs on it.
void Nemesis::losePower(size_t index) {
  power_watch_.noteLoss(index);
  if (cluster_.isDown(index)) return cluster_.disks[index]->losePower();
  take(index, true);
}

// Of all machines at once, also of those whose processes are dead already: what was not flushed is gone everywhere.
// Only where all tables are sync; then nothing of that was acknowledged, at whatever moment it comes, unless a disk
// lies.
void Nemesis::loseAllPower() {
  if (!power_watch_.mayLoseAll()) return;
  ++counts_.clusters_powerless;
  for (size_t index = 0; index < cluster_.servers.size(); ++index) losePower(index);
  if (random_.below(2) == 0) restartCoordinator();
}

// All machines but one lose their power at once. The remaining machine has a replica of the logs of all other servers.
// The log of its own server has no replica any more, but that server has not died: it makes new ones, and no other
// fault happens meanwhile, because no more is promised.
void Nemesis::losePowerButOne() {
  const bool is_calm = paused_ == 0 && !cutting_off_ && cut_off_.empty() && !silent_ && !stopping_ && !liar_ &&
                       !condemned_ && starting_ == 0;
  const size_t index = random_.below(cluster_.servers.size());
  if (!is_calm || cluster_.isDown(index) || !isWhole() || !power_watch_.mayLoseAllBut(index)) return;
  healAll();
  // For all before any: the disks are judged after each.
  for (size_t other = 0; other < cluster_.servers.size(); ++other) {
    if (other != index) power_watch_.noteLoss(other);
  }
  alone_ = index;
  for (size_t other = 0; other < cluster_.servers.size(); ++other) {
    if (other == index) continue;
    losePower(other);
    ++counts_.power_losses;
  }
  if (alone()) ++counts_.alone_with_power;
}

std::optional<ServerId> Nemesis::alone() {
  if (alone_ && power_watch_.hasCopies(*alone_)) alone_.reset();
  return alone_ ? std::optional(idOf(*alone_)) : std::nullopt;
}

// Every log has the replicas that it should have, and no dead server's log is still needed.
bool Nemesis::isWhole() const {
  if (coordinator_down_ || cluster_.coordinator == nullptr || !cluster_.coordinator->coordinator().isServing()) {
    return false;
  }
  const coordinator::Coordinator::Counts counts = cluster_.coordinator->coordinator().counts();
  size_t up = 0;
  for (size_t index = 0; index < cluster_.servers.size(); ++index) {
    // A server that knows that it was declared dead counts as gone.
    if (cluster_.isDown(index) || !cluster_.servers[index]->rejected().empty()) continue;
    ++up;
    if (!isWhole(index)) return false;
  }
  return counts.servers_to_recover == 0 && counts.servers_alive == up;
}

bool Nemesis::isWhole(size_t index) const {
  const SimServer& server = *cluster_.servers[index];
  if (!server.isServing() || server.master().replicas() == nullptr) return false;
  return server.master().replicas()->counts().repairing == 0 && !server.backup()->store().isCondemned();
}

void Nemesis::spoilDisk() {
  const size_t index = random_.below(cluster_.servers.size());
  const uint64_t kind = random_.below(16);
  if (kind < 4) return losePower();
  if (cluster_.isDown(index)) return;
  if (kind < 8) {
    failFlush(index);
  } else if (kind < 11) {
    slowDisk(index);
  } else if (kind < 12) {
    deceive(index);
  } else {
    flipBit(rotten_);
  }
}

// Fails on one machine at a time: without two machines fewer replicas than demanded could be kept. Replicas that it has
// not flushed are not shown any more. Its process is started again later.
void Nemesis::failFlush(size_t index) {
  if (condemned_ || random_.below(8) != 0) return;
  if (index == liar_ || cluster_.disks[index]->owesFlushes() || !power_watch_.mayLose(index)) return;
  condemned_ = index;
  power_watch_.noteLoss(index);
  cluster_.disks[index]->failFlushes(1, [this, index] {
    if (power_watch_.isOneEnough() && !power_watch_.mayLose(index)) return false;
    power_watch_.noteLoss(index);
    return true;
  });
  later(cluster_.scheduler.nowNs() + draw(random_, 500 * kMilli, 5 * kSecond), [this, index] {
    condemned_.reset();
    cluster_.disks[index]->failFlushes(0);
    if (!cluster_.isDown(index) && cluster_.servers[index]->backup()->store().isCondemned()) kill(index);
  });
}

void Nemesis::slowDisk(size_t index) {
  const runtime::SimDiskOptions usual;
  ++counts_.disks_slowed;
  // Up to longer than masters wait for a flush.
  const int64_t ns_max = random_.below(4) == 0 ? 3 * kSecond : 100 * kMilli;
  cluster_.disks[index]->setFlushTime(usual.flush_ns_max, ns_max);
  // And up to longer than masters wait for a write.
  cluster_.disks[index]->setStalls(10, 500 * kMilli);
  later(cluster_.scheduler.nowNs() + draw(random_, 100 * kMilli, 3 * kSecond), [this, index, usual] {
    cluster_.disks[index]->setFlushTime(usual.flush_ns_min, usual.flush_ns_max);
    cluster_.disks[index]->setStalls(usual.stall_permille, usual.stall_ns_max);
  });
}

// In the header of a segment, which every certificate covers but for the state byte: nothing of that replica verifies
// any more.
void Nemesis::flipBit(size_t index) {
  constexpr std::string_view kFile = "frames";
  if (random_.below(8) != 0 || !isWhole() || !power_watch_.mayLose(index) || !power_watch_.mayRot(index)) return;
  power_watch_.noteLoss(index);
  const uint32_t segment_bytes = cluster_.servers[index]->backup()->store().frameBytes();
  const uint64_t frames = cluster_.servers[index]->backup()->store().stats().frames_total.load();
  const uint64_t frame_at = backup::FrameFile::fileBytes(random_.below(frames), segment_bytes) + backup::kBlockBytes;
  const uint64_t byte = random_.below(16);
  const uint64_t at = frame_at + (byte == offsetof(log::EntryHeader, state) ? 0 : byte);
  cluster_.disks[index]->flipBit(kFile, at * 8 + random_.below(8));
}

// ---- disks that lie

// Of one machine at a time. Mostly its power is lost before the lie is over, as soon as PowerWatch allows it; sometimes
// what is started on it then is lied to as well.
void Nemesis::deceive(size_t index) {
  runtime::SimDisk& disk = *cluster_.disks[index];
  if (!lies_ || liar_ || condemned_ || index == rotten_ || disk.owesFlushes()) return;
  liar_ = index;
  ++counts_.disks_lied;
  disk.setLying(true);
  later(cluster_.scheduler.nowNs() + draw(random_, 200 * kMilli, 6 * kSecond), [this, index] {
    if (!stopped_ && random_.below(4) == 0) static_cast<void>(stopInOrder(index));
    endLie(index, cluster_.scheduler.nowNs() + 3 * kSecond);
  });
}

void Nemesis::endLie(size_t index, int64_t until_ns) {
  const int64_t now_ns = cluster_.scheduler.nowNs();
  const bool loses = !stopped_ && !stopping_ && cluster_.disks[index]->owesFlushes() && power_watch_.mayLose(index);
  if (!loses && !stopped_ && now_ns < until_ns) {
    return later(now_ns + 20 * kMilli, [this, index, until_ns] { endLie(index, until_ns); });
  }
  if (loses) {
    ++counts_.power_losses;
    losePower(index);
    // No master lives that would leave out what is short now.
    if (random_.below(4) == 0) killAll();
    if (random_.below(3) == 0) {
      return later(now_ns + draw(random_, 1 * kSecond, 8 * kSecond),
                   [this, index] { endLie(index, cluster_.scheduler.nowNs() + 2 * kSecond); });
    }
  }
  cluster_.disks[index]->setLying(false);
  liar_.reset();
}

// ---- in order

// As an operator does who then turns the machine off, or not.
bool Nemesis::stopInOrder(size_t index) {
  SimServer& server = *cluster_.servers[index];
  if (cluster_.isDown(index) || !server.isServing() || server.isStopping() || stopping_ || isCrowded()) return false;
  stopping_ = true;
  server.stopInOrder();
  awaitStopped(index, server, cluster_.scheduler.nowNs() + 6 * kSecond);
  return true;
}

void Nemesis::awaitStopped(size_t index, const SimServer& server, int64_t until_ns) {
  later(cluster_.scheduler.nowNs() + 5 * kMilli, [this, index, &server, until_ns] {
    const bool was_killed = cluster_.servers[index].get() != &server || cluster_.isDown(index);
    if (!was_killed && !server.hasStopped() && cluster_.scheduler.nowNs() < until_ns) {
      return awaitStopped(index, server, until_ns);
    }
    stopping_ = false;
    if (was_killed) return;
    if (server.hasStopped()) ++counts_.servers_stopped;
    take(index, false);
    const bool was_deceived = cluster_.disks[index]->owesFlushes();
    if (!was_deceived && random_.below(2) == 0) deceive(index);  // from the start of the next process on
    if (stopped_ || random_.below(2) != 0 || !power_watch_.mayLose(index)) return;
    ++counts_.power_losses;
    losePower(index);
    if (was_deceived && random_.below(2) == 0) killAll();
  });
}

}  // namespace ramcore::sim
