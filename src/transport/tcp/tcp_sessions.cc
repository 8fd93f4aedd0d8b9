#include "transport/tcp/tcp_sessions.h"

#include <sys/epoll.h>

#include <algorithm>

#include "transport/session/accepting.h"
#include "transport/session/open_failure.h"
#include "transport/session/pending_sessions.h"

namespace ramcore::transport::tcp {

TcpSessions::TcpSessions(TcpEndpoint& owner, const TcpOptions& options, const TcpContext& context, HotSessions& hot,
                         SleeperRounds& rounds)
    : owner_(owner),
      context_(context),
      hot_(hot),
      rounds_(rounds),
      warnings_(context.clock, context.trace, "tcp: "),
      admission_(options.sessions_max, options.handshakes_max) {}

TcpSessions::~TcpSessions() {
  table_.forEach([this](TcpSession& session) { letGo(session); });
}

// ---- beginning

TcpSessions::Pointer TcpSessions::add(bool is_accepted) {
  Pointer session = table_.add([this](SessionId id) { return std::make_shared<TcpSession>(owner_, id); });
  session->is_accepted = is_accepted;
  pending_.push_back(session->id);
  admission_.begins(is_accepted);
  rounds_.askSoon();
  return session;
}

bool TcpSessions::takeSocket(TcpSession& session, StreamSocket socket) {
  session.socket = std::move(socket);
  session.key = context_.sleeper.listen(session.socket.fd(), kReadEvents, session);
  return session.key != EpollSleeper::kNoKey;
}

void TcpSessions::open(TcpSession& session, MessageSink& sink) {
  session.state = TcpSession::State::Open;
  session.is_announced = true;
  session.is_bounded = session.is_accepted && ClientShare::isOf(session.peer.role);
  admission_.opens(session.is_accepted);
  if (session.is_bounded) admission_.provesToBeClient();
  sink.onSessionOpen(session.id);
}

// ---- pending

void TcpSessions::closeOverdue(TcpSession& session) {
  if (session.is_accepted) {
    closeMalformed(session, "it did not finish its handshake in time");
  } else {
    failConnect(session, std::string(kNoAnswerInTime));
  }
}

int64_t TcpSessions::nextPendingNs() const {
  int64_t next_ns = runtime::kNever;
  for (const SessionId id : pending_) {
    const TcpSession* session = find(id);
    if (session == nullptr) continue;
    next_ns = std::min(next_ns, session->deadline_ns);
    if (session->state == TcpSession::State::Connecting)
      next_ns = std::min(next_ns, session->connecting.attempt_again_ns);
  }
  return next_ns;
}

void TcpSessions::dropAccepted() {
  PendingChoice<TcpSession> choice;
  for (const SessionId id : pending_) {
    TcpSession* session = find(id);
    if (session == nullptr || session->state != TcpSession::State::Greeting || !session->is_accepted) continue;
    const std::string_view address = session->peer.address;
    choice.add(*session, {.source = std::string(address.substr(0, address.rfind(':'))),
                          .deadline_ns = session->deadline_ns,
                          .is_silent = !session->has_received});
  }
  TcpSession* const leaving = choice.whoLeaves();
  RC_CHECK(leaving != nullptr);
  warnings_.warn("dropping the connection from " + leaving->peer.address +
                 ": there are too many that have not said who they are");
  sayBusy(leaving->socket.fd());
  close(*leaving, Status::SessionLost);
}

// ---- ends

void TcpSessions::close(TcpSession& session, Status reason) {
  if (session.state == TcpSession::State::Lost) return;
  admission_.ends(session.state == TcpSession::State::Open, session.is_accepted, session.is_bounded);
  session.state = TcpSession::State::Lost;
  session.lost_reason = reason;
  closed_.add(session);
  if (session.connecting.resolver) session.connecting.resolver->cancel();
  closeSocket(session);
  if (!session.channel) return;
  session.channel->queue.clear();
  while (PendingCall* call = session.channel->calls.takeAny()) call->complete(*call, Status::SessionLost, RxMessage());
}

void TcpSessions::closeMalformed(TcpSession& session, std::string_view why) {
  if (session.state == TcpSession::State::Lost) return;
  ++bad_count_;
  warnings_.warn("closing the session with " + session.peer.address + ": " + std::string(why));
  close(session, Status::SessionLost);
}

// Traced at the level of debug: the caller, which may try again, decides what a person has to know.
void TcpSessions::failConnect(TcpSession& session, const std::string& why, OpenFailure::Kind kind) {
  context_.trace.debug("tcp: cannot reach " + session.peer.address + ": " + why);
  session.open_failure = {.kind = kind, .text = why};
  close(session, Status::Unreachable);
}

void TcpSessions::closeFailed() {
  for (const FailedSessions::Failed& failed : failed_.take()) {
    TcpSession* session = findOpen(failed.session);
    if (session == nullptr) continue;
    context_.trace.debug("tcp: lost " + session->peer.address + ": " + failed.why);
    close(*session, Status::SessionLost);
  }
}

void TcpSessions::report(MessageSink& sink, OpenFailure& open_failure) {
  closed_.report(sink, open_failure, [this](TcpSession& session) {
    hot_.remove(session);
    letGo(session);
    table_.remove(session.id);
  });
}

void TcpSessions::closeSocket(TcpSession& session) {
  context_.sleeper.unlisten(std::exchange(session.key, EpollSleeper::kNoKey));
  session.socket.close();
  session.connecting.attempts.clear();
}

// Handlers of Asio may keep the session alive for longer, so what it has of the endpoint is given up here.
void TcpSessions::letGo(TcpSession& session) {
  session.endpoint = nullptr;
  session.channel.reset();
  session.handshake.reset();
  closeSocket(session);
}

}  // namespace ramcore::transport::tcp
