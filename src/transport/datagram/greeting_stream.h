#pragma once

#include <memory>

#include "transport/session/handshake.h"

namespace ramcore::transport::datagram {

/// The handshake over a network that loses and copies packets: a stream of bytes each way, one packet of it under way
/// at a time, and in each packet how far the other direction has come. Knows no time and no network.
class GreetingStream {
 public:
  GreetingStream(HandshakeOptions options, runtime::Entropy& entropy) : handshake_(std::move(options), entropy) {}

  const Handshake& handshake() const { return handshake_; }

  /// What a packet of the peer says: `bytes`, which stand at `offset` of its stream, and that it has `received_bytes`
  /// of ours. True if that is news.
  bool onPacket(uint32_t offset, uint32_t received_bytes, ByteSpan bytes);

  /// Bytes for the next packet, or for the last one once more: at most `bytes_max`.
  ByteSpan toSend(uint32_t bytes_max) const {
    const ByteSpan rest = handshake_.toSend();
    return rest.first(std::min<size_t>(rest.size(), bytes_max));
  }
  /// Where they belong.
  uint32_t offset() const { return acknowledged_bytes_; }
  /// Of the peer's stream.
  uint32_t receivedBytes() const { return received_bytes_; }
  /// The peer has everything we said.
  bool isHeard() const { return handshake_.toSend().empty(); }

 private:
  Handshake handshake_;
  uint32_t acknowledged_bytes_ = 0;
  uint32_t received_bytes_ = 0;
};

}  // namespace ramcore::transport::datagram
