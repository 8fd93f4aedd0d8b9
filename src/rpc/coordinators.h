#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/caller.h"

namespace ramcore::rpc {

/// The address of a coordinator that somebody named by `locators`, which are its own or those of several.
PeerAddress coordinatorAt(std::vector<transport::Locator> locators);

/// The coordinators that a process was told of, and which of them it asks: one that answers as long as it does. When it
/// is away, or says that another one is in charge, it is the next one's turn.
///
/// Any thread, where it does not say otherwise.
class Coordinators {
 public:
  /// At least one.
  explicit Coordinators(std::vector<PeerAddress> addresses);
  /// Each locator of `address` by itself.
  explicit Coordinators(const PeerAddress& address);

  const PeerAddress& current() const { return addresses_[current_.load(std::memory_order_relaxed)]; }
  /// A call to `asked` ended with `status`: the next one has its turn if there was no answer, or the answer was
  /// NotLeader. What the calls of others have brought about meanwhile stays.
  void note(const PeerAddress& asked, Status status);

  /// True if none can be asked before somebody has changed something: each has refused us, is none, or has a name
  /// without an address. The dispatch's thread.
  bool areHopeless(Caller& caller) const;
  /// True if there is a session with one. The dispatch's thread.
  bool isAnyOpen(Caller& caller) const;
  /// True if each has refused us in its handshake, or is no coordinator. The dispatch's thread.
  bool haveRefused(Caller& caller) const;
  /// "tcp://10.0.0.1:11100, tcp://10.0.0.2:11100"
  std::string toString() const;
  /// What keeps `self` ("client", "server") from them, with causes and remedies, on one line. The dispatch's thread.
  std::string explain(Caller& caller, std::string_view self) const;

 private:
  const std::vector<PeerAddress> addresses_;
  std::atomic<size_t> current_{0};
};

}  // namespace ramcore::rpc
