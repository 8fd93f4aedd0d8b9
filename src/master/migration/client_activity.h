#pragma once

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

  /// Whether clients have called since it was asked last. Cost: a copy of the list of tablets.
  bool hasChanged() {
    uint64_t calls = 0;
    for (const store::Tablet& tablet : tablets_.list()) {
      calls += tablet.counters->reads.load(std::memory_order_relaxed);
      calls += tablet.counters->writes.load(std::memory_order_relaxed);
    }
    return last_.exchange(calls, std::memory_order_relaxed) != calls;
  }

 private:
  const store::TabletTable& tablets_;
  std::atomic<uint64_t> last_{0};
};

}  // namespace ramcore::master
