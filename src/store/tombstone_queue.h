#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <optional>

#include "base/durability.h"
#include "base/spin_lock.h"
#include "index/hash_index.h"
#include "log/log.h"
#include "store/durability.h"
#include "store/mutation.h"
#include "store/stored_entries.h"

namespace ramcore::store {

/// Removed keys. Each keeps its tombstone in the index until that is durable, or flushed for a sync table, so that no
/// client is told of an absence that a crash could undo. The keys wait for that here, in log order.
///
/// Any registered reader thread, inside a read section. Lock order: stripe -> the lock of this queue, which is a leaf.
class TombstoneQueue {
 public:
  /// Everything is borrowed and outlives this.
  TombstoneQueue(const log::Log& log, index::HashIndex& index, const StoredEntries& entries, const TabletTable& tablets)
      : log_(log), index_(index), entries_(entries), tablets_(tablets) {}

  /// Takes the tombstone of a key that was removed just now, or lets it leave the index at once if that may be shown.
  /// @param stripe  that of the key
  /// @param level  the durability of the key's table
  void retire(const index::StripeGuard& stripe, log::EntryRef tombstone, KeyHash hash, Durability level)
      RC_EXCLUDES(lock_);

  /// Takes the removed keys of a tablet that was Arriving: they have kept their tombstones in the index, durable or
  /// not, so that no older object came back (Arriving). A bounded slice per call: those before `cursor` are taken.
  /// @return the next cursor, or nothing when the range is done
  std::optional<KeyHash> retireSlice(const Tablet& tablet, KeyHash cursor) RC_EXCLUDES(lock_);

  struct Reaped {
    size_t count = 0;
    ShowAfter
        waits_for;  ///< the position that the oldest of the remaining keys waits for, for each level; none: no position
  };
  /// Takes removed keys out of the index whose tombstones are as durable as their tables require; at most `count_max`
  /// of each level. Any thread; while another thread is reaping, nothing is done and no position is returned. With
  /// Locking::Try it also stops when another thread has the stripe of the next key.
  /// Cost: 0.1 to 0.3 us each.
  Reaped reap(size_t count_max, Locking locking = Locking::Wait) RC_EXCLUDES(lock_);

  /// Removed keys that are still in the index. Any thread; a load.
  size_t size(Durability level) const { return count_[static_cast<size_t>(level)].load(std::memory_order_relaxed); }
  size_t size() const { return size(Durability::Buffered) + size(Durability::Sync); }

 private:
  struct Removed {
    KeyHash hash;
    log::EntryRef tombstone;
  };
  LogPosition reap(Durability level, size_t count_max, Locking locking, size_t& reaped) RC_EXCLUDES(lock_);
  bool isHeld(const log::EntryView& tombstone, KeyHash hash) const;

  const log::Log& log_;
  index::HashIndex& index_;
  const StoredEntries& entries_;
  const TabletTable& tablets_;
  SpinLock lock_;  // a leaf
  // One queue for each durability of tables, so that a key that waits for a disk does not hold up others.
  std::array<std::deque<Removed>, 2> removed_ RC_GUARDED_BY(lock_);
  std::array<std::atomic<size_t>, 2> count_{};
  std::atomic<bool> reaping_{false};  // a thread is reaping
};

}  // namespace ramcore::store
