#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/spin_lock.h"
#include "index/index_line.h"
#include "runtime/epoch.h"

namespace ramcore::index {

/// Overflow lines of the index: an array of lines with room for a list link beside each, filled from the front.
///
/// A line that is taken out of a bucket may still be read; its bytes stay as they are until a grace period is over.
/// Lines on the way back form two batches, so that one ticket serves many lines: one batch waits for its grace period
/// while the other collects lines.
///
/// Threads: any. The lock is a leaf of the lock order, held for a few list operations.
class LinePool {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  /// @param lines  zeroed memory (untouched pages do), borrowed
  /// @param links  one per line, borrowed
  LinePool(std::span<Line> lines, std::span<uint32_t> links, runtime::Rcu& rcu)
      : lines_(lines), links_(links), rcu_(rcu) {}

  /// Takes a line, all slots empty, or kNone when all are in use or waiting for their grace period.
  uint32_t allocate() RC_EXCLUDES(lock_);
  /// Gives back a line that readers may still be in. It was unlinked before the call.
  void retire(uint32_t number) RC_EXCLUDES(lock_);
  /// Gives back a line that was never linked.
  void giveBack(uint32_t number) RC_EXCLUDES(lock_);

  Line& at(uint64_t number) { return lines_[number]; }
  const Line& at(uint64_t number) const { return lines_[number]; }
  /// Lines that buckets own.
  uint64_t inUse() const { return in_use_.load(std::memory_order_relaxed); }
  /// Lines touched so far: those before this number.
  uint64_t touched() const { return touched_.load(std::memory_order_relaxed); }

 private:
  struct Batch {
    uint32_t first = kNone;
    uint32_t last = kNone;
  };
  void turnBatches() RC_REQUIRES(lock_);
  void push(Batch& batch, uint32_t number) RC_REQUIRES(lock_);

  std::span<Line> lines_;
  std::span<uint32_t> links_;
  runtime::Rcu& rcu_;

  SpinLock lock_;
  Batch free_ RC_GUARDED_BY(lock_);
  Batch collecting_ RC_GUARDED_BY(lock_);
  Batch waiting_ RC_GUARDED_BY(lock_);
  runtime::GraceTicket waiting_for_ RC_GUARDED_BY(lock_);
  std::atomic<uint64_t> in_use_{0};
  std::atomic<uint64_t> touched_{0};
};

}  // namespace ramcore::index
