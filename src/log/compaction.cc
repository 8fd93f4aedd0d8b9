#include "log/compaction.h"

#include <algorithm>

#include "base/check.h"

namespace ramcore::log {

uint64_t Compaction::gainOf(const Segment& segment, const LogConfig& config) {
  if (segment.kind() == SegmentKind::SmallHead) return 0;
  const int64_t live = std::max<int64_t>(segment.liveBytes(), 0);
  const uint64_t granule = config.granuleBytes(segment.largestEntryBytes());
  const bool is_news =
      segment.compactionCount() == 0 || live + static_cast<int64_t>(2 * granule) <= segment.compactedLiveBytes();
  // Half an entry is lost at the end of each extent, of which a copy has a few.
  constexpr uint64_t kExtents = 4;
  const uint64_t lost = kExtents * segment.largestEntryBytes() / 2 + granule;
  const uint64_t kept = static_cast<uint64_t>(live) + lost;
  if (!is_news || segment.memoryBytes() < kept + granule) return 0;
  return segment.memoryBytes() - kept;
}

bool Compaction::begin(std::span<Segment* const> segments) {
  RC_CHECK(!isBusy());
  for (Segment* const original : segments) {
    Segment* const copy = log_.openCopy(*original, original->largestEntryBytes());
    if (copy != nullptr) pairs_.push_back({original, copy});
  }
  index_ = 0;
  offset_ = 0;
  return isBusy();
}

Compaction::Progress Compaction::step(uint32_t bytes_max) {
  return index_ < pairs_.size() ? copy(bytes_max) : awaitDeaths();
}

MoveTarget::Place Compaction::place(uint32_t aligned_bytes) {
  Segment& copy = *pairs_[index_].copy;
  Place place{.segment = &copy, .ref = {}, .before = copy.cursor()};
  Segment::Cursor cursor = place.before;
  RC_CHECK_MSG(copy.place(cursor, aligned_bytes, place.ref), "a copy has room for all that is alive");
  copy.adopt(cursor);
  return place;
}

Compaction::Progress Compaction::copy(uint32_t bytes_max) {
  std::atomic<uint64_t>& copied = log_.stats().cleaner_bytes_copied;
  const uint64_t copied_before = copied.load(std::memory_order_relaxed);
  uint32_t looked_at = 0;
  bool is_damaged = false;
  while (looked_at < bytes_max && index_ < pairs_.size() && !is_damaged) {
    Segment& original = *pairs_[index_].original;
    const uint32_t before = offset_;
    is_damaged = !mover_.move(original, offset_, bytes_max - looked_at, *this);
    looked_at += offset_ - before;
    if (is_damaged && !log_.integrity().canRestore()) {
      leaveBehind();
      is_damaged = false;
      continue;
    }
    if (is_damaged || offset_ < original.committedBytes()) continue;
    log_.finishCopy(*pairs_[index_].copy);
    ++index_;
    offset_ = 0;
  }
  log_.stats().compaction_bytes_copied.fetch_add(copied.load(std::memory_order_relaxed) - copied_before,
                                                 std::memory_order_relaxed);
  if (index_ == pairs_.size()) {
    deaths_end_ = log_.end();
    deaths_ticket_ = log_.graceTicket();
  }
  return is_damaged && looked_at == 0 ? Progress::Waiting : Progress::Worked;
}

/// The original is damaged, and there are no replicas: it stays where it is, for those who refer to what was not moved.
/// What was moved stays in the copy, which is in no digest, for a log without replicas is never replayed.
void Compaction::leaveBehind() {
  Segment& copy = *pairs_[index_].copy;
  log_.finishCopy(copy);
  log_.keepApart(copy);
  pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(index_));
  offset_ = 0;
}

/// As in a pass: what was left behind may have been killed by what is not flushed yet, and a reader may still be led to
/// it. A replica that is made of the copy does not have it.
Compaction::Progress Compaction::awaitDeaths() {
  log_.requestFlush(deaths_end_);
  if (!log_.isFlushed(deaths_end_) || !log_.isOver(deaths_ticket_)) return Progress::Waiting;
  uint64_t freed = 0;
  for (const Pair& pair : pairs_) {
    if (pair.original->memoryBytes() > pair.copy->memoryBytes()) {
      freed += pair.original->memoryBytes() - pair.copy->memoryBytes();
    }
    log_.replace(*pair.original, *pair.copy);
  }
  LogStats& stats = log_.stats();
  stats.segments_compacted.fetch_add(pairs_.size(), std::memory_order_relaxed);
  stats.compaction_bytes_freed.fetch_add(freed, std::memory_order_relaxed);
  stats.cleaner_bytes_freed.fetch_add(freed, std::memory_order_relaxed);
  pairs_.clear();
  return Progress::Done;
}

}  // namespace ramcore::log
