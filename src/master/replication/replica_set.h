#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "master/replication/replica.h"
#include "master/replication/segment_parts.h"

namespace ramcore::master {

/// The replicas of one segment that count, the epoch of their set, and the servers that the segment is or ever was on.
/// Thread: the dispatch's.
class ReplicaSet {
 public:
  /// @param parts  borrowed
  explicit ReplicaSet(const SegmentParts& parts) : parts_(parts) {}
  ReplicaSet(const ReplicaSet&) = delete;
  ReplicaSet& operator=(const ReplicaSet&) = delete;
  /// No call is in flight (checked).
  ~ReplicaSet();

  const std::vector<std::unique_ptr<Replica>>& all() const { return replicas_; }
  uint32_t count() const { return static_cast<uint32_t>(replicas_.size()); }
  /// How many replicas `holds` is true of.
  template <typename Predicate>
  uint32_t countOf(Predicate&& holds) const {
    return static_cast<uint32_t>(
        std::count_if(replicas_.begin(), replicas_.end(), [&](const auto& replica) { return holds(*replica); }));
  }
  /// Whether `holds` is true of all replicas.
  template <typename Predicate>
  bool allOf(Predicate&& holds) const {
    return std::all_of(replicas_.begin(), replicas_.end(), [&](const auto& replica) { return holds(*replica); });
  }
  /// Replicas that have a storage frame.
  uint32_t openedCount() const {
    return countOf([](const Replica& replica) { return replica.opened; });
  }
  bool isOn(ServerId backup) const;
  /// A head: epoch of the set. Others: the highest epoch used.
  uint64_t epoch() const { return epoch_; }
  /// All servers that the segment is or ever was on, for when it is freed.
  const std::vector<ServerId>& everHeldBy() const { return ever_held_by_; }
  /// The last server whose disk has not kept a replica of it; none if there was no such server.
  ServerId rottenOn() const { return rotten_on_; }
  /// A backup had no storage frame for it, and no other server has taken its place.
  bool isRefused() const { return refused_; }
  /// Other servers have taken the place of the one that refused.
  void forgetRefusal() { refused_ = false; }

  /// Adds a replica on another server, which nothing is sent to yet.
  void add(ReplicaSender& sender, const Member& member);
  /// Begins all replicas again that are not closed, on the same servers under later epochs. Their calls end.
  void restartUnclosed(ReplicaSender& sender);
  /// Gives up replicas on servers that are no members any more.
  void dropGone();
  /// Gives up a replica, which is destroyed.
  void lose(const Replica& replica, Status why);
  /// Gives up the replica on `backup`, unless its epoch is later than `replica_epoch`. Returns false if none was given
  /// up.
  bool loseOn(ServerId backup, uint64_t replica_epoch);
  /// Ends the calls of all replicas; their outcome is ignored.
  void stop();

 private:
  void loseAt(size_t index, Status why);
  ServerId remove(size_t index);

  const SegmentParts& parts_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  uint64_t epoch_ = 1;
  ServerId rotten_on_;
  std::vector<ServerId> ever_held_by_;
  bool refused_ = false;
};

}  // namespace ramcore::master
