#pragma once

#include <vector>

#include "transport/memory/rx_block.h"
#include "wire/datagram_messages.h"

namespace ramcore::transport::datagram {

/// A message of several packets that is arriving: where its bytes are put together, and which of them are there.
class Incoming {
 public:
  enum class Took : uint8_t { News, Copy, Nonsense };

  /// Starts a message. `block` has room for it, and belongs to this object from now on.
  void begin(const wire::PacketHeader& first, uint32_t packet_bytes, uint32_t unasked_packets, RxBlock* block);
  /// Gives the block up, to the caller.
  RxBlock* takeBlock() { return std::exchange(block_, nullptr); }

  bool isActive() const { return block_ != nullptr; }
  /// Takes a packet of this message. The caller has checked the header by itself; whether it fits the message is
  /// checked here.
  Took take(const wire::PacketHeader& header, ByteSpan payload);
  bool isComplete() const { return received_ == packet_count_; }
  /// Something in the middle is missing.
  bool hasHole() const { return received_ != in_order_; }
  bool isLong() const { return packet_count_ > unasked_; }
  uint32_t remaining() const { return packet_count_ - received_; }
  /// True if the peer may send packets that have not come. If false, the peer waits for a grant.
  bool owesPackets() const { return received_ < granted_; }
  const wire::PacketHeader& header() const { return header_; }

  /// How far the message has come: what the peer is told.
  wire::GrantBody progress() const;
  uint32_t granted() const { return granted_; }
  /// Lets the peer send up to `window` packets more than have arrived. Returns false, and changes nothing, if that is
  /// too little more than the last grant: less than a quarter of `window`, and not the rest of the message.
  bool grant(uint32_t window);
  uint32_t packetCount() const { return packet_count_; }

  // For the endpoint: when the peer is told how far the message has come, asked for the rest, and given up.
  uint32_t untold_packets = 0;  ///< packets that came since the peer was told
  int64_t heard_ns = 0;         ///< when the last new packet came, or the last grant was made
  int64_t due_ns = 0;           ///< when the peer is asked for the rest
  int64_t begun_ns = 0;
  uint8_t tries = 0;
  bool is_asked_for = false;  ///< the peer has sent packets again that were there: it does not know that they are
  bool is_listed = false;

 private:
  bool isThere(uint32_t packet) const { return (there_[packet / 64] >> (packet % 64) & 1) != 0; }

  wire::PacketHeader header_{};  // the header of its first packet
  RxBlock* block_ = nullptr;
  uint32_t packet_bytes_ = 0;
  uint32_t packet_count_ = 0;
  uint32_t unasked_ = 0;
  uint32_t received_ = 0;
  uint32_t in_order_ = 0;  // all packets before this one are there
  uint32_t granted_ = 0;
  std::vector<uint64_t> there_;
};

}  // namespace ramcore::transport::datagram
