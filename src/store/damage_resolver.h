#pragma once

#include <optional>

#include "base/ids.h"
#include "base/status.h"
#include "index/hash_index.h"
#include "log/integrity/integrity.h"
#include "log/log.h"
#include "store/range_purge.h"
#include "store/stored_entries.h"
#include "store/tablet_table.h"

namespace ramcore::store {

/// Deals with entries of the store that are damaged in memory, or have just been restored: see docs/integrity.md. Holds
/// references only.
///
/// Any registered reader thread, inside a read section.
class DamageResolver {
 public:
  /// Everything is borrowed and outlives this.
  struct Parts {
    log::Log& log;
    index::HashIndex& index;
    TabletTable& tablets;
    const StoredEntries& entries;
    RangePurge& purge;
  };
  explicit DamageResolver(const Parts& parts) : parts_(parts) {}

  struct Identity {
    TableId table;
    KeyHash hash;
  };
  /// The table and key hash that a damaged entry shows, if they can be read and the index has the entry under them.
  std::optional<Identity> identify(log::EntryRef ref, SegmentId segment);
  /// To be called for an entry whose bytes are right again, before its mark is taken away. Takes the entry out of the
  /// index if it should have left while it was damaged: because its tablet was given up, or because it is a tombstone
  /// that has become as durable as its table requires. Takes the key's stripe.
  /// @return RetryLater: the entry is damaged once more, or is a tombstone that is not as durable as its table requires
  ///         yet. The entry stays marked, and the call is to be repeated. Otherwise Ok
  Status reconcile(const log::Damage& restored);
  /// True if a damaged entry is certainly not an object, unless more than one bit of its type has flipped. False also
  /// for entries whose type is one bit away from that of an object.
  bool isBookkeeping(log::EntryRef ref) const;

 private:
  const Parts parts_;
};

}  // namespace ramcore::store
