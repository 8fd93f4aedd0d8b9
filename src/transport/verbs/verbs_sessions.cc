#include "transport/verbs/verbs_sessions.h"

#include <algorithm>

#include "transport/session/accepting.h"
#include "transport/session/open_failure.h"
#include "transport/session/pending_sessions.h"

namespace ramcore::transport::verbs {

VerbsSessions::VerbsSessions(const Parts& parts)
    : parts_(parts), admission_(parts.options.sessions_max, parts.options.greetings_max) {}

VerbsSessions::~VerbsSessions() {
  table_.forEach([this](Session& session) {
    closeSocket(session);
    if (session.channel != nullptr) parts_.channels.keepToTheEnd(std::move(session.channel));
  });
}

Session& VerbsSessions::add(bool is_accepted) {
  Session& session = *table_.add([this](SessionId id) { return std::make_unique<Session>(parts_.owner, id); });
  session.is_accepted = is_accepted;
  admission_.begins(is_accepted);
  return session;
}

void VerbsSessions::noteRole(Session& session, Role role) {
  session.is_bounded = session.is_accepted && ClientShare::isOf(role);
  if (session.is_bounded) admission_.provesToBeClient();
}

void VerbsSessions::open(Session& session, MessageSink& sink) {
  parts_.early.open(session);
  session.greeting.reset();
  session.state = Session::State::Open;
  session.is_announced = true;
  admission_.opens(session.is_accepted);
  sink.onSessionOpen(session.id);
}

void VerbsSessions::closeSocket(Session& session) {
  parts_.sleeper.unlisten(std::exchange(session.key, EpollSleeper::kNoKey));
  session.socket.reset();
}

// ---- pending

void VerbsSessions::checkPending(int64_t now_ns) {
  if (admission_.pendingCount() == 0) return;
  table_.forEach([&](Session& session) {
    if (session.state == Session::State::Open || session.state == Session::State::Lost) return;
    if (session.deadline_ns > now_ns) return;
    if (session.is_accepted) {
      closeMalformed(session, "it did not finish its handshake in time");
    } else {
      failConnect(session, std::string(kNoAnswerInTime));
    }
  });
}

int64_t VerbsSessions::nextPendingNs(int64_t soon_ns) const {
  int64_t next_ns = runtime::kNever;
  table_.forEach([&](const Session& session) {
    if (session.state == Session::State::Open || session.state == Session::State::Lost) return;
    next_ns = std::min(next_ns, session.state == Session::State::Resolving ? soon_ns : session.deadline_ns);
  });
  return next_ns;
}

bool VerbsSessions::dropAccepted() {
  PendingChoice<Session> choice;
  table_.forEach([&](Session& session) {
    if (session.state != Session::State::Greeting || !session.is_accepted) return;
    const std::string_view address = session.peer.address;
    choice.add(session, {.source = std::string(address.substr(0, address.rfind(':'))),
                         .deadline_ns = session.deadline_ns,
                         .is_silent = !session.greeting->hasReceived()});
  });
  Session* const leaving = choice.whoLeaves();
  if (leaving == nullptr) return false;
  parts_.warnings.warn("dropping the connection from " + leaving->peer.address +
                       ": there are too many that have not said who they are");
  sayBusy(leaving->socket.get());
  close(*leaving, Status::SessionLost);
  return true;
}

// ---- ends

void VerbsSessions::close(Session& session, Status reason) {
  if (session.state == Session::State::Lost) return;
  const bool was_open = session.state == Session::State::Open;
  admission_.ends(was_open, session.is_accepted, session.is_bounded);
  if (!was_open) {
    if (session.greeting != nullptr && session.greeting->hasPair()) parts_.channels.dropPair(*session.greeting);
    parts_.early.forget(session);
  }
  session.state = Session::State::Lost;
  session.lost_reason = reason;
  closed_.add(session);
  parts_.sleeper.unlisten(std::exchange(session.key, EpollSleeper::kNoKey));
  session.lookup.reset();
  session.greeting.reset();
  if (!was_open) {
    session.socket.reset();
    return;
  }
  parts_.waiting_reads.forget(session.id);
  // Calls are taken one after the other, because a call that completes may abandon others that still wait.
  while (PendingCall* call = session.channel->calls.takeAny()) call->complete(*call, Status::SessionLost, RxMessage());
  // If this side shuts the session down, what was posted still leaves, and then the peer is told.
  const bool in_order = reason == Status::Shutdown && !session.ends_in_order;
  parts_.channels.drain(std::move(session.channel), std::move(session.socket), in_order);
}

void VerbsSessions::closeMalformed(Session& session, std::string_view why) {
  if (session.state == Session::State::Lost) return;
  ++bad_count_;
  parts_.warnings.warn("closing the session with " + session.peer.address + ": " + std::string(why));
  close(session, Status::SessionLost);
}

// Traced at the level of debug: the caller, which may try again, decides what a person has to know.
void VerbsSessions::failConnect(Session& session, const std::string& why, OpenFailure::Kind kind) {
  parts_.context.trace.debug("verbs: cannot reach " + session.peer.address + ": " + why);
  session.open_failure = {.kind = kind, .text = why};
  close(session, Status::Unreachable);
}

void VerbsSessions::closeFailed() {
  for (const FailedSessions::Failed& failed : failed_.take()) {
    Session* session = findOpen(failed.session);
    if (session == nullptr) continue;
    if (failed.is_malformed) {
      closeMalformed(*session, failed.why);
    } else {
      parts_.context.trace.debug("verbs: lost " + session->peer.address + ": " + failed.why);
      close(*session, Status::SessionLost);
    }
  }
}

void VerbsSessions::noteEnded(Session& session) {
  session.peer_has_ended = true;
  session.ended_at = parts_.queues.arrivalCount();
  ended_.push_back(session.id);
}

void VerbsSessions::closeEnded(bool nothing_arrived) {
  for (const SessionId id : std::exchange(ended_, {})) {
    Session* session = findOpen(id);
    if (session == nullptr) continue;
    if (nothing_arrived || parts_.queues.hasTakenAll(session->ended_at)) {
      close(*session, session->ends_in_order ? Status::Shutdown : Status::SessionLost);
    } else {
      ended_.push_back(id);
    }
  }
}

void VerbsSessions::report(MessageSink& sink, OpenFailure& open_failure) {
  closed_.report(sink, open_failure, [this](Session& session) { table_.remove(session.id); });
}

}  // namespace ramcore::transport::verbs
