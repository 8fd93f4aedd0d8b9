#include "log/memory/free_runs.h"

#include <algorithm>

#include "base/check.h"

namespace ramcore::log {

void FreeRuns::put(Run run) {
  const auto next = by_begin_.lower_bound(run.begin);
  if (next != by_begin_.end()) {
    const Run behind{next->first, next->second};
    RC_CHECK(run.begin + run.bytes <= behind.begin);
    if (run.begin + run.bytes == behind.begin) {
      remove(behind);
      run.bytes += behind.bytes;
    }
  }
  const auto from = by_begin_.lower_bound(run.begin);
  if (from != by_begin_.begin()) {
    const auto previous = std::prev(from);
    const Run before{previous->first, previous->second};
    RC_CHECK(before.begin + before.bytes <= run.begin);
    if (before.begin + before.bytes == run.begin) {
      remove(before);
      run = {before.begin, before.bytes + run.bytes};
    }
  }
  add(run);
}

std::optional<FreeRuns::Run> FreeRuns::takeBlocks(uint64_t bytes_max) {
  if (bytes_max < block_bytes_ || by_bytes_.empty()) return std::nullopt;
  auto best = by_bytes_.lower_bound({bytes_max, 0});
  if (best == by_bytes_.end()) --best;
  const Run whole{best->second, best->first};
  if (whole.bytes < block_bytes_) return std::nullopt;
  uint64_t bytes = std::min(whole.bytes, bytes_max);
  const uint64_t rest = whole.bytes - bytes;
  if (rest > 0 && rest < block_bytes_) {
    // Less is taken, so that the rest stays a block; a run that is too short for two blocks is taken whole.
    bytes = whole.bytes >= 2 * block_bytes_ ? whole.bytes - block_bytes_ : whole.bytes;
  }
  remove(whole);
  if (bytes < whole.bytes) add({whole.begin + bytes, whole.bytes - bytes});
  return Run{whole.begin, bytes};
}

std::optional<FreeRuns::Run> FreeRuns::takePiece(uint64_t bytes_max) {
  auto longest = by_bytes_.lower_bound({block_bytes_, 0});
  if (longest == by_bytes_.begin()) return std::nullopt;
  --longest;
  const Run whole{longest->second, longest->first};
  const uint64_t bytes = std::min(whole.bytes, bytes_max);
  remove(whole);
  if (bytes < whole.bytes) add({whole.begin + bytes, whole.bytes - bytes});
  return Run{whole.begin, bytes};
}

void FreeRuns::add(Run run) {
  by_begin_.emplace(run.begin, run.bytes);
  by_bytes_.emplace(run.bytes, run.begin);
  counterOf(run.bytes) += run.bytes;
}

void FreeRuns::remove(Run run) {
  by_begin_.erase(run.begin);
  by_bytes_.erase({run.bytes, run.begin});
  counterOf(run.bytes) -= run.bytes;
}

uint64_t FreeRuns::longestPiecesBytes(size_t count) const {
  uint64_t bytes = 0;
  for (auto next = by_bytes_.lower_bound({block_bytes_, 0}); count > 0 && next != by_bytes_.begin(); --count) {
    bytes += (--next)->first;
  }
  return bytes;
}

}  // namespace ramcore::log
