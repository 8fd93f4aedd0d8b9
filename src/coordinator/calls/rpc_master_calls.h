#pragma once

#include "coordinator/calls/master_calls.h"
#include "coordinator/members/membership.h"
#include "coordinator/state/change_history.h"
#include "coordinator/state/journal.h"
#include "rpc/caller.h"

namespace ramcore::coordinator {

/// MasterCalls over sessions to the servers' locators.
/// Thread: the caller's dispatch.
class RpcMasterCalls final : public MasterCalls {
 public:
  RpcMasterCalls(rpc::Caller& caller, Journal& journal, const Membership& membership, const ChangeHistory& history,
                 int64_t call_ns)
      : caller_(caller), journal_(journal), membership_(membership), history_(history), call_ns_(call_ns) {}

  runtime::Task<TakeResult> takeTablet(ServerId server, Tablet tablet, bool created_empty) override;
  runtime::Task<TakeResult> takeArriving(ServerId server, Tablet tablet) override;
  runtime::Task<Status> dropTablet(ServerId server, TabletId tablet, TabletEpoch epoch) override;
  runtime::Task<Status> giveUpIntake(ServerId server, TabletId tablet, TabletEpoch epoch) override;
  runtime::Task<Status> splitTablet(ServerId server, TabletId tablet, Tablet lower, Tablet upper) override;
  runtime::Task<FreezeResult> freezeTablet(ServerId server, TabletId tablet, TabletEpoch epoch,
                                           TabletEpoch return_epoch) override;
  runtime::Task<Status> lendTablet(ServerId server, TabletId tablet, TabletEpoch epoch, ServerId owner,
                                   TabletEpoch owner_epoch) override;
  runtime::Task<Status> unfreezeTablet(ServerId server, TabletId tablet, TabletEpoch epoch,
                                       TabletEpoch new_epoch) override;
  runtime::Task<Status> thawTablet(ServerId server, TabletId tablet, TabletEpoch epoch,
                                   TabletEpoch return_epoch) override;
  runtime::Task<Status> pullTablet(ServerId server, Tablet tablet, TabletEpoch source_epoch, ServerId source,
                                   bool returns) override;
  runtime::Task<Status> adoptTablet(ServerId server, TabletId tablet, TabletEpoch epoch,
                                    Version version_ceiling) override;
  runtime::Task<PullResult> pullProgress(ServerId server, TabletId tablet, TabletEpoch epoch,
                                         uint64_t rate_max) override;
  runtime::Task<Status> recoverTablets(ServerId server, RecoveryOrder order) override;
  runtime::Task<FenceResult> fenceServer(ServerId server, ServerId dead) override;
  runtime::Task<Status> tabletLoads(ServerId server, bool only_calls,
                                    wire::control::TabletLoadsResponse& loads) override;
  runtime::Task<Status> serverState(ServerId server, bool lists_sessions,
                                    wire::control::ServerStateResponse& state) override;

 private:
  runtime::Task<TakeResult> take(ServerId server, Tablet tablet, bool created_empty, bool arriving);
  template <typename RequestMessage, typename ResponseMessage>
  runtime::Task<Status> call(ServerId server, wire::Opcode opcode, RequestMessage request, ResponseMessage& response);
  template <typename RequestMessage, typename ResponseMessage>
  runtime::Task<Status> call(ServerId server, wire::Opcode opcode, RequestMessage request, ResponseMessage& response,
                             int64_t call_ns);

  rpc::Caller& caller_;
  Journal& journal_;
  const Membership& membership_;
  const ChangeHistory& history_;
  const int64_t call_ns_;
};

}  // namespace ramcore::coordinator
