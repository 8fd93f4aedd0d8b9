#pragma once

// Included by .cc files only: brings in generated code.
#include "coordinator/request_gate.h"
#include "rpc/control_call.h"

namespace ramcore::coordinator {

template <typename Message>
Status RequestGate::receive(const rpc::Request& request, Message& message) const {
  if (!is_open_) return closed_;
  return rpc::parseRequest(request, message) ? Status::Ok : Status::BadRequest;
}

template <typename Message>
Status RequestGate::receiveSettled(const rpc::Request& request, Message& message) const {
  const Status received = receive(request, message);
  return received == Status::Ok && !isReliable(request) ? Status::RetryLater : received;
}

template <typename Message>
Status RequestGate::receiveOfMember(const rpc::Request& request, Message& message) const {
  const Status received = receive(request, message);
  if (received != Status::Ok) return received;
  return checkMember(request, ClusterId(message.cluster()), message.id());
}

}  // namespace ramcore::coordinator
