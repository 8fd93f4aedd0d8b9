#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "runtime/clock.h"

namespace ramcore::transport::datagram {

/// The time of an endpoint as of the last reading of the clock, and when its timeouts are due. Reading the clock's
/// counter takes as long as a seal, so packets that are not timed do without. All of it is inline, because each packet
/// needs it. One thread.
class DatagramClock {
 public:
  /// A run of the timeouts takes some time, so the next one is planned after this much at the earliest. Deadlines may
  /// be late by it.
  static constexpr int64_t kLeastTimeoutsNs = 200 * runtime::kNanosPerMicro;

  /// Reads the time. The clock is borrowed.
  explicit DatagramClock(runtime::Clock& clock) : clock_(clock), now_ns_(clock.nowNs()) {}
  DatagramClock(const DatagramClock&) = delete;
  DatagramClock& operator=(const DatagramClock&) = delete;

  /// The time as of the last reading.
  int64_t nowNs() const { return now_ns_; }
  void read() {
    // The ticks are read first: otherwise readIfStale() would not notice a pause between the two readings.
    ticks_ = clock_.ticks();
    now_ns_ = clock_.nowNs();
    rounds_to_reading_ = kRoundsPerReading;
  }
  // Staleness is not counted in rounds: the thread may have been away since the last one, and what begins now would
  // look as old as that.
  void readIfStale() {
    if (clock_.ticks() - ticks_ >= kStaleTicks) read();
  }
  /// Frames of one receive() are taken from now on: readInThisBurst() reads the clock once among them.
  void beginBurst() { is_fresh_ = false; }
  // To be called when a packet needs the time. Messages of one packet that are not timed do not need it.
  void readInThisBurst() {
    if (!std::exchange(is_fresh_, true)) readIfStale();
  }
  /// Reads the time outside of rounds. The clock counts as stale as it did before.
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
  /// The end of the thread's last pause: silence before it is no peer's fault.
  int64_t listeningSinceNs() const { return listening_since_ns_; }
  /// To be called when the timeouts run. Until endTimeouts(), runTimeoutsBy() notes the deadlines of what begins
  /// meanwhile.
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
  // The clock is not read again within this time, some microseconds: all that is timed here takes longer.
  static constexpr uint64_t kStaleTicks = 16'000;
  // If the timeouts run this much too late, the thread was stopped, and what came meanwhile is still to be looked at.
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
