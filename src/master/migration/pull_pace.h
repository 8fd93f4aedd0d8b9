#pragma once

#include <atomic>
#include <cstdint>
#include <map>

#include "base/ids.h"
#include "base/spin_lock.h"

namespace ramcore::master {

/// How fast the contents of tablets come to this server. Moves may have a highest rate; the lowest of these is that of
/// all moves to this server together, because it is for the sake of the clients of a server, or of a network, that a
/// rate is limited. What calls wait for is not delayed, but counts.
/// Any thread. Cost: without a rate one load; with one a lock that is held for some instructions.
class PullPace {
 public:
  /// @param rate_max  bytes a second; 0: any
  void set(TabletId tablet, uint64_t rate_max) RC_EXCLUDES(lock_);
  void forget(TabletId tablet) RC_EXCLUDES(lock_) { set(tablet, 0); }

  /// How much a request asks for that could ask for `bytes`: less at a low rate, so that the contents come evenly.
  uint32_t slice(uint32_t bytes) const;

  /// A place in the flow for so many bytes.
  struct Place {
    int64_t begin_ns = 0;  ///< runtime::Clock: they may be asked for from then on
    uint64_t changes = 0;  ///< of the rate, until it was given
  };
  Place reserve(uint64_t bytes, int64_t now_ns) RC_EXCLUDES(lock_);
  /// False: the rate was changed since, and another place is to be reserved.
  bool isValid(const Place& place) const { return changes_.load(std::memory_order_relaxed) == place.changes; }
  /// Less was used than a place that is valid has room for.
  void giveBack(const Place& place, uint64_t bytes) RC_EXCLUDES(lock_);

 private:
  mutable SpinLock lock_;
  std::map<TabletId, uint64_t> rates_ RC_GUARDED_BY(lock_);
  int64_t free_ns_ RC_GUARDED_BY(lock_) = 0;  // the next place begins then
  std::atomic<uint64_t> rate_{0};
  std::atomic<uint64_t> changes_{0};
};

}  // namespace ramcore::master
