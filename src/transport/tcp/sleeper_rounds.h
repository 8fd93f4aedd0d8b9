#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "transport/tcp/asio_sleeper.h"

namespace ramcore::transport::tcp {

/// Decides in which rounds a thread that spins asks its sleeper what has become ready: each question is a system call.
/// One thread.
class SleeperRounds {
 public:
  /// The sleeper is borrowed.
  explicit SleeperRounds(const AsioSleeper& sleeper) : sleeper_(sleeper) {}

  /// To be called once in each round. True: the sleeper is to be asked in this one.
  bool isDue() { return --rounds_ == 0; }
  /// To be called when something begins that needs the sleeper in the next round.
  void askSoon() { rounds_ = 1; }
  /// The sleeper was asked.
  /// @param was_idle  it told of nothing, and no session is hot
  void noteAsked(bool was_idle) { cold_rounds_ = was_idle ? std::min(cold_rounds_ * 2, kRoundsColdMax) : kRoundsCold; }
  void planNext(bool has_deadlines, bool has_hot) { rounds_ = has_deadlines ? 1 : has_hot ? kRoundsHot : cold_rounds_; }

  /// After a sleep the sleeper is not asked at once: it has told already what woke the thread. If there was no sleep,
  /// because another endpoint had something to do, the rounds until the sleeper is asked count on, because that may go
  /// on for long.
  void awake(bool has_hot) {
    const uint64_t looks = sleeper_.lookCount();
    if (std::exchange(looks_seen_, looks) != looks) {
      cold_rounds_ = 1;
      rounds_ = has_hot ? kRoundsHot : kRoundsCold;
    } else if (!has_hot) {
      rounds_ = std::min(rounds_, std::max(cold_rounds_, kRoundsCold));
    }
  }

 private:
  // While no session is hot a round costs next to nothing, so that the first message of a quiet session waits less than
  // a microsecond longer ...
  static constexpr uint32_t kRoundsCold = 8;
  // ... unless the thread spins for another endpoint and nothing happens here for a while: then the question would be
  // most of what its rounds cost.
  static constexpr uint32_t kRoundsColdMax = 64;
  static constexpr uint32_t kRoundsHot = 128;

  const AsioSleeper& sleeper_;
  uint32_t rounds_ = 1;
  uint32_t cold_rounds_ = 1;  // between two questions while no session is hot
  uint64_t looks_seen_ = 0;   // sleeper_.lookCount() at the last awake()
};

}  // namespace ramcore::transport::tcp
