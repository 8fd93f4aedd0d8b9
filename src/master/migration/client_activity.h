#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "store/tablet_table.h"

namespace ramcore::master {

/// Says whether clients keep this server busy, so that the slices of a move are small while they do: a slice is looked
/// up and copied, or replayed, in one go, and calls of clients wait for that. Any thread.
class ClientActivity {
 public:
  /// @param tablets  outlives this
  explicit ClientActivity(const store::TabletTable& tablets) : tablets_(tablets) {}

  /// Whether clients have called since it was asked last, or before one of the last few times: small slices take so
  /// little time that few calls come during one of them. To be asked once for each slice. Cost: a copy of the list of
  /// tablets.
  bool isBusy() {
    uint64_t calls = 0;
    for (const store::Tablet& tablet : tablets_.list()) {
      calls += tablet.counters->reads.load(std::memory_order_relaxed);
      calls += tablet.counters->writes.load(std::memory_order_relaxed);
    }
    const bool has_changed = last_.exchange(calls, std::memory_order_relaxed) != calls;
    const uint32_t quiet = has_changed ? 0 : quiet_.load(std::memory_order_relaxed) + 1;
    quiet_.store(std::min(quiet, kQuietSlices), std::memory_order_relaxed);
    return quiet < kQuietSlices;
  }

 private:
  static constexpr uint32_t kQuietSlices = 16;

  const store::TabletTable& tablets_;
  std::atomic<uint64_t> last_{0};
  std::atomic<uint32_t> quiet_{0};  // slices without a call, at most kQuietSlices
};

}  // namespace ramcore::master
