#pragma once

#include <cstdint>

#include "transport/datagram/datagram_greeter.h"
#include "transport/datagram/datagram_sessions.h"
#include "transport/datagram/message_sender.h"
#include "transport/datagram/packet_sender.h"
#include "transport/datagram/reassembly.h"
#include "transport/datagram/session_closer.h"

namespace ramcore::transport::datagram {

/// What one endpoint does by the clock: deadlines, resending, silence of peers, and the bounds of memory that peers
/// make it hold. One thread.
class DatagramTimeouts {
 public:
  /// What it works with. All borrowed.
  struct Parts {
    const DatagramOptions& options;
    uint32_t port_count;
    DatagramClock& clock;
    DatagramSessions& sessions;
    PacketSender& packets;
    MessageSender& sender;
    Reassembly& reassembly;
    SessionCloser& closer;
    DatagramGreeter& greeter;
  };
  explicit DatagramTimeouts(const Parts& parts) : parts_(parts) {}
  DatagramTimeouts(const DatagramTimeouts&) = delete;
  DatagramTimeouts& operator=(const DatagramTimeouts&) = delete;

  /// Whether anything has a deadline: otherwise the thread may sleep for ever.
  bool hasDeadlines() const;
  /// Looks at every session, and tells the clock when the next look is due. Sessions may end, and calls complete.
  void run();
  const BorrowedCounts& borrowedCounts() const { return borrowed_counts_; }

 private:
  void keepPorts();
  void suspectAllAt(uint32_t port);
  int64_t checkOpen(Session& session);
  int64_t checkSilence(Session& session);
  int64_t checkSending(Session& session);
  int64_t checkArriving(Session& session);
  int64_t checkBorrowed(Session& session);
  void boundWaiting();
  void dropUnread(Session& session);
  void evictStalled();

  const Parts parts_;
  int64_t ports_kept_ns_ = 0;
  BorrowedCounts borrowed_counts_;
};

}  // namespace ramcore::transport::datagram
