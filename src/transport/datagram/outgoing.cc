#include "transport/datagram/outgoing.h"

#include <algorithm>
#include <bit>

#include "base/mutation.h"

namespace ramcore::transport::datagram {

void Outgoing::begin(SessionId of, TxMessage what, wire::PacketKind message_kind, uint32_t bytes_of_packet,
                     uint32_t unasked_packets) {
  session = of;
  message = std::move(what);
  kind = message_kind;
  bytes = message.messageBytes();
  packet_bytes = bytes_of_packet;
  // An empty message is one packet, too. (Most are one, and dividing takes as long as all the rest here.)
  packet_count = bytes <= packet_bytes ? 1 : (bytes + packet_bytes - 1) / packet_bytes;
  next = 0;
  granted = RC_MUTATION("forget-grant-limit") ? packet_count : std::min(packet_count, unasked_packets);
  acknowledged = 0;
  is_active = true;
  is_dated = false;
  was_resent = false;
  begun_ns = 0;
  due_ns = runtime::kNever;
  tries = 0;
  resend.clear();
  resend_at = 0;
  resent_ns = kNotYet;
  moved_ns = 0;
  told_ns = 0;
}

uint32_t Outgoing::takeResent() {
  const uint32_t packet = resend[resend_at++];
  if (resend_at == resend.size()) {
    resend.clear();
    resend_at = 0;
  }
  was_resent = true;
  return packet;
}

void Outgoing::putBack(uint32_t packet, bool is_again) {
  if (!is_again) {
    next = packet;
  } else if (resend_at != 0) {
    --resend_at;
  } else {
    resend.insert(resend.begin(), packet);
  }
}

bool Outgoing::onGrant(const wire::GrantBody& progress, bool is_overdue, int64_t now_ns, int64_t round_trip_ns) {
  const auto later_count = static_cast<uint32_t>(64 - std::countl_zero(progress.later));
  if (progress.received_packets > next || progress.granted_packets > packet_count) return false;
  if (progress.later != 0 && progress.received_packets + 1 + later_count > next) return false;
  // This grant was overtaken by a newer one.
  if (progress.received_packets < acknowledged) return true;
  told_ns = now_ns;
  if (progress.received_packets != acknowledged) moved_ns = now_ns;
  acknowledged = progress.received_packets;
  granted = std::max(granted, progress.granted_packets);
  tries = 0;
  if (isThere()) {
    resend.clear();
    resend_at = 0;
    return true;
  }
  const uint32_t first_later = acknowledged + 1;
  if (resent_ns != kNotYet && now_ns - resent_ns < round_trip_ns) return true;
  // Packets before this one that are missing count as lost.
  uint32_t lost_before = later_count > kReorderPackets ? first_later + later_count - kReorderPackets : acknowledged;
  if (is_overdue) lost_before = std::min(next, first_later + 64);
  if (resend_at < resend.size()) return true;
  for (uint32_t packet = acknowledged; packet < lost_before && resend.size() < kResendMax; ++packet) {
    const bool is_there = packet >= first_later && (progress.later >> (packet - first_later) & 1) != 0;
    if (!is_there) resend.push_back(packet);
  }
  if (!resend.empty()) resent_ns = now_ns;
  return true;
}

void Outgoing::resendFirst() {
  if (resend_at < resend.size()) return;
  const uint32_t last = std::min(next, acknowledged + kFirstResendMax);
  for (uint32_t packet = acknowledged; packet < last; ++packet) resend.push_back(packet);
}

void Outgoing::onPieceGone() noexcept {
  --pieces_out;
  if (pieces_out == 0 && next == packet_count && RC_MUTATION("release-before-taken")) {
    for (Chunk& chunk : std::span(message->chunks).first(message->chunk_count)) {
      if (ChunkOwner* const owner = std::exchange(chunk.owner, nullptr); owner != nullptr) {
        owner->releaseChunk(chunk.token);
      }
    }
  }
}

}  // namespace ramcore::transport::datagram
