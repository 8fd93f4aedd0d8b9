#include "transport/tcp/tcp_greeter.h"

#include <array>

#include "transport/session/open_failure.h"

namespace ramcore::transport::tcp {
namespace {

bool isNothingYet(const Error& error) {
  return error == asio::error::would_block || error == asio::error::try_again || error == asio::error::interrupted;
}

}  // namespace

void TcpGreeter::start(TcpSession& session) {
  HandshakeOptions options;
  options.side = session.is_accepted ? HandshakeSide::Acceptor : HandshakeSide::Initiator;
  options.identity = parts_.identity;
  options.expected_id = session.expected_id;
  options.slot_count = parts_.options.slots_per_session;
  options.peer_is_local = session.peer_is_local;
  if (session.is_accepted) {
    options.locators = parts_.listening.get();
    options.has_room_for_client = [this] { return parts_.sessions.admission().hasRoomForClient(); };
  }
  session.handshake.emplace(std::move(options), parts_.context.entropy);
  session.state = TcpSession::State::Greeting;
  parts_.hot.add(session);
}

void TcpGreeter::step(TcpSession& session, MessageSink& sink) {
  Handshake& handshake = *session.handshake;
  for (;;) {
    while (!handshake.toSend().empty()) {
      Error error;
      const size_t bytes = session.socket.writeSome(handshake.toSend(), error);
      if (isNothingYet(error)) return parts_.writer.armWrite(session);
      if (error) break;  // the read below tells why
      handshake.sent(bytes);
    }
    if (handshake.state() == Handshake::State::Done) return open(session, sink);
    if (handshake.state() == Handshake::State::Failed) return fail(session);
    if (!read(session)) return;
  }
}

// True if bytes came.
bool TcpGreeter::read(TcpSession& session) {
  Handshake& handshake = *session.handshake;
  std::array<std::byte, 512> bytes;
  const size_t wanted = std::min<size_t>(handshake.wantedBytes(), bytes.size());
  Error error;
  const size_t count = session.socket.readSome(std::span(bytes).first(wanted), error);
  if (isNothingYet(error)) {
    session.is_drained = error != asio::error::interrupted;
    parts_.hot.noteMiss(session);
    return false;
  }
  if (!error) {
    session.has_received = true;
    handshake.receive(ByteSpan(bytes).first(count));
    return true;
  }
  if (!session.is_accepted) {
    parts_.sessions.failConnect(session, std::string(kLeftInHandshake));
  } else if (session.has_received) {
    parts_.sessions.closeMalformed(session, "it left in the middle of its handshake");
  } else {
    parts_.sessions.close(session, Status::SessionLost);
  }
  return false;
}

void TcpGreeter::open(TcpSession& session, MessageSink& sink) {
  std::string address = std::move(session.peer.address);
  session.peer = session.handshake->peer();
  session.peer.address = std::move(address);
  session.peer.transport = parts_.limits.name;
  session.channel.emplace(parts_.memory.blocks, parts_.memory.shared_block, parts_.memory.unsent_bytes,
                          session.handshake->slotCount());
  session.handshake.reset();
  parts_.sessions.open(session, sink);
}

void TcpGreeter::fail(TcpSession& session) {
  const Handshake& handshake = *session.handshake;
  if (handshake.isBad()) parts_.sessions.noteBad();
  parts_.sessions.warnings().warn("no session with " + session.peer.address + ": " + handshake.failureText());
  session.open_failure = openFailureOf(handshake.status(), handshake.failureText());
  session.socket.shutDownSend();
  parts_.sessions.close(session, handshake.status());
}

}  // namespace ramcore::transport::tcp
