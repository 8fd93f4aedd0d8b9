#pragma once

#include <vector>

#include "transport/datagram/datagram_sessions.h"
#include "transport/datagram/packet_sender.h"

namespace ramcore::transport::datagram {

/// Sends the acknowledgements of answers that no further request has acknowledged in time. One thread.
class AckSender {
 public:
  /// All borrowed.
  AckSender(const DatagramClock& clock, const DatagramSessions& sessions, PacketSender& packets)
      : clock_(clock), sessions_(sessions), packets_(packets) {}

  /// To be called when the answer with this header has come, to the latest call in its slot. The acknowledgement is due
  /// after kAckDelayNs.
  void note(Session& session, const wire::PacketHeader& answer);
  bool isAnyDue() const { return clock_.nowNs() >= first_due_ns_; }
  /// Sends the acknowledgements that are due.
  /// @param all  also those that are not due yet
  void send(bool all);

 private:
  bool sendAcks(Session& session, bool all);

  const DatagramClock& clock_;
  const DatagramSessions& sessions_;
  PacketSender& packets_;
  std::vector<SessionId> due_;              // sessions that owe acknowledgements
  int64_t first_due_ns_ = runtime::kNever;  // when the first of due_ has waited for long enough
};

}  // namespace ramcore::transport::datagram
