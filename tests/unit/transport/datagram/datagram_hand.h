#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unit/transport/datagram/datagram_harness.h"

namespace ramcore::transport::datagram {

/// A peer that speaks the protocol by hand: it has a port, comes through the greeting if it knows the secret, and sends
/// whatever it is told to.
class Hand {
 public:
  struct Packet {
    wire::FrameStart start{};
    wire::PacketHeader header{};
    std::vector<std::byte> payload;
    std::vector<std::byte> frame;  ///< all of it, as it came
  };

  Hand(Lan& lan, uint8_t number, const std::string& secret = "secret", Role role = Role::Client);

  /// Opens a session to `station`, which is stepped meanwhile. False if it does not open.
  bool greet(Station& station);
  /// The first packet of a greeting, as if from `from`.
  void hello(const MacAddress& to, const MacAddress& from, uint16_t port = 1);

  /// A packet of the session. What the header has not is filled in: session, length and seal.
  void send(wire::PacketKind kind, const wire::PacketHeader& header = {}, ByteSpan payload = {});
  /// A frame with this header as it is; `seal` in place of the header's if there is one.
  void sendAs(const wire::FrameStart& start, wire::PacketHeader header, ByteSpan payload, const PacketSeal* seal);
  void sendFrame(ByteSpan frame);
  wire::FrameStart startOf(wire::PacketKind kind) const;
  /// A request, or a piece of one, that is right in all ways.
  wire::PacketHeader requestOf(uint16_t slot, uint32_t sequence, uint32_t message_bytes, uint32_t offset = 0) const;
  void sendRequest(uint16_t slot, uint32_t sequence, uint32_t message_bytes, uint32_t offset = 0);

  /// Returns the packets that have come since the last call.
  std::vector<Packet> take();

  Lan& lan;
  SimEthernetPort port;
  MacAddress peer;
  uint64_t session = 0;  ///< the station's number
  uint64_t own_number;
  bool wants_seal = true;       ///< said in its greetings
  bool peer_wants_seal = true;  ///< as the station has said
  std::unique_ptr<PacketSeal> seal_out;
  std::unique_ptr<PacketSeal> seal_in;
  uint32_t packet_bytes;

 private:
  wire::GreetingBody bodyOf(uint64_t number, uint32_t received_bytes) const;

  const Identity identity_;
  PacketSeal no_seal_{Handshake::Key{}, true, false};
};

}  // namespace ramcore::transport::datagram
