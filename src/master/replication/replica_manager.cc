#include "master/replication/replica_manager.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"
#include "runtime/await.h"
#include "wire/replica_messages.h"

namespace ramcore::master {
namespace {

// A server that failed is not chosen again for this long.
constexpr int64_t kAvoidNs = 2 * runtime::kNanosPerSecond;
// Between two lines that say that a server is full.
constexpr int64_t kTellFullNs = 60 * runtime::kNanosPerSecond;
// While a segment has fewer replicas than it could, and nothing else happens, it is looked at this often.
constexpr int64_t kShortPauseNs = 100 * runtime::kNanosPerMilli;
// A head that finds too few servers for so long will not find them soon: writers are told, instead of left waiting.
constexpr int64_t kNoPlaceNs = runtime::kNanosPerSecond;
constexpr int64_t kFreeNs = runtime::kNanosPerSecond;
constexpr int64_t kFreePauseNs = 50 * runtime::kNanosPerMilli;
constexpr int64_t kFloorPauseNs = 5 * runtime::kNanosPerMilli;
// Closed segments that are copied again at a time: more would take the place of what clients wait for.
constexpr size_t kRepairsMax = 4;

}  // namespace

ReplicaManager::Freeing::Freeing(ReplicaManager& owner, rpc::PeerAddress peer)
    : OutgoingCall(&ReplicaManager::freed), manager(owner), address(std::move(peer)), again(*this) {}

ReplicaManager::Freeing::Again::Again(Freeing& freeing)
    : Timer([](runtime::Timer& timer) {
        Freeing& due = static_cast<Again&>(timer).owner;
        due.manager.freeNext(due);
      }),
      owner(freeing) {}

ReplicaManager::ReplicaManager(const ReplicationOptions& options, const Environment& environment,
                               runtime::Random random)
    : options_(options), environment_(environment), random_(random), pump_(*this), look_again_(*this) {
  RC_CHECK(options.replicas > 0);
}

ReplicaManager::~ReplicaManager() { RC_CHECK(isIdle()); }

void ReplicaManager::begin(ClusterId cluster, ServerId self) {
  cluster_ = cluster;
  self_ = self;
  refreshWriteStatus();  // members may have been heard of before
  tellIfTooFew();
}

void ReplicaManager::setMembers(std::vector<Member> members) {
  members_ = std::move(members);
  no_place_since_ns_ = 0;  // they are others now
  for (auto at = freeing_.begin(); at != freeing_.end();) {
    Freeing& freeing = *at->second;
    if (isMember(at->first) || freeing.busy) {
      ++at;
    } else {
      at = freeing_.erase(at);
    }
  }
  refreshWriteStatus();
  tellIfTooFew();
  counts_changed_ = true;
  // Each may have lost replicas, or get one more.
  for (const auto& [id, segment] : segments_) active_.insert(id);
  wake();
}

// One line when writes begin to be refused for want of servers, and one when they are taken again.
void ReplicaManager::tellIfTooFew() {
  if (self_ == ServerId() || members_.empty() || fenced_) return;
  const uint32_t available = availableCount();
  const bool too_few = available < leastCount();
  if (std::exchange(told_too_few_, too_few) == too_few) return;
  if (!too_few) {
    environment_.trace.info("enough other servers keep copies: writes are taken");
  } else {
    environment_.trace.warning("writes are refused while " + std::to_string(available) +
                               " other servers live that keep copies, and --min-replicas asks for " +
                               std::to_string(leastCount()) +
                               ": start servers, or lower it; --local-replica is for one server alone");
  }
}

uint32_t ReplicaManager::availableCount() const {
  return static_cast<uint32_t>(
      std::count_if(members_.begin(), members_.end(), [this](const Member& member) { return mayKeep(member); }));
}

void ReplicaManager::refreshWriteStatus() {
  const bool has_places = no_place_since_ns_ == 0 || environment_.clock.nowNs() - no_place_since_ns_ < kNoPlaceNs;
  const bool is_enough = availableCount() >= leastCount() || RC_MUTATION("write-with-too-few-copies");
  const bool enough = has_places && is_enough;
  write_status_.store(fenced_  ? Status::Fenced
                      : enough ? Status::Ok
                               : Status::TooFewReplicas,
                      std::memory_order_relaxed);
  // Backups that are full keep frames for the heads that removals need.
  const bool may_remove = enough || (isShortOfPlaces() && availableCount() >= leastCount());
  remove_status_.store(!fenced_ && may_remove ? Status::Ok : writeStatus(), std::memory_order_relaxed);
}

// A replica that was placed and has no frame yet may be refused one.
bool ReplicaManager::hasNoPlace(const ReplicatedSegment& segment) const {
  return segment.isHead() && !segment.isClosed() && segment.openedCount() < leastCount();
}

void ReplicaManager::notePlaces(bool all_heads_have_places) {
  if (all_heads_have_places && no_place_since_ns_ == 0) return;
  const int64_t now_ns = environment_.clock.nowNs();
  if (all_heads_have_places) {
    no_place_since_ns_ = 0;
  } else if (no_place_since_ns_ == 0) {
    no_place_since_ns_ = now_ns;
  }
  const Status before = writeStatus();
  refreshWriteStatus();
  if (before == Status::Ok && writeStatus() == Status::TooFewReplicas) {
    environment_.trace.warning("no server has taken a new segment of the log for " +
                               std::to_string((now_ns - no_place_since_ns_) / runtime::kNanosPerMilli) +
                               " ms, so writes are refused; see their storage (ramcore status: frames)");
  }
}

void ReplicaManager::stop() {
  if (stopped_) return;
  stopped_ = true;
  look_again_.cancel();
  for (const auto& [id, segment] : segments_) segment->stop();
  for (const auto& [backup, freeing] : freeing_) {
    freeing->again.cancel();
    if (freeing->busy) environment_.caller.connection(freeing->address).cancel(*freeing, Status::Cancelled);
  }
}

// ---- what the log asks for

void ReplicaManager::open(const log::Segment& segment) { enqueue({EventKind::Open, segment.id(), &segment}); }
void ReplicaManager::close(const log::Segment& segment) { enqueue({EventKind::Close, segment.id(), &segment}); }
void ReplicaManager::moved(const log::Segment& segment) { enqueue({EventKind::Moved, segment.id(), &segment}); }
void ReplicaManager::withdraw(SegmentId head) { enqueue({EventKind::Withdraw, head, nullptr}); }
void ReplicaManager::awaitLeast(SegmentId segment) { enqueue({EventKind::AwaitLeast, segment, nullptr}); }
void ReplicaManager::free(SegmentId segment) { enqueue({EventKind::Free, segment, nullptr}); }
void ReplicaManager::requestDurable(LogPosition position) {
  enqueue({EventKind::Durable, position.segment, nullptr, position.offset_bytes});
}
void ReplicaManager::requestFlush(LogPosition position) {
  enqueue({EventKind::Flush, position.segment, nullptr, position.offset_bytes});
}
// How much is committed stands in the segment; which segments grow is known.
void ReplicaManager::advance(const log::Segment&) { wake(); }

void ReplicaManager::enqueue(const Event& event) {
  {
    SpinGuard guard(lock_);
    // Of many who wait the one who waits for most.
    const bool waits = event.kind == EventKind::Durable || event.kind == EventKind::Flush;
    if (waits && !queued_.empty() && queued_.back().kind == event.kind && queued_.back().id == event.id) {
      queued_.back().bytes = std::max(queued_.back().bytes, event.bytes);
    } else {
      queued_.push_back(event);
    }
  }
  wake();
}

void ReplicaManager::wake() {
  if (pump_posted_.exchange(true, std::memory_order_seq_cst)) return;
  environment_.dispatch.post(pump_, runtime::Priority::Waited);
}

void ReplicaManager::pump() {
  // Before looking: whoever wakes from here on is seen now or posts again.
  pump_posted_.store(false, std::memory_order_seq_cst);
  if (stopped_) return;
  applyQueued();
  stepAll();
  refreshCounts();
  refreshStorage();
}

void ReplicaManager::refreshStorage() {
  uint32_t percent = 0;
  if (environment_.backup != nullptr) {
    const uint64_t total = environment_.backup->framesTotal();
    const uint64_t used = total - std::min(total, environment_.backup->framesFree());
    const uint64_t for_heads = total - std::min(total, environment_.backup->framesKept());
    percent = for_heads == 0 ? 0 : static_cast<uint32_t>(std::min(used, for_heads) * 100 / for_heads);
  }
  // All are full that could take a head: whatever this server's own storage says.
  if (isShortOfPlaces()) percent = 100;
  storage_percent_.store(percent, std::memory_order_relaxed);
}

void ReplicaManager::applyQueued() {
  std::vector<Event> taken;
  {
    SpinGuard guard(lock_);
    taken.swap(queued_);
  }
  for (const Event& event : taken) apply(event);
}

void ReplicaManager::refreshCounts() {
  // The first head is opened by an answer of a backup, which is no change of segments.
  if (!counts_changed_ && stats_.least.load(std::memory_order_relaxed) != 0) return;
  counts_changed_ = false;
  const Counts now = counts();
  stats_.least.store(now.least, std::memory_order_relaxed);
  stats_.repairing.store(now.repairing, std::memory_order_relaxed);
}

// The memory of a segment that was freed stays in place until this thread's next round at the latest: what was freed
// before comes first.
void ReplicaManager::stepNow(SegmentId segment) {
  applyQueued();
  const auto found = segments_.find(segment);
  if (found == segments_.end()) return;
  found->second->step();
  // A later head may wait for the end of one that is closed now before the floor can pass it. One that found no server
  // for a replica has to be looked at again, even if nothing else happens.
  if (!found->second->isClosed() && found->second->replicaCount() >= targetCount()) return;
  counts_changed_ = true;
  wake();
}

void ReplicaManager::apply(const Event& event) {
  if (event.kind == EventKind::Durable || event.kind == EventKind::Flush) {
    const auto wanted = segments_.find(event.id);
    if (wanted == segments_.end()) return;
    if (event.kind == EventKind::Durable) wanted->second->requestDurable(event.bytes);
    if (event.kind == EventKind::Flush) wanted->second->requestFlush(event.bytes);
    return;
  }
  counts_changed_ = true;
  if (event.kind == EventKind::Open) {
    ReplicaOwner& owner = *this;
    segments_.emplace(event.id, std::make_unique<ReplicatedSegment>(owner, cluster_, self_, *event.segment));
    active_.insert(event.id);
    return;
  }
  const auto found = segments_.find(event.id);
  RC_CHECK(found != segments_.end());
  if (event.kind == EventKind::Close) {
    found->second->close();
    return;
  }
  if (event.kind == EventKind::Moved) {
    found->second->moved(*event.segment);
    active_.insert(event.id);
    return;
  }
  if (event.kind == EventKind::Withdraw) {
    found->second->withdraw();
    return;
  }
  if (event.kind == EventKind::AwaitLeast) {
    found->second->awaitLeast();
    active_.insert(event.id);
    return;
  }
  forget(event.id);
}

void ReplicaManager::forget(SegmentId segment) {
  const auto found = segments_.find(segment);
  found->second->stop();
  for (const ServerId backup : found->second->everHeldBy()) freeOn(backup, segment);
  active_.erase(segment);
  repairing_.erase(segment);
  segments_.erase(found);
}

// Otherwise the log will have the head that it has prepared.
bool ReplicaManager::withdrawIfStuck(SegmentId segment) {
  if (!segments_.at(segment)->canBeWithdrawn()) return false;
  forget(segment);
  counts_changed_ = true;
  events_->segmentWithdrawn(segment);
  return true;
}

void ReplicaManager::stepAll() {
  bool is_short = false;
  bool is_waiting = false;
  bool all_heads_have_places = true;
  for (auto at = active_.begin(); at != active_.end();) {
    const SegmentId id = *at;
    if (withdrawIfStuck(id)) {
      at = active_.upper_bound(id);
      continue;
    }
    ReplicatedSegment& segment = *segments_.at(*at);
    if (segment.isClosed() && !repairing_.contains(*at)) {
      if (repairing_.size() >= kRepairsMax) {
        is_waiting = true;
        ++at;
        continue;
      }
      repairing_.insert(*at);
    }
    if (segment.step()) {
      // Others are not to wait for memory that may never be restored, nor for places that may never come free.
      if (segment.isBlocked() || segment.isOutOfPlaces()) repairing_.erase(*at);
      is_short = is_short || segment.replicaCount() < targetCount();
      all_heads_have_places = all_heads_have_places && !hasNoPlace(segment);
      if (segment.isStuck() && !segment.isOfReserve()) short_of_places_.store(true, std::memory_order_relaxed);
      ++at;
    } else {
      counts_changed_ = repairing_.erase(*at) != 0 || counts_changed_;
      at = active_.erase(at);
    }
  }
  // Small heads that have found places say nothing about others.
  notePlaces(all_heads_have_places && !isShortOfPlaces());
  is_short = is_short || !all_heads_have_places;
  // Turns that came free behind those that wait for one.
  if (is_waiting && repairing_.size() < kRepairsMax) wake();
  if (is_short && !look_again_.isArmed()) {
    environment_.dispatch.arm(look_again_, environment_.clock.nowNs() + kShortPauseNs);
  }
}

// ---- where replicas go

bool ReplicaManager::mayKeep(const Member& member) const {
  return member.keeps_replicas &&
         ((member.id == self_) == options_.local_replica || RC_MUTATION("keep-a-copy-on-itself"));
}

const Member* ReplicaManager::findMember(ServerId id) const {
  for (const Member& member : members_) {
    if (member.id == id) return &member;
  }
  return nullptr;
}

uint32_t ReplicaManager::leastCount() const {
  return options_.local_replica ? 1 : std::max(1U, std::min(options_.min_replicas, options_.replicas));
}

uint32_t ReplicaManager::targetCount() const {
  return std::min(options_.local_replica ? 1U : options_.replicas, availableCount());
}

uint32_t ReplicaManager::possibleCount(const ReplicatedSegment& segment) const {
  const auto possible = std::count_if(members_.begin(), members_.end(), [&](const Member& member) {
    return mayKeep(member) && (segment.isOn(member.id) || !isAvoided(member.id, Avoided::ForAll));
  });
  return std::min(targetCount(), static_cast<uint32_t>(possible));
}

bool ReplicaManager::isAvoided(ServerId backup, Avoided kind) const {
  const auto avoided = avoided_until_ns_.find({backup, kind});
  return avoided != avoided_until_ns_.end() && environment_.clock.nowNs() < avoided->second;
}

const Member* ReplicaManager::choose(const ReplicatedSegment& segment) {
  const auto sharesDomain = [&](const Member& member) {
    if (member.failure_domain.empty()) return false;
    return std::any_of(segment.replicas().begin(), segment.replicas().end(), [&](const auto& replica) {
      const Member* const other = findMember(replica->backup);
      return other != nullptr && other->failure_domain == member.failure_domain;
    });
  };
  std::vector<const Member*> sound;
  std::vector<const Member*> apart;
  std::vector<const Member*> any;
  for (const Member& member : members_) {
    if (!mayKeep(member) || segment.isOn(member.id)) continue;
    if (isAvoided(member.id, Avoided::ForAll) || isAvoided(member.id, kindOf(segment.frameFlags()))) continue;
    any.push_back(&member);
    if (sharesDomain(member)) continue;
    apart.push_back(&member);
    if (member.id != segment.rottenOn()) sound.push_back(&member);
  }
  const std::vector<const Member*>& from = !sound.empty() ? sound : !apart.empty() ? apart : any;
  return from.empty() ? nullptr : from[random_.below(from.size())];
}

ReplicaManager::Avoided ReplicaManager::kindOf(uint8_t frame_flags) {
  if ((frame_flags & wire::WriteReplica::kHead) == 0) return Avoided::ForOthers;
  return (frame_flags & wire::WriteReplica::kReserve) != 0 ? Avoided::ForSmallHeads : Avoided::ForHeads;
}

void ReplicaManager::noteOpened(const ReplicatedSegment& segment) {
  if (!segment.isOfReserve()) short_of_places_.store(false, std::memory_order_relaxed);
}

void ReplicaManager::noteLost(ServerId backup, Status why, uint8_t frame_flags) {
  stats_.replicas_lost.fetch_add(1, std::memory_order_relaxed);
  counts_changed_ = true;
  const Avoided kind = why == Status::NoSpace ? kindOf(frame_flags) : Avoided::ForAll;
  int64_t& until_ns = avoided_until_ns_[{backup, kind}];
  const int64_t now_ns = environment_.clock.nowNs();
  // A full one is asked again and again, for as long as it is full.
  const auto told = full_told_ns_.find(backup);
  const bool is_told = why == Status::NoSpace && told != full_told_ns_.end() && now_ns - told->second < kTellFullNs;
  if (until_ns <= now_ns && !is_told) {
    if (why == Status::NoSpace) full_told_ns_[backup] = now_ns;
    environment_.trace.warning("server " + std::to_string(backup.value) + " does not keep replicas for us: " +
                               std::string(name(why)) + "; others take over where there are some");
  }
  until_ns = now_ns + kAvoidNs;
  wake();  // if no other one takes its place, only time brings it back: see stepAll
}

// The server goes on taking writes: it is the first that may have room for another one.
void ReplicaManager::noteRotten(ServerId backup) {
  stats_.replicas_lost.fetch_add(1, std::memory_order_relaxed);
  counts_changed_ = true;
  environment_.trace.warning("server " + std::to_string(backup.value) +
                             " has not kept a replica of ours as it was; another one is made");
  wake();
}

void ReplicaManager::noteFenced() {
  fenced_ = true;
  refreshWriteStatus();
}

// Others must not take it for what was written, and nobody knows what that was.
bool ReplicaManager::noteSpoilt(const log::Segment& segment, uint32_t offset_bytes) {
  if (events_->segmentSpoilt(segment, offset_bytes)) return true;
  if (is_spoilt_) return false;
  is_spoilt_ = true;
  noteFenced();
  if (environment_.on_spoilt) {
    environment_.on_spoilt("memory: the entry at segment " + std::to_string(segment.id().value) + ", offset " +
                           std::to_string(offset_bytes) +
                           " is not what was written, before it is copied to other servers; this server stops, and "
                           "others bring back from its copies what it has acknowledged; test the memory of the machine "
                           "if this is not the first time");
  }
  return false;
}

void ReplicaManager::noteWrite(uint32_t bytes) {
  stats_.writes.fetch_add(1, std::memory_order_relaxed);
  stats_.bytes.fetch_add(bytes, std::memory_order_relaxed);
}

// ---- floors

bool ReplicaManager::mayRaiseFloor(const ReplicatedSegment& segment) const {
  for (const auto& [id, earlier] : segments_) {
    if (id >= segment.id()) break;
    if (earlier->isHead() && !earlier->isClosed() && !RC_MUTATION("raise-the-floor-past-open-heads")) return false;
  }
  return true;
}

void ReplicaManager::raiseFloor(ReplicatedSegment& segment, uint64_t replica_epoch) {
  raise(segment.id(), replica_epoch).detach();
}

runtime::Task<void> ReplicaManager::raise(SegmentId segment, uint64_t replica_epoch) {
  ++raising_;
  while (!stopped_) {
    const Status raised = co_await environment_.floors.raiseFloor(segment, replica_epoch);
    if (raised == Status::Ok) {
      stats_.floors_raised.fetch_add(1, std::memory_order_relaxed);
      counts_changed_ = true;
      const auto found = segments_.find(segment);
      if (found != segments_.end()) found->second->floorRaised(replica_epoch);
      active_.insert(segment);
      if (found == segments_.end()) active_.erase(segment);
      wake();
      break;
    }
    if (raised == Status::Fenced) {
      noteFenced();
      break;
    }
    co_await runtime::sleepFor(environment_.dispatch, kFloorPauseNs);
  }
  --raising_;
}

// ---- what is not needed any more

void ReplicaManager::freeOn(ServerId backup, SegmentId segment) {
  const Member* const member = findMember(backup);
  if (member == nullptr) return;  // its next life asks us
  std::unique_ptr<Freeing>& freeing = freeing_[backup];
  if (freeing == nullptr) freeing = std::make_unique<Freeing>(*this, member->address);
  freeing->segments.push_back(segment);
  if (!freeing->busy && !freeing->again.isArmed()) sendFree(*freeing);
}

void ReplicaManager::sendFree(Freeing& freeing) {
  freeing.busy = true;
  freeing.request = environment_.caller.allocate(sizeof(wire::FreeReplica::Request));
  freeing.request.appendHead(wire::FreeReplica::Request{
      .header = {.opcode = wire::Opcode::FreeReplica, .target = ServerId(freeing.address.id)},
      .master = self_,
      .segment = freeing.segments.front()});
  freeing.settings = {.deadline_ns = environment_.clock.nowNs() + kFreeNs, .priority = runtime::Priority::Background};
  environment_.caller.connection(freeing.address).start(freeing);
}

void ReplicaManager::freed(rpc::OutgoingCall& call) {
  auto& freeing = static_cast<Freeing&>(call);
  ReplicaManager& manager = freeing.manager;
  freeing.busy = false;
  if (manager.stopped_) return;
  const Status status = freeing.outcome();
  // What was not heard is said again, as long as somebody is there who could hear it.
  const bool again = status == Status::DeadlineExceeded || status == Status::SessionLost ||
                     status == Status::Unreachable || status == Status::RetryLater;
  if (!again) freeing.segments.pop_front();
  if (!again || status == Status::DeadlineExceeded) return manager.freeNext(freeing);
  manager.environment_.dispatch.arm(freeing.again, manager.environment_.clock.nowNs() + kFreePauseNs);
}

void ReplicaManager::freeNext(Freeing& freeing) {
  if (freeing.segments.empty()) return;
  if (isMember(ServerId(freeing.address.id))) return sendFree(freeing);
  freeing.segments.clear();
}

// ---- questions

bool ReplicaManager::isNeeded(SegmentId segment) const {
  const auto found = segments_.find(segment);
  if (found == segments_.end()) return false;
  return !found->second->isClosed() || found->second->completeCount() < targetCount();
}

void ReplicaManager::noteLostReplica(ServerId backup, SegmentId segment, uint64_t replica_epoch) {
  if (stopped_) return;
  applyQueued();
  const auto found = segments_.find(segment);
  if (found == segments_.end() || !found->second->loseOn(backup, replica_epoch)) return;
  active_.insert(segment);
  wake();
}

ReplicaManager::Counts ReplicaManager::counts() const {
  Counts counts{.wanted = wantedCount(), .demanded = leastCount(), .least = 0, .repairing = 0};
  counts.least = counts.wanted;
  bool any = false;
  for (const auto& [id, segment] : segments_) {
    // What is not open or closed everywhere for the first time holds nothing that was acknowledged.
    if (segment->isHead() ? !segment->isOpened() : !segment->isClosed()) continue;
    any = true;
    const uint32_t complete = segment->completeCount();
    counts.least = std::min(counts.least, complete);
    if (complete < targetCount()) ++counts.repairing;
  }
  if (!any) counts.least = 0;
  return counts;
}

std::vector<ReplicaManager::Holder> ReplicaManager::closedHolders(SegmentId segment) const {
  std::vector<Holder> holders;
  const auto found = segments_.find(segment);
  if (found == segments_.end()) return holders;
  for (const auto& replica : found->second->replicas()) {
    if (replica->closed) holders.push_back({.address = replica->address, .replica_epoch = replica->epoch});
  }
  return holders;
}

std::vector<ReplicaManager::Known> ReplicaManager::replicas() const {
  std::vector<Known> known;
  for (const auto& [id, segment] : segments_) {
    for (const auto& replica : segment->replicas()) {
      known.push_back({.segment = id,
                       .backup = replica->backup,
                       .certified_bytes = replica->certified_bytes,
                       .sent_bytes = replica->sent_bytes,
                       .is_closed = replica->closed});
    }
  }
  return known;
}

}  // namespace ramcore::master
