/// The half of Log that opens, closes and gives up segments.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mutation.h"
#include "log/integrity/freed_marking.h"
#include "log/log.h"

namespace ramcore::log {
namespace {

// The bytes that one round of the reclaimer marks: 0.2 ms of small entries. Writers may be waiting for the round.
constexpr uint32_t kMarkBytesPerRound = 1u << 20;
// The pairs that are counted out in one hold of the lock of the head: some 10 us if none of them is in a cache.
constexpr uint32_t kTombstonesPerHold = 16;

}  // namespace

SegmentId Log::requestRoll() {
  SegmentId request;
  {
    SpinGuard guard(lock_);
    request = SegmentId(next_id_);
    want_roll_ = std::max(want_roll_, request);
  }
  maintain();
  return request;
}

SegmentId Log::requestRollForPass() {
  SegmentId request;
  {
    SpinGuard guard(lock_);
    // Both requests name the same head. If they were noted one after the other and another id were taken in between,
    // the head that may be a small one would not be the one that the pass waits for, and a full memory has no other.
    request = SegmentId(next_id_);
    want_pass_roll_ = request;
    want_roll_ = std::max(want_roll_, request);
  }
  maintain();
  return request;
}

bool Log::isRollWanted() const { return head_->id() < std::max(want_roll_, want_join_roll_); }

bool Log::tryBeginPass() {
  SpinGuard guard(lock_);
  if (next_preparing_) return false;
  pass_running_ = true;
  return true;
}

void Log::endPass() {
  {
    SpinGuard guard(lock_);
    pass_running_ = false;
  }
  maintain();
}

/// @param is_short  the replicator is short of places
bool Log::mayUseSmallHead(bool is_short) const {
  // Without a head nothing can be recovered, and the storage may be full of what waits for recovery.
  if (head_ == nullptr) return is_short;
  if (head_->id() < want_pass_roll_) return true;
  // Removes and joins leave the last small head, and take none while a pass runs, because the roll that ends a pass
  // needs one (LogConfig::kSmallHeads).
  const bool is_wanted = remove_blocked_ || (is_short && head_->id() < want_join_roll_);
  return is_wanted && !pass_running_ && pool_.freeSmallHeadCount() >= 2;
}

void Log::maintain() {
  // One thread works; calls that come meanwhile only raise the counter, and the working thread goes round again. That
  // covers reentrant calls, too: replicators report from inside our own calls.
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
bool Log::trySwitch() {
  Segment* old = nullptr;
  std::vector<SegmentId> freed_early;
  DurableWaiters ready;
  {
    SpinGuard guard(lock_);
    if (next_ == nullptr || !next_opened_ || closing_ != nullptr || !ring_.empty()) return false;
    const bool wanted = head_ == nullptr || head_full_ || isRollWanted() || head_->kind() == SegmentKind::SmallHead;
    if (!wanted) return false;
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
      setUnsettled(*old, SegmentState::Closing);
      seal(*old);
    }
    if (RC_MUTATION("free-before-the-old-head-is-closed")) unlinkLeft(freed_early);
    refreshDurable(ready);
  }
  ready.runAll(Status::Ok);
  for (const SegmentId gone : freed_early) environment_.replicator.free(gone);
  if (old != nullptr) {
    // Outside of the lock: trim() takes the pool's lock, and the replicator is called without locks.
    pool_.trim(*old);
    environment_.replicator.close(*old);
  }
  return true;
}

/// Opens the next head if it is due and the head before the present one is closed: at most two heads may be open at a
/// time.
bool Log::prepareNext() {
  const bool is_short = environment_.replicator.isShortOfPlaces();
  bool may_use_small_head = false;
  {
    SpinGuard guard(lock_);
    if (failed_.load(std::memory_order_relaxed) != Status::Ok || !isPrepareDue()) return false;
    // Until this is false again no pass begins and no side log is taken back: a small head may be taken here, and the
    // digest may come to list the segments of the side log.
    next_preparing_ = true;
    may_use_small_head = mayUseSmallHead(is_short);
  }
  Segment* next = nullptr;
  // Where another head has just found no place on backups, a small one finds some: they are kept for small heads.
  if (may_use_small_head && is_short) {
    next = pool_.allocate(SegmentKind::SmallHead, takeId());
  }
  if (next == nullptr && pool_.mayHaveRoom(SegmentKind::Head)) next = pool_.allocate(SegmentKind::Head, takeId());
  if (next == nullptr && may_use_small_head) next = pool_.allocate(SegmentKind::SmallHead, takeId());
  if (next == nullptr) {
    SpinGuard guard(lock_);
    next_preparing_ = false;
    return false;
  }
  stats_.heads_opened.fetch_add(1, std::memory_order_relaxed);
  if (next->kind() == SegmentKind::SmallHead) stats_.small_heads_opened.fetch_add(1, std::memory_order_relaxed);

  LogDigestPayload digest{};
  {
    SpinGuard guard(lock_);
    if (head_ != nullptr) digest.previous_head = head_->id();
    listForDigest(*next);
  }
  const std::span<const SegmentId> members = digest_members_.apply(taken_changes_);
  digest.count = static_cast<uint32_t>(members.size());
  writeSegmentHeader(*next);
  const std::array<ByteSpan, 2> digest_pieces{bytesOf(digest), std::as_bytes(members)};
  writeOwnEntry(*next, EntryType::LogDigest, digest_pieces);
  // Read after the digest was decided: for each tombstone that the cleaner dropped in a segment that leaves with this
  // digest, EntryOwner::dropped() was called before the segment was listed as leaving, and has raised the safe version.
  const SafeVersionPayload safe_version = environment_.owner.safeVersion();
  const std::array<ByteSpan, 1> safe_pieces{bytesOf(safe_version)};
  writeOwnEntry(*next, EntryType::SafeVersion, safe_pieces);
  next->own_bytes_ = next->cursor().offset;
  next->setBegun(stats_.appended_bytes.load(std::memory_order_relaxed));
  {
    SpinGuard guard(lock_);
    next_ = next;
    next_preparing_ = false;
    next_withdrawn_ = false;
  }
  environment_.replicator.open(*next);
  return true;
}

/// Withdraws the next head if it is not needed any more, or if it waits for places on backups and is in the way of a
/// small head, for which some are kept. Only called from maintain(): so the replicator hears of a head (open) before it
/// hears that the head is not needed.
void Log::withdrawNext() {
  const bool is_short = environment_.replicator.isShortOfPlaces();
  SegmentId id;
  {
    SpinGuard guard(lock_);
    if (next_ == nullptr || next_opened_ || next_withdrawn_) return;
    const bool is_in_the_way =
        is_short && next_->kind() == SegmentKind::Head && mayUseSmallHead(true) && pool_.freeSmallHeadCount() != 0;
    if (next_->id() != unwanted_next_ && !is_in_the_way) return;
    next_withdrawn_ = true;
    id = next_->id();
  }
  environment_.replicator.withdraw(id);
}

/// From here on it is decided what the digest of `next` lists: all segments that are listed and not leaving.
void Log::listForDigest(Segment& next) {
  next.listed_ = true;
  member_changes_.add(next.id());
  for (Segment* segment : joining_) {
    if (!segment->first_head_) segment->first_head_ = next.id();
  }
  for (Segment* segment : leaving_) {
    if (!segment->leave_head_) segment->leave_head_ = next.id();
  }
  member_changes_.swap(taken_changes_);
}

/// Nothing is appended to the segment any more. The ticket is taken after the last append: when it is over, every
/// writer has told the owner where its entry lies. Private segments are sealed without the log's lock, hence the
/// compare and exchange.
void Log::seal(Segment& segment) {
  segment.sealed_ticket_ = environment_.rcu.ticket();
  uint64_t last = last_sealed_.load(std::memory_order_relaxed);
  while (last < segment.sealed_ticket_.number &&
         !last_sealed_.compare_exchange_weak(last, segment.sealed_ticket_.number, std::memory_order_relaxed)) {
  }
}

/// @param state  Closing, Leaving or Unlinked: something still has to be done with the segment
void Log::setUnsettled(Segment& segment, SegmentState state) {
  const SegmentState was = segment.state();
  const bool was_unsettled = was == SegmentState::Closing || was == SegmentState::Leaving;
  if (!was_unsettled) unsettled_count_.fetch_add(1, std::memory_order_relaxed);
  segment.setState(state);
}

void Log::writeOwnEntry(Segment& segment, EntryType type, std::span<const ByteSpan> payload) {
  EntryInput input;
  input.type = type;
  input.payload = payload;
  Segment::Cursor cursor = segment.cursor();
  EntryRef ref;
  RC_CHECK_MSG(segment.place(cursor, input.alignedBytes(), ref), "a segment has room for its own entries");
  writeEntry(memory_.at(ref), input, false, {});
  segment.adopt(cursor);
  segment.commit(cursor.offset);
}

void Log::writeSegmentHeader(Segment& segment) {
  const SegmentHeaderPayload header{identity_.cluster, identity_.server, segment.id(), kSegmentFormat, 0};
  const std::array<ByteSpan, 1> pieces{bytesOf(header)};
  writeOwnEntry(segment, EntryType::SegmentHeader, pieces);
}

SegmentId Log::takeId() {
  SpinGuard guard(lock_);
  RC_CHECK(next_id_ <= kSegmentIdMax);
  return SegmentId(next_id_++);
}

// Private segments.

Segment* Log::openPrivate(SegmentKind kind, uint32_t entry_bytes_max, CopiesAwaited copies) {
  if (!pool_.mayHaveRoom(kind)) return nullptr;
  Segment* const segment = pool_.allocate(kind, takeId(), entry_bytes_max);
  if (segment == nullptr) return nullptr;
  segment->copies_awaited_ = copies;
  writeSegmentHeader(*segment);
  segment->setBegun(stats_.appended_bytes.load(std::memory_order_relaxed));
  environment_.replicator.open(*segment);
  return segment;
}

void Log::closePrivate(Segment& segment) {
  RC_CHECK(segment.state() == SegmentState::Open && segment.committedBytes() == segment.cursor().offset);
  setUnsettled(segment, SegmentState::Closing);
  seal(segment);
  pool_.trim(segment);
  environment_.replicator.close(segment);
}

void Log::dropPrivate(Segment& segment) {
  const SegmentId id = segment.id();
  {
    SpinGuard guard(lock_);
    RC_CHECK(!segment.listed_);
    unlink(segment);
  }
  environment_.replicator.free(id);
}

void Log::exchange(std::span<Segment* const> joining, std::span<Segment* const> leaving) {
  pool_.exchange(joining, leaving);
  SpinGuard guard(lock_);
  for (Segment* segment : joining) {
    RC_CHECK(segment->state() == SegmentState::Closed && !segment->listed_);
    segment->listed_ = true;
    member_changes_.add(segment->id());
  }
  for (Segment* segment : leaving) {
    RC_CHECK(segment->state() == SegmentState::Closed && segment->listed_);
    setUnsettled(*segment, SegmentState::Leaving);
    if (!RC_MUTATION("skip-digest-update")) member_changes_.remove(segment->id());
    leaving_.push_back(segment);
  }
}

/// A segment of a side log that joins is cleaned at once where memory is full: the head with which it joins may be
/// waiting for the memory. Where that head may find no places on backups, the segment is left alone until its head is
/// there, because the side log may have to be taken back, which is too late once a pass may have it (`stays_`).
/// The slots are looked at in slices, because appends wait for the lock; each segment is judged by itself.
void Log::listCleanable(std::vector<Segment*>& segments) {
  constexpr uint32_t kSlotsPerHold = 64;
  const bool is_short = environment_.replicator.isShortOfPlaces();
  segments.reserve(pool_.slotCount() - pool_.freeSlotCount());
  for (uint32_t first = 0; first < pool_.slotCount(); first += kSlotsPerHold) {
    SpinGuard guard(lock_);
    for (uint32_t i = first; i < std::min(first + kSlotsPerHold, pool_.slotCount()); ++i) {
      Segment& segment = pool_.slot(i);
      if (!segment.listed_ || segment.state() != SegmentState::Closed || segment.isDamaged()) continue;
      const bool joins = segment.joins_with_ && (head_ == nullptr || head_->id() < segment.joins_with_);
      const bool is_over = environment_.rcu.elapsed(segment.sealed_ticket_) || RC_MUTATION("clean-before-grace");
      if ((joins && is_short && !segment.stays_) || !is_over) continue;
      segment.stays_ = segment.stays_ || joins;
      segments.push_back(&segment);
    }
  }
}

uint64_t Log::writableBytes() const {
  uint64_t bytes = pool_.freeBytesForHeads();
  SpinGuard guard(lock_);
  for (const Segment* const segment : {head_, next_}) {
    if (segment == nullptr || segment->kind() == SegmentKind::SmallHead) continue;
    bytes += segment->capacityBytes() - segment->cursor().offset;
  }
  return bytes;
}

bool Log::isListed(const Segment& segment) const {
  SpinGuard guard(lock_);
  return segment.listed_;
}

bool Log::isSettled() {
  SpinGuard guard(lock_);
  if (closing_ != nullptr || next_preparing_ || (next_ != nullptr && !next_opened_)) return false;
  if (unsettled_count_.load(std::memory_order_acquire) != 0) return false;
  return environment_.rcu.elapsed({last_sealed_.load(std::memory_order_relaxed)});
}

// What replication reports.

void Log::segmentOpened(SegmentId id) {
  if (Segment* const segment = pool_.find(id); segment != nullptr) segment->has_places_ = true;
  {
    SpinGuard guard(lock_);
    if (next_ == nullptr || next_->id() != id) return;
    next_opened_ = true;
    // For a side log that is being taken back it is too late now, or its next takeBack() sets this again.
    held_by_ = nullptr;
    // For segments that have a first head, this is it. They are not joining any more, because it cannot be withdrawn
    // any more.
    for (Segment* segment : joining_) segment->is_joining_ = !segment->first_head_;
    std::erase_if(joining_, [](const Segment* segment) { return !segment->is_joining_; });
    next_->durable_bytes_ = next_->committedBytes();
    next_->flushed_bytes_ = next_->durable_bytes_;
  }
  maintain();
}

void Log::segmentLacksPlaces(SegmentId id, bool lacks) {
  if (Segment* const segment = pool_.find(id); segment != nullptr) segment->lacks_places_ = lacks;
}

/// Segments that were to leave with the digest of the withdrawn head leave with the next one, which has a higher id.
void Log::segmentWithdrawn(SegmentId id) {
  {
    SpinGuard guard(lock_);
    if (next_ == nullptr || next_->id() != id) return;
    RC_CHECK(!next_opened_);
    Segment& withdrawn = *next_;
    next_ = nullptr;
    for (Segment* segment : joining_) {
      if (segment->first_head_ == id) segment->first_head_ = {};
    }
    unlink(withdrawn);
  }
  maintain();
}

/// The segment with this id, if it is the head, or the former head that is not closed everywhere yet; else nullptr.
Segment* Log::openHead(SegmentId id) {
  if (head_ != nullptr && head_->id() == id) return head_;
  return closing_ != nullptr && closing_->id() == id ? closing_ : nullptr;
}

void Log::segmentDurable(SegmentId id, uint32_t bytes) {
  DurableWaiters ready;
  {
    SpinGuard guard(lock_);
    Segment* const segment = openHead(id);
    if (segment == nullptr || bytes <= segment->durable_bytes_) return;
    RC_CHECK(bytes <= segment->committedBytes());
    segment->durable_bytes_ = bytes;
    refreshDurable(ready);
  }
  ready.runAll(Status::Ok);
}

void Log::segmentFlushed(SegmentId id, uint32_t bytes) {
  DurableWaiters ready;
  {
    SpinGuard guard(lock_);
    Segment* const segment = openHead(id);
    if (segment == nullptr || bytes <= segment->flushed_bytes_) return;
    RC_CHECK(bytes <= segment->durable_bytes_);
    segment->flushed_bytes_ = bytes;
    refreshDurable(ready);
  }
  ready.runAll(Status::Ok);
}

void Log::segmentClosed(SegmentId id) {
  Segment* const segment = pool_.find(id);
  if (segment == nullptr) return;  // a private one that was dropped meanwhile
  std::vector<SegmentId> freed;
  DurableWaiters ready;
  {
    SpinGuard guard(lock_);
    if (segment->state() != SegmentState::Closing) return;
    segment->durable_bytes_ = segment->committedBytes();
    segment->flushed_bytes_ = segment->durable_bytes_;
    segment->setState(SegmentState::Closed);
    unsettled_count_.fetch_sub(1, std::memory_order_relaxed);
    if (segment == closing_) {
      closing_ = nullptr;
      unlinkLeft(freed);
      refreshDurable(ready);
    }
  }
  ready.runAll(Status::Ok);
  for (const SegmentId gone : freed) environment_.replicator.free(gone);
  maintain();
}

void Log::segmentUnsound(const Segment& segment, uint32_t offset_bytes) {
  Segment& own = pool_.slot(segment.slot());
  uint32_t next = 0;
  // If the segment was replaced or given up meanwhile there is nothing to restore.
  if (own.state() == SegmentState::Closed) static_cast<void>(integrity_.isSound(own, offset_bytes, next));
}

/// No replica has the right bytes of a segment that is still open, so nothing but zeros between entries can be mended.
bool Log::segmentSpoilt(const Segment& segment, uint32_t offset_bytes) {
  return integrity_.mendPadding(pool_.slot(segment.slot()), offset_bytes);
}

// Giving memory back.

/// Unlinks what no digest from the head's on lists. The head's predecessor is closed, so no recovery can choose a
/// digest older than the head's.
void Log::unlinkLeft(std::vector<SegmentId>& freed) {
  const auto hasLeft = [head = head_->id()](const Segment* segment) {
    return segment->leave_head_ && segment->leave_head_ <= head;
  };
  for (Segment* segment : leaving_) {
    if (!hasLeft(segment)) continue;
    freed.push_back(segment->id());
    unlink(*segment);
  }
  std::erase_if(leaving_, hasLeft);
}

void Log::unlink(Segment& segment) {
  // A segment that was replaced stays in the digest: its copy has the same id, and is listed.
  if (std::exchange(segment.listed_, false) && !segment.is_replaced_) member_changes_.remove(segment.id());
  if (std::exchange(segment.is_joining_, false)) std::erase(joining_, &segment);
  unlinked_.push_back(&segment);
  stats_.live_bytes.fetch_sub(segment.takeLive(), std::memory_order_relaxed);
  stats_.result_bytes.fetch_sub(segment.takeLiveResults(), std::memory_order_relaxed);
  stats_.large_bytes.fetch_sub(segment.takeLiveLarge(), std::memory_order_relaxed);
  stats_.succeeded_bytes.fetch_sub(segment.takeSucceeded(), std::memory_order_relaxed);
  segment.wait_ = Segment::Wait::Names;
  segment.ticket_ = environment_.rcu.ticket();
  // Last: from here on the segment is the reclaimer's.
  setUnsettled(segment, SegmentState::Unlinked);
}

/// Counts out the tombstones that name an unlinked segment: there is nothing left that they could keep dead. None are
/// added any more. Each costs a few cache misses, so this is done in slices, because appends wait for the lock.
void Log::forgetNamingTombstones(Segment& named) {
  for (;;) {
    SpinGuard guard(lock_);
    for (uint32_t i = 0; i < kTombstonesPerHold; ++i) {
      const TombstoneCounts::Taken naming = pool_.tombstones().takeNaming(named.slot());
      if (naming.bytes == 0) return;
      Segment& holder = pool_.slot(naming.slot);
      // The live bytes of a holder that is unlinked itself were counted out as a whole, in unlink().
      if (holder.state() != SegmentState::Unlinked) {
        holder.addLive(-naming.bytes);
        stats_.live_bytes.fetch_sub(naming.bytes, std::memory_order_relaxed);
      }
      named.addNamedBy(-naming.bytes);
      stats_.tombstone_bytes.fetch_sub(naming.bytes, std::memory_order_relaxed);
    }
  }
}

/// Counts out the tombstones that an unlinked segment held, in the same way.
void Log::forgetHeldTombstones(Segment& holder) {
  for (;;) {
    SpinGuard guard(lock_);
    for (uint32_t i = 0; i < kTombstonesPerHold; ++i) {
      const TombstoneCounts::Taken held = pool_.tombstones().takeHeld(holder.slot());
      if (held.bytes == 0) return;
      pool_.slot(held.slot).addNamedBy(-held.bytes);
      stats_.tombstone_bytes.fetch_sub(held.bytes, std::memory_order_relaxed);
    }
  }
}

bool Log::isOver(runtime::GraceTicket ticket) const {
  return environment_.rcu.elapsed(ticket) || RC_MUTATION("free-before-grace");
}

/// Marks some entries of an unlinked segment as freed. What the cleaner has been through is marked already. Not called
/// before the last reader of the segment has gone, which may stand where bytes are set to zero.
/// @param bytes_left  what this round may still look at; reduced by what was looked at
/// @return true: all entries are marked
bool Log::markSlice(Segment& segment, uint32_t& bytes_left) {
  const uint32_t before = segment.marked_bytes_;
  uint64_t marked = 0;
  segment.marked_bytes_ = markSegmentFreed(segment, memory_, before, bytes_left, marked);
  stats_.entries_marked_freed.fetch_add(marked, std::memory_order_relaxed);
  bytes_left -= std::min(bytes_left, segment.marked_bytes_ - before);
  if (segment.marked_bytes_ < segment.committedBytes()) return false;
  if (config().poison_freed) RC_CHECK_MSG(!holdsBelievable(segment), "memory is given back with an object in it");
  return true;
}

size_t Log::reclaim(uint64_t now_ns) {
  using Wait = Segment::Wait;
  bool want_epoch = false;
  {
    SpinGuard guard(lock_);
    reclaiming_.insert(reclaiming_.end(), unlinked_.begin(), unlinked_.end());
    unlinked_.clear();
  }
  for (Segment* segment : reclaiming_) {
    if (segment->wait_ == Wait::Names) {
      forgetNamingTombstones(*segment);
      // Done early, because the segment's live bytes were counted out when it was unlinked. Tombstones that are counted
      // for it later follow when it is released.
      forgetHeldTombstones(*segment);
      segment->wait_ = Wait::Grace;
    }
    if (segment->wait_ == Wait::Grace && isOver(segment->ticket_)) segment->wait_ = Wait::Epoch;
    if (segment->wait_ == Wait::Epoch) want_epoch = true;
  }
  if (reclaiming_.empty()) {
    stats_.pinned_bytes.store(0, std::memory_order_relaxed);
    return 0;
  }
  // One pin epoch for all segments whose grace period is over.
  const auto epoch = want_epoch ? environment_.pins.advance(now_ns) : std::nullopt;
  uint64_t pinned_bytes = 0;
  uint32_t mark_bytes_left = kMarkBytesPerRound;
  const auto isReleased = [&](Segment* waiting) {
    Segment& segment = *waiting;
    if (segment.wait_ == Wait::Epoch && epoch) {
      segment.wait_ = Wait::Pins;
      segment.pin_epoch_ = *epoch;
    }
    // A pin that is so old that no epoch can end holds the segment, too.
    if (segment.wait_ == Wait::Epoch) pinned_bytes += segment.memoryBytes();
    if (segment.wait_ == Wait::Pins) {
      if (!environment_.pins.quiesced(segment.pin_epoch_) && !RC_MUTATION("free-before-last-pin")) {
        pinned_bytes += segment.memoryBytes();
        return false;
      }
      segment.wait_ = Wait::Marks;
      // The cleaner did not mark entries that it found damaged, and one that was restored since has the state of a live
      // entry. So all of a segment in which an entry was ever damaged is marked again.
      if (segment.was_damaged_.load(std::memory_order_relaxed)) segment.marked_bytes_ = 0;
    }
    if (segment.wait_ != Wait::Marks || !markSlice(segment, mark_bytes_left)) return false;
    // What was counted for the segment since the first time: its slot may be another segment's from here on.
    forgetHeldTombstones(segment);
    pool_.release(segment);
    unsettled_count_.fetch_sub(1, std::memory_order_release);
    return true;
  };
  const bool has_released = std::erase_if(reclaiming_, isReleased) != 0;
  stats_.pinned_bytes.store(pinned_bytes, std::memory_order_relaxed);
  if (has_released) maintain();
  return reclaiming_.size();
}

}  // namespace ramcore::log
