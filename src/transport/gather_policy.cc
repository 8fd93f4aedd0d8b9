#include "transport/gather_policy.h"

namespace ramcore::transport::gather {

uint32_t countEntries(const TxBuffer& message, const GatherPlan& plan) {
  uint32_t entries = 1;
  bool is_in_run = false;
  for (uint32_t i = 0; i < message.chunk_count; ++i) {
    if (message.chunks[i].bytes == 0) continue;
    if (!plan.is_copied[i] || !is_in_run) ++entries;
    is_in_run = plan.is_copied[i];
  }
  return entries;
}

void reduceEntries(const TxBuffer& message, uint32_t entries_max, GatherPlan& plan) {
  RC_DCHECK(entries_max >= 2);
  while (plan.entries > entries_max) {
    uint32_t smallest = message.chunk_count;
    for (uint32_t i = 0; i < message.chunk_count; ++i) {
      if (plan.is_copied[i] || message.chunks[i].bytes == 0) continue;
      if (smallest == message.chunk_count || message.chunks[i].bytes < message.chunks[smallest].bytes) smallest = i;
    }
    if (smallest == message.chunk_count) return;  // all of them are one run
    plan.is_copied[smallest] = true;
    plan.copied_bytes += message.chunks[smallest].bytes;
    plan.entries = countEntries(message, plan);
  }
}

}  // namespace ramcore::transport::gather
