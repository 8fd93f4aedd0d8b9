#pragma once

#include "runtime/timer.h"
#include "transport/transport.h"
#include "wire/frame.h"
#include "wire/message_header.h"

namespace ramcore::rpc {

struct CallSettings {
  int64_t deadline_ns = runtime::kNever;  ///< clock of the dispatch; afterwards the call ends with DeadlineExceeded
  runtime::Priority priority = runtime::Priority::Client;
  uint32_t response_bytes_max = wire::kMessageBytesMax;
  /// Asked every kLookNs about a call that has had no answer for much longer than its peer usually takes (AnswerTimes),
  /// until the call ends. true ends the call with RetryLater; a late answer is ignored. Runs on the dispatch thread and
  /// touches no call. nullptr: the call waits for its deadline.
  bool (*is_hopeless)(void* context) = nullptr;
  void* context = nullptr;
  bool is_doubted = false;  ///< true: is_hopeless is asked from the beginning
};

/// How often calls that wait are looked at.
inline constexpr int64_t kLookNs = 10 * runtime::kNanosPerMilli;

/// One call to another process, from start() to `done`. Owned by the code that waits for it, which does not destroy it
/// in between (checked).
class OutgoingCall : private transport::PendingCall, private runtime::Timer {
 public:
  /// Runs once on the dispatch thread, from a step; may start other calls.
  using Done = void (*)(OutgoingCall&);
  explicit OutgoingCall(Done done);
  ~OutgoingCall();

  /// What is to be sent; empty once the transport has it.
  transport::TxMessage request;
  CallSettings settings;
  /// Set when the call is done. Ok: there is a response with at least a ResponseHeader, whose own status counts then.
  /// Otherwise why there is none: Unreachable, Refused, WrongServerId (there was no connection: the call did not
  /// happen), SessionLost, DeadlineExceeded, RetryLater (CallSettings::is_hopeless), Cancelled, Shutdown (the call may
  /// have happened if `was_sent`), TooLarge (the request is beyond the transport's limits), BadRequest (what came is
  /// shorter than a ResponseHeader).
  Status status = Status::Ok;
  transport::RxMessage response;
  bool was_sent = false;

  /// Status of the call or, if there is a response, of the response.
  Status outcome() const {
    return status != Status::Ok ? status : loadAs<wire::ResponseHeader>(response.head().data()).status;
  }

 private:
  friend class Connection;
  static void completed(transport::PendingCall& call, Status status, transport::RxMessage response);
  static void deadlinePassed(runtime::Timer& timer);

  Done done_;
  class Connection* connection_ = nullptr;
  OutgoingCall* next_ = nullptr;      // in the connection's queue or, if it was sent, among the calls in flight
  OutgoingCall* previous_ = nullptr;  // among the calls in flight
  uint32_t begun_look_ = 0;           // Caller::looks_ when it was started
  bool ends_now_ = false;             // found hopeless
};

}  // namespace ramcore::rpc
