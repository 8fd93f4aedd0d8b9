#pragma once

#include <coroutine>
#include <map>
#include <memory>
#include <vector>

#include "rpc/connection.h"
#include "rpc/dispatch.h"
#include "wire/message_header.h"

namespace ramcore::rpc {

/// What awaiting a call gives.
struct CallResult {
  /// As OutgoingCall::outcome().
  Status status = Status::Ok;
  /// True if the request may have reached the peer: a mutation may have happened although `status` is an error.
  bool may_have_happened = false;
  transport::RxMessage response;

  /// The bytes behind the ResponseHeader; empty if there are none.
  ByteSpan body() const {
    return response.head().size() > sizeof(wire::ResponseHeader) ? response.head().subspan(sizeof(wire::ResponseHeader))
                                                                 : ByteSpan{};
  }
  uint32_t retryAfterUs() const {
    wire::ResponseHeader header{.status = Status::Ok};
    return wire::decode(response.head(), header) ? header.retry_after_us : 0;
  }
};

/// All outgoing connections of one dispatch thread.
///
/// One timer looks at all calls that wait, every kLookNs. How long a call has waited is counted in looks, so that
/// neither its start nor its end reads a clock.
class Caller final : private SessionObserver {
 public:
  /// Becomes the dispatch's session observer. `connect_ns` bounds one attempt to open a session.
  explicit Caller(Dispatch& dispatch, int64_t connect_ns = 2 * runtime::kNanosPerSecond);
  ~Caller();

  /// Names the identity that settleCluster() completes: that of the dispatch's endpoints. It outlives this object.
  void learnClusterFor(transport::Identity& identity) { identity_ = &identity; }
  /// From now on this process depends on being of this cluster. If it did not know its cluster yet, it does now, and
  /// refuses sessions with processes of another cluster, whatever listens at a coordinator's address later.
  void settleCluster(uint64_t cluster) {
    if (identity_ != nullptr && identity_->cluster == 0) identity_->cluster = cluster;
  }

  /// The connection to a process; made on first use, kept until the end. The dispatch's thread.
  Connection& connection(const PeerAddress& address);
  /// Ends all calls with Shutdown and closes all sessions. The dispatch's thread.
  void shutDown();

  /// Awaitable of one call, for coroutines on any executor of the process: `auto r = co_await caller.call(...)`.
  class Call;
  /// @param executor  where the awaiting coroutine runs and is resumed.
  /// @param address   must outlive the await.
  Call call(runtime::Executor& executor, const PeerAddress& address, transport::TxMessage request,
            const CallSettings& settings);

  /// A request with room for `head_bytes`. Any thread.
  transport::TxMessage allocate(uint32_t head_bytes) { return dispatch_.endpoints().front()->allocate(head_bytes); }
  Dispatch& dispatch() { return dispatch_; }
  /// Id of the peer and name of the transport of each open connection, for `ramcore status`. The dispatch's thread.
  std::vector<std::pair<uint64_t, std::string_view>> openConnections() const;

 private:
  friend class Connection;
  void onSessionOpen(transport::Endpoint& endpoint, transport::SessionId session) override;
  void onSessionLost(transport::Endpoint& endpoint, transport::SessionId session, Status reason) override;
  transport::Endpoint* endpointFor(const transport::Locator& locator) const;
  void watch(Connection& connection);
  void lookSoon();
  void look();

  struct LookTimer : runtime::Timer {
    explicit LookTimer(Caller& owner)
        : runtime::Timer([](Timer& timer) { static_cast<LookTimer&>(timer).caller.look(); }), caller(owner) {}
    Caller& caller;
  };
  struct SessionKey {
    const transport::Endpoint* endpoint;
    uint32_t index;
    uint32_t generation;
    auto operator<=>(const SessionKey&) const = default;
  };
  struct AddressLess {
    bool operator()(const PeerAddress& a, const PeerAddress& b) const;
  };

  Dispatch& dispatch_;
  const int64_t connect_ns_;
  runtime::Random random_;  // of pauses
  uint32_t looks_ = 0;
  std::vector<Connection*> watched_;  // connections for which calls wait, or did at the last look
  LookTimer look_timer_{*this};
  std::map<PeerAddress, std::unique_ptr<Connection>, AddressLess> connections_;
  std::map<SessionKey, Connection*> by_session_;  // only looked up, never walked: its order is by address
  transport::Identity* identity_ = nullptr;       // may not know its cluster yet
  bool shut_down_ = false;
};

class Caller::Call : private OutgoingCall, private runtime::Job {
 public:
  Call(Caller& caller, runtime::Executor& executor, const PeerAddress& address, transport::TxMessage message,
       const CallSettings& call_settings);
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle);
  CallResult await_resume();

 private:
  static void startOnDispatch(runtime::Job& job);
  static void finished(OutgoingCall& call);
  static void resume(runtime::Job& job);

  Caller& caller_;
  runtime::Executor& executor_;
  const PeerAddress& address_;
  std::coroutine_handle<> handle_;
};

}  // namespace ramcore::rpc
