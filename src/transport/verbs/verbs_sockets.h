#pragma once

#include <vector>

#include "transport/session/timeout_rounds.h"
#include "transport/verbs/verbs_connector.h"
#include "transport/verbs/verbs_greeter.h"
#include "transport/verbs/verbs_sessions.h"

namespace ramcore::transport::verbs {

/// Looks at the sockets beside the queue pairs: those of sessions that are not open yet, and those of open ones, which
/// end with their peers. One thread.
class VerbsSockets {
 public:
  /// All borrowed.
  VerbsSockets(VerbsSessions& sessions, VerbsConnector& connector, VerbsGreeter& greeter, TimeoutRounds& rounds)
      : sessions_(sessions), connector_(connector), greeter_(greeter), rounds_(rounds) {}

  /// To be called when the session's socket may have something to read: the sleeper has told of it, or a message came
  /// early.
  void note(Session& session);
  /// Looks at those that were noted.
  void readNoted(MessageSink& sink);

 private:
  void look(Session& session, MessageSink& sink);
  void read(Session& session);

  VerbsSessions& sessions_;
  VerbsConnector& connector_;
  VerbsGreeter& greeter_;
  TimeoutRounds& rounds_;
  std::vector<SessionId> noted_;
};

}  // namespace ramcore::transport::verbs
