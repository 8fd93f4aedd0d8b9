#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/trace.h"
#include "master/cluster/change_keeper.h"
#include "master/cluster/clock_watch.h"
#include "master/replication/floor_keeper.h"
#include "master/replication/members.h"
#include "rpc/caller.h"
#include "rpc/coordinators.h"
#include "runtime/await.h"
#include "runtime/random.h"
#include "runtime/task.h"
#include "store/server_lease.h"
#include "wire/control.h"

namespace ramcore::master {

/// What a server tells the coordinator about itself.
struct ServerDescription {
  std::vector<std::string> locators;
  std::string name;  ///< for people; host name or what --name says
  uint64_t memory_bytes = 0;
  ServerId former = {};           ///< the server whose storage this process has; none if that is new, or there is none
  ClusterId former_cluster = {};  ///< the cluster of that server
  bool keeps_replicas = false;
  std::string failure_domain = {};  ///< empty: its own
  uint32_t replicas = 0;            ///< replicas of its log, by its configuration
  uint32_t min_replicas = 0;        ///< with fewer it takes no writes
  bool local_replica = false;       ///< its only replica is in its own storage
  uint64_t drawn_storage = 0;  ///< drawn once per process: the name for a storage that has none yet. 0: it gets none
  uint64_t nonce = 0;  ///< drawn once per process, so that an enlistment whose answer was lost is not a second server
};

/// How full this server's log is.
struct ServerLoad {
  uint64_t live_bytes = 0;
  uint64_t room_bytes = 0;  ///< by how much live_bytes may grow before writes are refused
};

/// A tablet whose contents are fetched, and which is not answered for.
struct IntakeRef {
  TabletId tablet;
  TabletEpoch epoch;
};

/// Is told about this server's standing at the coordinator. On the executor of the link.
class LinkObserver {
 public:
  virtual ~LinkObserver() = default;
  /// The coordinator has given this process its id; from now on it may serve.
  virtual void onEnlisted(ServerId id, ClusterId cluster) = 0;
  /// The servers that live now, this one included; again whenever that changes.
  virtual void onMembers(std::vector<Member> members) { (void)members; }
  /// Called before each renewal; the renewal reports the result to the coordinator.
  virtual ServerLoad load() const { return {}; }
  /// Likewise. The coordinator says which of them nobody wants any more (DropTablet).
  virtual std::vector<IntakeRef> intakes() const { return {}; }
  /// The coordinator has declared this server dead, or refuses it for good. Final; `why` is for a person.
  virtual void onRejected(Status status, const std::string& why) = 0;
};

/// This server's relation to the coordinator: enlists, keeps the lease, asks about clients and members. Retries for
/// ever; a coordinator that is away costs nothing until the lease runs out. Thread: coroutines on the given executor.
/// start() is called there, or before that executor runs; stop() is called there.
class CoordinatorLink final : public FloorKeeper {
 public:
  CoordinatorLink(rpc::Caller& caller, runtime::Executor& executor, const rpc::PeerAddress& coordinator,
                  store::ServerLease& lease, ChangeKeeper& changes, LinkObserver& observer, Trace& trace);
  CoordinatorLink(const CoordinatorLink&) = delete;
  CoordinatorLink& operator=(const CoordinatorLink&) = delete;
  /// stopped() is true (checked).
  ~CoordinatorLink() override;

  /// Enlists, then renews until stop().
  void start(const ServerDescription& self);
  /// Ends the renewing; says goodbye to the coordinator first if `goodbye`. Watch stopped().
  void stop(bool goodbye);
  bool stopped() const { return !running_ && !asking_members_; }
  ServerId id() const { return id_; }

  /// Asks soon which servers live, instead of after the next renewal. Called when this process has heard of a death.
  void refreshMembers();

  struct ClientCheck {
    Status status = Status::Ok;
    std::vector<bool> valid;             ///< in the order asked, with status Ok
    std::vector<Sequence> acknowledged;  ///< likewise: how far each client has told the coordinator
  };
  /// Asks whether the leases of `clients` are valid.
  /// @param executor  where the awaiting coroutine runs.
  runtime::Task<ClientCheck> checkClients(runtime::Executor& executor, std::vector<ClientId> clients);

  // FloorKeeper
  runtime::Task<Status> raiseFloor(SegmentId segment, uint64_t replica_epoch) override;

 private:
  runtime::Task<void> run(ServerDescription self);
  runtime::Task<bool> enlist(const ServerDescription& self);
  runtime::Task<Status> ping();
  runtime::Task<Status> askToEnlist(const ServerDescription& self, ChangeRef named,
                                    wire::control::EnlistResponse& response);
  /// True if enlisting ends with `status`; the observer has been told then.
  bool isRejected(Status status, const ServerDescription& self, const rpc::PeerAddress& asked);
  runtime::Task<void> renewUntilStopped();
  bool hasKeptTime(const wire::control::RenewServerLeaseResponse& response, int64_t sent_ns);
  void tellOfRenewal(Status status, Status& told);
  runtime::Task<void> sayGoodbye();
  void noteMembership(uint64_t version);
  runtime::Task<void> askMembers();

  rpc::Caller& caller_;
  runtime::Executor& executor_;
  rpc::Coordinators coordinator_;
  store::ServerLease& lease_;
  ChangeKeeper& changes_;
  LinkObserver& observer_;
  Trace& trace_;
  runtime::Signal changed_;
  ServerId id_;
  ClusterId cluster_;
  uint64_t nonce_ = 0;
  int64_t lease_ns_ = 0;
  ClockWatch clock_watch_;
  uint64_t membership_wanted_ = 0;  // version that the coordinator last named
  uint64_t membership_ = 0;         // version that onMembers() was told
  size_t intakes_named_ = 0;        // by renewals
  bool asking_members_ = false;
  bool members_are_old_ = false;  // the members are to be asked for, whatever the versions say
  bool running_ = false;
  bool stop_ = false;
  bool goodbye_ = false;
};

}  // namespace ramcore::master
