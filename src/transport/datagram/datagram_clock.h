#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "runtime/clock.h"

namespace ramcore::transport::datagram {

/// The time of an endpoint as of the last reading of the clock, and when its timeouts are due. Reading the clock's
/// counter takes as long as a seal, so packets that are not timed do without. Lies on the way of each packet: all of it
/// is inline. One thread.
class DatagramClock {
 public:
  /// A look takes some time, too: deadlines may be late by so much.
  static constexpr int64_t kLeastTimeoutsNs = 200 * runtime::kNanosPerMicro;

  /// Reads the time. The clock is borrowed.
  explicit DatagramClock(runtime::Clock& clock) : clock_(clock), now_ns_(clock.nowNs()) {}
  DatagramClock(const DatagramClock&) = delete;
  DatagramClock& operator=(const DatagramClock&) = delete;

  /// The time as of the last reading.
  int64_t nowNs() const { return now_ns_; }
  void read() {
    // The ticks first: a pause between the two must not look like no time at all.
    ticks_ = clock_.ticks();
    now_ns_ = clock_.nowNs();
    rounds_to_reading_ = kRoundsPerReading;
  }
  // Not by rounds: the thread may have been away since the last one, and what is begun now would look that old.
  void readIfStale() {
    if (clock_.ticks() - ticks_ >= kStaleTicks) read();
  }
  /// Frames of one receive() are taken from now on: readInThisBurst() reads the clock once among them.
  void beginBurst() { is_fresh_ = false; }
  // What comes in one packet and is not timed does without.
  void readInThisBurst() {
    if (!std::exchange(is_fresh_, true)) readIfStale();
  }
  /// The time now, outside of rounds. The clock counts as stale as it did before.
  void readTime() { now_ns_ = clock_.nowNs(); }
  /// To be called once in each round: reads the clock in some of them.
  void countRound() {
    if (--rounds_to_reading_ == 0) read();
  }
  /// The next countRound() reads the clock.
  void readInNextRound() { rounds_to_reading_ = 1; }

  int64_t timeoutsDueNs() const { return timeouts_due_ns_; }
  bool areTimeoutsDue() const { return now_ns_ >= timeouts_due_ns_; }
  void runTimeoutsBy(int64_t due_ns) { timeouts_due_ns_ = std::min(timeouts_due_ns_, due_ns); }
  void runTimeoutsNow() { timeouts_due_ns_ = now_ns_; }
  /// Before it the thread did not run: silence until then is no peer's fault.
  int64_t listeningSinceNs() const { return listening_since_ns_; }
  /// The timeouts run. Until endTimeouts() runTimeoutsBy() notes the deadlines of what is begun on the way.
  void beginTimeouts() {
    timeouts_due_ns_ = runtime::kNever;
    if (now_ns_ >= timeouts_planned_ns_ + kPauseNs) listening_since_ns_ = now_ns_;
  }
  /// @param due_ns  the earliest deadline that was found
  void endTimeouts(int64_t due_ns) {
    timeouts_due_ns_ = std::max(std::min(due_ns, timeouts_due_ns_), now_ns_ + kLeastTimeoutsNs);
    timeouts_planned_ns_ = timeouts_due_ns_;
  }

 private:
  // An idle round takes some tens of nanoseconds: the clock is read every few microseconds.
  static constexpr uint32_t kRoundsPerReading = 64;
  // The clock is not read again within it, some microseconds: less than anything here takes that is timed.
  static constexpr uint64_t kStaleTicks = 16'000;
  // A look that comes so much too late: the thread was stopped, and what came meanwhile is still to be looked at.
  static constexpr int64_t kPauseNs = 20 * runtime::kNanosPerMilli;

  runtime::Clock& clock_;
  int64_t now_ns_;         // as of the last reading
  uint64_t ticks_ = 0;     // at the last read()
  bool is_fresh_ = false;  // now_ns_ serves for the rest of the frames that are being taken
  uint32_t rounds_to_reading_ = 1;
  int64_t timeouts_due_ns_ = 0;
  int64_t timeouts_planned_ns_ = 0;  // timeouts_due_ns_ as endTimeouts() left it
  int64_t listening_since_ns_ = 0;
};

}  // namespace ramcore::transport::datagram
