#pragma once

#include <atomic>

#include "log/memory/segment.h"

namespace ramcore::log {

// Freed marks are for one-sided readers, which were told where an object lies and for which no grace period waits. They
// refuse an entry that is no object, and an object whose state says that it is not alive. No local reader gives a
// meaning to Freed. The cleaner marks each object when it deals with it, because it has the header at hand then. A
// segment that leaves the log without the cleaner is walked over instead.

/// Sets the state byte of an object to Freed: no lookup leads to the object any more, nor will one. Superseded and
/// damaged objects keep their state, because they are refused anyway.
///
/// The state changes by compare and exchange, because another thread that verifies the object meanwhile may mark it as
/// damaged: a reader that was led to the object before may still be reading and must not miss that mark. After this
/// only the restoring of damage sets a state of living objects again: see Segment::noteMarked.
/// @return false: the state stayed what it was
inline bool markObjectFreed(std::byte* object) {
  const std::atomic_ref<uint8_t> state(reinterpret_cast<uint8_t&>(object[offsetof(EntryHeader, state)]));
  uint8_t seen = state.load(std::memory_order_relaxed);
  do {
    if (isRefused(static_cast<EntryState>(seen))) return false;
  } while (!state.compare_exchange_weak(seen, static_cast<uint8_t>(EntryState::Freed), std::memory_order_release,
                                        std::memory_order_relaxed));
  return true;
}

/// Sets the state byte of the entries of a segment to Freed, from the entry at `offset` on, and for about `bytes_max`
/// bytes: a slice. From an entry that cannot be read on, everything up to the end of its extent is set to zero: the
/// entries behind it cannot be found to be marked, but a reader that was told where they lie would find them whole. So
/// afterwards, in what was committed, no entry is believed by a reader that refuses freed entries.
///
/// Thread: the reclaimer, when no thread reads the segment any more, and before its memory is used for anything else.
///
/// @param offset  logical offset of an entry, below committedBytes()
/// @param entries_marked  the number of marked entries is added to it
/// @return where the next slice begins; committedBytes(): there is none
/// Cost: a pass over the bytes, because only the checksum of an entry shows that its length is right: see
/// docs/formats.md.
uint32_t markSegmentFreed(const Segment& segment, const LogMemory& memory, uint32_t offset, uint32_t bytes_max,
                          uint64_t& entries_marked);

/// Whether a reader that was told where an object lies in the segment could still believe such an object. For tests: a
/// pass over the bytes.
bool holdsBelievable(const Segment& segment);

}  // namespace ramcore::log
