#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "coordinator/state/records.h"
#include "coordinator/survey/log_survey.h"
#include "runtime/task.h"

namespace ramcore::wire::control {
class ServerStateResponse;
}

namespace ramcore::coordinator {

struct TakeResult {
  Status status = Status::Ok;
  LogRef log;
};

struct PullResult {
  Status status = Status::Ok;  ///< result of the call
  bool done = false;
  Status pull_status = Status::Ok;  ///< result of the pull
  uint64_t objects = 0;
  uint64_t bytes = 0;
  double fraction = 0;
  LogRef log;                 ///< when done
  bool lacks_places = false;  ///< its replicas find no storage frames on other servers
};

struct FenceResult {
  Status status = Status::Ok;
  std::vector<Replica> replicas;  ///< replicas of the dead server's log; untrusted
};

/// What a recovery master has to fetch.
struct RecoveryOrder {
  ServerId dead;
  std::vector<Tablet> tablets;    ///< as they will be: new owner, new epoch; logs as they are
  std::vector<ServerId> holders;  ///< servers that hold the log's segments
  std::vector<SurveyedSegment> segments;
  bool is_salvage = false;  ///< segments of the log are missing; which versions they had is not known
};

/// What the coordinator asks of servers. Each call may be repeated, and one that got no answer may arrive late;
/// src/wire/control.proto says what a server does then. Each function makes one attempt: Unreachable, DeadlineExceeded
/// and the like mean that it may have been carried out.
class MasterCalls {
 public:
  virtual ~MasterCalls() = default;
  virtual runtime::Task<TakeResult> takeTablet(ServerId server, Tablet tablet, bool created_empty) = 0;
  virtual runtime::Task<Status> dropTablet(ServerId server, TabletId tablet, TabletEpoch epoch) = 0;
  virtual runtime::Task<Status> splitTablet(ServerId server, TabletId tablet, Tablet lower, Tablet upper) = 0;
  virtual runtime::Task<Status> freezeTablet(ServerId server, TabletId tablet, TabletEpoch epoch) = 0;
  virtual runtime::Task<Status> unfreezeTablet(ServerId server, TabletId tablet, TabletEpoch epoch,
                                               TabletEpoch new_epoch) = 0;
  /// @param tablet  as it will be: new owner, new epoch
  virtual runtime::Task<Status> pullTablet(ServerId server, Tablet tablet, TabletEpoch source_epoch,
                                           ServerId source) = 0;
  virtual runtime::Task<PullResult> pullProgress(ServerId server, TabletId tablet) = 0;
  virtual runtime::Task<Status> recoverTablets(ServerId server, RecoveryOrder order) = 0;
  /// May take seconds: the server reads all the replicas that it keeps of the dead server's log.
  virtual runtime::Task<FenceResult> fenceServer(ServerId server, ServerId dead) = 0;
  /// @param state  outlives the call
  virtual runtime::Task<Status> serverState(ServerId server, bool lists_sessions,
                                            wire::control::ServerStateResponse& state) = 0;
};

}  // namespace ramcore::coordinator
