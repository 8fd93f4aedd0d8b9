#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "coordinator/state/records.h"
#include "coordinator/survey/log_survey.h"
#include "runtime/task.h"

namespace ramcore::wire::control {
class ServerStateResponse;
class TabletLoadsResponse;
}  // namespace ramcore::wire::control

namespace ramcore::coordinator {

struct TakeResult {
  Status status = Status::Ok;
  LogRef log;
};

struct FreezeResult {
  Status status = Status::Ok;
  Version version_ceiling = 0;  ///< above the version of every key of the tablet
};

/// How far the destination of a move is, in this order.
enum class PullPhase : uint8_t { Unknown, Preparing, Prepared, Adopting, Adopted, Arriving, Arrived, Joined };

struct PullResult {
  Status status = Status::Ok;       ///< result of the call
  bool done = false;                ///< of a recovery; of a move only if it has failed
  Status pull_status = Status::Ok;  ///< result of the pull
  uint64_t objects = 0;
  uint64_t bytes = 0;
  double fraction = 0;
  LogRef log;                            ///< when done
  bool lacks_places = false;             ///< its replicas find no storage frames on other servers
  PullPhase phase = PullPhase::Unknown;  ///< of a move
  Status problem = Status::Ok;           ///< of a move: why the last attempt to fetch failed, while it is repeated
  uint64_t room_wanted_bytes = 0;        ///< of a move that failed with NoSpace
  uint64_t room_left_bytes = 0;
};

struct FenceResult {
  Status status = Status::Ok;
  std::vector<Replica> replicas;  ///< replicas of the dead server's log; untrusted
};

/// What there is of a dead server's log, and where.
struct LogPlan {
  ServerId dead;
  std::vector<ServerId> holders;  ///< servers that hold the log's segments
  std::vector<SurveyedSegment> segments;
  bool is_salvage = false;  ///< segments of the log are missing; which versions they had is not known
};

/// What a recovery master has to fetch.
struct RecoveryOrder : LogPlan {
  std::vector<Tablet> tablets;  ///< as they will be: new owner, new epoch; logs as they are
  /// The other log of tablets that were being handed over when both of their servers died.
  std::optional<LogPlan> second;
  /// The recovery master holds the tablets, and their contents are the entries of this log over its own: they were
  /// being handed over to it, or from it, when the other server died.
  bool is_survivor = false;
};

/// What the coordinator asks of servers. Each call may be repeated, and one that got no answer may arrive late;
/// src/wire/control.proto says what a server does then. Each function makes one attempt: Unreachable, DeadlineExceeded
/// and the like mean that it may have been carried out.
class MasterCalls {
 public:
  virtual ~MasterCalls() = default;
  virtual runtime::Task<TakeResult> takeTablet(ServerId server, Tablet tablet, bool created_empty) = 0;
  /// Has an adopted tablet answered for while its contents arrive.
  virtual runtime::Task<TakeResult> takeArriving(ServerId server, Tablet tablet) = 0;
  virtual runtime::Task<Status> dropTablet(ServerId server, TabletId tablet, TabletEpoch epoch) = 0;
  /// Has a survivor, or a server that was to get a tablet back, give up what it fetches under `epoch`, and keep the
  /// tablet.
  virtual runtime::Task<Status> giveUpIntake(ServerId server, TabletId tablet, TabletEpoch epoch) = 0;
  virtual runtime::Task<Status> splitTablet(ServerId server, TabletId tablet, Tablet lower, Tablet upper) = 0;
  /// @param return_epoch  of a tablet that arrives: it is to be handed back under this epoch. Of others none
  virtual runtime::Task<FreezeResult> freezeTablet(ServerId server, TabletId tablet, TabletEpoch epoch,
                                                   TabletEpoch return_epoch) = 0;
  /// @param owner, owner_epoch  the new owner, to which clients are sent
  virtual runtime::Task<Status> lendTablet(ServerId server, TabletId tablet, TabletEpoch epoch, ServerId owner,
                                           TabletEpoch owner_epoch) = 0;
  virtual runtime::Task<Status> unfreezeTablet(ServerId server, TabletId tablet, TabletEpoch epoch,
                                               TabletEpoch new_epoch) = 0;
  /// Has a tablet that arrives go on with that: it is not handed back under `return_epoch`.
  virtual runtime::Task<Status> thawTablet(ServerId server, TabletId tablet, TabletEpoch epoch,
                                           TabletEpoch return_epoch) = 0;
  /// @param tablet   as it will be: new owner, new epoch
  /// @param returns  the server has lent it to `source`, and gets it back
  virtual runtime::Task<Status> pullTablet(ServerId server, Tablet tablet, TabletEpoch source_epoch, ServerId source,
                                           bool returns) = 0;
  virtual runtime::Task<Status> adoptTablet(ServerId server, TabletId tablet, TabletEpoch epoch,
                                            Version version_ceiling) = 0;
  /// @param epoch  under which the tablet is fetched
  /// @param rate_max  of a move: bytes a second at which contents come at the most; 0: any
  virtual runtime::Task<PullResult> pullProgress(ServerId server, TabletId tablet, TabletEpoch epoch,
                                                 uint64_t rate_max = 0) = 0;
  /// @return TooFewReplicas: a survivor waits for storage frames for what has come before; the call is to be repeated
  virtual runtime::Task<Status> recoverTablets(ServerId server, RecoveryOrder order) = 0;
  /// May take seconds: the server reads all the replicas that it keeps of the dead server's log.
  virtual runtime::Task<FenceResult> fenceServer(ServerId server, ServerId dead) = 0;
  /// @param state  outlives the call
  virtual runtime::Task<Status> tabletLoads(ServerId server, bool only_calls,
                                            wire::control::TabletLoadsResponse& loads) = 0;
  virtual runtime::Task<Status> serverState(ServerId server, bool lists_sessions,
                                            wire::control::ServerStateResponse& state) = 0;
};

}  // namespace ramcore::coordinator
