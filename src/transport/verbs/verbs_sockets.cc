#include "transport/verbs/verbs_sockets.h"

#include <utility>

#include "transport/os/stream_io.h"

namespace ramcore::transport::verbs {

void VerbsSockets::note(Session& session) {
  if (!std::exchange(session.is_told, true)) noted_.push_back(session.id);
  rounds_.call();
}

void VerbsSockets::readNoted(MessageSink& sink) {
  for (const SessionId id : std::exchange(noted_, {})) {
    Session* session = sessions_.find(id);
    if (session != nullptr) look(*session, sink);
  }
}

void VerbsSockets::look(Session& session, MessageSink& sink) {
  session.is_told = false;
  if (session.state == Session::State::Open) return read(session);
  if (session.state == Session::State::Connecting) connector_.step(session);
  if (session.state == Session::State::Greeting && greeter_.step(session, sink)) read(session);
}

// The socket of an open session carries one byte, when it ends in order, and ends with the peer.
void VerbsSockets::read(Session& session) {
  std::byte bytes[16];
  while (!session.peer_has_ended) {
    size_t count = 0;
    switch (receiveSome(session.socket.get(), bytes, count)) {
      case StreamLook::Nothing:
        return;
      case StreamLook::Bytes:
        if (count != 1 || bytes[0] != kCloseByte || std::exchange(session.ends_in_order, true)) {
          return sessions_.closeMalformed(session, "bytes on the socket that mean nothing");
        }
        break;
      case StreamLook::Ended:
        return sessions_.noteEnded(session);
    }
  }
}

}  // namespace ramcore::transport::verbs
