#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "transport/message.h"

namespace ramcore::transport {

/// What hardware takes, and from which size on it pays to let it fetch bytes from where they are. Below that, and
/// beyond the number of entries it takes, bytes are copied together first (thesis of Kesavan, chapter 2; "To Copy or
/// Not to Copy", IMDM 2016: descriptors grow with the number of records, and an adapter stops at 32 or fewer).
struct GatherLimits {
  uint32_t entries_max = 1;         ///< gather entries of one send, its head included; at least 1
  uint32_t inline_bytes_max = 0;    ///< messages of at most this many bytes go inside the descriptor; 0: none does
  uint32_t copy_below_bytes = 256;  ///< shorter chunks are copied
};

/// How each chunk of a message leaves.
struct GatherPlan {
  std::array<bool, TxBuffer::kChunkCountMax>
      is_copied{};  ///< into memory of the transport; the others from where they are
  uint32_t copied_bytes = 0;
  uint32_t entries = 1;    ///< the head, each chunk that is not copied, and each run of copied chunks
  bool is_inline = false;  ///< all of it goes inside the descriptor: nothing is copied by us, nothing stays borrowed
};

/// Plans chunk by chunk, for a message or for the part of one that an Ethernet frame holds. `isCopied(chunk)` says
/// which chunks cannot, or need not, be read where they are. Cost: linear; if there are more entries than `limits`
/// allows, the cheapest neighbours are copied together, one step after the other.
template <typename IsCopied>
GatherPlan planPieces(uint32_t head_bytes, std::span<const Chunk> chunks, const GatherLimits& limits,
                      IsCopied&& isCopied);

/// Plans a whole message: `isReachable(chunk)` says whether the hardware may read a chunk where it is.
template <typename IsReachable>
GatherPlan planGather(const TxBuffer& message, const GatherLimits& limits, IsReachable&& isReachable) {
  return planPieces(message.head_bytes, std::span(message.chunks).first(message.chunk_count), limits,
                    [&](const Chunk& chunk) { return chunk.bytes < limits.copy_below_bytes || !isReachable(chunk); });
}

namespace gather {
/// Counts the entries of the plan.
uint32_t countEntries(std::span<const Chunk> chunks, const GatherPlan& plan);
/// Marks chunks as copied, in each step those that save one entry at the least cost, until at most `entries_max`
/// entries are left.
void reduceEntries(std::span<const Chunk> chunks, uint32_t entries_max, GatherPlan& plan);
}  // namespace gather

template <typename IsCopied>
GatherPlan planPieces(uint32_t head_bytes, std::span<const Chunk> chunks, const GatherLimits& limits,
                      IsCopied&& isCopied) {
  GatherPlan plan;
  uint64_t bytes = head_bytes;
  for (const Chunk& chunk : chunks) bytes += chunk.bytes;
  if (limits.inline_bytes_max != 0 && bytes <= limits.inline_bytes_max && 1 + chunks.size() <= limits.entries_max) {
    plan.is_inline = true;
    plan.entries = 1 + static_cast<uint32_t>(chunks.size());
    return plan;
  }
  for (size_t i = 0; i < chunks.size(); ++i) {
    plan.is_copied[i] = isCopied(chunks[i]);
    if (plan.is_copied[i]) plan.copied_bytes += chunks[i].bytes;
  }
  plan.entries = gather::countEntries(chunks, plan);
  if (plan.entries > limits.entries_max) gather::reduceEntries(chunks, limits.entries_max, plan);
  return plan;
}

}  // namespace ramcore::transport
