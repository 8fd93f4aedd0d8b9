#pragma once

#include <algorithm>
#include <utility>

#include "base/ids.h"
#include "runtime/executor.h"
#include "transport/transport.h"
#include "wire/message_header.h"

namespace ramcore::rpc {

class Dispatch;
class SessionEnds;

/// A request in service: the received message and the way back. Lives in a pool of the dispatch thread; also the job
/// that carries it to a worker and the job that carries the answer back.
struct RequestRecord final : runtime::Job {
  explicit RequestRecord(Run function) : Job(function) {}

  Dispatch* dispatch = nullptr;
  runtime::Executor* executor = nullptr;  ///< where the handler runs
  transport::Endpoint* endpoint = nullptr;
  const SessionEnds* session_ends = nullptr;  ///< the endpoint's
  transport::RxMessage message;
  transport::TxMessage response;
  wire::Opcode opcode{};
  transport::Role peer_role{};
  uint64_t peer_id = 0;
  int64_t arrival_ns = 0;
  int64_t started_ns = 0;  ///< when its handler began
  RequestRecord* next_free = nullptr;
  RequestRecord* earlier = nullptr;  ///< this and the next: list of the requests in service
  RequestRecord* later = nullptr;

  uint32_t responseBytesMax() const {
    return std::min(message.reply_to.response_bytes_max, endpoint->limits().message_bytes_max);
  }
};

/// Handle of a request, owned by its handler. The handler answers exactly once (checked), with reply(), on the executor
/// that it runs on.
class Request {
 public:
  explicit Request(RequestRecord* record) : record_(record) {}
  Request(Request&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  Request& operator=(Request&&) = delete;
  ~Request();

  wire::Opcode opcode() const { return record_->opcode; }
  const transport::RxMessage& message() const { return record_->message; }
  /// Contiguous start of the message, beginning with the RequestHeader: at least the bytes that the sender declared as
  /// head.
  ByteSpan head() const { return record_->message.head(); }
  /// Reads the fixed struct at the start of the head. False: there are too few bytes, or it is not valid; the answer is
  /// BadRequest.
  template <wire::Message T>
  [[nodiscard]] bool read(T& out) const {
    return wire::decode(head(), out);
  }
  /// The role, and the id, that the peer proved in the handshake.
  transport::Role peerRole() const { return record_->peer_role; }
  uint64_t peerId() const { return record_->peer_id; }
  /// Clock of the dispatch thread when the request was taken from the endpoint.
  int64_t arrivalNs() const { return record_->arrival_ns; }
  /// The longest answer that the caller takes and the transport carries; reply() turns a longer one into TooLarge.
  uint32_t responseBytesMax() const { return record_->responseBytesMax(); }
  /// The length in bytes from which on an answer should borrow a value and not copy it, as the transport says.
  uint32_t zeroCopyBytesMin() const { return record_->endpoint->limits().zero_copy_bytes_min; }
  /// False: the session of the request has ended, and the answer would go nowhere. True may be outdated. Any thread.
  bool isSessionOpen() const;
  /// Everything the handler awaits resumes it here.
  runtime::Executor& executor() const { return *record_->executor; }
  Dispatch& dispatch() const { return *record_->dispatch; }

  /// A message to answer with; empty if the transport carries no message with a head of this length. Any thread.
  transport::TxMessage allocate(uint64_t head_bytes) const {
    if (head_bytes > record_->endpoint->limits().message_bytes_max) return {};
    return record_->endpoint->allocate(static_cast<uint32_t>(head_bytes));
  }
  /// Sends the answer and gives the request back. The answer begins with a ResponseHeader. An answer that is empty, or
  /// longer than responseBytesMax(), becomes TooLarge.
  void reply(transport::TxMessage response);
  /// Answers with a bare header.
  void reply(Status status, uint32_t retry_after_us = 0);
  /// Answers with a fixed struct.
  template <Fixed T>
  void replyWith(const T& response) {
    transport::TxMessage message = allocate(sizeof(T));
    message.appendHead(response);
    reply(std::move(message));
  }

  /// For the dispatch core: gives up the handle without answering.
  RequestRecord* release() { return std::exchange(record_, nullptr); }

 private:
  RequestRecord* record_;
};

}  // namespace ramcore::rpc
