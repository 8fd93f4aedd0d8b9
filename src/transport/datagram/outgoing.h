#pragma once

#include <vector>

#include "transport/datagram/frame_port.h"
#include "transport/datagram/packet_seal.h"
#include "transport/transport.h"
#include "wire/datagram_messages.h"

namespace ramcore::transport::datagram {

/// A message on its way to the peer: cut into packets, of which the first few are sent unasked, the others when the
/// peer has granted them, and any of them again until the peer has it. Knows what is to be sent next, not how.
///
/// The bytes stay where they are, lent, for as long as they may have to be sent again. It stays itself for as long as a
/// port may read pieces of it.
class Outgoing final : public FrameOwner {
 public:
  /// Without a header. @param packet_bytes  of each packet but the last.
  void begin(SessionId session, TxMessage message, wire::PacketKind kind, uint32_t packet_bytes,
             uint32_t unasked_packets);
  /// Nothing of it is sent any more; what ports still read stays.
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
  /// The number of that packet, which then counts as sent.
  uint32_t takeNext(bool& is_again) {
    is_again = resend_at < resend.size();
    return is_again ? takeResent() : next++;
  }
  /// That packet could not be sent: it is the next one again.
  void putBack(uint32_t packet, bool is_again);

  /// What the peer says of it. False if no honest one says that. Packets that are missing there are sent again if
  /// something behind them has arrived (a few packets may have changed places) or `is_overdue`; but not those of a
  /// round that began less than `round_trip_ns` ago.
  bool onProgress(const wire::ProgressBody& progress, bool is_overdue, int64_t now_ns, int64_t round_trip_ns);
  /// Nothing was heard of it for long: the first few packets that are not there are sent again.
  void resendFirst();
  /// The peer did not get further than this, and anything sent may be lost.
  uint32_t offsetOf(uint32_t packet) const { return packet * packet_bytes; }
  uint32_t bytesOf(uint32_t packet) const {
    return packet + 1 == packet_count ? bytes - offsetOf(packet) : packet_bytes;
  }

  void onPieceGone() noexcept override;

  SessionId session;
  TxMessage message;
  wire::PacketKind kind = wire::PacketKind::Request;
  HeaderWords header{};  ///< of each packet, but for offset, length, flags and seal
  uint32_t sequence = 0;
  uint32_t bytes = 0;
  uint32_t packet_bytes = 0;
  uint32_t packet_count = 0;
  uint32_t next = 0;          ///< never sent before, as all behind it
  uint32_t granted = 0;       ///< those before this one may be sent
  uint32_t acknowledged = 0;  ///< all before this one are there
  uint32_t pieces_out = 0;    ///< that ports still read
  bool is_active = false;
  bool is_queued = false;  ///< in the endpoint's list of those that have something to send
  bool was_resent = false;
  bool is_dated = false;          ///< its times are those of its flush(): before that nothing is late
  bool begins_expecting = false;  ///< nothing was expected of its session before
  int64_t begun_ns = 0;           ///< when its first packet left; 0: it has not
  int64_t due_ns = 0;             ///< when to send again without having heard anything
  uint8_t tries = 0;              ///< since something was heard
  int64_t moved_ns = 0;           ///< when the peer got on with it, or it began to wait
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
