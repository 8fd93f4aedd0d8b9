#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/caller.h"

namespace ramcore::rpc {

/// The address of a coordinator that was named by these locators. They may be of one coordinator or of several.
PeerAddress coordinatorAt(std::vector<transport::Locator> locators);

/// The coordinators that a process was told of, and the one of them that it asks. The process asks the same one as long
/// as that answers. When it is away, or says that it is not in charge, it is the turn of the next one.
///
/// Any thread, unless a comment says otherwise.
class Coordinators {
 public:
  /// @param addresses  at least one
  explicit Coordinators(std::vector<PeerAddress> addresses);
  /// Takes each locator of `address` for a coordinator of its own.
  explicit Coordinators(const PeerAddress& address);

  const PeerAddress& current() const { return addresses_[current_.load(std::memory_order_relaxed)]; }
  /// Notes that a call to `asked` ended with `status`. It is the turn of the next coordinator if there was no session
  /// or no answer (Unreachable, Refused, WrongCluster, SessionLost, DeadlineExceeded), or if the answer was NotLeader
  /// or StateBehind; but only if it was still the turn of `asked`.
  void note(const PeerAddress& asked, Status status);

  /// True if no coordinator can be asked before a person has changed something: each has refused this process, is none,
  /// or has a name without an address. The dispatch's thread.
  bool areHopeless(Caller& caller) const;
  /// True if there is a session with at least one of them. The dispatch's thread.
  bool isAnyOpen(Caller& caller) const;
  /// True if each has refused this process in its handshake, or is no coordinator. The dispatch's thread.
  bool haveRefused(Caller& caller) const;
  /// "tcp://10.0.0.1:11100, tcp://10.0.0.2:11100"
  std::string toString() const;
  /// Why `self` ("client", "server") is served by none of them, with causes and remedies, on one line. The dispatch's
  /// thread.
  std::string explain(Caller& caller, std::string_view self) const;

 private:
  const std::vector<PeerAddress> addresses_;
  std::atomic<size_t> current_{0};
};

}  // namespace ramcore::rpc
