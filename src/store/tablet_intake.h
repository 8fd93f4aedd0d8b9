#pragma once

#include <atomic>

#include "log/log.h"
#include "log/side_log.h"
#include "runtime/await.h"
#include "runtime/growing_pause.h"
#include "runtime/task.h"
#include "store/maintenance.h"
#include "store/object_store.h"
#include "store/result_table.h"
#include "store/tablet_table.h"

namespace ramcore::store {

/// The steps that a server takes before and after it fetches the contents of a tablet, wherever they come from. Before:
/// the range is purged from the index, the log's head is made newer than all entries of the range, and the tablet is
/// entered in state Pulling. After: the side log with the contents joins the log.
///
/// A place is a storage frame on a backup: for a replica of a segment of the side log, or of a log head that the intake
/// waits for, in roll() or in join(). Everything runs on the background executor, but for giveWay() and awaitRoom().
class TabletIntake {
 public:
  struct Parts {
    ObjectStore& store;
    log::Log& log;
    TabletTable& tablets;
    ResultTable& results;
    runtime::Executor& background;
    Maintenance& maintenance;
  };
  /// A source or backup that does not answer, or says "later", for this long ends an intake; so does a full memory.
  static constexpr int64_t kPatienceNs = 10 * runtime::kNanosPerSecond;
  static constexpr int64_t kPauseNs = 2 * runtime::kNanosPerMilli;
  static constexpr size_t kEntriesPerTurn = 64;
  /// The pauses between looks at a step that takes long when backups are missing.
  static runtime::GrowingPause growingPause() { return {kPauseNs, 50 * runtime::kNanosPerMilli}; }

  /// For an intake whose contents can be had from elsewhere again: limits how long it waits for places for its
  /// replicas.
  struct Patience {
    std::atomic<bool>& lacks_places;  ///< set while the intake has found no places for 3 s
    const std::atomic<bool>& ended;   ///< the intake is not wanted any more, so it does not wait for places at all
    const std::atomic<bool>& stopping;
  };

  explicit TabletIntake(const Parts& parts) : parts_(parts) {}

  /// Takes an older attempt of the tablet out of the tablet table. No client was answered from it, so there is nothing
  /// to wait for before its contents are purged. The older attempt has been told to stop.
  void evict(const Tablet& tablet);
  /// Forgets what an earlier ownership, or an older attempt, left in the index. Cancelled if `cancelled`.
  /// @param is_left  set if something damaged stays in the index that may be of the range
  runtime::Task<Status> purge(const Tablet& tablet, const std::atomic<bool>& cancelled, bool* is_left = nullptr);
  /// Makes sure of a log head behind which everything of this intake will be: a new one, or the present one if nothing
  /// was appended to it. Entries of the range before it are never replayed for this tablet again. Cancelled if
  /// `cancelled`, or if patience->stopping.
  /// @param patience  TooFewReplicas, and the request is withdrawn, if it finds no places for kPatienceNs, or once
  ///                  patience->ended. None: it waits.
  runtime::Task<Status> roll(const std::atomic<bool>& cancelled, SegmentId& head, const Patience* patience = nullptr);
  /// Puts the tablet into the tablet table, in state Pulling. The code that sets `cancelled` looks for the tablet
  /// afterwards, so one of the two sees the other and takes the tablet out.
  Status add(Tablet tablet, SegmentId first_segment, const std::atomic<bool>& cancelled);
  /// Closes the side log and makes it a part of the log. Cancelled if `stopping`.
  /// @param patience  as for roll(), and the time counts from the last segment that was closed. After 3 s without
  ///                  places the least number of replicas will do. After TooFewReplicas the side log takes nothing more
  ///                  and is no part of the log; the caller has to forsake() it or to join it again.
  /// @param is_endless  for contents that cannot be given up: never TooFewReplicas; the patience is only told
  runtime::Task<Status> join(log::SideLog& side, const std::atomic<bool>& stopping, const Patience* patience = nullptr,
                             bool is_endless = false);
  /// Ends an intake with patience: joins the side log as join() does, and gives it up as forsake() does where that
  /// finds no places, until one of the two has happened.
  /// @param finds_none  it has found no places already, so it begins with giving up
  /// @return what the first attempt to join has given; TooFewReplicas if `finds_none`
  runtime::Task<Status> joinOrForsake(log::SideLog& side, std::span<const Tablet> tablets, bool finds_none,
                                      const Patience& patience);
  /// Gives up a side log whose contents can be had from elsewhere again, and all its places. Takes those of its tablets
  /// out of the tablet table that the table still has under the same epoch in state Pulling, and purges all of them.
  /// Returns false if the index may keep a damaged entry of the side log, which cannot be purged before it is restored:
  /// in this case the side log is unchanged, and has to be joined.
  runtime::Task<bool> forsake(log::SideLog& side, std::span<const Tablet> tablets);

  /// Whether replay that ended with `status` may go on later: when it meets a full memory it waits for the cleaner.
  static bool isWorthWaiting(Status status) { return status == Status::RetryLater || status == Status::NoSpace; }
  /// To be awaited between two turns of kEntriesPerTurn entries: lets others run. Allocates nothing.
  /// @param priority  Waited if calls wait for the end of this
  /// @param executor  on which the caller runs and goes on
  runtime::ResumeOn giveWay(runtime::Executor& executor, runtime::Priority priority = runtime::Priority::Background) {
    if (parts_.maintenance.isDue()) parts_.maintenance.wake();
    return runtime::resumeOn(executor, priority);
  }
  runtime::ResumeOn giveWay() { return giveWay(parts_.background); }
  /// To be awaited before a turn whose former attempt has found no room: lets the cleaner make some. Allocates nothing.
  runtime::SleepUntil awaitRoom(runtime::Executor& executor) {
    parts_.maintenance.wake();
    return runtime::sleepFor(executor, kPauseNs);
  }
  runtime::SleepUntil awaitRoom() { return awaitRoom(parts_.background); }

 private:
  bool lacksHead() const;

  const Parts parts_;
};

}  // namespace ramcore::store
