#include "transport/shm/shm_greeter.h"

#include "transport/session/open_failure.h"

namespace ramcore::transport::shm {

SessionId ShmGreeter::connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) {
  ShmSessions& sessions = parts_.sessions;
  // Callers learn a server's path together with its id, also those of other users, which cannot use it. They fail
  // without a warning and without connecting. A path without an expected id, that of a coordinator, was named by a
  // person.
  const bool is_listed = expected_id != 0;
  Outcome<Descriptor> socket = is_listed && belongsToAnotherUser(where.path)
                                   ? Failure{Status::Refused, "it is another user's"}
                                   : connectTo(where.path);
  Session& session = sessions.add(socket.ok() ? std::move(socket).value() : Descriptor(), false);
  session.is_announced = true;
  if (!socket.ok()) {
    const std::string& why = socket.error().message;
    parts_.context.trace.debug("shm: " + where.toString() + " cannot be used: " + why);
    session.open_failure = {.kind = OpenFailure::Kind::Unreachable, .text = why};
    sessions.close(session, Status::Unreachable);
    return session.id;
  }
  std::string who;
  if (!peerIsSameUser(session.socket.get(), who)) {
    sessions.warnings().warn(where.toString() + " belongs to " + who + ", not to us; refused");
    session.open_failure = {.kind = OpenFailure::Kind::Refused,
                            .text = "it belongs to " + who + ", and shm is for one user; use tcp"};
    sessions.close(session, Status::Refused);
    return session.id;
  }
  session.peer.address = where.toString();
  session.greeting = make(HandshakeSide::Initiator, expected_id, deadline_ns);
  session.greeting->start(session.socket.get());
  return session.id;
}

void ShmGreeter::startAccepted(Descriptor socket, const std::string& who, int64_t deadline_ns) {
  Session& session = parts_.sessions.add(std::move(socket), true);
  session.peer.address = who;
  session.greeting = make(HandshakeSide::Acceptor, 0, deadline_ns);
  session.greeting->start(session.socket.get());
}

std::unique_ptr<Greeting> ShmGreeter::make(HandshakeSide side, uint64_t expected_id, int64_t deadline_ns) {
  HandshakeOptions handshake;
  handshake.side = side;
  handshake.identity = parts_.identity;
  handshake.expected_id = expected_id;
  handshake.slot_count = parts_.options.slots_per_session;
  handshake.peer_is_local = true;
  if (side == HandshakeSide::Acceptor) {
    handshake.locators = parts_.locators;
    handshake.has_room_for_client = [this] { return parts_.sessions.admission().hasRoomForClient(); };
  }
  return std::make_unique<Greeting>(std::move(handshake), parts_.options.ring_bytes, deadline_ns,
                                    parts_.context.entropy);
}

void ShmGreeter::step(Session& session, MessageSink& sink) {
  switch (session.greeting->step(session.socket.get())) {
    case Greeting::Step::Pending:
      return;
    case Greeting::Step::Ready:
      return open(session, sink);
    case Greeting::Step::Failed:
      return fail(session);
  }
}

void ShmGreeter::open(Session& session, MessageSink& sink) {
  Greeting& greeting = *session.greeting;
  const std::string address = std::move(session.peer.address);
  session.peer = greeting.peer();
  session.peer.address = address;
  session.peer.transport = parts_.limits.name;
  session.channel =
      std::make_unique<Channel>(greeting.takeMemory(), greeting.isServer(), parts_.messages, greeting.slotCount());
  session.greeting.reset();
  parts_.sessions.open(session, sink);
}

void ShmGreeter::fail(Session& session) {
  const Greeting& greeting = *session.greeting;
  if (greeting.isBad()) parts_.sessions.noteBad();
  // Servers on several machines may have the same path; a caller that looks for one of them finds that of its own
  // machine.
  if (greeting.wasForAnother()) {
    parts_.context.trace.debug("shm: no session with " + session.peer.address + ": " + greeting.failureText());
  } else if (greeting.isBad() || greeting.status() != Status::Unreachable ||
             (greeting.isServer() && greeting.isRefusal())) {
    parts_.sessions.warnings().warn("no session with " + session.peer.address + ": " + greeting.failureText());
  }
  session.open_failure = openFailureOf(greeting.status(), greeting.failureText());
  parts_.sessions.close(session, greeting.status());
}

}  // namespace ramcore::transport::shm
