#pragma once

#include <coroutine>
#include <map>
#include <memory>
#include <vector>

#include "rpc/answer_times.h"
#include "rpc/dispatch.h"
#include "runtime/growing_pause.h"
#include "transport/locator.h"
#include "wire/frame.h"
#include "wire/message_header.h"

namespace ramcore::rpc {

class Caller;

/// Where a process can be reached, and which incarnation is meant.
struct PeerAddress {
  uint64_t id = 0;  ///< the peer proves it in the handshake; 0: any process that listens there (the coordinator)
  std::vector<transport::Locator> locators;
  bool is_coordinator = false;  ///< the peer proves it, too: calls to any other process there end with Refused

  bool operator==(const PeerAddress&) const = default;
};

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

/// Sessions to one process, one at a time: opened at the first use and again after a loss, on the best locator that
/// both sides have.
///
/// A network may let the handshake through but not the messages: the handshake of verbs goes over tcp, which passes
/// where RoCE packets are dropped; that of dpdk is in short Ethernet frames, which pass where longer ones are dropped.
/// So if a session over a locator of such a transport opens, takes calls and ends with SessionLost without having
/// answered any, the locator may be of no use: if the peer has others, it is tried for 30 s only when no other one is
/// left.
///
/// If nothing is heard of a session while calls wait, it is closed and another one is opened: as soon as its endpoint
/// says that the peer has vanished, and in any case after 5 s. Calls in flight end with SessionLost.
/// Thread: the dispatch's own.
class Connection {
 public:
  Connection(Caller& caller, PeerAddress address);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Starts a call; `done` never runs inside. The call waits in a queue while the session is being opened or has no
  /// free call slot. A request beyond the transport's limits ends with TooLarge.
  void start(OutgoingCall& call);
  /// Ends a call that has not finished with `status`; `done` runs inside.
  void cancel(OutgoingCall& call, Status status);
  /// Fails every call with `status` and closes the session.
  void shutDown(Status status);

  const PeerAddress& address() const { return address_; }
  bool isOpen() const { return state_ == State::Open; }
  /// Why the last attempt to open a session failed. Its kind is None while a session is open or if no attempt has
  /// failed.
  const transport::OpenFailure& openFailure() const { return open_failure_; }
  /// Name of the transport in use, empty while not open.
  std::string_view transportName() const;

 private:
  friend class Caller;
  friend class OutgoingCall;
  enum class State : uint8_t { Idle, Connecting, Open, Waiting };

  /// State of the locator with the same index in address_.locators.
  struct Doubt {
    int64_t avoided_until_ns = 0;  // 0: the locator is not avoided
    bool is_told = false;          // a warning was printed
  };

  const transport::Locator* nextLocator();
  void connectNext();
  void avoidLocator();
  void onOpen();
  void leaveUnknownPeer(const transport::Peer& peer);
  void onLost(Status reason);
  void drainQueue();
  void watchForSlots();
  void failQueue(Status status);
  void finish(OutgoingCall& call, Status status);
  Status trySend(OutgoingCall& call);
  void lookAgainLater();
  void unqueue(OutgoingCall& call);
  void linkSent(OutgoingCall& call);
  void unlinkSent(OutgoingCall& call);
  void noteAnswer(uint32_t begun_look);
  void look();
  bool isWaitedFor() const { return first_sent_ != nullptr || first_ != nullptr; }
  bool markHopeless(OutgoingCall* first, uint32_t looks_max) const;
  OutgoingCall* findHopeless() const;
  bool isSilent() const;
  void leaveSession();
  void reopenLater(Status reason);
  static void retry(runtime::Timer& timer);

  struct RetryTimer : runtime::Timer {
    explicit RetryTimer(Connection& owner) : runtime::Timer(&Connection::retry), connection(owner) {}
    Connection& connection;
  };

  Caller& caller_;
  PeerAddress address_;
  State state_ = State::Idle;
  std::vector<Doubt> doubts_;
  size_t next_locator_ = 0;   // in two rounds: first the locators that are not avoided, then the others
  size_t locator_ = 0;        // of session_
  uint32_t no_id_tries_ = 0;  // attempts at a server without an id, since a session opened or all locators had failed
  bool was_used_ = false;     // session_ has taken a call
  bool has_answered_ = false;
  Status last_failure_ = Status::Unreachable;
  transport::OpenFailure open_failure_;
  runtime::DrawnPause backoff_;
  transport::Endpoint* endpoint_ = nullptr;
  transport::SessionId session_;
  OutgoingCall* first_ = nullptr;
  OutgoingCall* last_ = nullptr;
  OutgoingCall* failing_ = nullptr;  // taken out of the queue by failQueue(), which is going through them
  bool has_abandoned_ = false;       // session_ has abandoned calls, whose call slots become free without a notice
  bool is_watched_ = false;          // in Caller::watched_
  uint32_t silent_looks_ = 0;        // looks while calls waited for session_, since it last answered one
  bool is_doubted_ = false;          // a session was lost, and no call has been answered since
  bool leaves_session_ = false;      // at the next look
  int64_t connecting_since_ns_ = 0;  // of the present round through the locators
  OutgoingCall* first_sent_ = nullptr;
  AnswerTimes times_;
  RetryTimer retry_timer_;
};

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
  /// Ends everything with Shutdown. The dispatch's thread.
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
