#include "master/replication/replica_manager.h"

#include "base/check.h"
#include "runtime/await.h"

namespace ramcore::master {
namespace {

// While a segment has fewer replicas than it could, and nothing else happens, it is looked at this often.
constexpr int64_t kShortPauseNs = 100 * runtime::kNanosPerMilli;
constexpr int64_t kFloorPauseNs = 5 * runtime::kNanosPerMilli;
// Closed segments that are replicated again at a time: more would hold up what clients wait for.
constexpr size_t kRepairsMax = 4;

}  // namespace

ReplicaManager::ReplicaManager(const ReplicationOptions& options, const Environment& environment,
                               runtime::Random random)
    : environment_(environment),
      pump_(*this),
      requests_(environment.dispatch, pump_),
      placement_(options, environment.clock, environment.trace, random),
      admission_(placement_, environment.clock, environment.trace, environment.backup),
      segments_(placement_),
      look_again_(*this),
      freeing_(placement_, environment.dispatch, environment.caller) {}

ReplicaManager::~ReplicaManager() { RC_CHECK(isIdle()); }

void ReplicaManager::begin(ClusterId cluster, ServerId self) {
  cluster_ = cluster;
  placement_.setSelf(self);
  admission_.begin();
}

void ReplicaManager::setMembers(std::vector<Member> members) {
  placement_.setMembers(std::move(members));
  freeing_.membersChanged();
  admission_.membersChanged();
  counts_changed_ = true;
  // Each segment may have lost replicas, or get one more.
  for (const auto& [id, segment] : segments_.all()) active_.insert(id);
  wake();
}

void ReplicaManager::stop() {
  if (stopped_) return;
  stopped_ = true;
  look_again_.cancel();
  for (const auto& [id, segment] : segments_.all()) segment->stop();
  freeing_.stop();
}

// ---- what the log asks for

void ReplicaManager::open(const log::Segment& segment) {
  requests_.add({.kind = LogRequest::Kind::Open, .id = segment.id(), .segment = &segment});
}
void ReplicaManager::close(const log::Segment& segment) {
  requests_.add({.kind = LogRequest::Kind::Close, .id = segment.id(), .segment = &segment});
}
void ReplicaManager::moved(const log::Segment& segment) {
  requests_.add({.kind = LogRequest::Kind::Moved, .id = segment.id(), .segment = &segment});
}
void ReplicaManager::withdraw(SegmentId head) { requests_.add({.kind = LogRequest::Kind::Withdraw, .id = head}); }
void ReplicaManager::awaitLeast(SegmentId segment) {
  requests_.add({.kind = LogRequest::Kind::AwaitLeast, .id = segment});
}
void ReplicaManager::free(SegmentId segment) { requests_.add({.kind = LogRequest::Kind::Free, .id = segment}); }
void ReplicaManager::requestDurable(LogPosition position) {
  requests_.add({.kind = LogRequest::Kind::Durable, .id = position.segment, .bytes = position.offset_bytes});
}
void ReplicaManager::requestFlush(LogPosition position) {
  requests_.add({.kind = LogRequest::Kind::Flush, .id = position.segment, .bytes = position.offset_bytes});
}
// There is nothing to note: the segment says how much is committed, and every segment that grows is in active_.
void ReplicaManager::advance(const log::Segment&) { wake(); }

void ReplicaManager::pump() {
  requests_.noteRunning();
  if (stopped_) return;
  applyQueued();
  stepAll();
  refreshCounts();
  admission_.refreshStorage();
}

void ReplicaManager::applyQueued() {
  for (const LogRequest& request : requests_.take()) apply(request);
}

void ReplicaManager::refreshCounts() {
  // When an answer of a backup opens the first head, counts_changed_ is not set: so counts are taken until `least` is
  // not 0.
  if (!counts_changed_ && stats_.least.load(std::memory_order_relaxed) != 0) return;
  counts_changed_ = false;
  const Counts now = counts();
  stats_.least.store(now.least, std::memory_order_relaxed);
  stats_.repairing.store(now.repairing, std::memory_order_relaxed);
}

// The log's requests are carried out first: one may free this segment, whose memory is readable only until this
// thread's next round.
void ReplicaManager::stepNow(SegmentId segment) {
  applyQueued();
  ReplicatedSegment* const found = segments_.find(segment);
  if (found == nullptr) return;
  found->step();
  // If this segment is closed now, the floor may pass it, for which a later head may wait. If it has found no server
  // for a replica, it has to be looked at again, even if nothing else happens.
  if (!found->isClosed() && found->replicas().count() >= placement_.targetCount()) return;
  counts_changed_ = true;
  wake();
}

void ReplicaManager::apply(const LogRequest& request) {
  using Kind = LogRequest::Kind;
  ReplicatedSegment* const found = segments_.find(request.id);
  if (request.kind == Kind::Durable || request.kind == Kind::Flush) {
    if (found == nullptr) return;
    if (request.kind == Kind::Durable) found->requestDurable(request.bytes);
    if (request.kind == Kind::Flush) found->requestFlush(request.bytes);
    return;
  }
  counts_changed_ = true;
  if (request.kind == Kind::Open) {
    const SegmentParts parts{.owner = *this,
                             .placement = placement_,
                             .admission = admission_,
                             .stats = stats_,
                             .dispatch = environment_.dispatch,
                             .caller = environment_.caller,
                             .events = *events_,
                             .cluster = cluster_,
                             .self = placement_.self()};
    segments_.add(request.id, std::make_unique<ReplicatedSegment>(parts, *request.segment));
    active_.insert(request.id);
    return;
  }
  RC_CHECK(found != nullptr);
  if (request.kind == Kind::Close) {
    found->close();
    return;
  }
  if (request.kind == Kind::Moved) {
    found->moved(*request.segment);
    active_.insert(request.id);
    return;
  }
  if (request.kind == Kind::Withdraw) {
    found->withdraw();
    return;
  }
  if (request.kind == Kind::AwaitLeast) {
    found->awaitLeast();
    active_.insert(request.id);
    return;
  }
  forget(request.id);
}

void ReplicaManager::forget(SegmentId segment) {
  ReplicatedSegment& found = *segments_.find(segment);
  found.stop();
  // It is freed also on servers whose replica was given up as lost: that may be there all the same, and would keep its
  // storage frame.
  for (const ServerId backup : found.replicas().everHeldBy()) freeing_.free(backup, segment);
  active_.erase(segment);
  repairing_.erase(segment);
  segments_.erase(segment);
}

// Forgets a head that the log does not want any more, if no recovery can find it. If one may find it, the log gets this
// head after all.
bool ReplicaManager::withdrawIfStuck(SegmentId segment) {
  if (!segments_.find(segment)->canBeWithdrawn()) return false;
  forget(segment);
  counts_changed_ = true;
  events_->segmentWithdrawn(segment);
  return true;
}

void ReplicaManager::stepAll() {
  bool is_short = false;
  bool is_waiting = false;
  bool all_heads_have_places = true;
  bool is_head_stuck = false;
  for (auto at = active_.begin(); at != active_.end();) {
    const SegmentId id = *at;
    if (withdrawIfStuck(id)) {
      at = active_.upper_bound(id);
      continue;
    }
    ReplicatedSegment& segment = *segments_.find(*at);
    if (segment.isClosed() && !repairing_.contains(*at)) {
      if (repairing_.size() >= kRepairsMax) {
        is_waiting = true;
        ++at;
        continue;
      }
      repairing_.insert(*at);
    }
    if (segment.step()) {
      // The segment gives its turn back: others are not to wait for memory that may never be restored, nor for places
      // that may never come free.
      if (segment.isBlocked() || segment.isOutOfPlaces()) repairing_.erase(*at);
      is_short = is_short || segment.replicas().count() < placement_.targetCount();
      all_heads_have_places = all_heads_have_places && !segment.hasNoPlace();
      if (segment.isStuck()) {
        is_head_stuck = true;
        admission_.noteStuck(segment.isOfReserve());
      }
      ++at;
    } else {
      counts_changed_ = repairing_.erase(*at) != 0 || counts_changed_;
      at = active_.erase(at);
    }
  }
  admission_.noteHeadStuck(is_head_stuck);
  // Small heads that have found places say nothing about others.
  admission_.notePlaces(all_heads_have_places && !isShortOfPlaces());
  is_short = is_short || !all_heads_have_places;
  // A turn was given back after a segment that waits for one had been passed: another round is needed.
  if (is_waiting && repairing_.size() < kRepairsMax) wake();
  if (is_short && !look_again_.isArmed()) {
    environment_.dispatch.arm(look_again_, environment_.clock.nowNs() + kShortPauseNs);
  }
}

void ReplicaManager::noteLost(ServerId backup, Status why, uint8_t frame_flags) {
  stats_.replicas_lost.fetch_add(1, std::memory_order_relaxed);
  counts_changed_ = true;
  placement_.avoid(backup, why, frame_flags);
  wake();  // if no other server takes its place, only time brings this one back: see stepAll
}

// The server is not avoided: its disk has lost a replica, but it takes new ones. For this segment others are preferred
// (ReplicaSet::rottenOn).
void ReplicaManager::noteRotten(ServerId backup) {
  stats_.replicas_lost.fetch_add(1, std::memory_order_relaxed);
  counts_changed_ = true;
  environment_.trace.warning("server " + std::to_string(backup.value) +
                             " has not kept a replica of ours as it was; another one is made");
  wake();
}

// The damaged bytes must not be sent: backups would take them for what was written, and no replica has the right ones.
bool ReplicaManager::noteSpoilt(const log::Segment& segment, uint32_t offset_bytes) {
  if (events_->segmentSpoilt(segment, offset_bytes)) return true;
  if (is_spoilt_) return false;
  is_spoilt_ = true;
  admission_.fence();
  if (environment_.on_spoilt) {
    environment_.on_spoilt("memory: the entry at segment " + std::to_string(segment.id().value) + ", offset " +
                           std::to_string(offset_bytes) +
                           " is not what was written, before it is copied to other servers; this server stops, and "
                           "others bring back from its copies what it has acknowledged; test the memory of the machine "
                           "if this is not the first time");
  }
  return false;
}

void ReplicaManager::raiseFloor(SegmentId segment, uint64_t replica_epoch) { raise(segment, replica_epoch).detach(); }

runtime::Task<void> ReplicaManager::raise(SegmentId segment, uint64_t replica_epoch) {
  ++raising_;
  while (!stopped_) {
    const Status raised = co_await environment_.floors.raiseFloor(segment, replica_epoch);
    if (raised == Status::Ok) {
      stats_.floors_raised.fetch_add(1, std::memory_order_relaxed);
      counts_changed_ = true;
      ReplicatedSegment* const found = segments_.find(segment);
      if (found != nullptr) {
        found->floorRaised(replica_epoch);
        active_.insert(segment);
      } else {
        active_.erase(segment);
      }
      wake();
      break;
    }
    if (raised == Status::Fenced) {
      admission_.fence();
      break;
    }
    co_await runtime::sleepFor(environment_.dispatch, kFloorPauseNs);
  }
  --raising_;
}

std::vector<rpc::PeerAddress> ReplicaManager::otherBackups(SegmentId segment) const {
  std::vector<rpc::PeerAddress> others = placement_.available();
  for (const Holder& holder : closedHolders(segment)) {
    std::erase_if(others, [&](const rpc::PeerAddress& other) { return other.id == holder.address.id; });
  }
  std::ranges::sort(others, std::greater<>(), &rpc::PeerAddress::id);
  return others;
}

void ReplicaManager::noteLostReplica(ServerId backup, SegmentId segment, uint64_t replica_epoch) {
  if (stopped_) return;
  applyQueued();
  ReplicatedSegment* const found = segments_.find(segment);
  if (found == nullptr || !found->loseOn(backup, replica_epoch)) return;
  active_.insert(segment);
  wake();
}

}  // namespace ramcore::master
