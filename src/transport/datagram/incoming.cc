#include "transport/datagram/incoming.h"

#include <algorithm>

namespace ramcore::transport::datagram {

void Incoming::begin(const wire::PacketHeader& first, uint32_t packet_bytes, uint32_t unasked_packets, RxBlock* block) {
  header_ = first;
  block_ = block;
  packet_bytes_ = packet_bytes;
  packet_count_ = std::max(1u, (first.message_bytes + packet_bytes - 1) / packet_bytes);
  unasked_ = unasked_packets;
  received_ = 0;
  in_order_ = 0;
  granted_ = std::min(packet_count_, unasked_packets);
  there_.assign((packet_count_ + 63) / 64, 0);
  untold_packets = 0;
  tries = 0;
  is_asked_for = false;
  // The message before this one may have ended while it was in the list.
  is_listed = false;
}

Incoming::Took Incoming::take(const wire::PacketHeader& header, ByteSpan payload) {
  const uint32_t packet = header.offset / packet_bytes_;
  if (header.message_bytes != header_.message_bytes || header.head_bytes != header_.head_bytes ||
      header.priority != header_.priority || header.response_bytes_max != header_.response_bytes_max ||
      packet >= granted_) {
    return Took::Nonsense;
  }
  if (isThere(packet)) return Took::Copy;
  std::copy(payload.begin(), payload.end(), block_->bytes() + header.offset);
  there_[packet / 64] |= uint64_t{1} << (packet % 64);
  ++received_;
  while (in_order_ < packet_count_ && isThere(in_order_)) ++in_order_;
  ++untold_packets;
  tries = 0;
  return Took::News;
}

wire::GrantBody Incoming::progress() const {
  wire::GrantBody body{.later = 0, .received_packets = in_order_, .granted_packets = granted_};
  for (uint32_t i = 0; i < 64 && in_order_ + 1 + i < packet_count_; ++i) {
    if (isThere(in_order_ + 1 + i)) body.later |= uint64_t{1} << i;
  }
  return body;
}

bool Incoming::grant(uint32_t window) {
  const uint32_t wanted = std::min(packet_count_, received_ + window);
  if (wanted <= granted_) return false;
  const uint32_t step = std::max(1u, window / 4);
  if (wanted != packet_count_ && wanted - granted_ < step) return false;
  granted_ = wanted;
  return true;
}

}  // namespace ramcore::transport::datagram
