#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "transport/os/epoll_sleeper.h"

namespace ramcore::transport {

/// Decides in which rounds an endpoint runs its timeouts: it asks the sleeper about its sockets and looks at deadlines.
/// Each time costs a system call, so the thread does it rarely while it spins, and at once when the sleeper has told of
/// something that cannot wait. For endpoints whose messages need no sockets. One thread.
class TimeoutRounds {
 public:
  /// How often the timeouts run, unless call() was called.
  struct Pace {
    uint32_t rounds = 0;   ///< until the clock is read again
    int64_t pause_ns = 0;  ///< between two runs; 0: whenever the clock is read
  };

  /// The sleeper is borrowed.
  explicit TimeoutRounds(EpollSleeper& sleeper) : sleeper_(sleeper) {}

  /// To be called once in each round. True: runsNow() is to be called in this one. One load and one store.
  bool isOver() { return --rounds_ == 0; }
  /// To be called when something with a deadline begins: isOver() returns true in the next round.
  void readClockSoon() { rounds_ = 1; }
  /// Makes isOver() return true within `rounds` rounds; if it does so sooner already, that stays.
  void readClockWithin(uint32_t rounds) { rounds_ = std::min(rounds_, rounds); }
  /// Makes the timeouts run in the next round, and before the thread sleeps.
  void call() {
    is_called_ = true;
    rounds_ = 1;
  }
  bool isCalled() const { return is_called_; }
  /// Time at which the timeouts last ran, in nanoseconds; 0: never. For callers that need no exact time.
  int64_t lastNs() const { return last_ns_; }

  /// Whether the timeouts are to be run in this round; if so the sleeper has been asked.
  bool runsNow(int64_t now_ns, const Pace& pace) {
    rounds_ = pace.rounds;
    if (!is_called_ && now_ns - last_ns_ < pace.pause_ns) return false;
    // The sleeper need not be asked if call() was called and it has looked since the last run: then it has told of its
    // sockets. If the thread was kept from sleeping, it has not looked.
    if (!is_called_ || sleeper_.lookCount() == looks_seen_) sleeper_.poll();
    looks_seen_ = sleeper_.lookCount();
    is_called_ = false;
    last_ns_ = now_ns;
    return true;
  }

 private:
  EpollSleeper& sleeper_;
  uint32_t rounds_ = 1;
  int64_t last_ns_ = 0;
  uint64_t looks_seen_ = 0;  // sleeper_.lookCount() at the last run
  bool is_called_ = false;
};

}  // namespace ramcore::transport
