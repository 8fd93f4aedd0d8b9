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
  bool was_dead = false;  ///< its state byte was Superseded or Freed
};

/// Is told what the log finds damaged. Implemented by master::MemoryRepair.
class DamageObserver {
 public:
  virtual ~DamageObserver() = default;
  /// Whether there is anywhere to fetch the bytes from. Never changes.
  virtual bool canRestore() const = 0;
  /// Called once for each damaged entry. Any thread, without locks of the log; does not wait.
  virtual void onDamaged(const Damage& damage) = 0;
};

/// Knows of the damage in the log's memory: verifies entries where they lie, marks those that are not what was written,
/// and puts the right bytes in their place.
///
/// A marked entry is not believed: a lookup that finds it by key ends with an error, and its segment is not cleaned. So
/// its bytes can be replaced where they are when a grace period has passed since it was marked: by then no thread reads
/// them without having seen the mark. The mark is taken away when another grace period has passed, so that a thread
/// that sees no mark any more has compared keys with the right bytes only. See docs/integrity.md.
///
/// Threads: any, inside a read section; restore(), Log::release() and giveUp() on the cleaner's thread, because the
/// cleaner reads entries whatever their mark.
class Integrity {
 public:
  /// At most this many damaged entries are remembered (`known_`). Further ones are marked and counted, but not
  /// restored.
  static constexpr size_t kDamagesMax = 4096;

  Integrity(SegmentPool& pool, LogStats& stats) : pool_(pool), stats_(stats) {}
  Integrity(const Integrity&) = delete;
  Integrity& operator=(const Integrity&) = delete;

  /// To be called before the first append. The observer outlives the log. Without one nothing is restored.
  void setObserver(DamageObserver* observer) { observer_ = observer; }
  bool canRestore() const { return observer_ != nullptr && observer_->canRestore(); }

  /// Verifies the entry at a logical offset below committedBytes(). Zeros behind the entry that are not zero any more
  /// are mended on the way.
  /// @param next  set to the offset behind the entry, if it is sound
  /// @return false: it is not sound. It is marked now, and the observer has been told.
  /// Cost: a pass over the entry; 26 ns for 136 bytes.
  bool isSound(Segment& segment, uint32_t offset, uint32_t& next);
  /// Mends the zeros behind the entry at a logical offset that are not zero any more.
  /// @return true: nothing else was wrong with the entry. Otherwise nothing is marked or counted.
  bool mendPadding(Segment& segment, uint32_t offset);
  /// Mends a state byte that is none of EntryState. One bit away from Acknowledged it becomes that again, because
  /// Acknowledged says which bytes were counted. One bit away from Superseded or Freed it becomes Freed: one-sided
  /// readers, which ask no index, refuse the entry then, and the cleaner, which does not ask the owner about what is
  /// Superseded, asks about what is Freed. Any other becomes Pending, which is right for all readers that ask the index
  /// as well.
  void mendState(EntryRef ref);
  /// Where a walk goes on behind an unsound entry: directly behind it, if its lengths lead to a sound entry or to the
  /// end of its extent; else at the next extent, or committedBytes().
  uint32_t skip(const Segment& segment, uint32_t offset) const;

  /// Puts the right bytes of the entry in their place. The entry stays marked.
  /// @param bytes  untrusted; what a replica has from the entry's offset on
  /// @return NotFound: the entry is gone with its segment. Corrupt: these are not its bytes: they are no valid entry
  ///         that fits there, or another entry, which has another checksum and differs in more than kBitsMax bits.
  Status restore(const Damage& damage, ByteSpan bytes);
  /// As restore(), but from a whole replica, for an entry whose place in the replica is not known: a segment that was
  /// compacted has fewer entries than its replicas, some of them shorter, and tombstones in the place of others.
  /// @param replica  untrusted. Cost: some passes over it
  /// @return Corrupt also if several entries of the replica are equally near to what lies there
  Status restoreFrom(const Damage& damage, ByteSpan replica);
  /// The segment that the damaged entry lies in, or nullptr if it is gone.
  const Segment* segmentOf(const Damage& damage) const;
  /// Whether the right bytes lie in the place of the entry, marked or not. False also if the entry is gone with its
  /// segment.
  bool isRestored(const Damage& damage) const;
  /// What happened to an entry while it was marked, and what that made of it.
  struct Released {
    bool has_died = false;                 ///< Log::markDead
    bool has_been_acknowledged = false;    ///< Log::markAcknowledged
    EntryState was = EntryState::Pending;  ///< before it was marked
    EntryState is = EntryState::Pending;   ///< from now on
  };
  /// Notes that a marked entry dies. The death is counted when the entry is released.
  void noteDied(EntryRef ref) RC_EXCLUDES(lock_);
  /// Notes that the result which a marked entry carries is not needed any more.
  /// @return false: the entry is not known as damaged, either not any more or because of kDamagesMax
  bool noteAcknowledged(EntryRef ref) RC_EXCLUDES(lock_);
  /// Notes that the right bytes cannot be obtained: from now on the entry is answered as lost. It may be restored
  /// later.
  void giveUp(const Damage& damage);
  /// Notes that ranges can be listed without missing the entry: the key that it shows is the one under which the owner
  /// has it, or the owner does not have it.
  void notePlaced(const Damage& damage);

  /// Forgets damage in segments that have gone.
  void forgetGone() RC_EXCLUDES(lock_);

  /// Whether the objects of a range can be listed: RetryLater while any entry is being restored, Corrupt if an entry is
  /// lost and so is its key. Two loads.
  Status rangeStatus() const;
  /// Damaged entries that are not restored, in the order in which they were found.
  std::vector<Damage> damages() const RC_EXCLUDES(lock_);

  static constexpr uint32_t kBitsMax = 8;

 private:
  friend class LiveCounts;
  struct Known {
    Damage damage;
    bool is_lost = false;
    bool is_placed = false;
    EntryState state = EntryState::Pending;  ///< the state that it gets when it is released, if nothing happens to it
    bool has_died = false;
    bool has_been_acknowledged = false;
  };

  /// Takes the mark away, as Log::release() says. Log::release() counts what has become of the entry.
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
