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
  // Its entries are as old as they were; but the garbage that had gathered in it is gone.
  copy->setBegun(stats_.appended_bytes.load(std::memory_order_relaxed));
  copy->setStamp(original.stampBytes());
  copyOwnEntries(original, *copy);
  int64_t live = 0;
  {
    // No tombstone that the mover finds alive is counted out by then: what it names is unlinked first, under the lock.
    SpinGuard guard(lock_);
    live = original.liveBytes();
  }
  // One entry more: what dies while it is being copied takes room for that long.
  const uint64_t needed = static_cast<uint64_t>(std::max<int64_t>(live, 0)) + entry_bytes_max;
  if (copy->certainRoomBytes(entry_bytes_max) < needed) {
    pool_.release(*copy);
    return nullptr;
  }
  copy->id_.store(original.id().value, std::memory_order_release);
  return copy;
}

/// A replica that is made of the copy names its segment, and says as much of the log as any other.
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
  // Before the original's memory begins to be given back, and before tombstones are counted for the copy: whoever found
  // the original by its id until then looks again.
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

/// What names the original names the copy from now on, and what would when it dies. Once: nobody can kill an entry of
/// the original any more, because no reference leads to it.
void Log::takeOverTombstones(Segment& original, Segment& copy) {
  const auto bytes = static_cast<int64_t>(original.namedByTombstoneBytes());
  pool_.tombstones().moveNaming(original.slot(), copy.slot());
  original.addNamedBy(-bytes);
  copy.addNamedBy(bytes);
  copy.addSucceeded(original.takeSucceeded());
}

}  // namespace ramcore::log
