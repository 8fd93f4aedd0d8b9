// What a VerbsEndpoint does with its sockets, events and deadlines: rarely, because every look is a system call.
#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/os/stream_io.h"
#include "transport/session/open_failure.h"
#include "transport/session/pending_sessions.h"
#include "transport/verbs/verbs_endpoint.h"

namespace ramcore::transport::verbs {
namespace {

// An idle round takes some tens of nanoseconds: the clock is read every 50 us or so.
constexpr uint32_t kRoundsPerLook = 2048;
// While a session begins or ends, or borrowed bytes wait.
constexpr uint32_t kRoundsPerLookWhileDue = 128;
constexpr int64_t kIdleTimeoutsNs = 5 * runtime::kNanosPerMilli;
constexpr int64_t kBusyTimeoutsNs = 50 * runtime::kNanosPerMilli;
constexpr int64_t kDueTimeoutsNs = 1 * runtime::kNanosPerMilli;
constexpr int kAcceptsPerLook = 16;
constexpr std::byte kCloseByte{'c'};

}  // namespace

Outcome<Locator> VerbsEndpoint::listen(const Locator& where) {
  const std::string text = where.toString();
  if (where.scheme != "verbs") return Failure{Status::BadConfig, "'" + text + "' is no verbs locator"};
  if (!is_ready_.ok()) return is_ready_.error();
  if (listening_) return Failure{Status::BadConfig, "an endpoint listens at one verbs locator only"};
  if (identity_.secret.empty() && !isLocalOnly(where)) {
    return Failure{Status::BadConfig, "cannot listen at " + text +
                                          " without a cluster secret: other machines reach it; give a secret file, or "
                                          "listen at 127.0.0.1"};
  }
  SocketAddress bound;
  auto socket = listenAt(where, bound);
  if (!socket.ok()) return std::move(socket).error();
  listener_.key = sleeper_.listen(socket->get(), EPOLLIN, listener_);
  if (listener_.key == EpollSleeper::kNoKey) {
    return Failure{Status::IoError, "cannot listen at " + text +
                                        ": the system lets this user watch no more descriptors; raise "
                                        "/proc/sys/fs/epoll/max_user_watches"};
  }
  listening_ = std::move(socket).value();
  spare_ = openSpare();
  Locator locator = where;
  locator.port = bound.port();
  locators_ = {locator};
  return locator;
}

// In the next round, and before the thread sleeps.
void VerbsEndpoint::callTimeouts() {
  are_timeouts_due_ = true;
  rounds_to_timeouts_ = 1;
}

void VerbsEndpoint::ReadyFlag::onReady(uint32_t) {
  is_ready = true;
  endpoint.callTimeouts();
}

void Session::onReady(uint32_t events) { endpoint.onReady(*this, events); }

void VerbsEndpoint::onReady(Session& session, uint32_t) {
  if (!std::exchange(session.is_told, true)) told_.push_back(session.id);
  callTimeouts();
}

bool VerbsEndpoint::hasDeadlines() const {
  return young_count_ != 0 || !watched_.empty() || !draining_.empty() || !dying_.empty() || !waiting_reads_.empty() ||
         accept_pause_.isOn();
}

void VerbsEndpoint::runDueTimeouts(MessageSink& sink) {
  const bool is_due = hasDeadlines();
  rounds_to_timeouts_ = is_due ? kRoundsPerLookWhileDue : kRoundsPerLook;
  const bool was_busy = std::exchange(had_messages_, false);
  const int64_t now_ns = context_.clock.nowNs();
  if (!are_timeouts_due_) {
    const int64_t pause_ns = is_due ? kDueTimeoutsNs : was_busy ? kBusyTimeoutsNs : kIdleTimeoutsNs;
    if (young_count_ == 0 && now_ns - last_timeouts_ns_ < pause_ns) return;
  }
  // A thread that was kept from sleeping has been told of nothing.
  if (!are_timeouts_due_ || sleeper_.lookCount() == looks_seen_) sleeper_.poll();
  looks_seen_ = sleeper_.lookCount();
  are_timeouts_due_ = false;
  last_timeouts_ns_ = now_ns;
  runTimeouts(sink, now_ns);
}

void VerbsEndpoint::runTimeouts(MessageSink& sink, int64_t now_ns) {
  if (completions_ready_.is_ready) takeCompletionEvents();
  if (device_ready_.is_ready) takeDeviceEvents();
  if (listener_.is_ready) acceptConnections(now_ns);
  for (const SessionId id : std::exchange(told_, {})) {
    Session* session = find(id);
    if (session == nullptr) continue;
    session->is_told = false;
    if (session->state == Session::State::Open) {
      readSocket(*session);
    } else if (session->state != Session::State::Lost) {
      stepYoung(*session, sink);
    }
  }
  // Look-ups tell nobody when they are done.
  if (young_count_ != 0) {
    sessions_.forEach([this](Session& session) {
      if (session.state == Session::State::Resolving) stepResolving(session);
    });
  }
  checkDeadlines(now_ns);
}

void VerbsEndpoint::takeCompletionEvents() {
  completions_ready_.is_ready = false;
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(events_.get(), &queue, &context) == 0) {
    const bool is_arrival = queue == arrivals_.get();
    ++(is_arrival ? arrival_events_ : departure_events_);
    (is_arrival ? arrivals_armed_ : departures_armed_) = false;
  }
  // Each takes a lock in the library: many at once.
  constexpr uint32_t kAcknowledgedAtOnce = 64;
  if (arrival_events_ + departure_events_ < kAcknowledgedAtOnce) return;
  if (arrival_events_ != 0) ibv_ack_cq_events(arrivals_.get(), std::exchange(arrival_events_, 0));
  if (departure_events_ != 0) ibv_ack_cq_events(departures_.get(), std::exchange(departure_events_, 0));
}

void VerbsEndpoint::takeDeviceEvents() {
  device_ready_.is_ready = false;
  ibv_async_event event{};
  while (ibv_get_async_event(device_.context(), &event) == 0) {
    const std::string what = ibv_event_type_str(event.event_type);
    switch (event.event_type) {
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR: {
        const auto found = channels_.find(event.element.qp->qp_num);
        Session* const session = found == channels_.end() ? nullptr : found->second->session;
        if (session != nullptr) closeLater(*session, what, event.event_type != IBV_EVENT_QP_FATAL);
        break;
      }
      case IBV_EVENT_PORT_ACTIVE:
        context_.trace.info("verbs: " + device_.describe() + " is active again");
        break;
      case IBV_EVENT_PORT_ERR:
        warnings_.warn("the port of " + device_.describe() +
                       " is down: its sessions are lost if it stays so; check cable and switch");
        break;
      case IBV_EVENT_DEVICE_FATAL:
        warnings_.warn(device_.describe() + " has failed: " + what + "; restart this process");
        break;
      case IBV_EVENT_QP_LAST_WQE_REACHED:
      case IBV_EVENT_COMM_EST:
        break;
      default:
        context_.trace.debug("verbs: " + device_.describe() + ": " + what);
    }
    ibv_ack_async_event(&event);
  }
}

// ---- accepting

void VerbsEndpoint::acceptConnections(int64_t now_ns) {
  if (accept_pause_.lasts(now_ns)) return;
  for (int i = 0; i < kAcceptsPerLook; ++i) {
    Descriptor socket;
    SocketAddress from;
    const Accepted accepted = acceptFrom(listening_.get(), socket, from);
    if (accepted == Accepted::Exhausted) return refuseConnections(now_ns);
    accept_pause_.forget();
    if (accepted == Accepted::Gone) continue;
    if (accepted == Accepted::Nobody) {
      listener_.is_ready = false;
      return;
    }
    acceptConnection(std::move(socket), from, now_ns);
  }
  callTimeouts();  // for the others
}

void VerbsEndpoint::refuseConnections(int64_t now_ns) {
  SocketAddress from;
  listener_.is_ready = refuseWaiting(
      spare_, [&](Descriptor& socket) { return acceptFrom(listening_.get(), socket, from); },
      [&] { warnings_.warn("refusing the connection from " + from.toString() + ": " + std::string(kNoDescriptor)); });
  if (listener_.is_ready) accept_pause_.begin(now_ns);
}

void VerbsEndpoint::acceptConnection(Descriptor socket, const SocketAddress& from, int64_t now_ns) {
  const bool is_full =
      accepting_count_ >= options_.greetings_max || open_count_ + young_count_ >= options_.sessions_max;
  if (is_full && !dropPending()) {
    warnings_.warn("refusing a connection from " + from.toString() + ": " + std::string(kTooManySessions));
    return sayBusy(socket.get());
  }
  Session& session = addSession();
  ++accepting_count_;
  session.is_accepted = true;
  session.peer.address = from.toString();
  session.deadline_ns = now_ns + options_.greeting_timeout_ns;
  session.socket = std::move(socket);
  session.key = sleeper_.listen(session.socket.get(), EPOLLIN | EPOLLRDHUP, session);
  if (session.key == EpollSleeper::kNoKey) return close(session, Status::SessionLost);
  startGreeting(session, from.isLoopback());
}

// Makes room for another one, or for a connect of our own: to refuse it would let whoever opens connections and leaves
// them shut out everybody.
bool VerbsEndpoint::dropPending() {
  std::vector<PendingSession> pending;
  std::vector<Session*> sessions;
  sessions_.forEach([&](Session& session) {
    if (session.state != Session::State::Greeting || !session.is_accepted) return;
    const std::string_view address = session.peer.address;
    pending.push_back({.source = std::string(address.substr(0, address.rfind(':'))),
                       .deadline_ns = session.deadline_ns,
                       .is_silent = !session.greeting->hasReceived()});
    sessions.push_back(&session);
  });
  if (pending.empty()) return false;
  Session& leaving = *sessions[chooseWhoLeaves(pending)];
  warnings_.warn("dropping the connection from " + leaving.peer.address +
                 ": there are too many that have not said who they are");
  sayBusy(leaving.socket.get());
  close(leaving, Status::SessionLost);
  return true;
}

// ---- connecting

SessionId VerbsEndpoint::connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) {
  Session& session = addSession();
  session.is_announced = true;
  session.expected_id = expected_id;
  session.deadline_ns = deadline_ns;
  session.peer.address = where.host + ":" + std::to_string(where.port);
  session.state = Session::State::Resolving;
  callTimeouts();
  if (!is_ready_.ok()) {
    warnings_.warn(is_ready_.error().message);
    failConnect(session, "there are no queues");
  } else if (open_count_ + young_count_ > options_.sessions_max && !dropPending()) {
    failConnect(session, std::string(kTooManySessions));
  } else if (where.scheme != "verbs") {
    failConnect(session, "'" + where.toString() + "' is no verbs locator");
  } else {
    session.lookup = std::make_unique<HostLookup>();
    session.lookup->start(where.host, where.port);
  }
  return session.id;
}

void VerbsEndpoint::stepYoung(Session& session, MessageSink& sink) {
  if (session.state == Session::State::Connecting) stepConnecting(session);
  if (session.state == Session::State::Greeting) stepGreeting(session, sink);
}

void VerbsEndpoint::stepResolving(Session& session) {
  switch (session.lookup->look()) {
    case HostLookup::State::Running:
      return;
    case HostLookup::State::Failed:
      return failLookup(session);
    case HostLookup::State::Found:
      return connectNext(session);
  }
}

void VerbsEndpoint::connectNext(Session& session) {
  session.state = Session::State::Connecting;
  const std::vector<SocketAddress>& addresses = session.lookup->addresses();
  while (session.next_address < addresses.size()) {
    closeSocket(session);
    session.socket = startConnecting(addresses[session.next_address++]);
    if (!session.socket) continue;
    session.key = sleeper_.listen(session.socket.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP, session);
    if (session.key != EpollSleeper::kNoKey) return;
  }
  failConnect(session, session.socket ? std::string(kNotWatched) : connectFailureText(errno));
}

void VerbsEndpoint::stepConnecting(Session& session) {
  const int error = connectError(session.socket.get());
  if (error == EINPROGRESS) return;
  const std::vector<SocketAddress>& addresses = session.lookup->addresses();
  if (error != 0) {
    if (session.next_address < addresses.size()) return connectNext(session);
    return failConnect(session, connectFailureText(error));
  }
  sleeper_.listenTo(session.key, EPOLLIN | EPOLLRDHUP);
  startGreeting(session, addresses[session.next_address - 1].isLoopback());
}

// At the level of debug: whoever retries decides what a person has to know.
void VerbsEndpoint::failConnect(Session& session, const std::string& why, OpenFailure::Kind kind) {
  context_.trace.debug("verbs: cannot reach " + session.peer.address + ": " + why);
  session.open_failure = {.kind = kind, .text = why};
  close(session, Status::Unreachable);
}

void VerbsEndpoint::failLookup(Session& session) {
  const std::string_view address = session.peer.address;
  const std::string host(address.substr(0, address.rfind(':')));
  const bool is_unknown = session.lookup->isUnknown();
  failConnect(session, is_unknown ? unknownHostText(host) : lookupFailureText(host, session.lookup->failureText()),
              is_unknown ? OpenFailure::Kind::UnknownName : OpenFailure::Kind::Unreachable);
}

// ---- greeting

void VerbsEndpoint::startGreeting(Session& session, bool peer_is_local) {
  HandshakeOptions handshake;
  handshake.side = session.is_accepted ? HandshakeSide::Acceptor : HandshakeSide::Initiator;
  handshake.identity = identity_;
  handshake.expected_id = session.expected_id;
  handshake.slot_count = options_.slots_per_session;
  handshake.peer_is_local = peer_is_local;
  if (session.is_accepted) {
    handshake.locators = locators_;
    handshake.has_room_for_client = [this] { return clients_.hasRoom(); };
  }
  session.greeting = std::make_unique<Greeting>(std::move(handshake), session.deadline_ns, context_.entropy);
  session.state = Session::State::Greeting;
  session.greeting->start(session.socket.get());
}

void VerbsEndpoint::stepGreeting(Session& session, MessageSink& sink) {
  Greeting& greeting = *session.greeting;
  const ConnectionTiming timing{.ack_timeout = options_.ack_timeout};
  for (;;) {
    switch (greeting.step(session.socket.get(), timing)) {
      case Greeting::Step::Pending:
        return;
      case Greeting::Step::WantsPair: {
        // The handshake has just asked whether there is room: others ask before this session is open.
        session.is_bounded = session.is_accepted && ClientShare::isOf(greeting.peer().role);
        if (session.is_bounded) clients_.add();
        std::string why;
        auto pair = makePair(session.is_accepted, greeting.slotCount(), why);
        if (pair == nullptr) {
          warnings_.warn("no session with " + session.peer.address + ": " + why);
          return close(session, session.is_accepted ? Status::SessionLost : Status::Unreachable);
        }
        greeting_pairs_[pair->number()] = session.id;
        greeting.setPair(std::move(pair), ReceiveBuffers::kBytes);
        continue;
      }
      case Greeting::Step::Ready:
        openSession(session, sink);
        // What the peer said behind it.
        return readSocket(session);
      case Greeting::Step::Failed:
        if (greeting.isBad()) ++bad_count_;
        if (greeting.isBad() || greeting.status() != Status::Unreachable ||
            (greeting.isServer() && greeting.isRefusal())) {
          warnings_.warn("no session with " + session.peer.address + ": " + greeting.failureText());
        }
        session.open_failure = openFailureOf(greeting.status(), greeting.failureText());
        return close(session, session.is_accepted ? Status::SessionLost : greeting.status());
    }
  }
}

// The socket of an open session carries one byte, when it ends in order, and ends with the peer.
void VerbsEndpoint::readSocket(Session& session) {
  std::byte bytes[16];
  while (!session.peer_has_ended) {
    size_t count = 0;
    switch (receiveSome(session.socket.get(), bytes, count)) {
      case StreamLook::Nothing:
        return;
      case StreamLook::Bytes:
        if (count != 1 || bytes[0] != kCloseByte || std::exchange(session.ends_in_order, true)) {
          return closeMalformed(session, "bytes on the socket that mean nothing");
        }
        break;
      case StreamLook::Ended:
        session.peer_has_ended = true;
        session.ended_at = arrival_count_;
        ended_.push_back(session.id);
        return;
    }
  }
}

void VerbsEndpoint::closeSocket(Session& session) {
  sleeper_.unlisten(std::exchange(session.key, EpollSleeper::kNoKey));
  session.socket.reset();
}

// ---- deadlines

void VerbsEndpoint::checkDeadlines(int64_t now_ns) {
  if (young_count_ != 0) {
    sessions_.forEach([&](Session& session) {
      if (session.state == Session::State::Open || session.state == Session::State::Lost) return;
      if (session.deadline_ns > now_ns) return;
      if (session.is_accepted) {
        closeMalformed(session, "it did not finish its handshake in time");
      } else {
        failConnect(session, std::string(kNoAnswerInTime));
      }
    });
  }
  if (!watched_.empty()) checkBorrowed(now_ns);
  if (!draining_.empty()) endDrains(now_ns);
}

int64_t VerbsEndpoint::nextDeadlineNs() const {
  int64_t next_ns = std::min(nextBorrowedNs(), accept_pause_.untilNs());
  const int64_t soon_ns = context_.clock.nowNs() + kDueTimeoutsNs;
  sessions_.forEach([&](const Session& session) {
    if (session.state == Session::State::Open || session.state == Session::State::Lost) return;
    next_ns = std::min(next_ns, session.state == Session::State::Resolving ? soon_ns : session.deadline_ns);
  });
  for (const auto& channel : draining_) {
    next_ns = std::min(next_ns, channel->is_settled ? soon_ns : channel->drain_until_ns);
  }
  if (!waiting_reads_.empty() || !dying_.empty()) next_ns = std::min(next_ns, soon_ns);
  return next_ns;
}

}  // namespace ramcore::transport::verbs
