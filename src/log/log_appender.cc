#include "log/log_appender.h"

#include <cstring>

#include "base/check.h"
#include "base/mutation.h"
#include "base/point.h"
#include "log/live_counts_inline.h"

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

}  // namespace

/// What is found out about a group before the lock is taken.
struct LogAppender::Prepared {
  uint32_t total = 0;
  std::array<uint32_t, kGroupEntriesMax> bytes;
  /// For entries with a `dead`: the segment that the dead entry names; see LiveCounts::countDead. For those with an
  /// anchor: the anchor.
  std::array<Segment*, kGroupEntriesMax> named_by_dead;
};

struct LogAppender::Reservation {
  Segment* segment = nullptr;
  bool waits = false;        ///< refused, but another head may take the group soon
  bool copied = false;       ///< the bytes are in place and committed (or behind an open reservation)
  uint32_t ring_number = 0;  ///< used if not copied
  Appended appended;
};

std::optional<Result<Appended>> LogAppender::append(std::span<const EntryInput> group, AppendClass append_class,
                                                    LockWait wait) {
  RC_CHECK(!group.empty() && group.size() <= kGroupEntriesMax);
  if (const Status failed = durability_.failure(); failed != Status::Ok) return failed;
  Prepared prepared;
  for (size_t i = 0; i < group.size(); ++i) {
    const uint32_t bytes = prepared.bytes[i] = group[i].alignedBytes();
    RC_CHECK_MSG(bytes <= pool_.config().entry_bytes_max, "services refuse oversized objects at the door");
    prepared.total += bytes;
    if (!group[i].names()) continue;
    prepared.named_by_dead[i] =
        group[i].dead ? counts_.namedBy(EntryView(memory_.at(group[i].dead))) : pool_.find(group[i].anchor);
    pool_.tombstones().prepare();
  }
  if (append_class == AppendClass::Write && !limit_.hasSpaceFor(prepared.total)) {
    stats_.refused_no_space.fetch_add(1, std::memory_order_relaxed);
    return Status::NoSpace;
  }

  alignas(8) std::byte staged[kCopyUnderLockBytesMax];
  const bool stage = prepared.total <= kCopyUnderLockBytesMax;
  if (stage) {
    std::byte* at = staged;
    for (size_t i = 0; i < group.size(); ++i) {
      writeEntry(at, group[i], i + 1 < group.size(), counts_.namedFor(group[i]));
      at += prepared.bytes[i];
    }
  }
  return tryAppend(group, prepared, append_class, stage ? staged : nullptr, wait);
}

std::optional<Result<Appended>> LogAppender::tryAppend(std::span<const EntryInput> group, const Prepared& prepared,
                                                       AppendClass append_class, const std::byte* staged,
                                                       LockWait wait) {
  Reservation reservation;
  Status status = Status::Ok;
  bool due = false;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!lock_.lock(wait)) return std::nullopt;
    status = reserve(prepared, append_class, staged, group, reservation);
    reservation.waits = heads_.isOtherOnItsWay();
    due = heads_.isPrepareDue();
    lock_.unlock();
    if (status == Status::Ok) break;
    // The next head may be waiting to take over, or memory may have come back.
    heads_.maintain();
  }
  if (status != Status::Ok) {
    const bool is_full = append_class == AppendClass::Write && !reservation.waits && limit_.gainsNothing();
    (is_full ? stats_.refused_no_space : stats_.refused_retry_later).fetch_add(1, std::memory_order_relaxed);
    return is_full ? Status::NoSpace : status;
  }
  if (!reservation.copied) {
    RC_POINT(Reserved);
    finish(reservation, group);
  }
  if (!at_once_) replicator_.advance(*reservation.segment);
  if (due) heads_.maintain();
  stats_.appended_entries.fetch_add(group.size(), std::memory_order_relaxed);
  stats_.appended_bytes.fetch_add(prepared.total, std::memory_order_relaxed);
  return reservation.appended;
}

Status LogAppender::reserve(const Prepared& prepared, AppendClass append_class, const std::byte* staged,
                            std::span<const EntryInput> group, Reservation& reservation) {
  if (heads_.head() == nullptr) return Status::RetryLater;
  Segment& head = *heads_.head();
  if (head.kind() == SegmentKind::SmallHead && append_class == AppendClass::Write) {
    heads_.noteFull();
    return Status::RetryLater;
  }
  Appended& appended = reservation.appended;
  Segment::Cursor cursor = head.cursor();
  for (size_t i = 0; i < group.size(); ++i) {
    if (!head.place(cursor, prepared.bytes[i], appended.refs[i])) {
      heads_.noteFull();
      if (append_class == AppendClass::Remove) heads_.noteRemoveBlocked();
      return Status::RetryLater;
    }
  }
  if (!heads_.ring().empty()) RC_POINT(BehindReservation);
  if (staged == nullptr) {
    if (heads_.ring().full()) return Status::RetryLater;
    reservation.ring_number = heads_.ring().reserve(cursor.offset);
  } else if (!heads_.ring().empty()) {
    if (!heads_.ring().append(cursor.offset)) return Status::RetryLater;
  }
  // Nothing may be refused from here on, and nothing was changed before: a group that is refused leaves no gap in the
  // head.
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
    if (heads_.ring().empty()) heads_.commit(cursor.offset);
  }
  return Status::Ok;
}

void LogAppender::finish(Reservation& reservation, std::span<const EntryInput> group) {
  for (size_t i = 0; i < group.size(); ++i) {
    writeEntry(memory_.at(reservation.appended.refs[i]), group[i], i + 1 < group.size(), counts_.namedFor(group[i]));
  }
  DurableWaiters ready;
  {
    LogGuard guard(lock_);
    // A head does not change while reservations are open, so this is the head that the reservation was made in.
    const uint32_t committed = heads_.ring().finish(reservation.ring_number);
    if (committed != 0) {
      heads_.commit(committed);
      if (at_once_) heads_.refreshDurable(ready);
    }
  }
  ready.runAll(Status::Ok);
}

void LogAppender::countGroup(Segment& segment, std::span<const EntryInput> group, const Prepared& prepared) {
  int64_t live = 0;
  for (size_t i = 0; i < group.size(); ++i) {
    const EntryInput& input = group[i];
    if (input.type == EntryType::SafeVersion) continue;  // every later head has a newer one
    const bool is_free = input.type == EntryType::Tombstone && RC_MUTATION("count-tombstone-as-free");
    live += is_free ? 0 : prepared.bytes[i];
    counts_.countAppended(segment, input, prepared.bytes[i]);
    if (input.dead) counts_.countKilledBy(input, prepared.bytes[i], segment, prepared.named_by_dead[i]);
    if (input.anchor) counts_.countAnchored(prepared.bytes[i], segment, prepared.named_by_dead[i]);
  }
  counts_.addLive(segment, live);
}

}  // namespace ramcore::log
