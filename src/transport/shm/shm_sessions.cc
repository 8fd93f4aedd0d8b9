#include "transport/shm/shm_sessions.h"

#include <sys/epoll.h>

#include <algorithm>

#include "transport/session/accepting.h"
#include "transport/session/open_failure.h"
#include "transport/session/pending_sessions.h"

namespace ramcore::transport::shm {

ShmSessions::ShmSessions(ShmEndpoint& owner, const ShmOptions& options, const ShmContext& context,
                         EpollSleeper& sleeper, RingScan& rings)
    : owner_(owner),
      sleeper_(sleeper),
      rings_(rings),
      warnings_(context.clock, context.trace, "shm: "),
      admission_(options.sessions_max, options.greetings_max) {}

ShmSessions::~ShmSessions() {
  table_.forEach([this](Session& session) { closeSocket(session); });
}

Session& ShmSessions::add(Descriptor socket, bool is_accepted) {
  Session& session = *table_.add([this](SessionId id) { return std::make_unique<Session>(owner_, id); });
  session.is_accepted = is_accepted;
  session.socket = std::move(socket);
  admission_.begins(is_accepted);
  if (session.socket) session.key = sleeper_.listen(session.socket.get(), EPOLLIN | EPOLLRDHUP, session);
  return session;
}

void ShmSessions::open(Session& session, MessageSink& sink) {
  session.state = Session::State::Open;
  session.is_announced = true;
  session.is_bounded = session.is_accepted && ClientShare::isOf(session.peer.role);
  if (session.is_bounded) admission_.provesToBeClient();
  admission_.opens(session.is_accepted);
  rings_.add(session);
  sink.onSessionOpen(session.id);
}

// ---- pending

void ShmSessions::checkPending(int64_t now_ns) {
  if (admission_.pendingCount() == 0) return;
  table_.forEach([&](Session& session) {
    if (session.state != Session::State::Greeting || session.greeting->deadlineNs() > now_ns) return;
    if (session.is_accepted) {
      closeMalformed(session, "it did not finish its handshake in time");
    } else {
      session.open_failure = {.kind = OpenFailure::Kind::Unreachable, .text = std::string(kNoAnswerInTime)};
      close(session, Status::Unreachable);
    }
  });
}

int64_t ShmSessions::nextPendingNs() const {
  int64_t next_ns = runtime::kNever;
  if (admission_.pendingCount() == 0) return next_ns;
  table_.forEach([&](const Session& session) {
    if (session.state == Session::State::Greeting) next_ns = std::min(next_ns, session.greeting->deadlineNs());
  });
  return next_ns;
}

bool ShmSessions::dropAccepted() {
  PendingChoice<Session> choice;
  table_.forEach([&](Session& session) {
    if (session.state != Session::State::Greeting || !session.is_accepted) return;
    choice.add(session, {.source = session.peer.address,
                         .deadline_ns = session.greeting->deadlineNs(),
                         .is_silent = !session.greeting->hasReceived()});
  });
  Session* const leaving = choice.whoLeaves();
  if (leaving == nullptr) return false;
  warnings_.warn("dropping " + leaving->peer.address + ": there are too many that have not said who they are");
  sayBusy(leaving->socket.get());
  close(*leaving, Status::SessionLost);
  return true;
}

// ---- ends

void ShmSessions::close(Session& session, Status reason) {
  if (session.state == Session::State::Lost) return;
  admission_.ends(session.state == Session::State::Open, session.is_accepted, session.is_bounded);
  session.state = Session::State::Lost;
  session.lost_reason = reason;
  closed_.add(session);
  closeSocket(session);
  if (session.channel == nullptr) return;
  while (PendingCall* call = session.channel->calls.takeAny()) call->complete(*call, Status::SessionLost, RxMessage());
}

void ShmSessions::closeMalformed(Session& session, std::string_view why) {
  if (session.state == Session::State::Lost) return;
  ++bad_count_;
  warnings_.warn("closing the session with " + session.peer.address + ": " + std::string(why));
  close(session, Status::SessionLost);
}

void ShmSessions::closeFailed() {
  for (const FailedSessions::Failed& failed : failed_.take()) {
    if (Session* session = findOpen(failed.session)) closeMalformed(*session, failed.why);
  }
}

void ShmSessions::report(MessageSink& sink, OpenFailure& open_failure) {
  closed_.report(sink, open_failure, [this](Session& session) {
    rings_.remove(session);
    table_.remove(session.id);
  });
}

void ShmSessions::closeSocket(Session& session) {
  sleeper_.unlisten(std::exchange(session.key, EpollSleeper::kNoKey));
  session.socket.reset();
}

}  // namespace ramcore::transport::shm
