#pragma once

#include <optional>

#include "store/result_table.h"
#include "store/stored_entries.h"

namespace ramcore::store {

/// Finds or forgets the result that an object in the log carries for a call that its client may repeat
/// (log::CarriedResult), when the object is replaced, removed or purged. Holds references only.
///
/// Any registered reader thread, which holds the stripe of the object's key. Inline, because each overwrite calls it.
class CarriedResults {
 public:
  /// Both are borrowed and outlive this.
  CarriedResults(const StoredEntries& entries, ResultTable& results) : entries_(entries), results_(results) {}

  /// Finds the result that an object carries, if it is still needed.
  /// @return RetryLater, Corrupt: the carried result is damaged. The lookup that found the object by its key has not
  ///         verified it
  Status find(log::EntryRef ref, std::optional<ResultTable::Record>& result) const {
    const log::EntryView object = entries_.entry(ref);
    if (!object.carriesResult() || object.isAcknowledged()) return Status::Ok;
    result = results_.carriedBy(ref, object.carriedResult());
    // No call waits for a result of this identity. Either it was acknowledged just now, or the identity is not what was
    // written and another one is awaited; the checksum tells which.
    return result ? Status::Ok : entries_.verify(ref);
  }
  /// Forgets the result that an object carries whose tablet this server does not hold any more, or did not hold when
  /// the object was written: the results went with the tablet. A result that stayed here would refer to an entry that
  /// the cleaner is about to drop.
  /// @return as find(); unless Ok, the entry is still referred to
  Status forget(log::EntryRef ref) {
    const log::EntryView object = entries_.entry(ref);
    if (!object.carriesResult() || object.isAcknowledged()) return Status::Ok;
    return results_.drop(ref, object.carriedResult()) ? Status::Ok : entries_.verify(ref);
  }

 private:
  const StoredEntries& entries_;
  ResultTable& results_;
};

}  // namespace ramcore::store
