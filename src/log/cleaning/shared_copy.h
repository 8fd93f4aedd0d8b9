#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/spin_lock.h"
#include "log/cleaning/entry_mover.h"
#include "log/log.h"

namespace ramcore::log {

/// The copying of one pass or of one compaction, shared by workers. It has segments, and targets for what is alive in
/// them: in a compaction each segment has a copy of its own, in a pass all segments share some survivors.
///
/// A worker has a segment and a survivor to itself from when it checks them out until it checks them in, at the end of
/// its slice at the latest. If it can, it goes on with those that it had before; else it takes the first that no worker
/// had, so a survivor holds entries of roughly one age.
///
/// Room: the survivors are opened with certainly enough room for all that is alive, whichever worker fills which of
/// them. A survivor is given up as full only when an entry does not fit and nothing in the survivor can be taken back
/// any more because it died. By then it holds at least as much as it certainly had room for
/// (Segment::certainRoomBytes), whatever was lost at the ends of its extents. If all survivors were full, more would
/// have been moved than was alive. So while there is an entry to move, some survivor has room for it, and the worker
/// that has this survivor makes progress. A worker that finds none, because other workers have them, gives its segment
/// back and tries again later: no worker waits inside a slice, and none keeps what another one lacks.
///
/// Damage: entries are restored on the thread of the first worker, between two of its slices, and not before a grace
/// period has passed since their segment was marked. So the first worker may read a damaged segment. The other workers
/// leave it alone, and those that had it checked out when it was marked have ended their slices when the grace period
/// is over.
///
/// Thread: any for work(), one at a time for each worker, inside a read section of the log's Rcu; any for
/// workersUseful() and leftBytes(); that of the first worker for everything else. `lock_` is a leaf, taken a few times
/// in each slice and never for an entry.
class SharedCopy {
 public:
  struct Item {
    Segment* from = nullptr;
    Segment* copy = nullptr;  ///< nullptr: the entries go to the survivors
  };
  enum class Progress : uint8_t {
    Worked,   ///< call again as soon as convenient
    Nothing,  ///< all is done, or other workers have what is left, or it is damaged
  };

  /// Both outlive this object.
  /// @param workers_max  at least 1
  SharedCopy(Log& log, EntryOwner& owner, uint32_t workers_max);

  uint32_t workersMax() const { return static_cast<uint32_t>(workers_.size()); }
  /// Begins to copy; the copying before is done (checked).
  /// @param items  in the order in which they are to be copied
  /// @param survivors  open, empty and with room for all that goes there; nothing else touches them until end()
  void begin(std::span<const Item> items, std::span<Segment* const> survivors) RC_EXCLUDES(lock_);
  /// True if nothing is left and no worker is copying any more.
  bool isDone() const RC_EXCLUDES(lock_);
  /// Ends the copying, once it is done (checked). @return all survivors, in the order in which they were opened;
  /// committed
  std::vector<Segment*> end() RC_EXCLUDES(lock_);
  /// Gives up the segments that a worker could not go through because of damage: what was not moved from them stays.
  std::vector<Item> takeUnsound() RC_EXCLUDES(lock_);

  /// The bytes that are still to be looked at. Any thread; one load.
  uint64_t leftBytes() const { return left_bytes_.load(std::memory_order_relaxed); }
  /// How many workers find something to do at a time.
  uint32_t workersUseful() const RC_EXCLUDES(lock_);
  /// Does a slice of one worker. If another worker than the first completes the copying, its caller tells the first
  /// one, which has to go on.
  /// @param worker  below workersMax()
  /// @param bytes_max  how many bytes to look at
  Progress work(uint32_t worker, uint32_t bytes_max) RC_EXCLUDES(lock_);

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;

  struct Worker final : MoveTarget {
    Worker(SharedCopy& shared, EntryOwner& owner, uint32_t number)
        : shared(shared), number(number), mover(shared.log_, owner) {}
    Place place(uint32_t aligned_bytes, bool is_settled) override;

    SharedCopy& shared;
    const uint32_t number;
    EntryMover mover;
    Segment* copy = nullptr;      ///< the copy of the segment that it has checked out
    Segment* survivor = nullptr;  ///< the survivor that it has checked out
    size_t survivor_index = 0;
  };
  /// A segment that is checked out.
  struct Work {
    size_t index = 0;
    Segment* from = nullptr;
    Segment* copy = nullptr;
    uint32_t offset = 0;
    bool was_damaged = false;
  };
  enum class Outcome : uint8_t { Stopped, Finished, Unsound };
  struct Source {
    Item item;
    uint32_t offset = 0;
    uint32_t last_worker = kNobody;
    bool is_out = false;
    bool is_done = false;
    bool is_unsound = false;
  };
  struct Survivor {
    Segment* segment = nullptr;
    uint32_t last_worker = kNobody;
    bool is_out = false;
    bool is_full = false;
  };

  std::optional<Work> checkOut(const Worker& worker) RC_EXCLUDES(lock_);
  void checkIn(const Work& work, Outcome outcome) RC_EXCLUDES(lock_);
  bool takeSurvivor(Worker& worker) RC_EXCLUDES(lock_);
  void giveBackSurvivor(Worker& worker, bool is_full) RC_EXCLUDES(lock_);

  Log& log_;
  std::vector<std::unique_ptr<Worker>> workers_;  ///< each is used by its own thread only

  mutable SpinLock lock_;
  std::vector<Source> sources_ RC_GUARDED_BY(lock_);
  std::vector<Survivor> survivors_ RC_GUARDED_BY(lock_);
  uint32_t entry_bytes_max_ RC_GUARDED_BY(lock_) = 0;
  size_t unfinished_count_ RC_GUARDED_BY(lock_) = 0;
  size_t survivors_out_count_ RC_GUARDED_BY(lock_) = 0;
  std::atomic<uint64_t> left_bytes_{0};  // changed under lock_
};

}  // namespace ramcore::log
