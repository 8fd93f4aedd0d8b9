#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/shm/message_pool.h"
#include "transport/shm/shm_sessions.h"

namespace ramcore::transport::shm {

/// Connects, and leads connections through the handshake to open sessions. One thread.
class ShmGreeter {
 public:
  /// What it works with. All borrowed.
  struct Parts {
    const ShmOptions& options;
    const ShmContext& context;
    const Limits& limits;
    const Identity& identity;
    const std::vector<Locator>& locators;  ///< where this endpoint listens: told to peers
    ShmSessions& sessions;
    MessagePool& messages;
  };
  explicit ShmGreeter(const Parts& parts) : parts_(parts) {}

  /// See Endpoint::connect.
  SessionId connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns);
  /// Begins the handshake of a connection that was accepted.
  /// @param who  the peer, for a person
  void startAccepted(Descriptor socket, const std::string& who, int64_t deadline_ns);
  /// Goes on with a session in state Greeting, as far as there are bytes.
  void step(Session& session, MessageSink& sink);

 private:
  std::unique_ptr<Greeting> make(HandshakeSide side, uint64_t expected_id, int64_t deadline_ns);
  void open(Session& session, MessageSink& sink);
  void fail(Session& session);

  const Parts parts_;
};

}  // namespace ramcore::transport::shm
