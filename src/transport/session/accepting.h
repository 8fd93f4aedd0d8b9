#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>

#include "transport/os/descriptor.h"
#include "transport/os/stream_io.h"
#include "transport/session/accept_pause.h"
#include "transport/session/handshake.h"

namespace ramcore::transport {

/// What one attempt to accept a connection gave.
enum class Accepted : uint8_t {
  Yes,
  Nobody,     ///< no connection waits
  Gone,       ///< a connection waited and has ended, or the network failed it; there may be more
  Exhausted,  ///< the process or the system has no descriptor, or no memory, for a connection that may wait
};

/// Accepts the next connection that waits. Never blocks. `from` and `from_bytes` are as for accept(2).
inline Accepted acceptNext(int listener, Descriptor& socket, sockaddr* from = nullptr,
                           socklen_t* from_bytes = nullptr) {
  socket = Descriptor(::accept4(listener, from, from_bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) return Accepted::Yes;
  switch (errno) {
    case EAGAIN:
      return Accepted::Nobody;
    // The kernel looks for a descriptor before it looks whether a connection waits.
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return Accepted::Exhausted;
    default:
      return Accepted::Gone;
  }
}

/// Tells the peer of a connection that there is no room for it now, so that it tries again.
inline void sayBusy(int socket) {
  const wire::HandshakeRefused refused = busyRefusal();
  size_t sent = 0;
  static_cast<void>(sendSome(socket, bytesOf(refused), sent));
}

/// Refuses waiting connections when no descriptor is left for them. It is not known whether any wait: the kernel looks
/// for a descriptor first. Up to AcceptPause::kRefusalsMax peers are told, one after the other with the spare
/// descriptor, so that they go elsewhere or come back later. Then the caller accepts nothing for a while.
/// @param spare   what openSpare() gave, or nothing; a new one afterwards.
/// @param accept  as acceptNext() on the listener: Accepted(Descriptor&).
/// @param note    reports one refused connection to a person: void().
/// @return False if no connection waits any more.
template <typename Accept, typename Note>
bool refuseWaiting(Descriptor& spare, const Accept& accept, const Note& note) {
  spare.reset();
  Accepted accepted = Accepted::Gone;
  for (int i = 0; i < AcceptPause::kRefusalsMax; ++i) {
    Descriptor socket;
    accepted = accept(socket);
    if (accepted == Accepted::Gone) continue;
    if (accepted != Accepted::Yes) break;  // none waits, or the spare descriptor has been taken elsewhere
    note();
    sayBusy(socket.get());
  }
  spare = openSpare();
  return accepted != Accepted::Nobody;
}

}  // namespace ramcore::transport
