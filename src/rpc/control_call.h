#pragma once

// Control-plane calls and answers as coroutines. Included by .cc files only: brings in generated code.
#include "rpc/caller.h"
#include "rpc/coordinators.h"
#include "rpc/message_cursor.h"
#include "rpc/service_table.h"
#include "runtime/task.h"
#include "wire/control.h"

namespace ramcore::rpc {

/// The outcome of one control call.
struct ControlOutcome {
  Status status = Status::Ok;
  uint32_t retry_after_us = 0;
  bool may_have_happened = false;  ///< the request went out and no answer came
};

/// Sends a control request once and parses the answer into `response`. Corrupt: the answer makes no sense.
/// @param executor           where the caller runs
/// @param address, response  outlive the call
template <typename RequestMessage, typename ResponseMessage>
runtime::Task<ControlOutcome> callControl(Caller& caller, runtime::Executor& executor, const PeerAddress& address,
                                          wire::Opcode opcode, const RequestMessage& request, ResponseMessage& response,
                                          CallSettings settings) {
  const uint32_t bytes = wire::controlBytes(request);
  transport::TxMessage message = caller.allocate(static_cast<uint32_t>(sizeof(wire::RequestHeader)) + bytes);
  message.appendHead(wire::RequestHeader{.opcode = opcode, .target = ServerId(address.id)});
  wire::storeControl(request, message.extendHead(bytes));
  if (message->head_bytes > wire::kHeadBytesMax) message->contiguous_bytes = sizeof(wire::RequestHeader);
  settings.response_bytes_max = static_cast<uint32_t>(wire::kControlBytesMax);
  CallResult result = co_await caller.call(executor, address, std::move(message), settings);
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

/// Does the same with the coordinator whose turn it is, and notes the outcome in `coordinators`, which outlives the
/// call.
template <typename RequestMessage, typename ResponseMessage>
runtime::Task<ControlOutcome> callControl(Caller& caller, runtime::Executor& executor, Coordinators& coordinators,
                                          wire::Opcode opcode, const RequestMessage& request, ResponseMessage& response,
                                          CallSettings settings) {
  const PeerAddress& address = coordinators.current();
  const ControlOutcome outcome = co_await callControl(caller, executor, address, opcode, request, response, settings);
  coordinators.note(address, outcome.status);
  co_return outcome;
}

/// Parses the bytes behind the request's header, wherever the transport put them; false if they are malformed (the
/// caller answers BadRequest).
template <typename Message>
[[nodiscard]] bool parseRequest(const Request& request, Message& message) {
  const ByteSpan head = request.head().subspan(sizeof(wire::RequestHeader));
  if (request.message().tail().empty()) return wire::parseControl(head, message);
  if (request.message().messageBytes() > wire::kControlBytesMax) return false;
  std::vector<std::byte> together(head.begin(), head.end());
  for (const ByteSpan& piece : request.message().tail()) together.insert(together.end(), piece.begin(), piece.end());
  return wire::parseControl(together, message);
}

/// Answers with `status` and a control message, or TooLarge if it is longer than control messages may be.
template <typename Message>
void replyControl(Request request, const Message& message, Status status = Status::Ok) {
  const uint32_t bytes = wire::controlBytes(message);
  if (bytes > wire::kControlBytesMax) return request.reply(Status::TooLarge);
  transport::TxMessage response = request.allocate(sizeof(wire::ResponseHeader) + uint64_t{bytes});
  if (!response) return request.reply(Status::TooLarge);
  response.appendHead(wire::ResponseHeader{.status = status});
  wire::storeControl(message, response.extendHead(bytes));
  // Long answers need not be in one piece at the receiver, which has bounds for that.
  if (response->head_bytes > wire::kHeadBytesMax) response->contiguous_bytes = sizeof(wire::ResponseHeader);
  request.reply(std::move(response));
}

}  // namespace ramcore::rpc
