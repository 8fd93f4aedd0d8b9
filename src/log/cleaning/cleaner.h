#pragma once

#include <vector>

#include "log/cleaning/cleaner_policy.h"
#include "log/cleaning/compaction.h"
#include "log/cleaning/copying_pacer.h"
#include "log/cleaning/shared_copy.h"
#include "log/cleaning/shortage.h"
#include "log/log.h"

namespace ramcore::log {

/// Gathers what is alive in some segments into fewer, so that their memory can be used again, or moves what is alive in
/// single ones to less memory (see Compaction); decide() says which. One pass or compaction at a time, cut into steps;
/// it has no thread of its own.
///
/// A pass: choose segments and open survivors that certainly have room for what is alive in them; copy entry by entry,
/// the owner swapping its reference under the key's lock; close the survivors on all replicas; wait until every death
/// because of which the cleaner left an entry behind is flushed; let one digest list the survivors and no longer the
/// segments; when that head has taken over, the log gives the segments up. A pass is never abandoned once it has moved
/// an entry: two copies of one entry in the log would need two tombstones.
///
/// Thread: one at a time, always the same or with a hand-over, inside a read section of the log's Rcu; except for
/// help() and workersWanted(). step() does everything but the part of the copying that help() takes over.
class Cleaner final {
 public:
  enum class Progress : uint8_t {
    Idle,     ///< nothing to do, or nothing that would gain: come back when isNeeded() and something has died
    Worked,   ///< call again as soon as convenient
    Waiting,  ///< for replicas, durability or a head: call again when they have moved
  };

  /// `log`, `owner` and `replicator` are those that belong together and outlive the cleaner.
  /// @param workers_max  the number of workers that may share the copying, the caller of step() included. There is one
  ///                     more, the spare worker, see help()
  Cleaner(Log& log, EntryOwner& owner, Replicator& replicator, uint32_t workers_max = 1)
      : log_(log),
        replicator_(replicator),
        workers_max_(workers_max),
        copying_(log, owner, workers_max + 1),
        compaction_(log, copying_),
        shortage_(log, replicator),
        pacer_(log) {}

  /// Whether memory, segment slots or places for replicas are so short that a pass should begin. A few loads.
  bool isNeeded() const { return shortage_.lacksMemory() || shortage_.isStorageScarce(); }
  /// True if writers are faster than the cleaner and will be refused soon unless it gets a larger share of the
  /// processor: half of the free memory below which cleaning begins is used up, or no head finds memory or places, or
  /// the live bytes, with many tombstones among them, are near their limit.
  bool isUrgent() const { return shortage_.isUrgent(); }
  /// True between the first step of a pass or a compaction and its last.
  bool isBusy() const { return phase_ != Phase::Idle; }

  /// Does a slice of work: begins a pass or a compaction if none is in progress (whether needed or not), else goes on
  /// with it.
  /// @param bytes_max  how many bytes to look at in this step; 64 KB of small entries cost about 30-60 us
  Progress step(uint32_t bytes_max);

  uint32_t workersMax() const { return workers_max_; }
  /// How many workers should clean now, the caller of step() included: cleanersWanted(), but no more than find
  /// something to share. Any thread; some loads and a spin lock.
  uint32_t workersWanted() const;
  /// Whether there is copying to be done. Any thread; a spin lock.
  bool canShare() const { return copying_.workersUseful() > 0; }
  /// How many bytes a thread that serves writers, too, should copy before it serves them again: copyingDue() of
  /// cleaner_policy.h. Thread: that of the spare worker; a spin lock.
  uint32_t copyingDue(uint32_t slice_bytes_min, uint32_t slice_bytes_max) {
    return pacer_.copyingDue(copying_, slice_bytes_min, slice_bytes_max);
  }
  /// Does a slice of copying for another worker than the caller of step(). When it finds nothing to do, step() has to
  /// be called soon: there may be nothing left but the work that only step() does.
  /// @param worker  1 .. workersMax() - 1; workersMax(): the spare one, which workersWanted() does not count. Thread:
  ///                any, one at a time for each worker, inside a read section
  /// @return whether it found something
  bool help(uint32_t worker, uint32_t bytes_max);

 private:
  enum class Phase : uint8_t { Idle, Compacting, Opening, Copying, Closing, Deaths, Rolling };

  enum class Verdict : uint8_t {
    Begun,
    NoGain,
    NotNow,  ///< small heads have to come back first, or the next attempt takes the emptiest segments
  };

  size_t segmentsLeft() const;
  bool gainsSegments() const;
  Progress begin();
  bool beginCompaction(std::span<Segment* const> cleanable);
  CleaningState stateWith(std::span<const SegmentSummary> compactable, std::span<const uint32_t> compacting,
                          std::span<Segment* const> cleanable) const;
  Progress compact(uint32_t bytes_max);
  Verdict beginPass(std::span<Segment* const> cleanable);
  SegmentSummary summaryOf(const Segment& segment) const;
  uint64_t survivorBytesMax() const;
  std::vector<uint32_t> choose(std::span<Segment* const> cleanable) const;
  bool canEnd() const;
  size_t smallHeadsWorthAPass() const;
  bool openSurvivors();
  Progress awaitPlaces();
  void beginCopying();
  uint64_t expectedLoss(const Segment& survivor) const;
  bool isWorthwhile() const;
  void judgePass();
  void putOff(bool gained, uint64_t deaths_bytes);
  Progress copy(uint32_t bytes_max);
  void leaveBehind(const Segment& damaged);
  uint32_t largestEntryBytes() const;
  void finishCopying();
  Progress awaitClosed();
  Progress awaitDeaths();
  Progress awaitRoll();
  void reset();

  Log& log_;
  Replicator& replicator_;
  const uint32_t workers_max_;
  SharedCopy copying_;
  Compaction compaction_;
  const Shortage shortage_;
  CopyingPacer pacer_;

  Phase phase_ = Phase::Idle;
  std::vector<Segment*> candidates_;
  std::vector<Segment*> survivors_;     ///< while the copying runs, only those that were opened before it began
  uint32_t places_asked_ = 0;           ///< how often survivors were found without places on backups
  LogPosition deaths_end_;              ///< every death that was relied on is before this
  runtime::GraceTicket deaths_ticket_;  ///< when it is over, all of these deaths are known to the owner
  bool takes_emptiest_ = false;         ///< the last pass was given up, because the best segments together gained too
                                        ///< little
  bool is_tight_ = false;               ///< the pass began with less than the reserve
  SegmentId roll_;
  // After a pass that gained nothing the next one waits until deathsBytes() is `deaths_wanted_`, or until `skips_left_`
  // calls that found memory short were skipped.
  int64_t deaths_wanted_ = INT64_MIN;
  uint32_t skips_left_ = 0;
  uint32_t skips_ = 0;
};

}  // namespace ramcore::log
