#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/trace.h"
#include "transport/datagram/datagram_sessions.h"
#include "transport/datagram/message_sender.h"
#include "transport/datagram/packet.h"
#include "transport/datagram/packet_sender.h"
#include "transport/datagram/reassembly.h"

namespace ramcore::transport::datagram {

/// Ends the sessions of one endpoint, and tells their peers. The peer of a session that we have closed is told until it
/// knows; the sender of a packet of an unknown session is told each time. One thread.
class SessionCloser {
 public:
  /// What it works with. All borrowed.
  struct Parts {
    const DatagramOptions& options;
    Trace& trace;
    DatagramClock& clock;
    DatagramSessions& sessions;
    PacketSender& packets;
    MessageSender& sender;
    Reassembly& reassembly;
  };
  explicit SessionCloser(const Parts& parts) : parts_(parts) {}
  SessionCloser(const SessionCloser&) = delete;
  SessionCloser& operator=(const SessionCloser&) = delete;

  /// Gives up what the session holds, and completes its calls. The peer is not told; the sink hears of it in
  /// DatagramSessions::report().
  void close(Session& session, Status reason);
  /// The same for a session that we end: the peer is told until it knows, or was told often enough.
  void closeByUs(Session& session);
  /// Closes an open session whose peer broke a rule.
  /// @param why  for a person
  void closeMalformed(Session& session, std::string_view why);
  /// Closes an open session that is taken for lost.
  void closeSilent(Session& session, const std::string& why);
  /// For the end of the endpoint: peers are told, and calls are not completed.
  void abandonAll();

  /// Takes a sealed packet of a session that has just ended, or of a process that was here before.
  void takeFromUnknownPeer(const Packet& packet);
  /// Takes an `Unknown` packet: its sender says that it does not know a session.
  void takeUnknown(const Packet& packet);
  /// Says that a session is not there.
  /// @param peer_number  the receiver's number of it, as far as we know; otherwise 0
  /// @param number       ours, as the receiver has said it
  void sayUnknown(uint32_t port, const MacAddress& to, uint64_t peer_number, uint64_t number);

  /// Whether peers are still to be told.
  bool hasClosing() const { return !closing_.empty(); }
  /// Tells peers of sessions that we have closed once more, as far as it is time. Returns when to call it again.
  int64_t checkClosing();
  /// To be called now and then: sayUnknown() answers a limited number of packets in between.
  void allowUnknown() { unknown_said_ = 0; }

 private:
  /// A session that we have closed. It is kept until the peer knows, or was told often enough.
  struct Closing {
    Route route;
    PacketSeal seal_out;
    PacketSeal seal_in;
    int64_t due_ns = 0;
    uint8_t tries = 0;
  };

  void dropChannel(Channel& channel);

  const Parts parts_;
  std::vector<Closing> closing_;
  uint32_t unknown_said_ = 0;  // `Unknown` packets sent since allowUnknown()
};

}  // namespace ramcore::transport::datagram
