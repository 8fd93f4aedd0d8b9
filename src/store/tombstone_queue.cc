#include "store/tombstone_queue.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mutation.h"

namespace ramcore::store {

using log::EntryRef;
using log::EntryType;
using log::EntryView;

void TombstoneQueue::retire(const index::StripeGuard& stripe, EntryRef tombstone, KeyHash hash, Durability level) {
  if (ShowAfter::isAt(log_, level, tombstone) || RC_MUTATION("forget-removals-at-once")) {
    RC_CHECK(index_.erase(stripe, tombstone));
    return;
  }
  SpinGuard guard(lock_);
  removed_[static_cast<size_t>(level)].push_back({hash, tombstone});
  count_[static_cast<size_t>(level)].fetch_add(1, std::memory_order_relaxed);
}

std::optional<KeyHash> TombstoneQueue::retireSlice(const Tablet& tablet, KeyHash cursor) {
  constexpr size_t kEntriesPerSlice = 64;
  std::vector<index::IndexEntry> entries;
  const auto next = index_.scan(
      cursor, tablet.range.last, kEntriesPerSlice, [this](EntryRef ref) { return entries_.hashOf(ref); }, entries,
      [this](EntryRef ref) { entries_.prefetch(ref); });
  for (const index::IndexEntry& one : entries) {
    const EntryView seen = entries_.entry(one.ref);
    // A damaged tombstone leaves when it is restored (DamageResolver::reconcile).
    if (one.is_misplaced || isDamaged(seen.state()) || seen.type() != EntryType::Tombstone) continue;
    if (seen.table() != tablet.table) continue;
    const index::StripeGuard stripe(index_, one.hash);
    // Found again by key: the cleaner may have moved it since the scan.
    const EntryRef ref = index_.find(stripe, [&](EntryRef candidate) {
      const EntryView view = entries_.entry(candidate);
      return !isDamaged(view.state()) && view.type() == EntryType::Tombstone && view.table() == tablet.table &&
             std::ranges::equal(view.key(), seen.key());
    });
    if (ref) retire(stripe, ref, one.hash, tablet.durability);
  }
  return next;
}

/// Whether the tombstone has to stay in the index because its tablet arrives. A key may have waited here since an
/// earlier ownership of the tablet.
bool TombstoneQueue::isHeld(const EntryView& tombstone, KeyHash hash) const {
  const Tablet* const tablet = tablets_.find(tombstone.table(), hash);
  return tablet != nullptr && tablet->keepsTombstones();
}

TombstoneQueue::Reaped TombstoneQueue::reap(size_t count_max, Locking locking) {
  Reaped reaped;
  if (reaping_.exchange(true, std::memory_order_acquire)) return reaped;
  reaped.waits_for.durable = reap(Durability::Buffered, count_max, locking, reaped.count);
  reaped.waits_for.flushed = reap(Durability::Sync, count_max, locking, reaped.count);
  reaping_.store(false, std::memory_order_release);
  return reaped;
}

/// @return the position that the oldest of the remaining keys waits for; no position: no key is left, `count_max` keys
///         were reaped, or another thread has the stripe of the next key
LogPosition TombstoneQueue::reap(Durability level, size_t count_max, Locking locking, size_t& reaped) {
  for (size_t left = count_max; left != 0; --left) {
    Removed oldest;
    {
      SpinGuard guard(lock_);
      auto& removed = removed_[static_cast<size_t>(level)];
      if (removed.empty()) break;
      oldest = removed.front();
    }
    const auto stripe = locking == Locking::Try ? index::StripeGuard::tryLock(index_, oldest.hash)
                                                : std::optional<index::StripeGuard>(std::in_place, index_, oldest.hash);
    if (!stripe) break;
    // Found by key hash and type, because the cleaner may have moved it meanwhile.
    const EntryRef ref = index_.find(*stripe, [&](EntryRef candidate) {
      // A damaged tombstone leaves when it is restored (DamageResolver::reconcile).
      const EntryView view = entries_.entry(candidate);
      return !isDamaged(view.state()) && view.type() == EntryType::Tombstone &&
             entries_.hashOf(candidate) == oldest.hash && !isHeld(view, oldest.hash);
    });
    // The queue is in log order: the rest is younger.
    if (ref && !ShowAfter::isAt(log_, level, ref)) return log_.durability().endOf(ref);
    if (ref) RC_CHECK(index_.erase(*stripe, ref));
    SpinGuard guard(lock_);
    removed_[static_cast<size_t>(level)].pop_front();  // the thread that reaps is the only consumer
    count_[static_cast<size_t>(level)].fetch_sub(1, std::memory_order_relaxed);
    ++reaped;
  }
  return {};
}

}  // namespace ramcore::store
