#pragma once

#include <atomic>

#include "log/memory/segment.h"

namespace ramcore::log {

// For readers that nobody waits for: one-sided ones, who were told where an object lies. They refuse what is no object,
// and an object whose state says that it is not alive; no local reader gives a meaning to Freed. So the cleaner says so
// of each object as it deals with it, with the header at hand; what leaves the log without the cleaner is walked over.

/// Sets the state byte of an object to Freed: nobody is led to it any more, nor will be. Superseded and damaged ones
/// stay what they are: they are refused as they are.
///
/// In one step: whoever verifies it meanwhile may find it damaged, and somebody who was led to it before may still be
/// reading, who must not miss that. Nobody gives it a state of living ones any more, but for who restores it: see
/// Segment::noteMarked.
/// @return false: it stayed what it was
inline bool markObjectFreed(std::byte* object) {
  const std::atomic_ref<uint8_t> state(reinterpret_cast<uint8_t&>(object[offsetof(EntryHeader, state)]));
  uint8_t seen = state.load(std::memory_order_relaxed);
  do {
    if (isRefused(static_cast<EntryState>(seen))) return false;
  } while (!state.compare_exchange_weak(seen, static_cast<uint8_t>(EntryState::Freed), std::memory_order_release,
                                        std::memory_order_relaxed));
  return true;
}

/// Sets the state byte of the entries of a segment to Freed, from the beginning of one on, and for about `bytes_max`: a
/// slice. What lies behind something that cannot be read is set to zero up to the end of its extent: nobody could find
/// the entries there to mark them, but somebody who was told where they lie would find them whole. So afterwards, in
/// what was committed, no entry is believed by who refuses those that are freed.
///
/// Thread: the reclaimer, when nobody reads the segment any more, and before its memory is anybody else's.
///
/// @param offset  logical, of an entry below committedBytes()
/// @param entries_marked  is added to
/// @return where the next slice begins; committedBytes(): there is none
/// Cost: a pass over the bytes, because nothing but its checksum shows that a length is right: see docs/formats.md.
uint32_t markSegmentFreed(const Segment& segment, const LogMemory& memory, uint32_t offset, uint32_t bytes_max,
                          uint64_t& entries_marked);

/// Whether a reader that was told where an object lies in the segment could still believe one. For tests: a pass over
/// the bytes.
bool holdsBelievable(const Segment& segment);

}  // namespace ramcore::log
