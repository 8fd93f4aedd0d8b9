#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/trace.h"
#include "master/server_lease.h"
#include "rpc/caller.h"
#include "runtime/await.h"
#include "runtime/random.h"
#include "runtime/task.h"

namespace ramcore::master {

/// What a server tells the coordinator about itself.
struct ServerDescription {
  std::vector<std::string> locators;
  std::string name;  ///< for people; host name or what --name says
  uint64_t memory_bytes = 0;
  uint64_t nonce = 0;  ///< drawn once per process, so that an enlistment whose answer was lost is not a second server
};

/// Told about this server's standing. On the executor of the link.
class LinkObserver {
 public:
  virtual ~LinkObserver() = default;
  /// The coordinator has given this process its id; from now on it may serve.
  virtual void onEnlisted(ServerId id, ClusterId cluster) = 0;
  /// The coordinator has declared this server dead, or refuses it for good. Final; `why` is for a person.
  virtual void onRejected(Status status, const std::string& why) = 0;
};

/// This server's relation to the coordinator: enlists, keeps the lease, asks about clients. Retries for ever; a
/// coordinator that is away costs nothing until the lease runs out.
/// Thread: coroutines on the executor given; start() and stop() there as well.
class CoordinatorLink {
 public:
  CoordinatorLink(rpc::Caller& caller, runtime::Executor& executor, rpc::PeerAddress coordinator, ServerLease& lease,
                  LinkObserver& observer, Trace& trace);
  CoordinatorLink(const CoordinatorLink&) = delete;
  CoordinatorLink& operator=(const CoordinatorLink&) = delete;
  /// stopped() is true (checked).
  ~CoordinatorLink();

  /// Enlists, then renews until stop().
  void start(const ServerDescription& self);
  /// Ends the renewing; says goodbye to the coordinator first if `goodbye`. Watch stopped().
  void stop(bool goodbye);
  bool stopped() const { return !running_; }
  ServerId id() const { return id_; }

  struct ClientCheck {
    Status status = Status::Ok;
    std::vector<bool> valid;  ///< in the order asked, with status Ok
  };
  /// Asks whether the leases of `clients` are valid.
  /// @param executor  where the awaiting coroutine runs.
  runtime::Task<ClientCheck> checkClients(runtime::Executor& executor, std::vector<ClientId> clients);

 private:
  runtime::Task<void> run(ServerDescription self);
  runtime::Task<bool> enlist(const ServerDescription& self);
  runtime::Task<void> renewUntilStopped();
  runtime::Task<void> sayGoodbye();

  rpc::Caller& caller_;
  runtime::Executor& executor_;
  const rpc::PeerAddress coordinator_;
  ServerLease& lease_;
  LinkObserver& observer_;
  Trace& trace_;
  runtime::Signal changed_;
  ServerId id_;
  int64_t lease_ns_ = 0;
  bool running_ = false;
  bool stop_ = false;
  bool goodbye_ = false;
};

}  // namespace ramcore::master
