#include "transport/shm/shm_sockets.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "transport/os/stream_io.h"

namespace ramcore::transport::shm {
namespace {

constexpr int kReadsPerLook = 4;
// A peer sends at most one wake-up byte for each time that we publish "asleep", and some 270 of them fill a socket.
// They are read when this many may be there.
constexpr uint32_t kNapsMax = 32;

}  // namespace

// A wake-up byte needs no reading: it has ended the sleep, and what it is about is in the ring.
void ShmSockets::onReady(Session& session, uint32_t events) {
  if (!std::exchange(session.is_told, true)) ready_.push_back(session.id);
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) session.is_end_told = true;
  const bool is_wake_up = session.state == Session::State::Open && !session.is_end_told;
  if (!is_wake_up || session.naps >= kNapsMax) rounds_.call();
}

void ShmSockets::readReady(MessageSink& sink) {
  for (const SessionId id : std::exchange(ready_, {})) {
    Session* session = sessions_.find(id);
    if (session != nullptr) look(*session, sink);
  }
}

void ShmSockets::look(Session& session, MessageSink& sink) {
  session.is_told = false;
  if (session.state == Session::State::Greeting) greeter_.step(session, sink);
  if (session.state == Session::State::Open && !session.peer_has_ended) read(session);
  const bool is_at_end = session.state == Session::State::Lost || session.peer_has_ended;
  if (!session.is_end_told || is_at_end) return;
  // There are more bytes in front of the socket's end than one look reads.
  session.is_told = true;
  ready_.push_back(session.id);
  rounds_.call();
}

void ShmSockets::read(Session& session) {
  session.naps = 0;
  std::byte bytes[256];
  for (int i = 0; i < kReadsPerLook; ++i) {
    size_t count = 0;
    switch (receiveSome(session.socket.get(), bytes, count)) {
      case StreamLook::Nothing:
        return;
      case StreamLook::Bytes:
        if (!std::all_of(bytes, bytes + count, [](std::byte byte) { return byte == kWakeUpByte; })) {
          sessions_.closeMalformed(session, "bytes on the socket that are no wake-up");
          return;
        }
        if (count < sizeof(bytes) && !session.is_end_told) return;
        break;
      case StreamLook::Ended:
        // What the peer published before its end still counts. The scan of the rings closes the session when all of
        // that is read.
        session.peer_has_ended = true;
        session.has_unread = true;
        return;
    }
  }
}

}  // namespace ramcore::transport::shm
