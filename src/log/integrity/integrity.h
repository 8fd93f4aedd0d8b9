#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "base/spin_lock.h"
#include "base/status.h"
#include "log/format/entry_view.h"
#include "log/memory/log_stats.h"
#include "log/memory/segment_pool.h"

namespace ramcore::log {

/// An entry whose bytes in memory are not what was written.
struct Damage {
  SegmentId segment;
  uint32_t offset_bytes = 0;  ///< logical, in the segment
  EntryRef ref;
  DecodeError error = DecodeError::None;
  bool was_dead = false;  ///< as its state byte said
};

/// Told what the log finds damaged. Implemented by the master.
class DamageObserver {
 public:
  virtual ~DamageObserver() = default;
  /// Whether there is anywhere to fetch the bytes from. Never changes.
  virtual bool canRestore() const = 0;
  /// Once for each damaged entry. Any thread, without locks of the log; does not wait.
  virtual void onDamaged(const Damage& damage) = 0;
};

/// What the log knows of damage in its memory: verifies entries where they lie, marks those that are not what was
/// written, and puts the right bytes in their place.
///
/// A marked entry is not believed: whoever finds it by key answers an error, and its segment is not cleaned. So its
/// bytes can be replaced where they are, when a grace period has passed since it was marked: by then nobody reads them
/// without having seen the mark. The mark is taken away when another one has passed, so that nobody who sees it go has
/// compared a key with the wrong bytes. See docs/integrity.md.
///
/// Threads: any, inside a read section; restore(), Log::release() and giveUp() on the cleaner's, because it reads
/// entries whatever their mark.
class Integrity {
 public:
  /// What is kept of each damaged entry is bounded; those beyond are marked and counted, and not restored.
  static constexpr size_t kDamagesMax = 4096;

  Integrity(SegmentPool& pool, LogStats& stats) : pool_(pool), stats_(stats) {}
  Integrity(const Integrity&) = delete;
  Integrity& operator=(const Integrity&) = delete;

  /// Before the first append. Outlives the log. Without one nothing is restored.
  void setObserver(DamageObserver* observer) { observer_ = observer; }
  bool canRestore() const { return observer_ != nullptr && observer_->canRestore(); }

  /// Verifies the entry at a logical offset below committedBytes(). Zeros behind an entry that are none any more are
  /// mended on the way.
  /// @param next  set to the offset behind it, if it is sound
  /// @return false: it is not. It is marked now, and the observer knows of it.
  /// Cost: a pass over the entry; 26 ns for 136 bytes.
  bool isSound(Segment& segment, uint32_t offset, uint32_t& next);
  /// Mends zeros behind the entry at a logical offset that are none any more.
  /// @return true: that was all that was wrong with it. Nothing is marked or counted otherwise.
  bool mendPadding(Segment& segment, uint32_t offset);
  /// Gives a state byte that is none of EntryState the value Pending, which is right for all who ask the index as well;
  /// but Acknowledged counts bytes, and comes back if it is one bit away. One bit away from a death it becomes Freed:
  /// one-sided readers ask nobody, and the cleaner, who does not ask about what is Superseded, asks about that.
  void mendState(EntryRef ref);
  /// Where a walk goes on behind an unsound entry: behind it, if what its lengths say leads to a sound one or to the
  /// end of its extent; else at the next extent, or committedBytes().
  uint32_t skip(const Segment& segment, uint32_t offset) const;

  /// Puts the bytes of the entry in their place. It stays marked.
  /// @param bytes  untrusted; what a replica has from the entry's offset on
  /// @return NotFound: it is gone with its segment. Corrupt: these are not its bytes: no valid entry that fits there,
  /// or
  ///         another one: it has another checksum, and differs in more than kBitsMax bits.
  Status restore(const Damage& damage, ByteSpan bytes);
  /// The same from a whole replica, for an entry whose place in it is not known: segments that were compacted have
  /// fewer entries than their replicas, and some of those shorter, or tombstones in the place of others.
  /// @param replica  untrusted. Cost: some passes over it
  /// @return Corrupt also if several of its entries are equally near to what is there
  Status restoreFrom(const Damage& damage, ByteSpan replica);
  /// What it lies in, or nullptr if that is gone.
  const Segment* segmentOf(const Damage& damage) const;
  /// Whether right bytes lie in its place, marked or not. False also if it is gone with its segment.
  bool isRestored(const Damage& damage) const;
  /// What happened to an entry while it was marked, and what that made of it.
  struct Released {
    bool has_died = false;                 ///< Log::markDead
    bool has_been_acknowledged = false;    ///< Log::markAcknowledged
    EntryState was = EntryState::Pending;  ///< before it was marked
    EntryState is = EntryState::Pending;   ///< from now on
  };
  /// A marked entry dies; it is counted when it is released.
  void noteDied(EntryRef ref) RC_EXCLUDES(lock_);
  /// The result that a marked entry carries is needed no more.
  /// @return false: nothing is known of the entry, any more or because of kDamagesMax
  bool noteAcknowledged(EntryRef ref) RC_EXCLUDES(lock_);
  /// Nobody has its bytes: from now on it is answered as lost. It may be restored later.
  void giveUp(const Damage& damage);
  /// The key that the entry shows is the one under which the owner has it, or nobody has it: ranges can be listed
  /// without missing it.
  void notePlaced(const Damage& damage);

  /// Forgets damage in segments that have gone.
  void forgetGone() RC_EXCLUDES(lock_);

  /// Whether the objects of a range can be listed: RetryLater while something is being restored, Corrupt if something
  /// is lost whose key is lost, too. Two loads.
  Status rangeStatus() const;
  /// Damaged entries that are not restored, in the order in which they were found.
  std::vector<Damage> damages() const RC_EXCLUDES(lock_);

  static constexpr uint32_t kBitsMax = 8;

 private:
  friend class Log;
  struct Known {
    Damage damage;
    bool is_lost = false;
    bool is_placed = false;
    EntryState state = EntryState::Pending;  ///< that it gets when it is released, if nothing happens to it
    bool has_died = false;
    bool has_been_acknowledged = false;
  };

  /// Takes the mark away, as Log::release says, which counts what has become of the entry.
  Released release(const Damage& damage) RC_EXCLUDES(lock_);
  std::optional<uint32_t> distanceTo(const Segment& segment, const Damage& damage, ByteSpan bytes) const;
  void note(Segment& segment, uint32_t offset, DecodeError error) RC_EXCLUDES(lock_);
  EntryState mark(EntryRef ref, EntryState mark) const;
  Known* find(EntryRef ref) RC_REQUIRES(lock_);
  Known* find(const Damage& damage) RC_REQUIRES(lock_);
  void refresh() RC_REQUIRES(lock_);
  std::atomic_ref<uint8_t> byteAt(EntryRef ref, uint32_t index) const {
    return std::atomic_ref<uint8_t>(reinterpret_cast<uint8_t&>(pool_.memory().at(ref)[index]));
  }

  SegmentPool& pool_;
  LogStats& stats_;
  DamageObserver* observer_ = nullptr;
  mutable SpinLock lock_;  // a leaf
  std::vector<Known> known_ RC_GUARDED_BY(lock_);
  std::atomic<size_t> restoring_count_{0};
  std::atomic<size_t> unplaced_count_{0};
};

}  // namespace ramcore::log
