#pragma once

#include <atomic>

#include "log/log.h"
#include "log/side_log.h"
#include "master/maintenance.h"
#include "master/object_store.h"
#include "master/result_table.h"
#include "master/tablet_table.h"
#include "runtime/growing_pause.h"
#include "runtime/task.h"

namespace ramcore::master {

/// How far a tablet is whose contents are being fetched.
struct IntakeProgress {
  TabletEpoch epoch;  ///< that it will have here
  bool done = false;
  Status status = Status::Ok;  ///< of one that failed
  uint64_t objects = 0;
  uint64_t bytes = 0;
  double fraction = 0;
  SegmentId first_segment;  ///< when done: where the contents begin in our log
};

/// The steps that a server takes before and after it fetches the contents of a tablet, wherever they come from: its
/// index knows nothing of the range, the log's head is newer than all that was there, the tablet is in state Pulling;
/// and in the end the side log with the contents joins the log.
///
/// All on the background executor.
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
  /// Between looks at what takes long when backups are missing.
  static runtime::GrowingPause growingPause() { return {kPauseNs, 50 * runtime::kNanosPerMilli}; }

  explicit TabletIntake(const Parts& parts) : parts_(parts) {}

  /// Takes an older attempt of the tablet out of the tablet table. Nobody was answered from it, so there is nothing to
  /// wait for before its contents are purged. The older attempt has been told to stop.
  void evict(const Tablet& tablet);
  /// Forgets what an earlier ownership, or an older attempt, left in the index. Cancelled if `cancelled`.
  runtime::Task<Status> purge(const Tablet& tablet, const std::atomic<bool>& cancelled);
  /// Rolls the head: entries of the range before it are never replayed for this tablet again. Cancelled if `cancelled`.
  runtime::Task<Status> roll(const std::atomic<bool>& cancelled, SegmentId& head);
  /// Puts the tablet into the tablet table, in state Pulling. Whoever sets `cancelled` looks for the tablet afterwards:
  /// one of the two sees the other, and takes it out.
  Status add(Tablet tablet, SegmentId first_segment, const std::atomic<bool>& cancelled);
  /// Closes the side log and makes it a part of the log. Cancelled if `stopping`.
  runtime::Task<Status> join(log::SideLog& side, const std::atomic<bool>& stopping);

 private:
  const Parts parts_;
};

}  // namespace ramcore::master
