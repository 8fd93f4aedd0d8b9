#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "base/spin_lock.h"
#include "base/trace.h"
#include "store/tablet_intake.h"

namespace ramcore::store {

/// The progress of a tablet whose contents are being fetched.
struct IntakeProgress {
  TabletEpoch epoch;  ///< the epoch that it will have here
  bool done = false;
  Status status = Status::Ok;  ///< why it failed, if it did
  uint64_t objects = 0;
  uint64_t bytes = 0;
  double fraction = 0;
  SegmentId first_segment;    ///< when done: where the contents begin in our log
  bool lacks_places = false;  ///< its replicas find no places on other servers, or found none when it failed
};

/// One attempt to fetch the contents of one or several tablets: how far it is, and whether it is still wanted. Written
/// by the background executor, where it runs, and by IntakeAttempts; read by any executor.
struct IntakeAttempt {
  /// A tablet of the attempt.
  struct Part {
    Tablet tablet;  ///< with the epoch that it will have here
    std::atomic<bool> cancelled{false};
    std::atomic<uint64_t> objects{0};
    std::atomic<uint64_t> bytes{0};
  };

  /// @param stopping  IntakeAttempts::stopping() of the list that the attempt will be entered in
  explicit IntakeAttempt(const std::atomic<bool>& stopping) : patience{lacks_places, ended, stopping} {}
  IntakeAttempt(const IntakeAttempt&) = delete;
  IntakeAttempt& operator=(const IntakeAttempt&) = delete;

  std::deque<Part> parts;
  std::atomic<bool> ended{false};  ///< none of its tablets is wanted any more
  std::atomic<bool> done{false};
  std::atomic<Status> status{Status::Ok};
  std::atomic<double> fraction{0};
  std::atomic<SegmentId> first_segment{};
  std::atomic<bool> lacks_places{false};
  const TabletIntake::Patience patience;
};

/// The attempts of one kind that run or have ended, by tablet: the latest attempt of each tablet that was not
/// forgotten.
///
/// Any executor of the master. The lock is held for look-ups and changes of the list alone.
class IntakeAttempts {
 public:
  /// @param trace  is told of attempts that failed; borrowed
  explicit IntakeAttempts(Trace& trace) : trace_(trace) {}
  IntakeAttempts(const IntakeAttempts&) = delete;
  IntakeAttempts& operator=(const IntakeAttempts&) = delete;

  /// What claim() has found.
  struct Claim {
    Status status = Status::Ok;
    std::shared_ptr<IntakeAttempt> same;    ///< has one of the tablets under the same epoch: nothing was claimed
    std::shared_ptr<IntakeAttempt> former;  ///< the last attempt that was given up for one of the tablets
    bool begins() const { return status == Status::Ok && same == nullptr; }
  };
  /// Enters an attempt for all its tablets. Attempts of a tablet under older epochs are given up. StaleEpoch if one of
  /// the tablets is known under a newer epoch. The caller starts the attempt if begins(); end() follows.
  /// @param refuses_when_stopping  true: Shutdown after stop()
  Claim claim(const std::shared_ptr<IntakeAttempt>& attempt, bool refuses_when_stopping) RC_EXCLUDES(lock_);
  /// Waits until an attempt that was given up for this one has ended. If that one waits for places, so does this one.
  /// @param background  where both run
  static runtime::Task<void> awaitEnd(const IntakeAttempt& former, IntakeAttempt& attempt,
                                      runtime::Executor& background);
  /// Notes the outcome of an attempt that has ended. On the background executor.
  /// @param what  names it for a person: the beginning of "... failed: status"
  void end(IntakeAttempt& attempt, Status status, const std::string& what);

  /// The latest attempt of a tablet; nullptr: nothing is known of this tablet.
  std::shared_ptr<IntakeAttempt> find(TabletId tablet) const RC_EXCLUDES(lock_);
  /// How far the attempt of a tablet is. NotFound: nothing is known of this tablet. Fraction and status are those of
  /// the whole attempt.
  Result<IntakeProgress> progress(TabletId tablet) const RC_EXCLUDES(lock_);
  /// Gives up one tablet that is fetched under `epoch` or an older epoch, and forgets it. When all tablets of an
  /// attempt are given up it is not wanted any more.
  void cancel(TabletId tablet, TabletEpoch epoch) RC_EXCLUDES(lock_);
  /// Ends all attempts; watch idle().
  void stop() RC_EXCLUDES(lock_);
  bool idle() const { return running_.load() == 0; }
  /// True from stop() on.
  const std::atomic<bool>& stopping() const { return stopping_; }

 private:
  struct Known {
    std::shared_ptr<IntakeAttempt> attempt;
    IntakeAttempt::Part* part = nullptr;
  };
  static void giveUp(Known& known);

  Trace& trace_;
  mutable SpinLock lock_;
  std::map<TabletId, Known> known_ RC_GUARDED_BY(lock_);
  std::atomic<uint32_t> running_{0};
  std::atomic<bool> stopping_{false};
};

}  // namespace ramcore::store
