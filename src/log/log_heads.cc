#include "log/log_heads.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/mutation.h"

namespace ramcore::log {

SegmentId LogHeads::takeId() {
  LogGuard guard(lock_);
  return rolls_.takeId();
}

SegmentId LogHeads::requestRoll() {
  SegmentId request;
  {
    LogGuard guard(lock_);
    request = rolls_.request();
  }
  maintain();
  return request;
}

SegmentId LogHeads::requestRollForPass() {
  SegmentId request;
  {
    LogGuard guard(lock_);
    request = rolls_.requestForPass();
  }
  maintain();
  return request;
}

bool LogHeads::tryBeginPass() {
  LogGuard guard(lock_);
  if (next_preparing_) return false;
  pass_running_ = true;
  return true;
}

void LogHeads::endPass() {
  {
    LogGuard guard(lock_);
    pass_running_ = false;
  }
  maintain();
}

// Tablets from other servers: their side logs join with a new head, and can be taken back before it is open.

SegmentId LogHeads::requestHeadToJoin() {
  SegmentId request;
  SegmentId fresh;
  SegmentId next;
  {
    LogGuard guard(lock_);
    if (isHeadUntouched()) fresh = head_->id();
    if (next_ != nullptr) next = next_->id();
  }
  // Outside of the lock, because all slots are looked at. A segment that is opened meanwhile comes after this call.
  if (fresh && hasNewer(fresh, next)) fresh = {};
  {
    LogGuard guard(lock_);
    if (fresh && isHeadUntouched() && head_->id() == fresh) return fresh;
    request = noteJoinRoll();
  }
  maintain();
  return request;
}

SegmentId LogHeads::noteJoinRoll() {
  const SegmentId request = rolls_.next();
  parts_.joining.noteRoll(request, head_ != nullptr ? head_->id() : SegmentId());
  return request;
}

// If nothing else needs the next head, it is withdrawn and gives its places on backups back. If it is open already, it
// stays and serves the next need for a head, so a call that comes too late does no harm.
void LogHeads::cancelHeadToJoin(SegmentId request) {
  {
    LogGuard guard(lock_);
    parts_.joining.forgetRoll(request);
    if (next_ != nullptr && !isNextWanted()) unwanted_next_ = next_->id();
  }
  maintain();
}

/// Whether the present head holds nothing but its own entries and has refused nothing. If also !hasNewer(), a new head
/// would cover no more than this one.
bool LogHeads::isHeadUntouched() const {
  return head_ != nullptr && !head_full_ && head_->cursor().offset == head_->membership().own_bytes;
}

/// Whether a segment that is in use, other than `next`, has a higher id than `head`. Then only a new head is newer than
/// all segments.
/// @param next  the next head, which holds nothing; or none
bool LogHeads::hasNewer(SegmentId head, SegmentId next) const {
  for (uint32_t i = 0; i < parts_.pool.slotCount(); ++i) {
    const Segment& segment = parts_.pool.slot(i);
    const SegmentState state = segment.state();
    if (state == SegmentState::Free || state == SegmentState::Unlinked) continue;
    if (const SegmentId id = segment.id(); id > head && id != next) return true;
  }
  return false;
}

SegmentId LogHeads::addToJoin(std::span<Segment* const> joining) {
  parts_.pool.exchange(joining, {});
  SegmentId request;
  {
    LogGuard guard(lock_);
    request = noteJoinRoll();
    parts_.members.list(joining);
    parts_.joining.add(joining, request);
  }
  maintain();
  return request;
}

bool LogHeads::takeBack(std::span<Segment* const> joining, SegmentId roll) {
  using TakenBack = JoiningSegments::TakenBack;
  auto taken = TakenBack::Late;
  {
    LogGuard guard(lock_);
    const SegmentId head = head_ != nullptr ? head_->id() : SegmentId();
    const SegmentId unopened = next_ != nullptr && !next_opened_ ? next_->id() : SegmentId();
    taken =
        parts_.joining.takeBack(joining, roll, {.head = head, .unopened = unopened, .is_preparing = next_preparing_});
    if (taken == TakenBack::Wait && !next_preparing_) unwanted_next_ = unopened;
    if (taken == TakenBack::Yes) {
      parts_.members.unlist(joining);
      if (next_ != nullptr && !isNextWanted()) unwanted_next_ = next_->id();
    }
  }
  maintain();
  return taken == TakenBack::Yes;
}

// Opening the next head.

/// @param is_short  the replicator is short of places
bool LogHeads::mayUseSmallHead(bool is_short) const {
  // Without a head nothing can be recovered, and the storage may be full of replicas that wait for a recovery.
  if (head_ == nullptr) return is_short;
  if (head_->id() < rolls_.wantedForPass()) return true;
  // A side log may have taken the memory that the head needs by which it joins, and until it has joined the cleaner
  // cannot give back anything of it. Removes and joins leave the last small head, and take none while a pass runs,
  // because the roll that ends a pass needs one (LogConfig::kSmallHeads).
  const bool is_wanted = remove_blocked_ || head_->id() < parts_.joining.wantedRoll();
  return is_wanted && !pass_running_ && parts_.pool.freeSmallHeadCount() >= 2;
}

void LogHeads::maintain() {
  // One thread works; calls that come meanwhile only raise the counter, and the working thread goes round again.
  // Reentrant calls are covered, too: replicators report from inside our own calls.
  if (maintain_requests_.fetch_add(1, std::memory_order_acq_rel) != 0) return;
  uint32_t seen = 0;
  do {
    seen = maintain_requests_.load(std::memory_order_acquire);
    trySwitch();
    withdrawNext();
    prepareNext();
  } while (!maintain_requests_.compare_exchange_strong(seen, 0, std::memory_order_acq_rel));
}

/// Lets the next head take over if it is open, if it is needed, and if no reservation in the present head is still
/// being filled. The head before the present one has to be closed by then: at most two heads may be open at a time.
void LogHeads::trySwitch() {
  Segment* old = nullptr;
  std::vector<SegmentId> freed_early;
  DurableWaiters ready;
  {
    LogGuard guard(lock_);
    if (next_ == nullptr || !next_opened_ || closing_ != nullptr || !ring_.empty()) return;
    if (!isSwitchWanted()) return;
    old = head_;
    head_ = next_;
    head_id_.store(head_->id().value, std::memory_order_release);
    next_ = nullptr;
    next_opened_ = false;
    head_full_ = false;
    remove_blocked_ = false;
    closing_ = old;
    if (old != nullptr) {
      RC_CHECK(old->committedBytes() == old->cursor().offset);
      parts_.settling.setUnsettled(*old, SegmentState::Closing);
      parts_.settling.seal(*old);
    }
    if (RC_MUTATION("free-before-the-old-head-is-closed")) parts_.members.unlinkLeft(head_->id(), freed_early);
    refreshDurable(ready);
  }
  ready.runAll(Status::Ok);
  for (const SegmentId gone : freed_early) parts_.replicator.free(gone);
  if (old != nullptr) {
    // Outside of the lock: trim() takes the pool's lock, and the replicator is called without locks.
    parts_.pool.trim(*old);
    parts_.replicator.close(*old);
  }
}

/// Opens the next head if it is due and the head before the present one is closed: at most two heads may be open at a
/// time.
void LogHeads::prepareNext() {
  const bool is_short = parts_.replicator.isShortOfPlaces();
  bool may_use_small_head = false;
  {
    LogGuard guard(lock_);
    if (parts_.durability.failure() != Status::Ok || !isPrepareDue()) return;
    // Until this is false again no pass begins and no side log is taken back: a small head may be taken here, and the
    // digest may come to list the segments of the side log.
    next_preparing_ = true;
    may_use_small_head = mayUseSmallHead(is_short);
  }
  Segment* const next = allocateNext(may_use_small_head, is_short);
  if (next == nullptr) {
    LogGuard guard(lock_);
    next_preparing_ = false;
    return;
  }
  parts_.stats.heads_opened.fetch_add(1, std::memory_order_relaxed);
  if (next->kind() == SegmentKind::SmallHead) parts_.stats.small_heads_opened.fetch_add(1, std::memory_order_relaxed);

  writeDigest(*next);
  next->setBegun(parts_.stats.appended_bytes.load(std::memory_order_relaxed));
  {
    LogGuard guard(lock_);
    next_ = next;
    next_preparing_ = false;
    next_withdrawn_ = false;
  }
  // Called after next_ was set: the replicator may report from inside this call, and reports about other heads are
  // ignored.
  parts_.replicator.open(*next);
}

Segment* LogHeads::allocateNext(bool may_use_small_head, bool is_short) {
  Segment* next = nullptr;
  // When the replicator is short of places, another head may find none on backups. A small head finds those that are
  // kept for small heads.
  if (may_use_small_head && is_short) {
    next = parts_.pool.allocate(SegmentKind::SmallHead, takeId());
  }
  if (next == nullptr && parts_.pool.mayHaveRoom(SegmentKind::Head))
    next = parts_.pool.allocate(SegmentKind::Head, takeId());
  if (next == nullptr && may_use_small_head) next = parts_.pool.allocate(SegmentKind::SmallHead, takeId());
  return next;
}

/// Writes the entries that a head begins with: header, digest and safe version.
void LogHeads::writeDigest(Segment& next) {
  LogDigestPayload digest{};
  {
    LogGuard guard(lock_);
    if (head_ != nullptr) digest.previous_head = head_->id();
    parts_.members.listForDigest(next);
  }
  const std::span<const SegmentId> members = parts_.members.nextDigest();
  digest.count = static_cast<uint32_t>(members.size());
  parts_.own_entries.writeHeader(next);
  const std::array<ByteSpan, 2> digest_pieces{bytesOf(digest), std::as_bytes(members)};
  parts_.own_entries.write(next, EntryType::LogDigest, digest_pieces);
  // The safe version is read after the digest was decided: for each tombstone that the cleaner dropped in a segment
  // that leaves with this digest, EntryOwner::dropped() was called before the segment was listed as leaving, and has
  // raised the safe version.
  const SafeVersionPayload safe_version = parts_.owner.safeVersion();
  const std::array<ByteSpan, 1> safe_pieces{bytesOf(safe_version)};
  parts_.own_entries.write(next, EntryType::SafeVersion, safe_pieces);
  next.membership().own_bytes = next.cursor().offset;
}

/// Withdraws the next head if it is not needed any more, or if it waits for places on backups and is in the way of a
/// small head, for which some are kept. Only called from maintain(): so the replicator hears of a head (open) before it
/// hears that the head is not needed.
void LogHeads::withdrawNext() {
  const bool is_short = parts_.replicator.isShortOfPlaces();
  SegmentId id;
  {
    LogGuard guard(lock_);
    if (next_ == nullptr || next_opened_ || next_withdrawn_) return;
    const bool is_in_the_way = is_short && next_->kind() == SegmentKind::Head && mayUseSmallHead(true) &&
                               parts_.pool.freeSmallHeadCount() != 0;
    if (next_->id() != unwanted_next_ && !is_in_the_way) return;
    next_withdrawn_ = true;
    id = next_->id();
  }
  parts_.replicator.withdraw(id);
}

// What replication reports.

void LogHeads::noteOpened(SegmentId id) {
  {
    LogGuard guard(lock_);
    if (next_ == nullptr || next_->id() != id) return;
    next_opened_ = true;
    parts_.joining.noteOpened();
    next_->replication().durable_bytes = next_->committedBytes();
    next_->replication().flushed_bytes = next_->replication().durable_bytes;
  }
  maintain();
}

/// Segments that were to leave with the digest of the withdrawn head leave with the next one, which has a higher id.
void LogHeads::noteWithdrawn(SegmentId id) {
  {
    LogGuard guard(lock_);
    if (next_ == nullptr || next_->id() != id) return;
    RC_CHECK(!next_opened_);
    Segment& withdrawn = *next_;
    next_ = nullptr;
    parts_.joining.noteWithdrawn(id);
    parts_.members.unlink(withdrawn);
  }
  maintain();
}

/// Finds the segment with this id, if it is the head, or the former head that is not closed everywhere yet; else
/// nullptr.
Segment* LogHeads::openHead(SegmentId id) const {
  if (head_ != nullptr && head_->id() == id) return head_;
  return closing_ != nullptr && closing_->id() == id ? closing_ : nullptr;
}

void LogHeads::noteDurable(SegmentId id, uint32_t bytes) {
  DurableWaiters ready;
  {
    LogGuard guard(lock_);
    Segment* const segment = openHead(id);
    if (segment == nullptr || bytes <= segment->replication().durable_bytes) return;
    RC_CHECK(bytes <= segment->committedBytes());
    segment->replication().durable_bytes = bytes;
    refreshDurable(ready);
  }
  ready.runAll(Status::Ok);
}

void LogHeads::noteFlushed(SegmentId id, uint32_t bytes) {
  DurableWaiters ready;
  {
    LogGuard guard(lock_);
    Segment* const segment = openHead(id);
    if (segment == nullptr || bytes <= segment->replication().flushed_bytes) return;
    RC_CHECK(bytes <= segment->replication().durable_bytes);
    segment->replication().flushed_bytes = bytes;
    refreshDurable(ready);
  }
  ready.runAll(Status::Ok);
}

void LogHeads::noteClosed(Segment& segment) {
  std::vector<SegmentId> freed;
  DurableWaiters ready;
  {
    LogGuard guard(lock_);
    if (segment.state() != SegmentState::Closing) return;
    segment.replication().durable_bytes = segment.committedBytes();
    segment.replication().flushed_bytes = segment.replication().durable_bytes;
    parts_.settling.setClosed(segment);
    if (&segment == closing_) {
      closing_ = nullptr;
      // The segments that have left are unlinked only here: while the former head was open somewhere, a recovery could
      // end with it, and its digest still lists them.
      parts_.members.unlinkLeft(head_->id(), freed);
      refreshDurable(ready);
    }
  }
  ready.runAll(Status::Ok);
  for (const SegmentId gone : freed) parts_.replicator.free(gone);
  maintain();
}

uint64_t LogHeads::writableBytes() const {
  uint64_t bytes = parts_.pool.freeBytesForHeads();
  LogGuard guard(lock_);
  for (const Segment* const segment : {head_, next_}) {
    if (segment == nullptr || segment->kind() == SegmentKind::SmallHead) continue;
    bytes += segment->capacityBytes() - segment->cursor().offset;
  }
  return bytes;
}

bool LogHeads::isSettled() const {
  LogGuard guard(lock_);
  if (closing_ != nullptr || next_preparing_ || (next_ != nullptr && !next_opened_)) return false;
  return parts_.settling.isSettled();
}

LogPosition LogHeads::end() const {
  LogGuard guard(lock_);
  if (head_ == nullptr) return {};
  return {head_->id(), head_->cursor().offset, 0};
}

}  // namespace ramcore::log
