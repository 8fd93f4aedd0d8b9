#include "master/replica_service.h"

#include "rpc/control_call.h"

namespace ramcore::master {

void ReplicaService::addTo(rpc::ServiceTable& table) {
  table.add<&ReplicaService::checkReplicas>(wire::Opcode::CheckReplicas, *this,
                                            {.roles = rpc::allow({transport::Role::Server}), .dispatch_only = true});
}

void ReplicaService::checkReplicas(rpc::Request request) {
  wire::control::CheckReplicasRequest ask;
  if (!rpc::parseRequest(request, ask)) return request.reply(Status::BadRequest);
  wire::control::CheckReplicasResponse answer;
  for (const uint64_t segment : ask.segments()) answer.add_needed(replicas_.isNeeded(SegmentId(segment)));
  rpc::replyControl(std::move(request), answer);
}

}  // namespace ramcore::master
