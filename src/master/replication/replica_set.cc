#include "master/replication/replica_set.h"

#include "base/check.h"

namespace ramcore::master {

ReplicaSet::~ReplicaSet() {
  RC_CHECK(allOf([](const Replica& replica) { return !replica.isBusy(); }));
}

bool ReplicaSet::isOn(ServerId backup) const {
  return std::any_of(replicas_.begin(), replicas_.end(),
                     [&](const auto& replica) { return replica->backup == backup; });
}

void ReplicaSet::add(ReplicaSender& sender, const Member& member) {
  replicas_.push_back(std::make_unique<Replica>(sender, member, epoch_));
  if (std::find(ever_held_by_.begin(), ever_held_by_.end(), member.id) == ever_held_by_.end()) {
    ever_held_by_.push_back(member.id);
  }
}

void ReplicaSet::restartUnclosed(ReplicaSender& sender) {
  for (std::unique_ptr<Replica>& replica : replicas_) {
    if (replica->closed) continue;
    replica->giveUp(parts_.caller);
    ++epoch_;
    Member again;
    again.id = replica->backup;
    again.address = replica->address;
    replica = std::make_unique<Replica>(sender, again, epoch_);
  }
}

void ReplicaSet::dropGone() {
  for (size_t i = replicas_.size(); i-- > 0;) {
    if (!parts_.placement.isMember(replicas_[i]->backup)) loseAt(i, Status::Unreachable);
  }
}

// Begins the next epoch of the set, under which the other replicas of an open head are certified anew: the lost
// replica, or a write that is still on its way to it, must never pass for the end of the log.
ServerId ReplicaSet::remove(size_t index) {
  const std::unique_ptr<Replica> lost = std::move(replicas_[index]);
  replicas_.erase(replicas_.begin() + static_cast<ptrdiff_t>(index));
  lost->giveUp(parts_.caller);
  ++epoch_;
  return lost->backup;
}

void ReplicaSet::loseAt(size_t index, Status why) {
  refused_ = refused_ || why == Status::NoSpace;
  const uint8_t frame_flags = replicas_[index]->frame_flags;
  parts_.owner.noteLost(remove(index), why, frame_flags);
}

void ReplicaSet::lose(const Replica& replica, Status why) {
  const auto found = std::find_if(replicas_.begin(), replicas_.end(),
                                  [&](const auto& candidate) { return candidate.get() == &replica; });
  loseAt(static_cast<size_t>(found - replicas_.begin()), why);
}

bool ReplicaSet::loseOn(ServerId backup, uint64_t replica_epoch) {
  const auto found =
      std::find_if(replicas_.begin(), replicas_.end(), [&](const auto& replica) { return replica->backup == backup; });
  // A replica that has taken the place of the lost one on the same server has a later epoch, and is not lost. An epoch
  // above epoch_ was never given out.
  if (found == replicas_.end() || (*found)->epoch > replica_epoch || replica_epoch > epoch_) return false;
  rotten_on_ = backup;
  parts_.owner.noteRotten(remove(static_cast<size_t>(found - replicas_.begin())));
  return true;
}

void ReplicaSet::stop() {
  for (const auto& replica : replicas_) replica->giveUp(parts_.caller);
}

}  // namespace ramcore::master
