#pragma once

#include <atomic>
#include <cstdint>

#include "base/mutation.h"

namespace ramcore::master {

/// This server's permission to answer, renewed by the coordinator. The server counts from when it SENT the renewal and
/// stops at 0.9 of what was granted; the coordinator counts from when it answered: so the server always stops first, as
/// long as clocks advance at the same rate to 5 %.
///
/// Without it a read is refused: another server may own the tablets by now. Any thread.
class ServerLease {
 public:
  /// A renewal sent at `sent_ns` was granted for `lease_ns`. Late answers never shorten the lease.
  void renewed(int64_t sent_ns, int64_t lease_ns) {
    const int64_t until = sent_ns + lease_ns / 10 * 9;
    int64_t known = valid_until_ns_.load(std::memory_order_relaxed);
    while (known < until && !valid_until_ns_.compare_exchange_weak(known, until, std::memory_order_relaxed)) {
    }
  }
  /// What was granted counts no more: it may be over, and this machine has not noticed. Until it is renewed().
  void lapse() { valid_until_ns_.store(0, std::memory_order_relaxed); }
  /// Final: the coordinator said that this server is dead.
  void end() { fenced_.store(true, std::memory_order_relaxed); }

  /// @param now_ns  read from the clock after the request arrived, never a value cached before.
  bool isValid(int64_t now_ns) const {
    if (RC_MUTATION("serve-after-lease")) return true;
    return now_ns < valid_until_ns_.load(std::memory_order_relaxed) && !fenced_.load(std::memory_order_relaxed);
  }
  bool isFenced() const { return fenced_.load(std::memory_order_relaxed); }
  int64_t validUntilNs() const { return valid_until_ns_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> valid_until_ns_{0};
  std::atomic<bool> fenced_{false};
};

}  // namespace ramcore::master
