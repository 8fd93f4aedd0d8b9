#pragma once

#include <memory>
#include <span>
#include <vector>

#include "transport/datagram/datagram_sessions.h"
#include "transport/datagram/packet.h"
#include "transport/datagram/packet_sender.h"
#include "transport/datagram/session_closer.h"

namespace ramcore::transport::datagram {

/// Listens and connects, and leads the sessions of one endpoint through the handshake. One thread.
class DatagramGreeter {
 public:
  /// What it works with. All borrowed.
  struct Parts {
    const DatagramOptions& options;
    const DatagramContext& context;
    const Limits& limits;
    const Identity& identity;
    std::span<FramePort* const> ports;
    DatagramClock& clock;
    DatagramSessions& sessions;
    PacketSender& packets;
    SessionCloser& closer;
  };
  /// What a greeting was.
  enum class Took : uint8_t { Greeting, Nonsense, OfUnknownPeer };

  explicit DatagramGreeter(const Parts& parts);
  DatagramGreeter(const DatagramGreeter&) = delete;
  DatagramGreeter& operator=(const DatagramGreeter&) = delete;

  /// See Endpoint::listen.
  Outcome<Locator> listen(const Locator& where);
  /// See Endpoint::connect.
  SessionId connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns);
  /// Takes a packet of a handshake. The packet is whole, but anybody may have sent it.
  Took take(const Packet& packet);
  /// Sends again what the peer has not acknowledged, and ends a handshake that takes too long. Returns when to call it
  /// again.
  int64_t check(Session& session);

 private:
  bool areAllLocal() const;
  Session* acceptPending(const Packet& packet, const wire::GreetingBody& body);
  bool dropPending();
  bool isOfItsPeer(Session& session, const Packet& packet, const wire::GreetingBody& body);
  void step(Session& session);
  void send(Session& session);
  void open(Session& session);

  const Parts parts_;
  const MacAddress address_;
  uint32_t packet_bytes_;  // longest payload that every port can send
  uint16_t listening_ = 0;
  std::vector<Locator> locators_;
};

}  // namespace ramcore::transport::datagram
