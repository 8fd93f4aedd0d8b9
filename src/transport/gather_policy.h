#pragma once

#include <array>
#include <cstdint>

#include "transport/message.h"

namespace ramcore::transport {

/// What hardware takes, and from which size on it pays to let it fetch bytes from where they are. Below that, and
/// beyond the number of entries it takes, bytes are copied together first (thesis of Kesavan, chapter 2; "To Copy or
/// Not to Copy", IMDM 2016: descriptors grow with the number of records, and an adapter stops at 32 or fewer).
struct GatherLimits {
  uint32_t entries_max = 1;         ///< of one send, its head included; at least 1
  uint32_t inline_bytes_max = 0;    ///< messages of at most so many bytes go inside the descriptor; 0: none does
  uint32_t copy_below_bytes = 256;  ///< shorter chunks are copied
};

/// How each chunk of a message leaves.
struct GatherPlan {
  std::array<bool, TxBuffer::kChunkCountMax>
      is_copied{};  ///< into memory of the transport; the others from where they are
  uint32_t copied_bytes = 0;
  uint32_t entries = 1;    ///< the head, each chunk that is not copied, and each run of chunks that are
  bool is_inline = false;  ///< all of it inside the descriptor: nothing is copied by us, nothing stays lent
};

/// Decides chunk by chunk. `isReachable(chunk)` says whether the hardware may read it where it is.
/// Cost: linear; where there are more entries than are taken, the cheapest neighbours are copied together one after the
/// other.
template <typename IsReachable>
GatherPlan planGather(const TxBuffer& message, const GatherLimits& limits, IsReachable&& isReachable);

namespace gather {
/// Entries that the plan has, counted anew.
uint32_t countEntries(const TxBuffer& message, const GatherPlan& plan);
/// Copies what costs least and leaves one entry less, until no more are left than are taken.
void reduceEntries(const TxBuffer& message, uint32_t entries_max, GatherPlan& plan);
}  // namespace gather

template <typename IsReachable>
GatherPlan planGather(const TxBuffer& message, const GatherLimits& limits, IsReachable&& isReachable) {
  GatherPlan plan;
  uint64_t bytes = message.head_bytes;
  for (uint32_t i = 0; i < message.chunk_count; ++i) bytes += message.chunks[i].bytes;
  if (limits.inline_bytes_max != 0 && bytes <= limits.inline_bytes_max &&
      1 + message.chunk_count <= limits.entries_max) {
    plan.is_inline = true;
    plan.entries = 1 + message.chunk_count;
    return plan;
  }
  for (uint32_t i = 0; i < message.chunk_count; ++i) {
    const Chunk& chunk = message.chunks[i];
    plan.is_copied[i] = chunk.bytes < limits.copy_below_bytes || !isReachable(chunk);
    if (plan.is_copied[i]) plan.copied_bytes += chunk.bytes;
  }
  plan.entries = gather::countEntries(message, plan);
  if (plan.entries > limits.entries_max) gather::reduceEntries(message, limits.entries_max, plan);
  return plan;
}

}  // namespace ramcore::transport
