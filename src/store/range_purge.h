#pragma once

#include <optional>

#include "base/ids.h"
#include "base/status.h"
#include "index/hash_index.h"
#include "log/log.h"
#include "store/carried_results.h"
#include "store/safe_version.h"
#include "store/stored_entries.h"
#include "store/tablet_table.h"

namespace ramcore::store {

/// Removes the entries of tablets that this server does not hold any more from the index. Holds references only.
///
/// Any registered reader thread, inside a read section.
class RangePurge {
 public:
  /// Everything is borrowed and outlives this.
  struct Parts {
    log::Log& log;
    index::HashIndex& index;
    TabletTable& tablets;
    const StoredEntries& entries;
    CarriedResults& carried;
    SafeVersion& versions;
  };
  explicit RangePurge(const Parts& parts) : parts_(parts) {}

  /// Forgets what the index has of a range, a bounded slice per call: entries before `cursor` are gone. Returns the
  /// next cursor, or nothing when the range is done. Damaged entries stay, and leave when they are restored: see
  /// DamageResolver::reconcile(). Until then they do not disturb a later ownership of the range, because they lie
  /// before its first segment.
  /// @param is_left  set to true if a damaged entry stays that may be of the range
  std::optional<KeyHash> purgeSlice(TableId table, const HashRange& range, KeyHash cursor, bool* is_left = nullptr);

  /// Removes an object or a tombstone from the index because its tablet was given up.
  /// @param stripe  that of its key
  /// @param ref  the index has it
  /// @return as CarriedResults::forget(); unless Ok, the entry is still in the index
  Status remove(const index::StripeGuard& stripe, log::EntryRef ref);

 private:
  const Parts parts_;
};

}  // namespace ramcore::store
