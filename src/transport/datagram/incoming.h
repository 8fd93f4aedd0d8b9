#pragma once

#include <vector>

#include "transport/memory/rx_block.h"
#include "wire/datagram_messages.h"

namespace ramcore::transport::datagram {

/// A message of several packets that is arriving: where its bytes are put together, and which of them are there.
class Incoming {
 public:
  enum class Took : uint8_t { News, Copy, Nonsense };

  /// `block` has room for the message, and belongs to this from now on.
  void begin(const wire::PacketHeader& first, uint32_t packet_bytes, uint32_t unasked_packets, RxBlock* block);
  /// Gives the block up, to the caller.
  RxBlock* takeBlock() { return std::exchange(block_, nullptr); }

  bool isActive() const { return block_ != nullptr; }
  /// A packet of this message, whose header has been checked by itself.
  Took take(const wire::PacketHeader& header, ByteSpan payload);
  bool isComplete() const { return received_ == packet_count_; }
  /// Something in the middle is missing.
  bool hasHole() const { return received_ != in_order_; }
  bool isLong() const { return packet_count_ > unasked_; }
  uint32_t remaining() const { return packet_count_ - received_; }
  /// The peer may send something that has not come. Otherwise it is we who keep it waiting.
  bool owesPackets() const { return received_ < granted_; }
  const wire::PacketHeader& header() const { return header_; }

  /// How far it has come, for the peer.
  wire::ProgressBody progress() const;
  uint32_t granted() const { return granted_; }
  /// Lets the peer send up to `window` packets more than have arrived. True if that is more than it has been told by
  /// so much that it is worth telling.
  bool grant(uint32_t window);
  uint32_t packetCount() const { return packet_count_; }

  // For the endpoint: when the peer is told, asked and given up.
  uint32_t untold_packets = 0;  ///< that came since it was told
  int64_t heard_ns = 0;         ///< when something new came last, or the peer was let send more
  int64_t due_ns = 0;           ///< when to ask
  int64_t begun_ns = 0;
  uint8_t tries = 0;
  bool is_asked_for = false;  ///< the peer has sent what was there: it does not know that
  bool is_listed = false;

 private:
  bool isThere(uint32_t packet) const { return (there_[packet / 64] >> (packet % 64) & 1) != 0; }

  wire::PacketHeader header_{};  // of its first packet
  RxBlock* block_ = nullptr;
  uint32_t packet_bytes_ = 0;
  uint32_t packet_count_ = 0;
  uint32_t unasked_ = 0;
  uint32_t received_ = 0;
  uint32_t in_order_ = 0;  // all before this one are there
  uint32_t granted_ = 0;
  std::vector<uint64_t> there_;
};

}  // namespace ramcore::transport::datagram
