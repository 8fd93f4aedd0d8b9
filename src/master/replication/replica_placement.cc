#include "master/replication/replica_placement.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/mutation.h"
#include "master/replication/replica_set.h"
#include "wire/replica_messages.h"

namespace ramcore::master {
namespace {

// A server that failed is not chosen again for this long.
constexpr int64_t kAvoidNs = 2 * runtime::kNanosPerSecond;
// The time between two trace lines that say that a server is full.
constexpr int64_t kTellFullNs = 60 * runtime::kNanosPerSecond;

}  // namespace

ReplicaPlacement::ReplicaPlacement(const ReplicationOptions& options, runtime::Clock& clock, Trace& trace,
                                   runtime::Random random)
    : options_(options), clock_(clock), trace_(trace), random_(random) {
  RC_CHECK(options.replicas > 0);
}

bool ReplicaPlacement::mayKeep(const Member& member) const {
  return member.keeps_replicas &&
         ((member.id == self_) == options_.local_replica || RC_MUTATION("keep-a-copy-on-itself"));
}

const Member* ReplicaPlacement::findMember(ServerId id) const {
  for (const Member& member : members_) {
    if (member.id == id) return &member;
  }
  return nullptr;
}

uint32_t ReplicaPlacement::availableCount() const {
  return static_cast<uint32_t>(
      std::count_if(members_.begin(), members_.end(), [this](const Member& member) { return mayKeep(member); }));
}

std::vector<rpc::PeerAddress> ReplicaPlacement::available() const {
  std::vector<rpc::PeerAddress> all;
  for (const Member& member : members_) {
    if (mayKeep(member)) all.push_back(member.address);
  }
  return all;
}

uint32_t ReplicaPlacement::leastCount() const {
  return options_.local_replica ? 1 : std::max(1U, std::min(options_.min_replicas, options_.replicas));
}

uint32_t ReplicaPlacement::targetCount() const { return std::min(wantedCount(), availableCount()); }

uint32_t ReplicaPlacement::possibleCount(const ReplicaSet& replicas) const {
  const auto possible = std::count_if(members_.begin(), members_.end(), [&](const Member& member) {
    return mayKeep(member) && (replicas.isOn(member.id) || !isAvoided(member.id, Avoided::ForAll));
  });
  return std::min(targetCount(), static_cast<uint32_t>(possible));
}

bool ReplicaPlacement::isAvoided(ServerId backup, Avoided kind) const {
  const auto avoided = avoided_until_ns_.find({backup, kind});
  return avoided != avoided_until_ns_.end() && clock_.nowNs() < avoided->second;
}

const Member* ReplicaPlacement::choose(const ReplicaSet& replicas, uint8_t frame_flags) {
  const auto sharesDomain = [&](const Member& member) {
    if (member.failure_domain.empty()) return false;
    return std::any_of(replicas.all().begin(), replicas.all().end(), [&](const auto& replica) {
      const Member* const other = findMember(replica->backup);
      return other != nullptr && other->failure_domain == member.failure_domain;
    });
  };
  std::vector<const Member*> sound;
  std::vector<const Member*> apart;
  std::vector<const Member*> any;
  for (const Member& member : members_) {
    if (!mayKeep(member) || replicas.isOn(member.id)) continue;
    if (isAvoided(member.id, Avoided::ForAll) || isAvoided(member.id, kindOf(frame_flags))) continue;
    any.push_back(&member);
    if (sharesDomain(member)) continue;
    apart.push_back(&member);
    if (member.id != replicas.rottenOn()) sound.push_back(&member);
  }
  const std::vector<const Member*>& from = !sound.empty() ? sound : !apart.empty() ? apart : any;
  return from.empty() ? nullptr : from[random_.below(from.size())];
}

ReplicaPlacement::Avoided ReplicaPlacement::kindOf(uint8_t frame_flags) {
  if ((frame_flags & wire::WriteReplica::kHead) == 0) return Avoided::ForOthers;
  return (frame_flags & wire::WriteReplica::kReserve) != 0 ? Avoided::ForSmallHeads : Avoided::ForHeads;
}

void ReplicaPlacement::avoid(ServerId backup, Status why, uint8_t frame_flags) {
  const Avoided kind = why == Status::NoSpace ? kindOf(frame_flags) : Avoided::ForAll;
  int64_t& until_ns = avoided_until_ns_[{backup, kind}];
  const int64_t now_ns = clock_.nowNs();
  // A full server is asked again every kAvoidNs for as long as it is full: one trace line every kTellFullNs is enough.
  const auto told = full_told_ns_.find(backup);
  const bool is_told = why == Status::NoSpace && told != full_told_ns_.end() && now_ns - told->second < kTellFullNs;
  if (until_ns <= now_ns && !is_told) {
    if (why == Status::NoSpace) full_told_ns_[backup] = now_ns;
    trace_.warning("server " + std::to_string(backup.value) + " does not keep replicas for us: " +
                   std::string(name(why)) + "; others take over where there are some");
  }
  until_ns = now_ns + kAvoidNs;
}

}  // namespace ramcore::master
