#pragma once

#include <utility>
#include <vector>

#include "transport/datagram/datagram_sessions.h"
#include "transport/datagram/message_sender.h"
#include "transport/datagram/packet.h"
#include "transport/datagram/packet_sender.h"
#include "transport/memory/rx_block.h"

namespace ramcore::transport::datagram {

/// The messages of several packets that are arriving at one endpoint: puts them together, tells their senders how far
/// they have come, and grants packets of long ones to some of the senders at a time. One thread.
class Reassembly {
 public:
  /// All borrowed. Blocks of messages come from `blocks`.
  Reassembly(const DatagramOptions& options, DatagramClock& clock, const DatagramSessions& sessions,
             PacketSender& packets, const MessageSender& sender, RxBlockPool& blocks);
  Reassembly(const Reassembly&) = delete;
  Reassembly& operator=(const Reassembly&) = delete;

  /// The message that is named, or nullptr if it is not arriving any more.
  Incoming* find(const Arrival& arrival) const;

  /// Begins the message that a packet belongs to. Returns false if there is no memory for it now: it will be sent
  /// again.
  bool begin(Session& session, Incoming& incoming, const Packet& packet, bool is_response);
  /// Takes a packet of a message that has begun. If the message is complete then, finish() is to be called.
  Incoming::Took take(Session& session, Incoming& incoming, const Packet& packet, bool is_response);
  /// Takes a complete message out.
  RxMessage finish(Session& session, Incoming& incoming, bool is_response);
  /// Gives up the messages that are arriving in a session that ends.
  void dropAll(Channel& channel);

  /// Whether messages made progress in this round.
  bool hasListed() const { return !listed_.empty(); }
  /// Tells the senders of the messages that made progress in this round, each once.
  void tellListed();
  /// Tells the sender that all packets of its message have arrived.
  void tellComplete(Session& session, const Arrival& arrival, uint32_t packets, uint32_t sequence);
  /// Tells the sender of a message which of its packets are missing: nothing has come of it for too long.
  void askForRest(Session& session, const Arrival& arrival, Incoming& incoming);
  /// Chooses the long messages whose senders are granted packets until the next call.
  void chooseGranted();

  /// Whether a message found no memory since the last time.
  bool takeShortness() { return std::exchange(is_short_of_memory_, false); }

 private:
  void end(Session& session, Incoming& incoming, const Arrival& arrival);
  void list(Incoming& incoming, const Arrival& arrival);
  bool mayBeGranted(const Incoming& incoming) const;
  void sendGrant(Session& session, const Arrival& arrival, const wire::GrantBody& body, uint32_t sequence,
                 bool is_overdue);

  const DatagramOptions& options_;
  DatagramClock& clock_;
  const DatagramSessions& sessions_;
  PacketSender& packets_;
  const MessageSender& sender_;
  RxBlockPool& blocks_;
  std::vector<Arrival> listed_;              // messages that packets arrived for in this round
  std::vector<Arrival> long_;                // messages that need grants
  uint32_t granted_remaining_ = UINT32_MAX;  // long messages with at most this many packets left may be granted packets
  int64_t granted_begun_ns_ = 0;             // and so may those that began at this time or before
  bool is_short_of_memory_ = false;
};

}  // namespace ramcore::transport::datagram
