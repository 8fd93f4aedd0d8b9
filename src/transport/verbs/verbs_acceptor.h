#pragma once

#include <vector>

#include "transport/session/accept_pause.h"
#include "transport/verbs/ready_flag.h"
#include "transport/verbs/verbs_greeter.h"
#include "transport/verbs/verbs_sessions.h"

namespace ramcore::transport::verbs {

/// Listens for one endpoint, and accepts connections. One thread.
class VerbsAcceptor {
 public:
  /// All borrowed.
  VerbsAcceptor(const VerbsOptions& options, const Identity& identity, EpollSleeper& sleeper, TimeoutRounds& rounds,
                const VerbsQueues& queues, VerbsSessions& sessions)
      : options_(options),
        identity_(identity),
        sleeper_(sleeper),
        rounds_(rounds),
        queues_(queues),
        sessions_(sessions),
        ready_(sleeper, rounds) {}

  /// See Endpoint::listen.
  Outcome<Locator> listen(const Locator& where);
  const std::vector<Locator>& locators() const { return locators_; }
  /// Accepts the connections that the sleeper has told of, and gives them to `greeter`.
  void acceptReady(VerbsGreeter& greeter, int64_t now_ns);
  /// Whether accepting waits until there may be a descriptor again.
  bool isPaused() const { return pause_.isOn(); }
  int64_t nextNs() const { return pause_.untilNs(); }

 private:
  void accept(VerbsGreeter& greeter, Descriptor socket, const SocketAddress& from, int64_t now_ns);
  void refuse(int64_t now_ns);

  const VerbsOptions& options_;
  const Identity& identity_;
  EpollSleeper& sleeper_;
  TimeoutRounds& rounds_;
  const VerbsQueues& queues_;
  VerbsSessions& sessions_;
  Descriptor socket_;
  ReadyFlag ready_;
  std::vector<Locator> locators_;
  AcceptPause pause_;
  Descriptor spare_;  // given up for a moment when no descriptor is left, so that a connection can be refused
};

}  // namespace ramcore::transport::verbs
