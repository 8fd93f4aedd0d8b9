#include "log/log.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"
#include "base/point.h"

namespace ramcore::log {

namespace {

// Prefetches, for writing, the cache lines that the appends after the next few will fill. Without it every lock that an
// append or its caller takes afterwards would wait until the lines of the entry have come from memory.
void fetchAhead(const std::byte* entry) {
  constexpr size_t kDistanceBytes = 768;
  constexpr size_t kBytes = 192;
  for (size_t at = kDistanceBytes; at < kDistanceBytes + kBytes; at += 64) {
    asm volatile("prefetchw (%0)" : : "r"(entry + at));  // does nothing where there is no memory
  }
}

/// Groups up to this size are encoded on the stack and copied under the lock; a larger copy would stop all writers.
constexpr uint32_t kCopyUnderLockBytesMax = 1024;

/// A position in one word, so that "is it durable?" is one load: 40 bits of segment id, 24 bits of offset / 8.
constexpr uint64_t pack(SegmentId segment, uint32_t offset) { return segment.value << 24 | offset / kEntryAlignment; }
constexpr LogPosition unpack(uint64_t packed) {
  return {SegmentId(packed >> 24), static_cast<uint32_t>(packed & 0xffffff) * kEntryAlignment, 0};
}
// An offset of kSegmentBytesMax itself would overflow into the id; capacities stay below it.
static_assert((kSegmentBytesMax - kEntryAlignment) / kEntryAlignment <= 0xffffff);

}  // namespace

/// What is found out about a group before the lock is taken.
struct Log::Prepared {
  uint32_t total = 0;
  std::array<uint32_t, kGroupEntriesMax> bytes;
  std::array<Segment*, kGroupEntriesMax> named_by_dead;  ///< what the dead entry names, where the entry has a `dead`;
                                                         ///< see countDead
};

struct Log::Reservation {
  Segment* segment = nullptr;
  bool waits = false;        ///< refused, and there is a head that may take it soon
  bool copied = false;       ///< the bytes are in place and committed (or behind an open reservation)
  uint32_t ring_number = 0;  ///< if not copied
  Appended appended;
};

Log::Log(const LogConfig& config, LogIdentity identity, const LogMemory& memory, Environment environment)
    : identity_(identity),
      memory_(memory),
      environment_(environment),
      at_once_(environment.replicator.durableAtOnce()),
      least_live_bytes_max_(config.liveBytesMax(1, config.survivorReserveBytes(config.segmentSlots()))),
      pool_(config, memory) {
  RC_CHECK(config.validate().ok());
  // So that they take no memory under the lock.
  for (std::vector<Segment*>* segments : {&joining_, &leaving_, &unlinked_, &reclaiming_}) {
    segments->reserve(pool_.slotCount());
  }
  environment_.replicator.attach(*this);
  maintain();
}

Log::~Log() { fail(Status::Shutdown); }

// Appending.

SegmentId Log::killedIn(const EntryInput& input) const {
  return input.dead ? pool_.segmentOf(input.dead)->id() : SegmentId();
}

bool Log::hasSpaceFor(uint64_t bytes) const {
  // Counts the tombstones that would become alive if everything were removed, too, or a full memory could not take the
  // removes.
  const int64_t live = stats_.live_bytes.load(std::memory_order_relaxed) +
                       stats_.succeeded_bytes.load(std::memory_order_relaxed) + static_cast<int64_t>(bytes);
  if (RC_MUTATION("write-beyond-the-limit")) return true;
  return live <= static_cast<int64_t>(least_live_bytes_max_) || live <= static_cast<int64_t>(liveBytesMax());
}

uint64_t Log::liveBytesMax() const {
  const auto live = static_cast<double>(std::max<int64_t>(1, stats_.live_bytes.load(std::memory_order_relaxed)));
  const auto large = static_cast<double>(stats_.large_bytes.load(std::memory_order_relaxed));
  return pool_.config().liveBytesMax(std::clamp(large / live, 0.0, 1.0), pool_.survivorReserveBytes());
}

std::optional<Result<Appended>> Log::append(std::span<const EntryInput> group, AppendClass append_class,
                                            LockWait wait) {
  RC_CHECK(!group.empty() && group.size() <= kGroupEntriesMax);
  if (const Status failed = failed_.load(std::memory_order_acquire); failed != Status::Ok) return failed;
  Prepared prepared;
  for (size_t i = 0; i < group.size(); ++i) {
    const uint32_t bytes = prepared.bytes[i] = group[i].alignedBytes();
    RC_CHECK_MSG(bytes <= pool_.config().entry_bytes_max, "services refuse oversized objects at the door");
    prepared.total += bytes;
    if (!group[i].dead) continue;
    prepared.named_by_dead[i] = namedBy(view(group[i].dead));
    pool_.tombstones().prepare();
  }
  if (append_class == AppendClass::Write && !hasSpaceFor(prepared.total)) {
    stats_.refused_no_space.fetch_add(1, std::memory_order_relaxed);
    return Status::NoSpace;
  }

  alignas(8) std::byte staged[kCopyUnderLockBytesMax];
  const bool stage = prepared.total <= kCopyUnderLockBytesMax;
  if (stage) {
    std::byte* at = staged;
    for (size_t i = 0; i < group.size(); ++i) {
      writeEntry(at, group[i], i + 1 < group.size(), killedIn(group[i]));
      at += prepared.bytes[i];
    }
  }
  return tryAppend(group, prepared, append_class, stage ? staged : nullptr, wait);
}

std::optional<Result<Appended>> Log::tryAppend(std::span<const EntryInput> group, const Prepared& prepared,
                                               AppendClass append_class, const std::byte* staged, LockWait wait) {
  Reservation reservation;
  Status status = Status::Ok;
  bool due = false;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!lock_.lock(wait)) return std::nullopt;
    status = reserve(prepared, append_class, staged, group, reservation);
    reservation.waits = !ring_.empty() || next_ != nullptr || next_preparing_ || closing_ != nullptr;
    due = isPrepareDue();
    lock_.unlock();
    if (status == Status::Ok) break;
    // The next head may be waiting to take over, or memory may have come back.
    maintain();
  }
  if (status != Status::Ok) {
    const bool is_full = append_class == AppendClass::Write && !reservation.waits && gainsNothing();
    (is_full ? stats_.refused_no_space : stats_.refused_retry_later).fetch_add(1, std::memory_order_relaxed);
    return is_full ? Status::NoSpace : status;
  }
  if (!reservation.copied) {
    RC_POINT(Reserved);
    finish(reservation, group);
  }
  if (!at_once_) environment_.replicator.advance(*reservation.segment);
  if (due) maintain();
  stats_.appended_entries.fetch_add(group.size(), std::memory_order_relaxed);
  stats_.appended_bytes.fetch_add(prepared.total, std::memory_order_relaxed);
  return reservation.appended;
}

bool Log::gainsNothing() const {
  const int64_t at = nothing_collectable_at_.load(std::memory_order_relaxed);
  if (at == kCollectable || deathsBytes() - at >= int64_t{pool_.config().seglet_bytes}) return false;
  return !pool_.mayHaveRoom(SegmentKind::Head);
}

int64_t Log::deathsBytes() const {
  return static_cast<int64_t>(stats_.appended_bytes.load(std::memory_order_relaxed)) -
         stats_.live_bytes.load(std::memory_order_relaxed);
}

void Log::noteCollectable(bool is_collectable) {
  nothing_collectable_at_.store(is_collectable ? kCollectable : deathsBytes(), std::memory_order_relaxed);
}

Status Log::reserve(const Prepared& prepared, AppendClass append_class, const std::byte* staged,
                    std::span<const EntryInput> group, Reservation& reservation) {
  if (head_ == nullptr) return Status::RetryLater;
  Segment& head = *head_;
  if (head.kind() == SegmentKind::SmallHead && append_class == AppendClass::Write) {
    head_full_ = true;
    return Status::RetryLater;
  }
  Appended& appended = reservation.appended;
  Segment::Cursor cursor = head.cursor();
  for (size_t i = 0; i < group.size(); ++i) {
    if (!head.place(cursor, prepared.bytes[i], appended.refs[i])) {
      head_full_ = true;
      if (append_class == AppendClass::Remove) remove_blocked_ = true;
      return Status::RetryLater;
    }
  }
  if (!ring_.empty()) RC_POINT(BehindReservation);
  if (staged == nullptr) {
    if (ring_.full()) return Status::RetryLater;
    reservation.ring_number = ring_.reserve(cursor.offset);
  } else if (!ring_.empty()) {
    if (!ring_.append(cursor.offset)) return Status::RetryLater;
  }
  head.adopt(cursor);
  countGroup(head, group, prepared);
  reservation.segment = &head;
  appended.end = {head.id(), cursor.offset, 0};
  if (staged != nullptr) {
    for (size_t i = 0; i < group.size(); ++i) {
      std::memcpy(memory_.at(appended.refs[i]), staged, prepared.bytes[i]);
      staged += prepared.bytes[i];
    }
    fetchAhead(memory_.at(appended.refs[group.size() - 1]));
    reservation.copied = true;
    if (ring_.empty()) commitHead(cursor.offset);
  }
  return Status::Ok;
}

void Log::finish(Reservation& reservation, std::span<const EntryInput> group) {
  for (size_t i = 0; i < group.size(); ++i) {
    writeEntry(memory_.at(reservation.appended.refs[i]), group[i], i + 1 < group.size(), killedIn(group[i]));
  }
  DurableWaiters ready;
  {
    SpinGuard guard(lock_);
    // A head does not change while reservations are open, so this is the one it was made in.
    const uint32_t committed = ring_.finish(reservation.ring_number);
    if (committed != 0) {
      commitHead(committed);
      if (at_once_) refreshDurable(ready);
    }
  }
  ready.runAll(Status::Ok);
}

void Log::commitHead(uint32_t offset) {
  head_->commit(offset);
  if (!at_once_) return;
  head_->durable_bytes_ = offset;
  // As in refreshDurable(): nothing in the head counts as durable before its predecessor is closed.
  if (closing_ == nullptr) durable_.store(pack(head_->id(), offset), std::memory_order_release);
}

void Log::countGroup(Segment& segment, std::span<const EntryInput> group, const Prepared& prepared) {
  int64_t live = 0;
  for (size_t i = 0; i < group.size(); ++i) {
    const EntryInput& input = group[i];
    if (input.type == EntryType::SafeVersion) continue;  // every later head has a newer one
    const bool is_free = input.type == EntryType::Tombstone && RC_MUTATION("count-tombstone-as-free");
    live += is_free ? 0 : prepared.bytes[i];
    segment.noteEntryBytes(prepared.bytes[i]);
    countParts(segment, input.type, prepared.bytes[i], {.all = prepared.bytes[i], .results = input.resultBytes()});
    if (!input.dead) continue;
    Segment& named = segmentNamedFor(input.dead);
    if (input.type == EntryType::Tombstone) {
      countTombstone(segment, named, prepared.bytes[i]);
    } else {
      countSuccessor(named, alignedTombstoneBytes(static_cast<uint32_t>(input.key.size())));
    }
    countDead(input.dead, prepared.named_by_dead[i]);
  }
  segment.addLive(live);
  stats_.live_bytes.fetch_add(live, std::memory_order_relaxed);
}

/// @param entry_bytes  the length of the whole entry
/// @param bytes  how many of its bytes live from now on, and how many of those belong to the result that it carries;
///               negative when they are counted out
void Log::countParts(Segment& segment, EntryType type, uint32_t entry_bytes, const Parts& bytes) {
  const int64_t results = type == EntryType::ResultRecord ? bytes.all : bytes.results;
  if (results != 0) {
    segment.addLiveResults(results);
    stats_.result_bytes.fetch_add(results, std::memory_order_relaxed);
  }
  if (type == EntryType::Object && entry_bytes > pool_.config().smallEntryBytesMax()) {
    segment.addLiveLarge(bytes.all);
    stats_.large_bytes.fetch_add(bytes.all, std::memory_order_relaxed);
  }
}

bool Log::isPrepareDue() const {
  if (next_ != nullptr || held_by_ != nullptr) return false;
  if (head_ != nullptr && (next_preparing_ || closing_ != nullptr)) return false;
  return isNextWanted();
}

bool Log::isNextWanted() const {
  if (head_ == nullptr || head_full_ || isRollWanted() || head_->kind() == SegmentKind::SmallHead) return true;
  return head_->cursor().offset >= uint64_t{head_->capacityBytes()} * pool_.config().prepare_head_percent / 100;
}

// What lives and what does not.

/// @param bytes  of a tombstone in `holder`, written or due
void Log::countTombstone(Segment& holder, Segment& named, int64_t bytes) {
  pool_.tombstones().add(named.slot(), holder.slot(), bytes);
  named.addNamedBy(bytes);
  stats_.tombstone_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

/// @param tombstone_bytes  the length of the tombstone that would be due if an object that names `named` died; negative
///                         when such an object dies
void Log::countSuccessor(Segment& named, int64_t tombstone_bytes) {
  named.addSucceeded(tombstone_bytes);
  stats_.succeeded_bytes.fetch_add(tombstone_bytes, std::memory_order_relaxed);
}

/// The segment that an entry names, or nullptr if it names none or that is gone.
Segment* Log::namedBy(const EntryView& entry) const {
  return entry.namesSegment() ? pool_.find(entry.namedSegment()) : nullptr;
}

/// The segment that counts as named when the entry at `dead` dies: the one that is found by the id of the segment in
/// which the entry lies. A copy that has not taken the place of its original yet, or never will, has the id of the
/// original, and then the original counts.
Segment& Log::segmentNamedFor(EntryRef dead) const {
  Segment& in = *pool_.segmentOf(dead);
  if (in.compactionCount() == 0) return in;
  Segment* const named = pool_.find(in.id());
  return named != nullptr ? *named : in;
}

/// Sets the state byte of a dead entry and counts it out.
/// @param due_bytes  the length of the tombstone that the entry now stands for. It is counted at once, or the segment
///                   would look emptier than it is
void Log::countOut(EntryRef ref, int64_t due_bytes) {
  std::byte* const at = memory_.at(ref);
  bool is_acknowledged = false;
  const std::atomic_ref<uint8_t> state(reinterpret_cast<uint8_t&>(at[1]));
  const auto superseded = static_cast<uint8_t>(EntryState::Superseded);
  if (EntryView(at).carriesResult()) {
    // An exchange, because the client may be acknowledging the result at the same time: the bytes of the result are
    // counted out either here or in markAcknowledged(), and not twice.
    is_acknowledged = EntryView::isAcknowledgedState(state.exchange(superseded, std::memory_order_acq_rel));
  } else {
    state.store(superseded, std::memory_order_release);
  }
  countLoss(ref, is_acknowledged, due_bytes);
}

/// @param is_acknowledged  the result that the entry carries, if it does, was counted out before
void Log::countLoss(EntryRef ref, bool is_acknowledged, int64_t due_bytes) {
  const EntryView entry = view(ref);
  const uint32_t entry_bytes = entry.alignedBytes();
  const uint32_t results = entry.resultBytes();
  const Parts bytes = is_acknowledged ? Parts{.all = entry_bytes - results, .results = 0}
                                      : Parts{.all = entry_bytes, .results = results};
  Segment& segment = *pool_.segmentOf(ref);
  segment.addLive(due_bytes - bytes.all);
  stats_.live_bytes.fetch_add(due_bytes - bytes.all, std::memory_order_relaxed);
  countParts(segment, entry.type(), entry_bytes, {.all = -bytes.all, .results = -bytes.results});
}

/// As countOut(), for an entry that may name a segment. If that segment is still there, something has to go on keeping
/// dead what the entry kept dead in it: the cleaner writes a tombstone when it drops the entry.
/// @param named  namedBy() the entry, asked before the lock was taken
void Log::countDead(EntryRef ref, Segment* named) {
  const EntryView entry = view(ref);
  // The lengths of a damaged entry say nothing. All of it is counted when they do again (release()), which is before
  // its segment is cleaned.
  if (isDamaged(entry.state())) return integrity_.noteDied(ref);
  countOut(ref, countDue(ref, named));
}

/// Counts the tombstone that a dead entry stands for.
/// @param named  as in countDead
/// @return its bytes; 0: none is due
int64_t Log::countDue(EntryRef ref, Segment* named) {
  const EntryView entry = view(ref);
  // The named segment may have been compacted since it was found.
  while (named != nullptr && named->is_replaced_) named = namedBy(entry);
  // The state is read before the id: a segment that is neither given up nor free stays what it is as long as the lock
  // is held.
  const SegmentState state = named == nullptr ? SegmentState::Free : named->state();
  const bool is_gone = state == SegmentState::Unlinked || state == SegmentState::Free;
  if (is_gone || named->id() != entry.namedSegment()) return 0;
  const int64_t due_bytes = alignedTombstoneBytes(entry.keyBytes());
  countSuccessor(*named, -due_bytes);
  countTombstone(*pool_.segmentOf(ref), *named, due_bytes);
  return due_bytes;
}

void Log::markDead(EntryRef ref) {
  RC_DCHECK(view(ref).type() != EntryType::Tombstone);
  const EntryView entry = view(ref);
  Segment* const named = isDamaged(entry.state()) ? nullptr : namedBy(entry);
  // Without the lock: an entry that names no segment leaves no tombstone due.
  if (named == nullptr && !isDamaged(entry.state())) return countOut(ref, 0);
  pool_.tombstones().prepare();
  SpinGuard guard(lock_);
  countDead(ref, named);
}

void Log::markAcknowledged(EntryRef ref) {
  Segment* const segment = pool_.segmentOf(ref);
  RC_CHECK_MSG(segment != nullptr, "an object whose result is needed is alive");
  const EntryView entry = view(ref);
  if (!isDamaged(entry.state()) && !(entry.type() == EntryType::Object && entry.carriesResult())) {
    // The entry is damaged, and that was not noticed before. What is not committed cannot be looked at: the result
    // counts as needed until the segment goes, or the entry is moved.
    const uint32_t offset = segment->offsetOf(ref);
    if (offset >= segment->committedBytes()) return;
    uint32_t next = 0;
    const bool is_sound = integrity_.isSound(*segment, offset, next);
    RC_CHECK_MSG(!is_sound, "an object whose result is needed is alive");
  }
  std::atomic_ref<uint8_t> state(reinterpret_cast<uint8_t&>(memory_.at(ref)[1]));
  uint8_t was = state.load(std::memory_order_acquire);
  do {
    // The flags and lengths of a damaged entry say nothing until it is restored. Then the acknowledgement that is noted
    // here is counted.
    if (isDamaged(static_cast<EntryState>(was)) && integrity_.noteAcknowledged(ref)) return;
    was = state.load(std::memory_order_acquire);
    // If the entry is dead, all of it was counted. An entry that no lookup leads to any more (Freed) must not come to
    // look alive again. Nothing is left to count for it: the owner was asked about it after it had been released, and
    // by then this acknowledgement had been noted and counted.
    if (isRefused(static_cast<EntryState>(was))) return;
  } while (
      !state.compare_exchange_weak(was, static_cast<uint8_t>(EntryState::Acknowledged), std::memory_order_acq_rel));
  countResultOut(ref);
}

void Log::countResultOut(EntryRef ref) {
  const EntryView entry = view(ref);
  Segment& segment = *pool_.segmentOf(ref);
  const int64_t bytes = -int64_t{entry.resultBytes()};
  segment.addLive(bytes);
  stats_.live_bytes.fetch_add(bytes, std::memory_order_relaxed);
  countParts(segment, EntryType::Object, entry.alignedBytes(), {.all = bytes, .results = bytes});
}

Integrity::Released Log::release(const Damage& damage) {
  if (integrity_.segmentOf(damage) == nullptr) return {};
  Segment* const named = namedBy(view(damage.ref));
  // The lock is held over all of this. A thread that finds the entry marked and wants to count it as dead holds the
  // lock until the death is noted, so none is missed here. And no thread moves the tombstone of a dead entry along
  // (moveTombstones) before that tombstone is counted here.
  SpinGuard guard(lock_);
  const Integrity::Released released = integrity_.release(damage);
  if (released.is == released.was) return released;
  if (released.is == EntryState::Superseded) {
    const bool is_acknowledged = EntryView::isAcknowledgedState(static_cast<uint8_t>(released.was));
    countLoss(damage.ref, is_acknowledged, countDue(damage.ref, named));
  } else {
    countResultOut(damage.ref);
  }
  return released;
}

bool Log::dropResult(EntryRef ref) {
  auto was = static_cast<uint8_t>(EntryState::Pending);
  return std::atomic_ref<uint8_t>(reinterpret_cast<uint8_t&>(memory_.at(ref)[1]))
      .compare_exchange_strong(was, static_cast<uint8_t>(EntryState::Acknowledged), std::memory_order_acq_rel);
}

bool Log::isTombstoneLive(const Segment* named) const {
  if (named == nullptr || named->state() == SegmentState::Unlinked) return false;
  if (RC_MUTATION("drop-tombstone-early") && named->state() == SegmentState::Closed) return false;
  return !named->in_pass_;
}

void Log::countLive(Segment& segment, const EntryView& entry, EntryRef dead) {
  const int64_t bytes = entry.alignedBytes();
  segment.addLive(bytes);
  segment.noteEntryBytes(static_cast<uint32_t>(bytes));
  stats_.live_bytes.fetch_add(bytes, std::memory_order_relaxed);
  countParts(segment, entry.type(), entry.alignedBytes(), {.all = bytes, .results = entry.resultBytes()});
  if (!dead) return;
  Segment* const named_by_dead = namedBy(view(dead));
  pool_.tombstones().prepare();
  SpinGuard guard(lock_);
  // Looked up under the lock and not before: the dead entry may lie in a copy that takes the place of its original
  // meanwhile.
  Segment& named = segmentNamedFor(dead);
  if (entry.type() == EntryType::Tombstone) {
    countTombstone(segment, named, bytes);
  } else {
    countSuccessor(named, alignedTombstoneBytes(entry.keyBytes()));
  }
  countDead(dead, named_by_dead);
}

void Log::moveTombstones(Segment& from, Segment& to, std::span<const MovedTombstone> moved) {
  pool_.tombstones().prepare();
  SpinGuard guard(lock_);
  int64_t bytes = 0;
  for (const MovedTombstone& tombstone : moved) {
    Segment& named = *tombstone.named;
    // If the named segment was unlinked since the tombstone was judged, the bytes are counted out where they are.
    if (named.id() != tombstone.named_id || named.state() == SegmentState::Unlinked) continue;
    pool_.tombstones().add(named.slot(), from.slot(), -int64_t{tombstone.bytes});
    pool_.tombstones().add(named.slot(), to.slot(), tombstone.bytes);
    bytes += tombstone.bytes;
  }
  from.addLive(-bytes);
  to.addLive(bytes);
}

// What is durable.

LogPosition Log::durableUpTo() const { return unpack(durable_.load(std::memory_order_acquire)); }

LogPosition Log::flushedUpTo() const {
  return at_once_ ? durableUpTo() : unpack(flushed_.load(std::memory_order_acquire));
}

LogPosition Log::endOf(EntryRef ref) const {
  const Segment& segment = *pool_.segmentOf(ref);
  return {segment.id(), segment.offsetOf(ref) + view(ref).alignedBytes(), 0};
}

bool Log::isBefore(EntryRef ref, LogPosition position) const {
  const Segment& segment = *pool_.segmentOf(ref);
  if (!segment.isHeadKind()) return true;
  if (segment.id() != position.segment) return segment.id() < position.segment;
  return segment.offsetOf(ref) + view(ref).alignedBytes() <= position.offset_bytes;
}

bool Log::notifyDurable(LogPosition position, DurableWaiter& waiter) {
  if (isDurable(position)) return false;
  Status failed = Status::Ok;
  bool is_news = false;
  {
    SpinGuard guard(lock_);
    // Asked again under the lock, under which refreshDurable() takes waiters out: a waiter that came too late would
    // never be called.
    if (isDurable(position)) return false;
    failed = failed_.load(std::memory_order_relaxed);
    if (failed == Status::Ok) {
      waiter.position = position;
      waiters_.insert(waiter);
      is_news = position > durable_requested_;
      if (is_news) durable_requested_ = position;
    }
  }
  if (failed != Status::Ok) {
    waiter.run(waiter, failed);
  } else if (is_news) {
    environment_.replicator.requestDurable(position);  // the waiter may be gone
  }
  return true;
}

bool Log::notifyFlushed(LogPosition position, DurableWaiter& waiter) {
  if (at_once_) return notifyDurable(position, waiter);
  if (isFlushed(position)) return false;
  Status failed = Status::Ok;
  {
    SpinGuard guard(lock_);
    if (isFlushed(position)) return false;
    failed = failed_.load(std::memory_order_relaxed);
    if (failed == Status::Ok) {
      waiter.position = position;
      flush_waiters_.insert(waiter);
    }
  }
  if (failed != Status::Ok) {
    waiter.run(waiter, failed);
  } else {
    requestFlush(position);  // the waiter may be gone
  }
  return true;
}

bool Log::cancelNotification(DurableWaiter& waiter) {
  SpinGuard guard(lock_);
  if (waiter.in == nullptr) return false;
  waiter.in->remove(waiter);
  return true;
}

void Log::requestFlush(LogPosition position) {
  if (at_once_ || isFlushed(position)) return;
  {
    SpinGuard guard(lock_);
    if (position <= flush_requested_) return;
    flush_requested_ = position;
  }
  environment_.replicator.requestFlush(position);
}

void Log::refreshDurable(DurableWaiters& ready) {
  // The head counts only once its predecessor is closed everywhere: until then a recovery may end with the
  // predecessor.
  const bool ignores_closing = RC_MUTATION("acknowledge-in-head-before-old-is-closed");
  const Segment* const last = closing_ != nullptr && !ignores_closing ? closing_ : head_;
  if (last == nullptr) return;
  const uint64_t packed = pack(last->id(), last->durable_bytes_);
  if (packed > durable_.load(std::memory_order_relaxed)) durable_.store(packed, std::memory_order_release);
  waiters_.takeUpTo(unpack(durable_.load(std::memory_order_relaxed)), ready);
  if (at_once_) return;
  const uint64_t flushed = pack(last->id(), last->flushed_bytes_);
  if (flushed > flushed_.load(std::memory_order_relaxed)) flushed_.store(flushed, std::memory_order_release);
  flush_waiters_.takeUpTo(unpack(flushed_.load(std::memory_order_relaxed)), ready);
}

void Log::fail(Status status) {
  DurableWaiters ready;
  {
    SpinGuard guard(lock_);
    if (failed_.load(std::memory_order_relaxed) != Status::Ok) return;
    failed_.store(status, std::memory_order_release);
    waiters_.takeAll(ready);
    flush_waiters_.takeAll(ready);
  }
  ready.runAll(status);
}

LogPosition Log::end() const {
  SpinGuard guard(lock_);
  if (head_ == nullptr) return {};
  return {head_->id(), head_->cursor().offset, 0};
}

}  // namespace ramcore::log
