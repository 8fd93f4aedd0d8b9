#pragma once

#include <vector>

#include "transport/datagram/frame_port.h"
#include "transport/datagram/packet_seal.h"
#include "transport/transport.h"
#include "wire/datagram_messages.h"

namespace ramcore::transport::datagram {

/// A message on its way to the peer. It is cut into packets: the first few are sent unasked, the others when the peer
/// has granted them, and each of them again until the peer has it. Knows what is to be sent next, not how.
///
/// The bytes are borrowed, and stay where they are for as long as they may have to be sent again. The Outgoing itself
/// stays for as long as a port may read pieces of the message.
class Outgoing final : public FrameOwner {
 public:
  /// Starts a message. The caller sets `header` and `sequence`.
  /// @param packet_bytes  payload of each packet but the last.
  void begin(SessionId session, TxMessage message, wire::PacketKind kind, uint32_t packet_bytes,
             uint32_t unasked_packets);
  /// Ends the message: nothing of it is sent any more. Bytes that ports still read stay where they are.
  void finish() {
    is_active = false;
    due_ns = runtime::kNever;
    next = granted;
    resend.clear();
    resend_at = 0;
  }
  /// After finish(): whether its bytes can go back now.
  bool isIdle() const { return pieces_out == 0; }
  void recycle() { message = TxMessage(); }

  bool isActive() const { return is_active; }
  /// All packets have arrived.
  bool isThere() const { return acknowledged == packet_count; }
  /// There is a packet to be sent now.
  bool isReady() const { return resend_at < resend.size() || next < granted; }
  /// Returns the number of that packet, which counts as sent from now on.
  uint32_t takeNext(bool& is_again) {
    is_again = resend_at < resend.size();
    return is_again ? takeResent() : next++;
  }
  /// To be called when that packet could not be sent: it is the next one again.
  void putBack(uint32_t packet, bool is_again);

  /// Takes a grant of the peer for this message. Returns false if no honest peer sends it. Packets that are missing at
  /// the peer are sent again if packets behind them have arrived (a few packets may have changed places) or if
  /// `is_overdue`; but none within `round_trip_ns` of the last time that some were to be sent again.
  bool onGrant(const wire::GrantBody& progress, bool is_overdue, int64_t now_ns, int64_t round_trip_ns);
  /// Called when nothing was heard of the message for long: the first few packets that have not arrived are sent again.
  void resendFirst();
  /// Where the packet's payload begins in the message.
  uint32_t offsetOf(uint32_t packet) const { return packet * packet_bytes; }
  uint32_t bytesOf(uint32_t packet) const {
    return packet + 1 == packet_count ? bytes - offsetOf(packet) : packet_bytes;
  }

  void onPieceGone() noexcept override;

  SessionId session;
  TxMessage message;
  wire::PacketKind kind = wire::PacketKind::Request;
  HeaderWords header{};  ///< the header of each packet, except for offset, length, flags and seal
  uint32_t sequence = 0;
  uint32_t bytes = 0;
  uint32_t packet_bytes = 0;
  uint32_t packet_count = 0;
  uint32_t next = 0;          ///< first packet that was never sent; none behind it was sent
  uint32_t granted = 0;       ///< packets before this one may be sent
  uint32_t acknowledged = 0;  ///< all packets before this one have arrived
  uint32_t pieces_out = 0;    ///< pieces that ports still read
  bool is_active = false;
  bool is_queued = false;  ///< it is in the endpoint's list of those that have something to send
  bool was_resent = false;
  bool is_dated = false;          ///< its times were set by the flush() after begin(): before that nothing is late
  bool begins_expecting = false;  ///< when it began, its session was sending nothing else
  int64_t begun_ns = 0;           ///< when its first packet left; 0: it has not
  int64_t due_ns = 0;             ///< when to send again if nothing is heard
  uint8_t tries = 0;              ///< timeouts since something was heard
  int64_t moved_ns = 0;           ///< when more of it was last acknowledged, or when it began to wait
  int64_t told_ns = 0;            ///< when the peer last said anything of it; 0: never

 private:
  uint32_t takeResent();

  static constexpr int64_t kNotYet = INT64_MIN;
  static constexpr uint32_t kReorderPackets = 3;
  static constexpr uint32_t kResendMax = 64;
  static constexpr uint32_t kFirstResendMax = 2;

  std::vector<uint32_t> resend;
  size_t resend_at = 0;
  int64_t resent_ns = kNotYet;
};

}  // namespace ramcore::transport::datagram
