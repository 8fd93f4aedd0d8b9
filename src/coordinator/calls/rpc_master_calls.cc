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
constexpr int64_t kLoadsNs = 800 * runtime::kNanosPerMilli;

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

PullPhase phaseOf(control::PullPhase phase) {
  switch (phase) {
    case control::PULL_PREPARING:
      return PullPhase::Preparing;
    case control::PULL_PREPARED:
      return PullPhase::Prepared;
    case control::PULL_ADOPTING:
      return PullPhase::Adopting;
    case control::PULL_ADOPTED:
      return PullPhase::Adopted;
    case control::PULL_ARRIVING:
      return PullPhase::Arriving;
    case control::PULL_ARRIVED:
      return PullPhase::Arrived;
    case control::PULL_JOINED:
      return PullPhase::Joined;
    default:
      return PullPhase::Unknown;
  }
}

/// @tparam Message  RecoverTabletsRequest or DeadLog, which have the same fields for a log
template <typename Message>
void fillLog(const LogPlan& plan, const Membership& membership, Message& message) {
  message.set_dead(plan.dead.value);
  message.set_salvage(plan.is_salvage);
  for (const ServerId id : plan.holders) {
    control::ReplicaHolder& holder = *message.add_holders();
    holder.set_id(id.value);
    const Server* member = membership.find(id);
    if (member == nullptr) continue;
    for (const std::string& locator : member->locators) holder.add_locators(locator);
  }
  for (const SurveyedSegment& segment : plan.segments) {
    control::RecoverySegment& to = *message.add_segments();
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
}

// A server speaks of its own log. What it says of another one must not get into a tablet's list.
// @param has_log  the server has to say where the contents begin in its log
// @tparam Result  TakeResult or PullResult
template <typename Result>
void takeLog(ServerId server, const control::LogRef& told, bool has_log, Result& result) {
  const bool is_own = told.server() == 0 || told.server() == server.value;
  // Without a first segment nobody could recover what the server holds.
  const bool is_sound = is_own && (!has_log || told.first_segment() != 0);
  if (!is_sound && result.status == Status::Ok) result.status = Status::BadRequest;
  result.log = {server, SegmentId(told.first_segment())};
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
  co_return co_await take(server, std::move(tablet), created_empty, false);
}

runtime::Task<TakeResult> RpcMasterCalls::takeArriving(ServerId server, Tablet tablet) {
  co_return co_await take(server, std::move(tablet), false, true);
}

runtime::Task<TakeResult> RpcMasterCalls::take(ServerId server, Tablet tablet, bool created_empty, bool arriving) {
  control::TakeTabletRequest request;
  fillTablet(tablet, true, *request.mutable_tablet());
  request.set_created_empty(created_empty);
  request.set_arriving(arriving);
  wire::fillChange(history_.latest(), *request.mutable_change());
  control::TakeTabletResponse response;
  TakeResult result;
  result.status = co_await call(server, Opcode::TakeTablet, std::move(request), response);
  takeLog(server, response.log(), true, result);
  co_return result;
}

runtime::Task<Status> RpcMasterCalls::dropTablet(ServerId server, TabletId tablet, TabletEpoch epoch) {
  control::DropTabletRequest request;
  request.set_tablet(tablet.value);
  request.set_epoch(epoch.value);
  control::Empty response;
  co_return co_await call(server, Opcode::DropTablet, std::move(request), response);
}

runtime::Task<Status> RpcMasterCalls::giveUpIntake(ServerId server, TabletId tablet, TabletEpoch epoch) {
  control::DropTabletRequest request;
  request.set_tablet(tablet.value);
  request.set_epoch(epoch.value);
  request.set_keeps_tablet(true);
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

runtime::Task<FreezeResult> RpcMasterCalls::freezeTablet(ServerId server, TabletId tablet, TabletEpoch epoch,
                                                         TabletEpoch return_epoch) {
  control::FreezeTabletRequest request;
  request.set_tablet(tablet.value);
  request.set_epoch(epoch.value);
  request.set_return_epoch(return_epoch.value);
  control::FreezeTabletResponse response;
  FreezeResult result;
  result.status = co_await call(server, Opcode::FreezeTablet, std::move(request), response);
  result.version_ceiling = response.version_ceiling();
  co_return result;
}

runtime::Task<Status> RpcMasterCalls::lendTablet(ServerId server, TabletId tablet, TabletEpoch epoch, ServerId owner,
                                                 TabletEpoch owner_epoch) {
  control::LendTabletRequest request;
  request.set_tablet(tablet.value);
  request.set_epoch(epoch.value);
  request.set_owner(owner.value);
  request.set_owner_epoch(owner_epoch.value);
  control::Empty response;
  co_return co_await call(server, Opcode::LendTablet, std::move(request), response);
}

runtime::Task<Status> RpcMasterCalls::adoptTablet(ServerId server, TabletId tablet, TabletEpoch epoch,
                                                  Version version_ceiling) {
  control::AdoptTabletRequest request;
  request.set_tablet(tablet.value);
  request.set_epoch(epoch.value);
  request.set_version_ceiling(version_ceiling);
  control::Empty response;
  co_return co_await call(server, Opcode::AdoptTablet, std::move(request), response);
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

runtime::Task<Status> RpcMasterCalls::thawTablet(ServerId server, TabletId tablet, TabletEpoch epoch,
                                                 TabletEpoch return_epoch) {
  control::UnfreezeTabletRequest request;
  request.set_tablet(tablet.value);
  request.set_epoch(epoch.value);
  request.set_new_epoch(return_epoch.value);
  request.set_goes_on_arriving(true);
  control::Empty response;
  co_return co_await call(server, Opcode::UnfreezeTablet, std::move(request), response);
}

runtime::Task<Status> RpcMasterCalls::pullTablet(ServerId server, Tablet tablet, TabletEpoch source_epoch,
                                                 ServerId source, bool returns) {
  control::PullTabletRequest request;
  request.set_returns(returns);
  fillTablet(tablet, true, *request.mutable_tablet());
  request.set_source_epoch(source_epoch.value);
  request.set_source(source.value);
  if (const Server* from = membership_.find(source)) {
    for (const std::string& locator : from->locators) request.add_source_locators(locator);
  }
  control::Empty response;
  co_return co_await call(server, Opcode::PullTablet, std::move(request), response);
}

runtime::Task<PullResult> RpcMasterCalls::pullProgress(ServerId server, TabletId tablet, TabletEpoch epoch,
                                                       uint64_t rate_max) {
  control::PullProgressRequest request;
  request.set_rate_max(rate_max);
  request.set_tablet(tablet.value);
  request.set_epoch(epoch.value);
  control::PullProgressResponse response;
  PullResult result;
  result.status = co_await call(server, Opcode::PullProgress, std::move(request), response);
  result.done = response.done();
  // Numbers that are no status at all must not turn into one, least of all into Ok.
  const auto statusOf = [](uint32_t number) {
    const bool is_status = number <= std::numeric_limits<std::underlying_type_t<Status>>::max();
    return is_status ? static_cast<Status>(number) : Status::Corrupt;
  };
  result.pull_status = statusOf(response.status());
  result.problem = statusOf(response.problem());
  result.phase = phaseOf(response.phase());
  result.room_wanted_bytes = response.room_wanted_bytes();
  result.room_left_bytes = response.room_left_bytes();
  result.objects = response.objects();
  result.bytes = response.bytes();
  result.fraction = response.fraction();
  result.lacks_places = response.lacks_places();
  const bool is_prepared = result.pull_status == Status::Ok && result.phase >= PullPhase::Prepared;
  takeLog(server, response.log(), is_prepared, result);
  co_return result;
}

runtime::Task<Status> RpcMasterCalls::recoverTablets(ServerId server, RecoveryOrder order) {
  control::RecoverTabletsRequest request;
  for (const Tablet& tablet : order.tablets) fillTablet(tablet, true, *request.add_tablets());
  request.set_survivor(order.is_survivor);
  fillLog(order, membership_, request);
  if (order.second) fillLog(*order.second, membership_, *request.mutable_second());
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

runtime::Task<Status> RpcMasterCalls::tabletLoads(ServerId server, bool only_calls,
                                                  control::TabletLoadsResponse& loads) {
  control::LoadsRequest request;
  request.set_only_calls(only_calls);
  // Whoever asks the coordinator for this waits a second, and goes on without a server that is slower.
  co_return co_await call(server, Opcode::TabletLoads, request, loads, kLoadsNs);
}

runtime::Task<Status> RpcMasterCalls::serverState(ServerId server, bool lists_sessions,
                                                  control::ServerStateResponse& state) {
  control::ServerStateRequest request;
  request.set_lists_sessions(lists_sessions);
  co_return co_await call(server, Opcode::ServerState, request, state);
}

}  // namespace ramcore::coordinator
