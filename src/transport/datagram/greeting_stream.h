#pragma once

#include <memory>

#include "transport/session/handshake.h"

namespace ramcore::transport::datagram {

/// The handshake over a network that loses and duplicates packets. Each direction is a stream of bytes, one packet of
/// which is in flight at a time. Each packet also says how many bytes of the other direction have arrived. Knows no
/// time and no network.
class GreetingStream {
 public:
  GreetingStream(HandshakeOptions options, runtime::Entropy& entropy) : handshake_(std::move(options), entropy) {}

  const Handshake& handshake() const { return handshake_; }

  /// Takes a packet of the peer. It carries `bytes`, which stand at `offset` of the peer's stream, and says that the
  /// peer has `received_bytes` of ours. Returns true if either is news.
  bool onPacket(uint32_t offset, uint32_t received_bytes, ByteSpan bytes);

  /// Bytes for the next packet, or for a repetition of the last one: at most `bytes_max`.
  ByteSpan toSend(uint32_t bytes_max) const {
    const ByteSpan rest = handshake_.toSend();
    return rest.first(std::min<size_t>(rest.size(), bytes_max));
  }
  /// The offset of these bytes in our stream.
  uint32_t offset() const { return acknowledged_bytes_; }
  /// How many bytes of the peer's stream have arrived.
  uint32_t receivedBytes() const { return received_bytes_; }
  /// The peer has everything we said.
  bool isAcknowledged() const { return handshake_.toSend().empty(); }

 private:
  Handshake handshake_;
  uint32_t acknowledged_bytes_ = 0;
  uint32_t received_bytes_ = 0;
};

}  // namespace ramcore::transport::datagram
