#include "rpc/connection.h"

#include <algorithm>

#include "base/check.h"
#include "rpc/caller.h"

namespace ramcore::rpc {
namespace {

constexpr int64_t kBackoffNsMin = 1 * runtime::kNanosPerMilli;
constexpr int64_t kBackoffNsMax = 800 * runtime::kNanosPerMilli;
// The late answer of an abandoned call frees its slot without a notice, so calls that wait for a slot look this often.
constexpr int64_t kSlotLookNs = 2 * runtime::kNanosPerMilli;

// Looks (one each kLookNs, 10 ms) during which calls waited and no call was answered.
constexpr uint32_t kLooksOfSilence = 50;      // from then on the endpoint is asked whether the peer has vanished, ...
constexpr uint32_t kLooksPerQuestion = 10;    // ... once in this many looks
constexpr uint32_t kLooksOfSilenceMax = 500;  // after this many (5 s) the session is closed whatever the endpoint says

// A server that the coordinator has not given its id yet is asked again after kNoIdYetNs, up to kNoIdYetTries times.
constexpr int64_t kNoIdYetNs = 5 * runtime::kNanosPerMilli;
constexpr uint32_t kNoIdYetTries = 40;
constexpr std::string_view kBestFirst[] = {"shm", "verbs", "dpdk", "tcp", "sim"};
constexpr int kRankCount = static_cast<int>(std::size(kBestFirst));

int rank(const transport::Locator& locator) {
  return static_cast<int>(std::find(std::begin(kBestFirst), std::end(kBestFirst), locator.scheme) -
                          std::begin(kBestFirst));
}

}  // namespace

// ---- OutgoingCall

OutgoingCall::OutgoingCall(Done done)
    : PendingCall(&OutgoingCall::completed), Timer(&OutgoingCall::deadlinePassed), done_(done) {}

OutgoingCall::~OutgoingCall() { RC_CHECK_MSG(connection_ == nullptr, "a call was destroyed before it ended"); }

void OutgoingCall::completed(PendingCall& pending, Status status, transport::RxMessage response) {
  auto& call = static_cast<OutgoingCall&>(pending);
  if (status == Status::Ok) call.connection_->noteAnswer(call.begun_look_);
  // Answers are hostile bytes, as requests are: the peer may be broken.
  if (status == Status::Ok && response.head().size() < sizeof(wire::ResponseHeader)) status = Status::BadRequest;
  if (status == Status::Ok) call.response = std::move(response);
  Connection& connection = *call.connection_;
  connection.finish(call, status);
  connection.drainQueue();
}

void OutgoingCall::deadlinePassed(Timer& timer) {
  auto& call = static_cast<OutgoingCall&>(timer);
  call.connection_->cancel(call, Status::DeadlineExceeded);
}

// ---- Connection

// The address with only those locators that this process has an endpoint for, the best first.
PeerAddress Connection::usableOf(PeerAddress address, const Caller& caller) {
  std::vector<transport::Locator> usable;
  for (int wanted = 0; wanted < kRankCount; ++wanted) {
    for (const transport::Locator& locator : address.locators) {
      if (rank(locator) == wanted && caller.endpointFor(locator) != nullptr) usable.push_back(locator);
    }
  }
  usable.swap(address.locators);
  return address;
}

Connection::Connection(Caller& caller, PeerAddress address)
    : caller_(caller),
      address_(usableOf(std::move(address), caller)),
      locators_(address_.locators),
      backoff_(kBackoffNsMin, kBackoffNsMax),
      retry_timer_(*this) {}

Connection::~Connection() { shutDown(Status::Cancelled); }

std::string_view Connection::transportName() const {
  return state_ == State::Open ? endpoint_->limits().name : std::string_view{};
}

void Connection::start(OutgoingCall& call) {
  RC_CHECK(call.connection_ == nullptr);
  call.connection_ = this;
  call.status = Status::Ok;
  call.was_sent = false;
  call.response = {};
  call.next_ = nullptr;
  call.begun_look_ = caller_.looks_;
  call.ends_now_ = false;
  if (!is_watched_) caller_.watch(*this);
  if (call.settings.deadline_ns != runtime::kNever) caller_.dispatch_.arm(call, call.settings.deadline_ns);
  const bool is_first = first_ == nullptr;
  Status sent = Status::RetryLater;
  // A call over a session whose peer has vanished would wait for the kernel's next retransmission; a new session is
  // faster.
  leaves_session_ = silent_looks_ >= kLooksOfSilence && isSilent();
  if (leaves_session_) [[unlikely]]
    caller_.lookSoon();
  if (state_ == State::Open && is_first && !leaves_session_) sent = trySend(call);
  if (sent == Status::Ok) return;
  (last_ != nullptr ? last_->next_ : first_) = &call;
  last_ = &call;
  if (state_ == State::Open && is_first) {
    if (sent == Status::TooLarge) {
      caller_.dispatch_.arm(retry_timer_, caller_.dispatch_.clock().nowNs());
    } else {
      lookAgainLater();
    }
  }
  if (state_ == State::Idle) {
    // The call goes through the queue even if there is no locator to connect to: `done` never runs inside start().
    state_ = State::Waiting;
    caller_.dispatch_.arm(retry_timer_, caller_.dispatch_.clock().nowNs());
  }
}

Status Connection::trySend(OutgoingCall& call) {
  const transport::CallOptions options{.priority = call.settings.priority,
                                       .response_bytes_max = call.settings.response_bytes_max};
  const Status sent = endpoint_->call(session_, call.request, options, call);
  call.was_sent = sent == Status::Ok;
  was_used_ |= call.was_sent;
  if (call.was_sent) linkSent(call);
  return sent;
}

void Connection::linkSent(OutgoingCall& call) {
  call.previous_ = nullptr;
  call.next_ = first_sent_;
  if (first_sent_ != nullptr) first_sent_->previous_ = &call;
  first_sent_ = &call;
}

void Connection::unlinkSent(OutgoingCall& call) {
  (call.previous_ != nullptr ? call.previous_->next_ : first_sent_) = call.next_;
  if (call.next_ != nullptr) call.next_->previous_ = call.previous_;
}

void Connection::lookAgainLater() {
  if (!has_abandoned_ || state_ != State::Open || retry_timer_.isArmed()) return;
  caller_.dispatch_.arm(retry_timer_, caller_.dispatch_.clock().nowNs() + kSlotLookNs);
}

void Connection::cancel(OutgoingCall& call, Status status) {
  RC_CHECK(call.connection_ == this);
  if (!call.was_sent) {
    unqueue(call);
  } else {
    endpoint_->abandon(session_, call);
    has_abandoned_ = true;
    // No call was answered since the last look, so the next call asks whether the peer has vanished before it is sent.
    if (status == Status::DeadlineExceeded && silent_looks_ != 0)
      silent_looks_ = std::max(silent_looks_, kLooksOfSilence);
    if (first_ != nullptr) lookAgainLater();
  }
  finish(call, status);
}

void Connection::unqueue(OutgoingCall& call) {
  for (OutgoingCall** at = &failing_; *at != nullptr; at = &(*at)->next_) {
    if (*at != &call) continue;
    *at = call.next_;
    return;
  }
  OutgoingCall* previous = nullptr;
  for (OutgoingCall* at = first_; at != nullptr; previous = at, at = at->next_) {
    if (at != &call) continue;
    (previous != nullptr ? previous->next_ : first_) = call.next_;
    if (last_ == &call) last_ = previous;
    return;
  }
}

void Connection::finish(OutgoingCall& call, Status status) {
  call.runtime::Timer::cancel();
  if (call.was_sent) unlinkSent(call);
  call.connection_ = nullptr;
  call.status = status;
  call.request = {};
  // Last: it may start the call again, or destroy it.
  call.done_(call);
}

void Connection::drainQueue() {
  while (state_ == State::Open && first_ != nullptr) {
    OutgoingCall& call = *first_;
    first_ = call.next_;
    if (first_ == nullptr) last_ = nullptr;
    const Status sent = trySend(call);
    if (sent == Status::Ok) continue;
    if (sent == Status::TooLarge) {
      finish(call, sent);
      continue;
    }
    // No slot (or the session has just ended and its loss will be told): back to the front.
    call.next_ = first_;
    first_ = &call;
    if (last_ == nullptr) last_ = &call;
    lookAgainLater();
    return;
  }
}

void Connection::failQueue(Status status) {
  // Only the calls that wait now are failed: a call that `done` starts again is a new attempt. `done` may also cancel
  // calls of this list.
  RC_CHECK(failing_ == nullptr);
  failing_ = std::exchange(first_, nullptr);
  last_ = nullptr;
  while (failing_ != nullptr) {
    OutgoingCall& call = *failing_;
    failing_ = call.next_;
    finish(call, status);
  }
}

void Connection::connectNext() {
  const int64_t now_ns = caller_.dispatch_.clock().nowNs();
  if (locators_.isAtBeginning()) connecting_since_ns_ = now_ns;
  const transport::Locator* locator = locators_.next(now_ns);
  if (locator == nullptr) {
    locators_.restart();
    no_id_tries_ = 0;
    state_ = State::Waiting;
    // The pause is counted from the beginning of the round: if the attempts took long, the next round begins almost at
    // once, and finds a network that is back.
    const int64_t again_ns = std::max(now_ns + kBackoffNsMin, connecting_since_ns_ + backoff_.nextNs(caller_.random_));
    caller_.dispatch_.arm(retry_timer_, again_ns);
    failQueue(address_.locators.empty() ? Status::Unreachable : last_failure_);
    return;
  }
  state_ = State::Connecting;
  endpoint_ = caller_.endpointFor(*locator);
  session_ = endpoint_->connect(*locator, address_.id, now_ns + caller_.connect_ns_);
  caller_.by_session_[{endpoint_, session_.index, session_.generation}] = this;
}

void Connection::retry(runtime::Timer& timer) {
  Connection& self = static_cast<RetryTimer&>(timer).connection;
  if (self.state_ == State::Open) return self.drainQueue();
  if (self.first_ == nullptr) {
    self.state_ = State::Idle;
    self.locators_.restart();
    self.no_id_tries_ = 0;
    return;
  }
  self.connectNext();
}

// Leaves a peer that is no coordinator before any call goes out: it could not answer calls meant for a coordinator.
void Connection::leaveUnknownPeer(const transport::Peer& peer) {
  const bool is_server = peer.role == transport::Role::Server;
  open_failure_ = {.kind = transport::OpenFailure::Kind::WrongRole,
                   .text = std::string(is_server ? "a server" : "another process") +
                           " listens there, and no coordinator; name the locator of the coordinator"};
  last_failure_ = Status::Refused;
  const transport::SessionId session = std::exchange(session_, {});
  caller_.by_session_.erase({endpoint_, session.index, session.generation});
  endpoint_->close(session);
  connectNext();
}

void Connection::onOpen() {
  const transport::Peer* const peer = endpoint_->peer(session_);
  if (address_.is_coordinator && peer != nullptr && peer->role != transport::Role::Coordinator) {
    return leaveUnknownPeer(*peer);
  }
  open_failure_ = {};
  state_ = State::Open;
  has_abandoned_ = false;
  was_used_ = false;
  has_answered_ = false;
  silent_looks_ = 0;
  leaves_session_ = false;
  locators_.restart();
  no_id_tries_ = 0;
  backoff_.restart();
  drainQueue();
}

void Connection::onLost(Status reason) {
  const bool was_open = state_ == State::Open;
  session_ = {};
  // A server without an id may be the one that is meant or another one. Callers are told WrongServerId.
  last_failure_ = reason == Status::RetryLater ? Status::WrongServerId : reason;
  if (!was_open) {
    open_failure_ = endpoint_->openFailure();
    // This server may still wait for the coordinator to give it its id. If the next, slower locator were tried now, the
    // id would probably be there by then, and this connection would stay on the slower transport. So the same locator
    // is tried again first.
    if (reason == Status::RetryLater && no_id_tries_ < kNoIdYetTries) {
      ++no_id_tries_;
      locators_.repeat();
      state_ = State::Waiting;
      caller_.dispatch_.arm(retry_timer_, caller_.dispatch_.clock().nowNs() + kNoIdYetNs);
      return;
    }
    connectNext();
    return;
  }
  reopenLater(reason);
}

// Called when a session that was open has ended.
void Connection::reopenLater(Status reason) {
  // Over shm and tcp a session that opened also works: if it ends without an answer, the process has gone, and its
  // locator is not avoided.
  const bool is_doubtful = was_used_ && !has_answered_ && transport::mayOpenAndNotWork(locators_.current());
  if (reason == Status::SessionLost && is_doubtful && locators_.hasOthers()) {
    locators_.avoid(caller_.dispatch_.clock().nowNs(), caller_.dispatch_.trace());
  }
  is_doubted_ = true;
  // The calls that were in flight have been completed by the endpoint. What still waits was never sent: try again.
  state_ = State::Waiting;
  caller_.dispatch_.arm(retry_timer_, caller_.dispatch_.clock().nowNs() + kBackoffNsMin);
}

// ---- silence

void Connection::noteAnswer(uint32_t begun_look) {
  has_answered_ = true;
  silent_looks_ = 0;
  leaves_session_ = false;
  is_doubted_ = false;
  times_.note(caller_.looks_ - begun_look);
}

// True if the session is to be given up: no call was answered for kLooksOfSilenceMax looks, or its endpoint says that
// the peer has vanished.
bool Connection::isSilent() const {
  return state_ == State::Open && (silent_looks_ >= kLooksOfSilenceMax || endpoint_->hasVanished(session_));
}

// Closes a session that is silent. This does not go through onLost(), which runs when the endpoint has ended the calls
// already.
void Connection::leaveSession() {
  const transport::SessionId session = session_;
  caller_.dispatch_.trace().debug("nothing is heard of " + locators_.current().toString() +
                                  " while calls wait; opening another session");
  caller_.by_session_.erase({endpoint_, session.index, session.generation});
  silent_looks_ = 0;
  leaves_session_ = false;
  last_failure_ = Status::SessionLost;
  state_ = State::Waiting;  // close() ends calls: those that they start have to wait
  endpoint_->close(session);
  session_ = {};
  reopenLater(Status::SessionLost);
}

void Connection::look() {
  if (!isWaitedFor()) return;
  if (state_ == State::Open && (first_sent_ != nullptr || has_abandoned_)) {
    ++silent_looks_;
    const bool asks = silent_looks_ >= kLooksOfSilence && silent_looks_ % kLooksPerQuestion == 0;
    if (leaves_session_ || (asks && isSilent())) leaveSession();
  }
  const uint32_t looks_max = times_.patienceLooks();
  const bool any_sent = markHopeless(first_sent_, looks_max);
  const bool any_queued = markHopeless(first_, looks_max);
  if (!any_sent && !any_queued) return;
  // The lists are searched from the beginning each time, because a call that ends may begin and end others.
  while (OutgoingCall* call = findHopeless()) {
    call->ends_now_ = false;
    cancel(*call, Status::RetryLater);
  }
}

bool Connection::markHopeless(OutgoingCall* first, uint32_t looks_max) const {
  bool any = false;
  for (OutgoingCall* call = first; call != nullptr; call = call->next_) {
    const CallSettings& settings = call->settings;
    if (settings.is_hopeless == nullptr) continue;
    // After a session was lost, calls do not wait for the usual time of an answer once more: is_hopeless is asked from
    // the first look on.
    if (!settings.is_doubted && !is_doubted_ && caller_.looks_ - call->begun_look_ < looks_max) continue;
    call->ends_now_ = settings.is_hopeless(settings.context);
    any |= call->ends_now_;
  }
  return any;
}

OutgoingCall* Connection::findHopeless() const {
  for (OutgoingCall* first : {first_sent_, first_}) {
    for (OutgoingCall* call = first; call != nullptr; call = call->next_) {
      if (call->ends_now_) return call;
    }
  }
  return nullptr;
}

void Connection::shutDown(Status status) {
  retry_timer_.cancel();
  if (session_) {
    const transport::SessionId session = session_;
    caller_.by_session_.erase({endpoint_, session.index, session.generation});
    // Changed before close(), which completes the calls in flight: calls that these start must not go to this session.
    state_ = State::Idle;
    session_ = {};
    endpoint_->close(session);
  }
  state_ = State::Idle;
  failQueue(status);
}

}  // namespace ramcore::rpc
