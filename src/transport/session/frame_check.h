#pragma once

#include "runtime/executor.h"
#include "wire/frame.h"

namespace ramcore::transport {

/// True if a peer may send this header on a session with `slot_count` slots: every field is in its range.
inline bool isValidFrame(const wire::FrameHeader& header, uint16_t slot_count) {
  if (!header.isValid()) return false;
  return header.kind == wire::FrameKind::Close ||
         (header.slot < slot_count && header.priority < runtime::kPriorityCount);
}

}  // namespace ramcore::transport
