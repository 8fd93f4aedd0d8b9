#pragma once

#include "log/format/entry_ref.h"
#include "log/format/entry_view.h"

namespace ramcore::log {

/// What the log asks whoever gives its entries a meaning. Implemented by the master. Called from cleaner steps and from
/// the log's maintenance, never with a lock of the log held.
class EntryOwner {
 public:
  virtual ~EntryOwner() = default;

  /// What the owner computed for an entry when it was announced, to save it from doing so twice.
  using Hint = uint64_t;

  /// relocated() will be called for this entry shortly: time to fetch what it reads first. Many are announced before
  /// the first of them is relocated.
  /// @return what relocated() gets as `hint`
  virtual Hint willBeRelocated(const EntryView& entry) {
    static_cast<void>(entry);
    return 0;
  }

  /// What became of an entry that the cleaner has copied.
  enum class Moved : uint8_t {
    No,             ///< nothing points to `from` any more (the entry died): the copy is taken back. Ignored for
                    ///< tombstones, which are kept whether or not the owner has a reference
    Yes,            ///< also what pointed to the result that the copy carries, if it carries one
    WithoutResult,  ///< but for that: it was acknowledged meanwhile, and the log has been told so of `from`
  };
  /// The cleaner copied the entry at `from` to `to`. The owner makes everything that pointed to `from` point to `to`,
  /// under the lock that serialises changes of this key, if it still points to `from`. For entries to which it keeps no
  /// reference it answers whether they are still wanted.
  ///
  /// @param entry  the copy
  /// @param hint  what willBeRelocated() returned for it
  virtual Moved relocated(EntryRef from, EntryRef to, const EntryView& entry, Hint hint) = 0;

  /// A tombstone is dropped because nothing it could hold down exists any more. The owner forgets references to it, if
  /// it has any.
  virtual void dropped(EntryRef ref, const EntryView& entry) = 0;

  /// What goes into the next head. Never goes back.
  virtual SafeVersionPayload safeVersion() = 0;
};

}  // namespace ramcore::log
