#include "log/cleaning/compaction.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"

namespace ramcore::log {

uint64_t Compaction::gainOf(const Segment& segment, const LogConfig& config) {
  if (segment.kind() == SegmentKind::SmallHead) return 0;
  const int64_t live = std::max<int64_t>(segment.live().bytes(), 0);
  const uint64_t granule = config.granuleBytes(segment.live().largestEntryBytes());
  const bool is_news =
      segment.compactionCount() == 0 || live + static_cast<int64_t>(2 * granule) <= segment.compactedLiveBytes();
  // Half an entry is lost at the end of each extent, of which a copy has a few.
  constexpr uint64_t kExtents = 4;
  const uint64_t lost = kExtents * segment.live().largestEntryBytes() / 2 + granule;
  const uint64_t kept = static_cast<uint64_t>(live) + lost;
  if (!is_news || segment.memoryBytes() < kept + granule) return 0;
  return segment.memoryBytes() - kept;
}

bool Compaction::begin(std::span<Segment* const> segments) {
  RC_CHECK(!isBusy());
  for (Segment* const original : segments) {
    Segment* const copy = log_.copies().open(*original, original->live().largestEntryBytes());
    if (copy != nullptr) pairs_.push_back({original, copy});
  }
  copying_.begin(pairs_, {});
  is_copied_ = false;
  return isBusy();
}

Compaction::Progress Compaction::step(uint32_t bytes_max) { return is_copied_ ? awaitDeaths() : copy(bytes_max); }

Compaction::Progress Compaction::copy(uint32_t bytes_max) {
  Progress progress =
      copying_.work(0, bytes_max) == SharedCopy::Progress::Worked ? Progress::Worked : Progress::Waiting;
  if (!log_.integrity().canRestore()) {
    for (const SharedCopy::Item& pair : copying_.takeUnsound()) leaveBehind(pair);
  }
  if (!copying_.isDone()) return progress;
  copying_.end();
  is_copied_ = true;
  // The position is taken after the copying: every entry that killed one which was left behind was appended before it.
  deaths_end_ = log_.heads().end();
  deaths_ticket_ = log_.settling().graceTicket();
  return Progress::Worked;
}

/// Ends the compaction of a damaged segment, in a log without replicas. The original stays where it is, because there
/// are references to the entries that were not moved. Those that were moved stay in the copy. It is in no digest, but a
/// log without replicas is never replayed.
void Compaction::leaveBehind(const SharedCopy::Item& pair) {
  log_.copies().finish(*pair.copy);
  log_.copies().keepApart(*pair.copy);
  std::erase_if(pairs_, [&](const SharedCopy::Item& one) { return one.copy == pair.copy; });
}

/// Waits as a pass does: an entry that was left behind may have been killed by one that is not flushed yet, and a
/// reader may still be led to it. A replica that is made of the copy does not have it.
Compaction::Progress Compaction::awaitDeaths() {
  log_.durability().requestFlush(deaths_end_);
  const bool waits = !RC_MUTATION("compact-before-deaths-are-flushed");
  if (waits && (!log_.durability().isFlushed(deaths_end_) || !log_.settling().isOver(deaths_ticket_)))
    return Progress::Waiting;
  uint64_t freed = 0;
  for (const SharedCopy::Item& pair : pairs_) {
    if (pair.from->memoryBytes() > pair.copy->memoryBytes()) {
      freed += pair.from->memoryBytes() - pair.copy->memoryBytes();
    }
    log_.copies().replace(*pair.from, *pair.copy);
  }
  LogStats& stats = log_.stats();
  stats.segments_compacted.fetch_add(pairs_.size(), std::memory_order_relaxed);
  stats.compaction_bytes_freed.fetch_add(freed, std::memory_order_relaxed);
  stats.cleaner_bytes_freed.fetch_add(freed, std::memory_order_relaxed);
  pairs_.clear();
  return Progress::Done;
}

}  // namespace ramcore::log
