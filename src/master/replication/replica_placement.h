#pragma once

#include <map>
#include <utility>
#include <vector>

#include "base/trace.h"
#include "master/replication/members.h"
#include "runtime/clock.h"
#include "runtime/random.h"

namespace ramcore::master {

class ReplicaSet;

struct ReplicationOptions {
  /// Replicas of each segment on other servers. With more replicas more servers may die at a time, and each write is
  /// sent as many times.
  uint32_t replicas = 3;
  /// Writes are refused while fewer other servers than this live that keep replicas. At most `replicas`.
  uint32_t min_replicas = 2;
  /// This server itself keeps the only replica: it survives a restart of the process, not the loss of the machine.
  bool local_replica = false;
};

/// Which servers get the replicas of a log: the members of the cluster, and those of them that are avoided for a while
/// because they failed or are full.
/// Thread: the dispatch's, apart from wantedCount().
class ReplicaPlacement {
 public:
  /// @param clock, trace  borrowed
  /// @param random  draws one of the servers that are equally good
  ReplicaPlacement(const ReplicationOptions& options, runtime::Clock& clock, Trace& trace, runtime::Random random);

  /// Names the server whose log it is. Before that it has no id.
  void setSelf(ServerId self) { self_ = self; }
  ServerId self() const { return self_; }
  /// Sets the servers that live, this one included.
  void setMembers(std::vector<Member> members) { members_ = std::move(members); }
  /// True if this server's id and some members are known.
  bool isReady() const { return self_ != ServerId() && !members_.empty(); }
  /// The server as a member; nullptr if it is none. Valid until setMembers().
  const Member* findMember(ServerId id) const;
  bool isMember(ServerId server) const { return findMember(server) != nullptr; }

  /// Replicas of each segment, by configuration. Any thread.
  uint32_t wantedCount() const { return options_.local_replica ? 1 : options_.replicas; }
  /// With fewer replicas than this nothing is reported.
  uint32_t leastCount() const;
  /// Members that may keep replicas of this log.
  uint32_t availableCount() const;
  std::vector<rpc::PeerAddress> available() const;
  /// Replicas that a segment should have now, by configuration and by the servers that live.
  uint32_t targetCount() const;
  /// Replicas that a segment could have now: as targetCount(), but a server that has failed lately counts only if it
  /// keeps one of `replicas`. A server that is only full counts.
  uint32_t possibleCount(const ReplicaSet& replicas) const;

  /// A server for one more replica beside `replicas`, or nullptr. Draws a random number if there is one.
  /// @param frame_flags  with which its storage frame will be asked for (see ReplicaSender::frameFlags)
  const Member* choose(const ReplicaSet& replicas, uint8_t frame_flags);
  /// A server has refused a replica or was lost: it is not chosen again for a while.
  /// @param why  NoSpace: it is avoided only for replicas with such storage frames
  /// @param frame_flags  with which its storage frame was asked for
  void avoid(ServerId backup, Status why, uint8_t frame_flags);

 private:
  /// The kinds of replicas for which a server is avoided for a while: all of them if it has failed, or those for which
  /// it has no storage frame. Storage frames of different kinds run out one by one.
  enum class Avoided : uint8_t { ForAll, ForHeads, ForSmallHeads, ForOthers };
  static Avoided kindOf(uint8_t frame_flags);
  bool isAvoided(ServerId backup, Avoided kind) const;
  bool mayKeep(const Member& member) const;

  const ReplicationOptions options_;
  runtime::Clock& clock_;
  Trace& trace_;
  runtime::Random random_;
  ServerId self_;
  std::vector<Member> members_;
  std::map<std::pair<ServerId, Avoided>, int64_t> avoided_until_ns_;  // until then a server is not chosen for that kind
  std::map<ServerId, int64_t> full_told_ns_;                          // when it was traced that a server is full
};

}  // namespace ramcore::master
