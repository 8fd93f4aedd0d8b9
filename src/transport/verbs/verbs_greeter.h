#pragma once

#include <vector>

#include "transport/verbs/channels.h"
#include "transport/verbs/verbs_queues.h"
#include "transport/verbs/verbs_sessions.h"

namespace ramcore::transport::verbs {

/// Leads connections through the handshake, and the exchange of addresses behind it, to open sessions. One thread.
class VerbsGreeter {
 public:
  /// What it works with. All borrowed.
  struct Parts {
    const VerbsOptions& options;
    const VerbsContext& context;
    const Limits& limits;
    const Identity& identity;
    const std::vector<Locator>& locators;  ///< where this endpoint listens: told to peers
    VerbsQueues& queues;
    Channels& channels;
    VerbsSessions& sessions;
  };
  explicit VerbsGreeter(const Parts& parts) : parts_(parts) {}

  /// Begins the handshake of a session whose socket is connected.
  void start(Session& session, bool peer_is_local);
  /// Goes on with a session in state Greeting, as far as there are bytes. Returns true if it has been opened: then the
  /// peer may have said more on the socket already.
  [[nodiscard]] bool step(Session& session, MessageSink& sink);

 private:
  bool givePair(Session& session);
  void open(Session& session, MessageSink& sink);
  void fail(Session& session);

  const Parts parts_;
};

}  // namespace ramcore::transport::verbs
