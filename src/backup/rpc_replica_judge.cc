#include "backup/rpc_replica_judge.h"

#include "rpc/control_call.h"

namespace ramcore::backup {
namespace {

namespace control = wire::control;
using wire::Opcode;

constexpr int64_t kCallNs = runtime::kNanosPerSecond;

// An unknown number means nothing, least of all that replicas can go.
Standing fromControl(control::MasterStanding standing) {
  switch (standing) {
    case control::STANDING_ALIVE:
      return Standing::Alive;
    case control::STANDING_NEEDED:
      return Standing::Needed;
    case control::STANDING_RELEASED:
      return Standing::Released;
    default:
      return Standing::Unknown;
  }
}

}  // namespace

rpc::CallSettings RpcReplicaJudge::settings() {
  return {.deadline_ns = executor_.clock().nowNs() + kCallNs, .priority = runtime::Priority::Background};
}

runtime::Task<ReplicaJudge::Standings> RpcReplicaJudge::standings(std::vector<ServerId> masters) {
  control::CheckMastersRequest request;
  for (const ServerId master : masters) request.add_masters(master.value);
  control::CheckMastersResponse response;
  const rpc::ControlOutcome outcome =
      co_await rpc::callControl(caller_, executor_, coordinators_, Opcode::CheckMasters, request, response, settings());
  Standings result{.status = outcome.status, .standings = {}, .alive = {}};
  if (result.status == Status::Ok && obeys_ && !obeys_(response.start())) result.status = Status::RetryLater;
  if (result.status != Status::Ok) co_return result;
  if (response.standings_size() != static_cast<int>(masters.size())) {
    result.status = Status::BadRequest;
    co_return result;
  }
  for (const int standing : response.standings()) {
    result.standings.push_back(fromControl(static_cast<control::MasterStanding>(standing)));
  }
  for (const control::Member& member : response.masters()) {
    rpc::PeerAddress& address = result.alive.emplace_back();
    address.id = member.id();
    for (const std::string& text : member.locators()) {
      Outcome<transport::Locator> locator = transport::Locator::parse(text);
      if (locator.ok()) address.locators.push_back(std::move(locator).value());
    }
  }
  co_return result;
}

runtime::Task<ReplicaJudge::Needed> RpcReplicaJudge::needed(rpc::PeerAddress master, std::vector<SegmentId> segments) {
  control::CheckReplicasRequest request;
  for (const SegmentId segment : segments) request.add_segments(segment.value);
  control::CheckReplicasResponse response;
  const rpc::ControlOutcome outcome =
      co_await rpc::callControl(caller_, executor_, master, Opcode::CheckReplicas, request, response, settings());
  Needed result{.status = outcome.status, .needed = {}};
  if (result.status == Status::Ok && response.needed_size() != static_cast<int>(segments.size())) {
    result.status = Status::BadRequest;
  }
  if (result.status == Status::Ok) result.needed.assign(response.needed().begin(), response.needed().end());
  co_return result;
}

runtime::Task<Status> RpcReplicaJudge::reportLost(rpc::PeerAddress master, std::vector<Lost> lost) {
  control::CheckReplicasRequest request;
  for (const Lost& one : lost) {
    control::LostReplica& replica = *request.add_lost();
    replica.set_segment(one.segment.value);
    replica.set_replica_epoch(one.replica_epoch);
  }
  control::CheckReplicasResponse response;
  const rpc::ControlOutcome outcome =
      co_await rpc::callControl(caller_, executor_, master, Opcode::CheckReplicas, request, response, settings());
  co_return outcome.status;
}

}  // namespace ramcore::backup
