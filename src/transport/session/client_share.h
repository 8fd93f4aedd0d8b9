#pragma once

#include <cstdint>

#include "transport/transport.h"

namespace ramcore::transport {

/// The sessions of an endpoint that were accepted from clients and administrators. Clients find room while these are
/// fewer than seven eighths of what the endpoint takes; what is left is for servers and the coordinator, and for
/// connects of its own: a server that clients shut out would end with its lease. The rule of every transport whose
/// sessions are bounded.
class ClientShare {
 public:
  /// @param sessions_max  of the endpoint, however they began.
  explicit ClientShare(uint32_t sessions_max) : max_(sessions_max - sessions_max / 8) {}

  /// Whether an accepted session of such a peer is one of these.
  static bool isOf(Role role) { return role == Role::Client || role == Role::Admin; }
  /// For HandshakeOptions::has_room_for_client: administrators are counted, and never kept out.
  bool hasRoom() const { return count_ < max_; }
  /// From the end of the handshake to that of the session.
  void add() { ++count_; }
  void remove() { --count_; }

 private:
  const uint32_t max_;
  uint32_t count_ = 0;
};

}  // namespace ramcore::transport
