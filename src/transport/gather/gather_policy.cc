#include "transport/gather/gather_policy.h"

namespace ramcore::transport::gather {

uint32_t countEntries(std::span<const Chunk> chunks, const GatherPlan& plan) {
  uint32_t entries = 1;
  bool is_in_run = false;
  for (uint32_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i].bytes == 0) continue;
    if (!plan.is_copied[i] || !is_in_run) ++entries;
    is_in_run = plan.is_copied[i];
  }
  return entries;
}

namespace {

/// One chunk, or two neighbours, whose copying saves one entry.
struct Merger {
  uint32_t first = TxBuffer::kChunkCountMax;
  uint32_t second = TxBuffer::kChunkCountMax;  // if there are two
  uint64_t bytes = UINT64_MAX;
};

Merger cheapestMerger(std::span<const Chunk> chunks, const GatherPlan& plan) {
  Merger best;
  uint32_t before = TxBuffer::kChunkCountMax;  // the last chunk that is not empty
  for (uint32_t i = 0; i < chunks.size(); ++i) {
    const uint64_t bytes = chunks[i].bytes;
    if (bytes == 0) continue;
    if (before != TxBuffer::kChunkCountMax && !(plan.is_copied[before] && plan.is_copied[i])) {
      Merger merger;
      if (plan.is_copied[before]) {
        merger = {i, TxBuffer::kChunkCountMax, bytes};
      } else if (plan.is_copied[i]) {
        merger = {before, TxBuffer::kChunkCountMax, chunks[before].bytes};
      } else {
        merger = {before, i, chunks[before].bytes + bytes};
      }
      if (merger.bytes < best.bytes) best = merger;
    }
    before = i;
  }
  return best;
}

}  // namespace

void reduceEntries(std::span<const Chunk> chunks, uint32_t entries_max, GatherPlan& plan) {
  RC_DCHECK(entries_max >= 2);
  while (plan.entries > entries_max) {
    const Merger merger = cheapestMerger(chunks, plan);
    if (merger.bytes == UINT64_MAX) return;  // all chunks are one run of copies
    for (const uint32_t i : {merger.first, merger.second}) {
      if (i < chunks.size()) plan.is_copied[i] = true;
    }
    plan.copied_bytes += static_cast<uint32_t>(merger.bytes);
    plan.entries = countEntries(chunks, plan);
  }
}

}  // namespace ramcore::transport::gather
