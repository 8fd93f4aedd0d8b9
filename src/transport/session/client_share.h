#pragma once

#include <cstdint>

#include "transport/transport.h"

namespace ramcore::transport {

/// Counts the sessions of an endpoint that were accepted from clients and administrators. Clients find room while these
/// are fewer than seven eighths of the sessions that the endpoint may have. The rest is for servers, for the
/// coordinator, and for the endpoint's own connects: a server that clients shut out of the coordinator would end with
/// its lease. Every transport that bounds its sessions has this rule.
class ClientShare {
 public:
  /// @param sessions_max  of the endpoint, accepted and connected ones.
  explicit ClientShare(uint32_t sessions_max) : max_(sessions_max - sessions_max / 8) {}

  /// True if accepted sessions of peers with this role are counted.
  static bool isOf(Role role) { return role == Role::Client || role == Role::Admin; }
  /// For HandshakeOptions::has_room_for_client: administrators are counted, and never kept out.
  bool hasRoom() const { return count_ < max_; }
  /// add() is called when the handshake ends, remove() when the session ends.
  void add() { ++count_; }
  void remove() { --count_; }

 private:
  const uint32_t max_;
  uint32_t count_ = 0;
};

}  // namespace ramcore::transport
