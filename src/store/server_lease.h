#pragma once

#include <atomic>
#include <cstdint>

namespace ramcore::store {

/// This server's permission to answer, renewed by the coordinator. The server counts from when it SENT the renewal and
/// stops at 0.9 of what was granted; the coordinator counts from when it answered: so the server always stops first, as
/// long as clocks advance at the same rate to 5 %.
///
/// Without a valid lease every request of a client for objects is refused (LeaseUnknown), because another server may
/// own the tablets by now. Any thread.
class ServerLease {
 public:
  /// A renewal sent at `sent_ns` was granted for `lease_ns`. Late answers never shorten the lease.
  void renewed(int64_t sent_ns, int64_t lease_ns);
  /// Makes the lease invalid until it is renewed(): it may be over without this machine having noticed.
  void lapse() { valid_until_ns_.store(0, std::memory_order_relaxed); }
  /// Final: the coordinator said that this server is dead.
  void end() { fenced_.store(true, std::memory_order_relaxed); }

  /// @param now_ns  read from the clock after the request arrived, never a value cached before.
  bool isValid(int64_t now_ns) const {
    return now_ns < valid_until_ns_.load(std::memory_order_relaxed) && !fenced_.load(std::memory_order_relaxed);
  }
  bool isFenced() const { return fenced_.load(std::memory_order_relaxed); }
  int64_t validUntilNs() const { return valid_until_ns_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> valid_until_ns_{0};
  std::atomic<bool> fenced_{false};
};

}  // namespace ramcore::store
