/// The part of Log that moves a closed segment to other memory.

#include <algorithm>
#include <array>

#include "base/check.h"
#include "log/format/entry_writer.h"
#include "log/log.h"

namespace ramcore::log {

Segment* Log::openCopy(const Segment& original, uint32_t entry_bytes_max) {
  if (!pool_.mayHaveRoom(SegmentKind::Survivor)) return nullptr;
  Segment* const copy = pool_.allocateCopy(original, entry_bytes_max);
  if (copy == nullptr) return nullptr;
  // The stamp stays, because the entries are as old as before. The age of the segment begins anew, because the garbage
  // that had gathered in it is gone.
  copy->setBegun(stats_.appended_bytes.load(std::memory_order_relaxed));
  copy->setStamp(original.stampBytes());
  copyOwnEntries(original, *copy);
  int64_t live = 0;
  {
    // Read under the lock, so that room is counted for each tombstone that the mover will find alive: a tombstone is
    // counted out only after the segment that it names was unlinked, both under the lock, and once that is unlinked the
    // mover drops the tombstone.
    SpinGuard guard(lock_);
    live = original.liveBytes();
  }
  // One entry more: an entry that dies while it is being copied takes room until its copy is taken back.
  const uint64_t needed = static_cast<uint64_t>(std::max<int64_t>(live, 0)) + entry_bytes_max;
  if (copy->certainRoomBytes(entry_bytes_max) < needed) {
    pool_.release(*copy);
    return nullptr;
  }
  copy->id_.store(original.id().value, std::memory_order_release);
  return copy;
}

/// Copies the entries that the original begins with. So a replica that is made of the copy names its segment, and has
/// the digest and the safe version of a head like any other replica of it.
void Log::copyOwnEntries(const Segment& original, Segment& copy) {
  uint32_t offset = 0;
  while (offset < original.committedBytes()) {
    const EntryView entry = view(original.refAt(offset));
    const bool is_own = entry.type() == EntryType::SegmentHeader || entry.type() == EntryType::LogDigest ||
                        entry.type() == EntryType::SafeVersion;
    if (!is_own) break;
    Segment::Cursor cursor = copy.cursor();
    EntryRef ref;
    RC_CHECK_MSG(copy.place(cursor, entry.alignedBytes(), ref), "a segment has room for its own entries");
    copyEntry(memory_.at(ref), entry);
    copy.adopt(cursor);
    offset += entry.alignedBytes();
  }
}

void Log::finishCopy(Segment& copy) {
  copy.commit(copy.cursor().offset);
  pool_.trim(copy);
}

void Log::keepApart(Segment& copy) {
  RC_CHECK(copy.state() == SegmentState::Open && !copy.listed_);
  copy.setState(SegmentState::Closed);
  pool_.exchange(std::array{&copy}, {});
}

void Log::replace(Segment& original, Segment& copy) {
  // First of all, before the original's memory begins to be given back and before tombstones are counted for the copy:
  // a thread that found the original by its id before this looks again (countDue).
  pool_.putInPlace(original, copy);
  pool_.exchange(std::array{&copy}, std::array{&original});
  environment_.replicator.moved(copy);
  SpinGuard guard(lock_);
  RC_CHECK(original.listed_ && original.state() == SegmentState::Closed && copy.state() == SegmentState::Open);
  copy.durable_bytes_ = copy.committedBytes();
  copy.flushed_bytes_ = copy.committedBytes();
  copy.compacted_live_bytes_ = copy.liveBytes();
  seal(copy);
  takeOverTombstones(original, copy);
  copy.listed_ = true;
  copy.setState(SegmentState::Closed);
  original.is_replaced_ = true;
  unlink(original);
}

/// Tombstones that name the original name the copy from now on, and so will those that become due when objects that
/// name it die. This is done once: no entry of the original can be killed any more, because no reference leads to one,
/// so no further tombstone can name it.
void Log::takeOverTombstones(Segment& original, Segment& copy) {
  const auto bytes = static_cast<int64_t>(original.namedByTombstoneBytes());
  pool_.tombstones().moveNaming(original.slot(), copy.slot());
  original.addNamedBy(-bytes);
  copy.addNamedBy(bytes);
  copy.addSucceeded(original.takeSucceeded());
}

}  // namespace ramcore::log
