#pragma once

#include "runtime/executor.h"
#include "wire/frame.h"

namespace ramcore::transport {

/// True if a peer may send this header on a session with `slot_count` slots: every field is in its range.
inline bool isValidFrame(const wire::FrameHeader& header, uint16_t slot_count) {
  if (header.message_bytes > wire::kMessageBytesMax || header.head_bytes > header.message_bytes ||
      header.head_bytes > wire::kHeadBytesMax || header.reserved != 0) {
    return false;
  }
  switch (header.kind) {
    case wire::FrameKind::Request:
    case wire::FrameKind::Response:
      return header.slot < slot_count && header.priority < runtime::kPriorityCount;
    case wire::FrameKind::Close:
      return header.message_bytes == 0;
  }
  return false;
}

}  // namespace ramcore::transport
