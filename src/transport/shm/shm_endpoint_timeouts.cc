// What a ShmEndpoint does with its sockets and deadlines: rarely, because every look is a system call.
#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>

#include "transport/session/open_failure.h"
#include "transport/session/pending_sessions.h"
#include "transport/shm/shm_endpoint.h"

namespace ramcore::transport::shm {
namespace {

// An idle round takes about 10 ns: the clock is read every 50 us or so.
constexpr uint32_t kRoundsPerLook = 4096;
// While a handshake is going on its next step is looked for this often.
constexpr uint32_t kRoundsPerLookInGreeting = 256;
// How often the sockets are asked while the thread spins: with nothing else to do, and while messages flow. The second
// bounds how long a busy server lets a new client or the news of a death wait.
constexpr int64_t kIdleTimeoutsNs = 5 * runtime::kNanosPerMilli;
constexpr int64_t kBusyTimeoutsNs = 50 * runtime::kNanosPerMilli;
// While messages wait for room: their bytes may be borrowed, and go back to their owners in time.
constexpr int64_t kBlockedTimeoutsNs = 1 * runtime::kNanosPerMilli;
constexpr uint32_t kRoundsPerLookWhileBlocked = 256;
constexpr int kAcceptsPerLook = 16;
constexpr int kSocketReadsPerLook = 4;
// A peer sends at most one wake-up byte for each time that we say we sleep, and some 270 fill a socket. Before this
// many can be there they are read.
constexpr uint32_t kNapsMax = 32;

}  // namespace

Outcome<Locator> ShmEndpoint::listen(const Locator& where) {
  if (listener_.socket.fd() >= 0) return Failure{Status::BadConfig, "an endpoint listens at one shm path only"};
  auto listening = ListeningSocket::open(where.path);
  if (!listening.ok()) return listening.error();
  const EpollSleeper::Key key = sleeper_.listen(listening->fd(), EPOLLIN, listener_);
  if (key == EpollSleeper::kNoKey) {
    return Failure{Status::IoError, "cannot listen at " + where.toString() + ": " + std::string(kNotWatched)};
  }
  listener_.socket = std::move(listening).value();
  listener_.key = key;
  spare_ = openSpare();
  locators_ = {where};
  return where;
}

void ShmEndpoint::closeSocket(Session& session) {
  sleeper_.unlisten(std::exchange(session.key, EpollSleeper::kNoKey));
  session.socket.reset();
}

// In the next round, and before the thread sleeps.
void ShmEndpoint::callTimeouts() {
  are_timeouts_due_ = true;
  rounds_to_timeouts_ = 1;
}

void ShmEndpoint::Listener::onReady(uint32_t) {
  is_ready = true;
  endpoint.callTimeouts();
}

void Session::onReady(uint32_t events) { endpoint.onReady(*this, events); }

// A wake-up byte needs no reading: it has ended the sleep, and what it is about is in the ring.
void ShmEndpoint::onReady(Session& session, uint32_t events) {
  if (!std::exchange(session.is_told, true)) told_.push_back(session.id);
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) session.is_end_told = true;
  const bool is_wake_up = session.state == Session::State::Open && !session.is_end_told;
  if (!is_wake_up || session.naps >= kNapsMax) callTimeouts();
}

void ShmEndpoint::runDueTimeouts(MessageSink& sink) {
  rounds_to_timeouts_ = greeting_count_ != 0 ? kRoundsPerLookInGreeting
                        : blocked_.empty()   ? kRoundsPerLook
                                             : kRoundsPerLookWhileBlocked;
  const bool was_busy = std::exchange(had_messages_, false);
  const int64_t now_ns = context_.clock.nowNs();
  if (!are_timeouts_due_) {
    const int64_t pause_ns = !blocked_.empty() ? kBlockedTimeoutsNs : was_busy ? kBusyTimeoutsNs : kIdleTimeoutsNs;
    if (greeting_count_ == 0 && now_ns - last_timeouts_ns_ < pause_ns) return;
  }
  // Sockets may be what it is due for, and a thread that was kept from sleeping has been told of none.
  if (!are_timeouts_due_ || sleeper_.lookCount() == looks_seen_) sleeper_.poll();
  looks_seen_ = sleeper_.lookCount();
  are_timeouts_due_ = false;
  last_timeouts_ns_ = now_ns;
  runTimeouts(sink, now_ns);
}

void ShmEndpoint::runTimeouts(MessageSink& sink, int64_t now_ns) {
  if (listener_.is_ready) acceptConnections(now_ns);
  for (const SessionId id : std::exchange(told_, {})) {
    Session* session = find(id);
    if (session != nullptr) lookAtSocket(*session, sink);
  }
  checkDeadlines(now_ns);
}

void ShmEndpoint::lookAtSocket(Session& session, MessageSink& sink) {
  session.is_told = false;
  if (session.state == Session::State::Greeting) stepGreeting(session, sink);
  if (session.state == Session::State::Open && !session.peer_has_ended) readSocket(session);
  const bool is_at_end = session.state == Session::State::Lost || session.peer_has_ended;
  if (!session.is_end_told || is_at_end) return;
  // There is more in front of the end than one look takes.
  session.is_told = true;
  told_.push_back(session.id);
  callTimeouts();
}

void ShmEndpoint::acceptConnections(int64_t now_ns) {
  if (listener_.pause.lasts(now_ns)) return;
  for (int i = 0; i < kAcceptsPerLook; ++i) {
    Descriptor socket;
    const Accepted accepted = listener_.socket.accept(socket);
    if (accepted == Accepted::Exhausted) return refuseConnections(now_ns);
    listener_.pause.forget();
    if (accepted == Accepted::Gone) continue;
    if (accepted == Accepted::Nobody) {
      listener_.is_ready = false;
      return;
    }
    acceptConnection(std::move(socket), now_ns);
  }
  callTimeouts();  // for the others
}

void ShmEndpoint::refuseConnections(int64_t now_ns) {
  listener_.is_ready = refuseWaiting(
      spare_, [this](Descriptor& socket) { return listener_.socket.accept(socket); },
      [this] { warnings_.warn("refusing a connection: " + std::string(kNoDescriptor)); });
  if (listener_.is_ready) listener_.pause.begin(now_ns);
}

void ShmEndpoint::acceptConnection(Descriptor socket, int64_t now_ns) {
  std::string who;
  if (!peerIsSameUser(socket.get(), who)) {
    ++bad_count_;
    warnings_.warn("refused " + who + ": only the server's own user may connect");
    return;
  }
  const bool is_full =
      greeting_count_ >= options_.greetings_max || open_count_ + greeting_count_ >= options_.sessions_max;
  if (is_full && !dropPending()) {
    const bool are_sessions = open_count_ + greeting_count_ >= options_.sessions_max;
    warnings_.warn("refusing " + who + ": " +
                   (are_sessions ? std::string(kTooManySessions) : "too many sessions are being opened at once"));
    sayBusy(socket.get());
    return;
  }
  Session& session = addSession(std::move(socket));
  session.peer.address = who;
  session.greeting = makeGreeting(HandshakeSide::Acceptor, 0, now_ns + options_.greeting_timeout_ns);
  session.greeting->start(session.socket.get());
}

// Makes room for another one: to refuse it would let whoever opens connections and leaves them shut out everybody.
bool ShmEndpoint::dropPending() {
  std::vector<PendingSession> pending;
  std::vector<Session*> sessions;
  for (const auto& session : sessions_) {
    if (session == nullptr || session->state != Session::State::Greeting || !session->greeting->isServer()) continue;
    pending.push_back({.source = session->peer.address,
                       .deadline_ns = session->greeting->deadlineNs(),
                       .is_silent = !session->greeting->hasReceived()});
    sessions.push_back(session.get());
  }
  if (pending.empty()) return false;
  Session& leaving = *sessions[chooseWhoLeaves(pending)];
  warnings_.warn("dropping " + leaving.peer.address + ": there are too many that have not said who they are");
  sayBusy(leaving.socket.get());
  close(leaving, Status::SessionLost);
  return true;
}

void ShmEndpoint::stepGreeting(Session& session, MessageSink& sink) {
  Greeting& greeting = *session.greeting;
  switch (greeting.step(session.socket.get())) {
    case Greeting::Step::Pending:
      return;
    case Greeting::Step::Ready:
      openSession(session, sink);
      return;
    case Greeting::Step::Failed:
      if (greeting.isBad()) ++bad_count_;
      // Servers on several machines may have the same path; who looks for one of them finds that of its own machine.
      if (greeting.wasForAnother()) {
        context_.trace.debug("shm: no session with " + session.peer.address + ": " + greeting.failureText());
      } else if (greeting.isBad() || greeting.status() != Status::Unreachable ||
                 (greeting.isServer() && greeting.isRefusal())) {
        warnings_.warn("no session with " + session.peer.address + ": " + greeting.failureText());
      }
      session.open_failure = openFailureOf(greeting.status(), greeting.failureText());
      close(session, greeting.status());
      return;
  }
}

// The socket of an open session carries wake-up bytes, and ends with the peer.
void ShmEndpoint::readSocket(Session& session) {
  session.naps = 0;
  std::byte bytes[256];
  for (int i = 0; i < kSocketReadsPerLook; ++i) {
    size_t count = 0;
    switch (receiveSome(session.socket.get(), bytes, count)) {
      case StreamLook::Nothing:
        return;
      case StreamLook::Bytes:
        if (!std::all_of(bytes, bytes + count, [](std::byte byte) { return byte == kWakeUpByte; })) {
          closeMalformed(session, "bytes on the socket that are no wake-up");
          return;
        }
        if (count < sizeof(bytes) && !session.is_end_told) return;
        break;
      case StreamLook::Ended:
        // What the peer published before its end still counts; the scan of the rings loses the session behind it.
        session.peer_has_ended = true;
        session.has_unread = true;
        return;
    }
  }
}

void ShmEndpoint::checkDeadlines(int64_t now_ns) {
  if (greeting_count_ != 0) {
    for (const auto& session : sessions_) {
      if (session == nullptr || session->state != Session::State::Greeting) continue;
      if (session->greeting->deadlineNs() > now_ns) continue;
      if (session->greeting->isServer()) {
        closeMalformed(*session, "it did not finish its handshake in time");
      } else {
        session->open_failure = {.kind = OpenFailure::Kind::Unreachable, .text = std::string(kNoAnswerInTime)};
        close(*session, Status::Unreachable);
      }
    }
  }
  for (const SessionId id : blocked_) {
    if (Session* session = findOpen(id)) checkStall(*session, now_ns);
  }
  checkReceiving(now_ns);
  if (std::exchange(is_short_of_memory_, false)) evictStalled(now_ns);
}

void ShmEndpoint::checkReceiving(int64_t now_ns) {
  size_t kept = 0;
  for (const SessionId id : receiving_) {
    Session* session = findOpen(id);
    if (session == nullptr) continue;
    const FrameReader& reader = session->channel->reader;
    Reception& reception = session->reception;
    reception.is_going_on = reader.hasPart();
    if (!reception.is_going_on) continue;
    receiving_[kept++] = id;
    if (reception.message_count != reader.messageCount()) {
      reception.message_count = reader.messageCount();
      reception.progress.begin(now_ns, reader.receivedBytes());
    }
    reception.progress.note(now_ns, reader.receivedBytes());
    if (now_ns - reception.progress.sinceNs() >= options_.stall_close_ns) {
      closeMalformedLater(*session, "it does not send the rest of its message");
    }
  }
  receiving_.resize(kept);
}

// The one that holds most and stands still gives way: whoever gets on will free memory.
void ShmEndpoint::evictStalled(int64_t now_ns) {
  Session* worst = nullptr;
  uint64_t worst_bytes = 0;
  const auto look = [&](Session* session, const Progress& progress) {
    if (!session->is_bounded || now_ns - progress.sinceNs() < options_.stall_evict_ns) return;
    const uint64_t bytes = session->channel->writer.queuedBytes() + session->channel->reader.heldBytes();
    if (bytes <= worst_bytes) return;
    worst = session;
    worst_bytes = bytes;
  };
  for (const SessionId id : blocked_) {
    if (Session* session = findOpen(id)) look(session, session->sending);
  }
  for (const SessionId id : receiving_) {
    if (Session* session = findOpen(id)) look(session, session->reception.progress);
  }
  if (worst != nullptr) closeMalformedLater(*worst, "memory for messages is used up, and it stands still");
}

void ShmEndpoint::checkStall(Session& session, int64_t now_ns) {
  const int64_t stalled_ns = now_ns - session.sending.sinceNs();
  if (stalled_ns >= options_.stall_close_ns) {
    closeMalformedLater(session, "it does not read its messages");
    return;
  }
  FrameWriter& writer = session.channel->writer;
  // All of it when the peer stands still, so that it holds nothing; else what has waited for too long.
  const bool stands_still = !session.is_copied_out && stalled_ns >= options_.stall_copy_ns;
  const int64_t overdue_ns = now_ns - options_.borrowed_ns_max;
  if (!stands_still && writer.oldestBorrowedNs() > overdue_ns) return;
  const auto copied = writer.copyOutQueue(options_.stall_bytes_max, stands_still ? now_ns : overdue_ns);
  if (!copied) {
    ++borrowed_counts_.sessions_dropped;
    closeMalformedLater(
        session, "it leaves too many answers unread to copy them out of the log, which they keep from being freed");
    return;
  }
  borrowed_counts_.messages_copied_out += *copied;
  if (stands_still) session.is_copied_out = true;
}

int64_t ShmEndpoint::nextDeadlineNs() const {
  int64_t next_ns = listener_.pause.untilNs();
  for (const auto& session : sessions_) {
    if (session == nullptr) continue;
    if (session->state == Session::State::Greeting) next_ns = std::min(next_ns, session->greeting->deadlineNs());
    if (session->state == Session::State::Open && session->is_blocked) {
      const int64_t patience_ns = session->is_copied_out ? options_.stall_close_ns : options_.stall_copy_ns;
      next_ns = std::min(next_ns, session->sending.sinceNs() + patience_ns);
      const int64_t borrowed_ns = session->channel->writer.oldestBorrowedNs();
      if (borrowed_ns != runtime::kNever) next_ns = std::min(next_ns, borrowed_ns + options_.borrowed_ns_max);
    }
    if (session->state == Session::State::Open && session->reception.is_going_on) {
      next_ns = std::min(next_ns, session->reception.progress.sinceNs() + options_.stall_close_ns);
    }
  }
  return next_ns;
}

}  // namespace ramcore::transport::shm
