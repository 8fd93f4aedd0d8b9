#include "transport/verbs/verbs_greeter.h"

#include <utility>

#include "transport/session/open_failure.h"

namespace ramcore::transport::verbs {

void VerbsGreeter::start(Session& session, bool peer_is_local) {
  HandshakeOptions handshake;
  handshake.side = session.is_accepted ? HandshakeSide::Acceptor : HandshakeSide::Initiator;
  handshake.identity = parts_.identity;
  handshake.expected_id = session.expected_id;
  handshake.slot_count = parts_.options.slots_per_session;
  handshake.peer_is_local = peer_is_local;
  if (session.is_accepted) {
    handshake.locators = parts_.locators;
    handshake.has_room_for_client = [this] { return parts_.sessions.admission().hasRoomForClient(); };
  }
  session.greeting = std::make_unique<Greeting>(std::move(handshake), session.deadline_ns, parts_.context.entropy);
  session.state = Session::State::Greeting;
  session.greeting->start(session.socket.get());
}

bool VerbsGreeter::step(Session& session, MessageSink& sink) {
  const ConnectionTiming timing{.ack_timeout = parts_.options.ack_timeout};
  for (;;) {
    switch (session.greeting->step(session.socket.get(), timing)) {
      case Greeting::Step::Pending:
        return false;
      case Greeting::Step::WantsPair:
        if (!givePair(session)) return false;
        continue;
      case Greeting::Step::Ready:
        open(session, sink);
        return true;
      case Greeting::Step::Failed:
        fail(session);
        return false;
    }
  }
}

bool VerbsGreeter::givePair(Session& session) {
  Greeting& greeting = *session.greeting;
  // The handshake has just found room for this client. The room is taken now, because others ask before this session is
  // open.
  parts_.sessions.noteRole(session, greeting.peer().role);
  std::string why;
  auto pair = parts_.queues.makePair(session.is_accepted, greeting.slotCount(), why);
  if (pair == nullptr) {
    parts_.sessions.warnings().warn("no session with " + session.peer.address + ": " + why);
    parts_.sessions.close(session, session.is_accepted ? Status::SessionLost : Status::Unreachable);
    return false;
  }
  parts_.channels.addPair(*pair, session.id);
  greeting.setPair(std::move(pair), ReceiveBuffers::kBytes);
  return true;
}

void VerbsGreeter::open(Session& session, MessageSink& sink) {
  std::string address = std::move(session.peer.address);
  session.peer = session.greeting->peer();
  session.peer.address = std::move(address);
  session.peer.transport = parts_.limits.name;
  parts_.channels.open(session);
  parts_.sessions.open(session, sink);
}

void VerbsGreeter::fail(Session& session) {
  const Greeting& greeting = *session.greeting;
  if (greeting.isBad()) parts_.sessions.noteBad();
  if (greeting.isBad() || greeting.status() != Status::Unreachable || (greeting.isServer() && greeting.isRefusal())) {
    parts_.sessions.warnings().warn("no session with " + session.peer.address + ": " + greeting.failureText());
  }
  session.open_failure = openFailureOf(greeting.status(), greeting.failureText());
  parts_.sessions.close(session, session.is_accepted ? Status::SessionLost : greeting.status());
}

}  // namespace ramcore::transport::verbs
