#pragma once

// Control-plane calls as coroutines. Included by .cc files only: brings in generated code.
#include "client/message_cursor.h"
#include "rpc/caller.h"
#include "runtime/task.h"
#include "wire/control.h"

namespace ramcore::client {

/// What became of one control call.
struct ControlOutcome {
  Status status = Status::Ok;
  uint32_t retry_after_us = 0;
  bool may_have_happened = false;  ///< the request went out and no answer came
};

/// Sends a control request once and parses the answer into `response`. Corrupt: the answer makes no sense.
/// @param executor  where the caller runs. @param address, response  outlive the call.
template <typename RequestMessage, typename ResponseMessage>
runtime::Task<ControlOutcome> callControl(rpc::Caller& caller, runtime::Executor& executor,
                                          const rpc::PeerAddress& address, wire::Opcode opcode,
                                          const RequestMessage& request, ResponseMessage& response,
                                          rpc::CallSettings settings) {
  const uint32_t bytes = wire::controlBytes(request);
  transport::TxMessage message = caller.allocate(static_cast<uint32_t>(sizeof(wire::RequestHeader)) + bytes);
  message.appendHead(wire::RequestHeader{.opcode = opcode, .target = ServerId(address.id)});
  wire::storeControl(request, message.extendHead(bytes));
  if (message->head_bytes > wire::kHeadBytesMax) message->contiguous_bytes = sizeof(wire::RequestHeader);
  settings.response_bytes_max = static_cast<uint32_t>(wire::kControlBytesMax);
  rpc::CallResult result = co_await caller.call(executor, address, std::move(message), settings);
  ControlOutcome outcome{.status = result.status,
                         .retry_after_us = result.retryAfterUs(),
                         .may_have_happened = result.may_have_happened && result.response.head().empty()};
  if (outcome.status != Status::Ok) co_return outcome;
  bool parsed = false;
  if (result.response.tail().empty()) {
    parsed = wire::parseControl(result.body(), response);
  } else {
    std::vector<std::byte> bytes_together(result.response.messageBytes() - sizeof(wire::ResponseHeader));
    MessageCursor cursor(result.response);
    parsed = cursor.skip(sizeof(wire::ResponseHeader)) && cursor.copy(bytes_together.data(), bytes_together.size()) &&
             wire::parseControl(bytes_together, response);
  }
  if (!parsed) {
    outcome.status = Status::Corrupt;
    outcome.may_have_happened = true;
  }
  co_return outcome;
}

}  // namespace ramcore::client
