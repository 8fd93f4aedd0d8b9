#pragma once

#include <cstdint>

#include "base/check.h"
#include "transport/session/client_share.h"

namespace ramcore::transport {

/// Counts the sessions of an endpoint by how far they have got, and says which ones find room. A session is pending
/// from its beginning until it is open; it may end in either state. One thread.
class Admission {
 public:
  /// @param sessions_max    of the endpoint, accepted and connected ones
  /// @param handshakes_max  pending ones that were accepted
  Admission(uint32_t sessions_max, uint32_t handshakes_max)
      : sessions_max_(sessions_max), handshakes_max_(handshakes_max), clients_(sessions_max) {}

  uint32_t openCount() const { return open_; }
  uint32_t pendingCount() const { return pending_; }
  /// Pending sessions that were accepted.
  uint32_t acceptingCount() const { return accepting_; }
  /// Sessions that have not ended.
  uint32_t count() const { return open_ + pending_; }

  /// Whether a connection may be accepted without another one being dropped.
  bool hasRoomToAccept() const { return accepting_ < handshakes_max_ && count() < sessions_max_; }
  bool isFull() const { return count() >= sessions_max_; }
  /// Whether a session that has just begun is one too many.
  bool isOverfull() const { return count() > sessions_max_; }
  /// For HandshakeOptions::has_room_for_client.
  bool hasRoomForClient() const { return clients_.hasRoom(); }

  void begins(bool is_accepted) {
    ++pending_;
    if (is_accepted) ++accepting_;
  }
  /// To be called when an accepted session has proven to be a client's: from now on it takes a client's place.
  void provesToBeClient() { clients_.add(); }
  void opens(bool is_accepted) {
    endsPending(is_accepted);
    ++open_;
  }
  /// @param is_client  provesToBeClient() was called for it
  void ends(bool is_open, bool is_accepted, bool is_client) {
    if (is_client) clients_.remove();
    if (!is_open) return endsPending(is_accepted);
    RC_DCHECK(open_ != 0);
    --open_;
  }

 private:
  void endsPending(bool is_accepted) {
    RC_DCHECK(pending_ != 0 && (!is_accepted || accepting_ != 0));
    --pending_;
    if (is_accepted) --accepting_;
  }

  const uint32_t sessions_max_;
  const uint32_t handshakes_max_;
  ClientShare clients_;
  uint32_t open_ = 0;
  uint32_t pending_ = 0;
  uint32_t accepting_ = 0;
};

}  // namespace ramcore::transport
