#pragma once

#include "log/format/entry_ref.h"
#include "log/format/entry_view.h"

namespace ramcore::log {

/// What the log asks its owner: the component that gives the entries of the log a meaning. Implemented by
/// store::ObjectStore. Called from cleaner steps and from the log's maintenance, never with a lock of the log held.
class EntryOwner {
 public:
  virtual ~EntryOwner() = default;

  /// A value that the owner computed for an entry in willBeRelocated(), so that relocated() need not compute it again.
  using Hint = uint64_t;

  /// Announces that relocated() will be called for this entry shortly, so that the owner can prefetch what relocated()
  /// reads first. Many entries are announced before the first of them is relocated.
  /// @return what relocated() gets as `hint`
  virtual Hint willBeRelocated(const EntryView& entry) {
    static_cast<void>(entry);
    return 0;
  }

  /// What became of an entry that the cleaner has copied.
  enum class Moved : uint8_t {
    No,             ///< the owner has no reference to `from` any more, because the entry died: the copy is taken back.
                    ///< Ignored for tombstones, which are kept whether or not the owner has a reference
    Yes,            ///< the references point to `to` now, also the reference to the result that the copy carries, if it
                    ///< carries one
    WithoutResult,  ///< as Yes, but without the result: it was acknowledged meanwhile, and the log has been told so for
                    ///< `from` (Log::markAcknowledged)
  };
  /// The cleaner copied the entry at `from` to `to`. The owner makes everything that pointed to `from` point to `to`,
  /// under the lock that serialises changes of this key, if it still points to `from`. For entries to which it keeps no
  /// reference it answers whether they are still wanted.
  ///
  /// @param entry  the copy
  /// @param hint  what willBeRelocated() returned for it
  virtual Moved relocated(EntryRef from, EntryRef to, const EntryView& entry, Hint hint) = 0;

  /// Tells the owner that a tombstone is dropped, because no entry exists any more that the tombstone could keep dead.
  /// The owner removes its references to the tombstone, if it has any.
  virtual void dropped(EntryRef ref, const EntryView& entry) = 0;

  /// The safe version that the next log head records. Its values never decrease.
  virtual SafeVersionPayload safeVersion() = 0;
};

}  // namespace ramcore::log
