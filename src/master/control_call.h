#pragma once

// Control-plane calls and answers as coroutines. Included by .cc files only: brings in generated code.
#include "rpc/caller.h"
#include "runtime/task.h"
#include "wire/control.h"

namespace ramcore::master {

/// Sends a control request and parses the answer into `response`. The status is the call's or the answer's;
/// BadRequest if the answer is not what it ought to be.
/// @param executor  where the caller runs. @param address outlives the call.
template <typename RequestMessage, typename ResponseMessage>
runtime::Task<Status> callControl(rpc::Caller& caller, runtime::Executor& executor, const rpc::PeerAddress& address,
                                  wire::Opcode opcode, RequestMessage request, ResponseMessage& response,
                                  rpc::CallSettings settings) {
  const uint32_t bytes = wire::controlBytes(request);
  transport::TxMessage message = caller.allocate(sizeof(wire::RequestHeader) + bytes);
  message.appendHead(wire::RequestHeader{.opcode = opcode, .target = ServerId(address.id)});
  wire::storeControl(request, message.extendHead(bytes));
  rpc::CallResult result = co_await caller.call(executor, address, std::move(message), settings);
  if (result.status != Status::Ok) co_return result.status;
  if (!result.response.tail().empty() || !wire::parseControl(result.body(), response)) co_return Status::BadRequest;
  co_return Status::Ok;
}

/// Parses a control request; false if it is malformed (the caller answers BadRequest).
template <typename Message>
[[nodiscard]] bool parseRequest(const rpc::Request& request, Message& message) {
  return request.message().tail().empty() &&
         wire::parseControl(request.head().subspan(sizeof(wire::RequestHeader)), message);
}

/// Answers Ok with a control message.
template <typename Message>
void replyControl(rpc::Request request, const Message& message) {
  const uint32_t bytes = wire::controlBytes(message);
  transport::TxMessage response = request.allocate(sizeof(wire::ResponseHeader) + bytes);
  response.appendHead(wire::ResponseHeader{.status = Status::Ok});
  wire::storeControl(message, response.extendHead(bytes));
  if (response->head_bytes > wire::kHeadBytesMax) response->contiguous_bytes = sizeof(wire::ResponseHeader);
  request.reply(std::move(response));
}

}  // namespace ramcore::master
