#pragma once

#include "log/segment.h"

namespace ramcore::log {

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
uint32_t markFreed(const Segment& segment, const LogMemory& memory, uint32_t offset, uint32_t bytes_max,
                   uint64_t& entries_marked);

}  // namespace ramcore::log
