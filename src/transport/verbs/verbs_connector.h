#pragma once

#include "transport/verbs/verbs_greeter.h"
#include "transport/verbs/verbs_sessions.h"

namespace ramcore::transport::verbs {

/// Gets from an address to a connected socket: looks names up, and tries one address after the other. One thread.
class VerbsConnector {
 public:
  /// All borrowed.
  VerbsConnector(EpollSleeper& sleeper, TimeoutRounds& rounds, const VerbsQueues& queues, VerbsSessions& sessions,
                 VerbsGreeter& greeter)
      : sleeper_(sleeper), rounds_(rounds), queues_(queues), sessions_(sessions), greeter_(greeter) {}

  /// See Endpoint::connect.
  SessionId connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns);
  /// Goes on with sessions in state Resolving: a look-up has to be asked whether it is done.
  void lookForNames();
  /// Goes on with a session in state Connecting.
  void step(Session& session);

 private:
  void look(Session& session);
  void connectNext(Session& session);
  void failLookup(Session& session);

  EpollSleeper& sleeper_;
  TimeoutRounds& rounds_;
  const VerbsQueues& queues_;
  VerbsSessions& sessions_;
  VerbsGreeter& greeter_;
};

}  // namespace ramcore::transport::verbs
