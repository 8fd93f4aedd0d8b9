#pragma once

#include <vector>

#include "transport/session/accept_pause.h"
#include "transport/session/timeout_rounds.h"
#include "transport/shm/shm_greeter.h"
#include "transport/shm/shm_sessions.h"

namespace ramcore::transport::shm {

/// Listens for one endpoint, and accepts connections. One thread.
class ShmAcceptor final : private ReadinessListener {
 public:
  /// All borrowed.
  ShmAcceptor(const ShmOptions& options, EpollSleeper& sleeper, ShmSessions& sessions, TimeoutRounds& rounds)
      : options_(options), sleeper_(sleeper), sessions_(sessions), rounds_(rounds) {}
  ShmAcceptor(const ShmAcceptor&) = delete;
  ShmAcceptor& operator=(const ShmAcceptor&) = delete;
  ~ShmAcceptor() { sleeper_.unlisten(key_); }

  /// See Endpoint::listen.
  Outcome<Locator> listen(const Locator& where);
  const std::vector<Locator>& locators() const { return locators_; }
  /// Accepts the connections that the sleeper has told of, and gives them to `greeter`.
  void acceptReady(ShmGreeter& greeter, int64_t now_ns);
  /// Whether accepting waits until there may be a descriptor again.
  bool isPaused() const { return pause_.isOn(); }
  int64_t nextNs() const { return pause_.untilNs(); }

 private:
  void onReady(uint32_t) override;
  void accept(ShmGreeter& greeter, Descriptor socket, int64_t now_ns);
  void refuse(int64_t now_ns);

  const ShmOptions& options_;
  EpollSleeper& sleeper_;
  ShmSessions& sessions_;
  TimeoutRounds& rounds_;
  ListeningSocket socket_;
  EpollSleeper::Key key_ = EpollSleeper::kNoKey;
  AcceptPause pause_;
  bool is_ready_ = false;  // until accepting found nothing
  std::vector<Locator> locators_;
  Descriptor spare_;  // given up for a moment when no descriptor is left, so that a connection can be refused
};

}  // namespace ramcore::transport::shm
