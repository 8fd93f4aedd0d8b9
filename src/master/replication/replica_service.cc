#include "master/replication/replica_service.h"

#include "rpc/control_call.h"

namespace ramcore::master {

void ReplicaService::addTo(rpc::ServiceTable& table) {
  table.add<&ReplicaService::checkReplicas>(wire::Opcode::CheckReplicas, *this,
                                            {.roles = rpc::allow({transport::Role::Server}), .dispatch_only = true});
}

void ReplicaService::checkReplicas(rpc::Request request) {
  wire::control::CheckReplicasRequest ask;
  if (!rpc::parseRequest(request, ask)) return request.reply(Status::BadRequest);
  // Until this server knows that the backup lives, it may count replicas of the backup's former life, which are those
  // that the backup asks about.
  if (!replicas_.isMember(ServerId(request.peerId()))) return request.reply(Status::RetryLater);
  for (const auto& lost : ask.lost()) {
    replicas_.noteLostReplica(ServerId(request.peerId()), SegmentId(lost.segment()), lost.replica_epoch());
  }
  wire::control::CheckReplicasResponse answer;
  for (const uint64_t segment : ask.segments()) answer.add_needed(replicas_.isNeeded(SegmentId(segment)));
  rpc::replyControl(std::move(request), answer);
}

}  // namespace ramcore::master
