#pragma once

#include "rpc/answer_times.h"
#include "rpc/locator_rounds.h"
#include "rpc/outgoing_call.h"
#include "runtime/growing_pause.h"
#include "transport/locator.h"

namespace ramcore::rpc {

class Caller;

/// Where a process can be reached, and which incarnation is meant.
struct PeerAddress {
  uint64_t id = 0;  ///< the peer proves it in the handshake; 0: any process that listens there (the coordinator)
  std::vector<transport::Locator> locators;
  bool is_coordinator = false;  ///< the peer proves it, too: calls to any other process there end with Refused

  bool operator==(const PeerAddress&) const = default;
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

  static PeerAddress usableOf(PeerAddress address, const Caller& caller);
  void connectNext();
  void onOpen();
  void leaveUnknownPeer(const transport::Peer& peer);
  void onLost(Status reason);
  void drainQueue();
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
  LocatorRounds locators_;    // of address_
  uint32_t no_id_tries_ = 0;  // attempts at a server without an id, since a session opened or all locators had failed
  bool was_used_ = false;     // session_ has taken a call
  bool has_answered_ = false;
  Status last_failure_ = Status::Unreachable;
  transport::OpenFailure open_failure_;
  runtime::DoublingPause backoff_;
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

}  // namespace ramcore::rpc
