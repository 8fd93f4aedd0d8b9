#pragma once

#include <vector>

#include "transport/session/timeout_rounds.h"
#include "transport/shm/shm_greeter.h"
#include "transport/shm/shm_sessions.h"

namespace ramcore::transport::shm {

/// Looks at the sockets beside the rings: those of sessions in handshake, and those of open ones, which carry wake-up
/// bytes and end with the peer. Wake-up bytes have done what they are for when the thread runs; they are read now and
/// then, so that they do not fill the socket. One thread.
class ShmSockets {
 public:
  /// All borrowed.
  ShmSockets(ShmSessions& sessions, ShmGreeter& greeter, TimeoutRounds& rounds)
      : sessions_(sessions), greeter_(greeter), rounds_(rounds) {}

  /// Called with the events that the sleeper tells of a session's socket.
  void onReady(Session& session, uint32_t events);
  /// Reads the sockets that the sleeper has told of.
  void readReady(MessageSink& sink);

 private:
  void look(Session& session, MessageSink& sink);
  void read(Session& session);

  ShmSessions& sessions_;
  ShmGreeter& greeter_;
  TimeoutRounds& rounds_;
  std::vector<SessionId> ready_;
};

}  // namespace ramcore::transport::shm
