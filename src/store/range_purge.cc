#include "store/range_purge.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/mutation.h"

namespace ramcore::store {

using log::EntryRef;
using log::EntryType;
using log::EntryView;

std::optional<KeyHash> RangePurge::purgeSlice(TableId table, const HashRange& range, KeyHash cursor, bool* is_left) {
  constexpr size_t kEntriesPerSlice = 64;
  std::vector<index::IndexEntry> entries;
  bool any_left = false;
  const auto next = parts_.index.scan(
      cursor, range.last, kEntriesPerSlice, [this](EntryRef ref) { return parts_.entries.hashOf(ref); }, entries,
      [this](EntryRef ref) { parts_.entries.prefetch(ref); });
  for (const index::IndexEntry& one : entries) {
    const index::StripeGuard stripe(parts_.index, one.hash);
    // Found again by key: the cleaner may have moved it since the scan.
    const EntryView seen = parts_.entries.entry(one.ref);
    if (one.is_misplaced && !isDamaged(seen.state())) static_cast<void>(parts_.entries.verify(one.ref));
    if (one.is_misplaced || isDamaged(seen.state())) {
      any_left = true;
      continue;
    }
    // A part of the range may be here again: it was purged before that, and the entries that it has now are in service.
    const bool is_ours = parts_.tablets.find(table, one.hash) != nullptr && !RC_MUTATION("purge-what-is-back");
    if (seen.table() != table || is_ours) continue;
    const EntryRef ref = parts_.index.find(stripe, [&](EntryRef candidate) {
      const EntryView view = parts_.entries.entry(candidate);
      return !isDamaged(view.state()) && view.table() == table && std::ranges::equal(view.key(), seen.key());
    });
    if (!ref) continue;
    // A damaged entry leaves when it is restored (DamageResolver::reconcile).
    if (remove(stripe, ref) != Status::Ok) any_left = true;
  }
  if (is_left != nullptr) *is_left = *is_left || any_left;
  return next;
}

Status RangePurge::remove(const index::StripeGuard& stripe, EntryRef ref) {
  const EntryView view = parts_.entries.entry(ref);
  const bool is_object = view.type() == EntryType::Object;
  if (is_object) {
    const Status carried = parts_.carried.forget(ref);
    if (carried != Status::Ok) return carried;
  }
  parts_.versions.raise(view.version());
  RC_CHECK(parts_.index.erase(stripe, ref));
  if (is_object) parts_.log.markDead(ref);
  return Status::Ok;
}

}  // namespace ramcore::store
