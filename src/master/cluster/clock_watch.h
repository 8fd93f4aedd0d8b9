#pragma once

#include <cstdint>

namespace ramcore::master {

/// Compares how fast this machine's clock and the coordinator's advance, from one renewal of the lease to the next.
/// Leases rely on the same rate, to 5 %. A machine that was frozen together with its clock (a snapshot, a move of a
/// virtual machine) does not notice by itself; nor does one whose clock is slow.
/// Thread: one.
class ClockWatch {
 public:
  /// Takes an answer to a renewal that was sent at `sent_ns` and arrived at `received_ns` by this machine's clock.
  /// @param start  the start of the coordinator that answered: the clocks of two starts are not compared
  /// @param coordinator_ns  its clock when it answered; 0: it did not say
  /// @return by how much the time that the coordinator has seen pass since the previous answer, less 5 %, exceeds
  ///         the time that can have passed here; 0: it does not
  int64_t lostNs(uint64_t start, int64_t coordinator_ns, int64_t sent_ns, int64_t received_ns) {
    const bool is_comparable = start == start_ && coordinator_ns > 0 && coordinator_ns_ > 0;
    // The coordinator answers at some time between sending and receiving. No more time than this can have passed here.
    const int64_t passed_ns = received_ns - sent_ns_;
    const int64_t seen_ns = is_comparable && coordinator_ns > coordinator_ns_ ? coordinator_ns - coordinator_ns_ : 0;
    start_ = start;
    coordinator_ns_ = coordinator_ns;
    sent_ns_ = sent_ns;
    const int64_t least_ns = seen_ns - seen_ns / kToleranceShare;
    return least_ns > passed_ns ? least_ns - passed_ns : 0;
  }

 private:
  static constexpr int64_t kToleranceShare = 20;

  uint64_t start_ = 0;
  int64_t coordinator_ns_ = 0;
  int64_t sent_ns_ = 0;
};

}  // namespace ramcore::master
