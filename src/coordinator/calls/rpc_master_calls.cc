#include "coordinator/calls/rpc_master_calls.h"

#include <limits>
#include <type_traits>

#include "coordinator/calls/control_records.h"
#include "rpc/control_call.h"

namespace ramcore::coordinator {
namespace {

namespace control = wire::control;
using wire::Opcode;

// For calls that take a server longer: it reads its replicas of a whole log, or gets a list of all its segments.
constexpr int64_t kLongCallNs = 5 * runtime::kNanosPerSecond;

Replica replicaOf(const control::Replica& message) {
  Replica replica{.segment = SegmentId(message.segment()),
                  .epoch = message.replica_epoch(),
                  .is_closed = message.closed(),
                  .has_digest = message.has_digest(),
                  .maybe_short = message.maybe_short(),
                  .length_bytes = message.length_bytes(),
                  .previous_head = SegmentId(message.previous_head()),
                  .members = {}};
  for (const uint64_t member : message.members()) replica.members.emplace_back(member);
  return replica;
}

}  // namespace

template <typename RequestMessage, typename ResponseMessage>
runtime::Task<Status> RpcMasterCalls::call(ServerId server, Opcode opcode, RequestMessage request,
                                           ResponseMessage& response) {
  co_return co_await call(server, opcode, std::move(request), response, call_ns_);
}

template <typename RequestMessage, typename ResponseMessage>
runtime::Task<Status> RpcMasterCalls::call(ServerId server, Opcode opcode, RequestMessage request,
                                           ResponseMessage& response, int64_t call_ns) {
  const Server* member = membership_.find(server);
  if (member == nullptr || journal_.stopping()) co_return Status::Unreachable;
  // No server is told to act on a state that may be an older copy.
  if (!membership_.isSettled() || history_.isBehind()) co_return Status::RetryLater;
  rpc::PeerAddress address{.id = server.value, .locators = {}};
  for (const std::string& text : member->locators) {
    Outcome<transport::Locator> locator = transport::Locator::parse(text);
    if (locator.ok()) address.locators.push_back(std::move(locator).value());
  }
  const rpc::CallSettings settings{.deadline_ns = journal_.nowNs() + call_ns,
                                   .priority = runtime::Priority::Membership};
  const rpc::ControlOutcome outcome =
      co_await rpc::callControl(caller_, journal_.executor(), address, opcode, request, response, settings);
  co_return outcome.status;
}

runtime::Task<TakeResult> RpcMasterCalls::takeTablet(ServerId server, Tablet tablet, bool created_empty) {
  control::TakeTabletRequest request;
  fillTablet(tablet, true, *request.mutable_tablet());
  request.set_created_empty(created_empty);
  wire::fillChange(history_.latest(), *request.mutable_change());
  control::TakeTabletResponse response;
  TakeResult result;
  result.status = co_await call(server, Opcode::TakeTablet, std::move(request), response);
  result.log = logOf(response.log());
  if (result.log.server == ServerId()) result.log.server = server;
  co_return result;
}

runtime::Task<Status> RpcMasterCalls::dropTablet(ServerId server, TabletId tablet, TabletEpoch epoch) {
  control::DropTabletRequest request;
  request.set_tablet(tablet.value);
  request.set_epoch(epoch.value);
  control::Empty response;
  co_return co_await call(server, Opcode::DropTablet, std::move(request), response);
}

runtime::Task<Status> RpcMasterCalls::splitTablet(ServerId server, TabletId tablet, Tablet lower, Tablet upper) {
  control::SplitTabletRequest request;
  request.set_tablet(tablet.value);
  fillTablet(lower, true, *request.mutable_lower());
  fillTablet(upper, true, *request.mutable_upper());
  control::Empty response;
  co_return co_await call(server, Opcode::SplitTablet, std::move(request), response);
}

runtime::Task<Status> RpcMasterCalls::freezeTablet(ServerId server, TabletId tablet, TabletEpoch epoch) {
  control::FreezeTabletRequest request;
  request.set_tablet(tablet.value);
  request.set_epoch(epoch.value);
  control::Empty response;
  co_return co_await call(server, Opcode::FreezeTablet, std::move(request), response);
}

runtime::Task<Status> RpcMasterCalls::unfreezeTablet(ServerId server, TabletId tablet, TabletEpoch epoch,
                                                     TabletEpoch new_epoch) {
  control::UnfreezeTabletRequest request;
  request.set_tablet(tablet.value);
  request.set_epoch(epoch.value);
  request.set_new_epoch(new_epoch.value);
  control::Empty response;
  co_return co_await call(server, Opcode::UnfreezeTablet, std::move(request), response);
}

runtime::Task<Status> RpcMasterCalls::pullTablet(ServerId server, Tablet tablet, TabletEpoch source_epoch,
                                                 ServerId source) {
  control::PullTabletRequest request;
  fillTablet(tablet, true, *request.mutable_tablet());
  request.set_source_epoch(source_epoch.value);
  request.set_source(source.value);
  if (const Server* from = membership_.find(source)) {
    for (const std::string& locator : from->locators) request.add_source_locators(locator);
  }
  control::Empty response;
  co_return co_await call(server, Opcode::PullTablet, std::move(request), response);
}

runtime::Task<PullResult> RpcMasterCalls::pullProgress(ServerId server, TabletId tablet) {
  control::PullProgressRequest request;
  request.set_tablet(tablet.value);
  control::PullProgressResponse response;
  PullResult result;
  result.status = co_await call(server, Opcode::PullProgress, std::move(request), response);
  result.done = response.done();
  // Numbers that are no status at all must not turn into one, least of all into Ok.
  const bool is_status = response.status() <= std::numeric_limits<std::underlying_type_t<Status>>::max();
  result.pull_status = is_status ? static_cast<Status>(response.status()) : Status::Corrupt;
  result.objects = response.objects();
  result.bytes = response.bytes();
  result.fraction = response.fraction();
  result.lacks_places = response.lacks_places();
  result.log = logOf(response.log());
  if (result.log.server == ServerId()) result.log.server = server;
  co_return result;
}

runtime::Task<Status> RpcMasterCalls::recoverTablets(ServerId server, RecoveryOrder order) {
  control::RecoverTabletsRequest request;
  request.set_dead(order.dead.value);
  request.set_salvage(order.is_salvage);
  for (const Tablet& tablet : order.tablets) fillTablet(tablet, true, *request.add_tablets());
  for (const ServerId id : order.holders) {
    control::ReplicaHolder& holder = *request.add_holders();
    holder.set_id(id.value);
    const Server* member = membership_.find(id);
    if (member == nullptr) continue;
    for (const std::string& locator : member->locators) holder.add_locators(locator);
  }
  for (const SurveyedSegment& segment : order.segments) {
    control::RecoverySegment& to = *request.add_segments();
    to.set_segment(segment.id.value);
    for (const uint32_t holder : segment.holders) to.add_holders(holder);
    to.set_cut(segment.is_cut);
    for (const wire::ReplicaVersion& version : segment.replicas) {
      control::ReplicaVersion& replica = *to.add_replicas();
      replica.set_replica_epoch(version.epoch);
      replica.set_length_bytes(version.length_bytes);
      replica.set_closed(version.closed != 0);
    }
  }
  control::Empty response;
  co_return co_await call(server, Opcode::RecoverTablets, std::move(request), response, kLongCallNs);
}

runtime::Task<FenceResult> RpcMasterCalls::fenceServer(ServerId server, ServerId dead) {
  control::FenceServerRequest request;
  request.set_server(dead.value);
  control::FenceServerResponse response;
  FenceResult result;
  result.status = co_await call(server, Opcode::FenceServer, std::move(request), response, kLongCallNs);
  for (const control::Replica& replica : response.replicas()) result.replicas.push_back(replicaOf(replica));
  co_return result;
}

runtime::Task<Status> RpcMasterCalls::serverState(ServerId server, bool lists_sessions,
                                                  control::ServerStateResponse& state) {
  control::ServerStateRequest request;
  request.set_lists_sessions(lists_sessions);
  co_return co_await call(server, Opcode::ServerState, request, state);
}

}  // namespace ramcore::coordinator
