#include "log/segment_copies.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace ramcore::log {

Segment* SegmentCopies::open(const Segment& original, uint32_t entry_bytes_max) {
  if (!parts_.pool.mayHaveRoom(SegmentKind::Survivor)) return nullptr;
  Segment* const copy = parts_.pool.allocateCopy(original, entry_bytes_max);
  if (copy == nullptr) return nullptr;
  // The stamp stays, because the entries are as old as before. The age of the segment begins anew, because the garbage
  // that had gathered in it is gone.
  copy->setBegun(parts_.stats.appended_bytes.load(std::memory_order_relaxed));
  copy->setStamp(original.stampBytes());
  parts_.own_entries.copy(original, *copy);
  int64_t live = 0;
  {
    // Read under the lock, so that room is counted for each tombstone that the mover will find alive: a tombstone is
    // counted out only after the segment that it names was unlinked, both under the lock, and once that is unlinked the
    // mover drops the tombstone.
    LogGuard guard(parts_.lock);
    live = original.live().bytes();
  }
  // Room for one entry more: an entry that dies while it is being copied takes room until its copy is taken back.
  const uint64_t needed = static_cast<uint64_t>(std::max<int64_t>(live, 0)) + entry_bytes_max;
  if (copy->certainRoomBytes(entry_bytes_max) < needed) {
    parts_.pool.release(*copy);
    return nullptr;
  }
  copy->takeIdOf(original);
  return copy;
}

void SegmentCopies::finish(Segment& copy) {
  copy.commit(copy.cursor().offset);
  parts_.pool.trim(copy);
}

void SegmentCopies::keepApart(Segment& copy) {
  RC_CHECK(copy.state() == SegmentState::Open && !copy.isListed());
  copy.setState(SegmentState::Closed);
  parts_.pool.exchange(std::array{&copy}, {});
}

void SegmentCopies::replace(Segment& original, Segment& copy) {
  // The copy is put in place first, before the original's memory begins to be given back and before tombstones are
  // counted for the copy: a thread that has found the original by its id looks again (LiveCounts::countDue).
  parts_.pool.putInPlace(original, copy);
  parts_.pool.exchange(std::array{&copy}, std::array{&original});
  // The replicator is told before the original is unlinked and its memory is given back: replicas are made from the
  // copy from here on.
  parts_.replicator.moved(copy);
  LogGuard guard(parts_.lock);
  parts_.members.replace(original, copy);
}

}  // namespace ramcore::log
