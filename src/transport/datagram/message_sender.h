#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "transport/datagram/datagram_sessions.h"
#include "transport/datagram/packet_sender.h"

namespace ramcore::transport::datagram {

/// What a message is for; the rest of its header follows from the message.
struct Purpose {
  wire::PacketKind kind = wire::PacketKind::Request;
  uint32_t sequence = 0;
  uint16_t slot = 0;
  uint8_t priority = 0;
  uint32_t response_bytes_max = 0;
};

/// The messages of one endpoint on their way out: each in turn sends some of its packets, and keeps its bytes until no
/// port reads them any more. One thread.
class MessageSender {
 public:
  /// All borrowed.
  MessageSender(const DatagramOptions& options, DatagramClock& clock, const DatagramSessions& sessions,
                PacketSender& packets);
  MessageSender(const MessageSender&) = delete;
  MessageSender& operator=(const MessageSender&) = delete;

  /// Begins a message in an open session. A message of one packet is given to its port at once, unless others wait.
  /// @return Valid until end(), or until the session ends.
  Outgoing& start(Session& session, TxMessage message, const Purpose& purpose);
  /// To be called when the message has packets to send.
  void makeReady(Outgoing& outgoing);
  /// Ends a message: nothing of it is sent any more, and `outgoing` is nullptr then. Its bytes go back in
  /// recycleRetired().
  void end(Channel& channel, Outgoing*& outgoing);
  /// The same for all messages of a session that ends; bytes that no port reads go back at once.
  void endAll(Channel& channel);

  /// Whether messages began since the last dateBegun().
  bool hasBegun() const { return !begun_.empty(); }
  bool hasReady() const { return !ready_.empty(); }
  /// Whether messages that have ended keep their bytes.
  bool hasRetired() const { return !retired_.empty(); }
  /// Sends packets of the messages that are ready.
  void sendReady();
  /// Sets the times of messages that began since the last time.
  void dateBegun();
  /// Gives bytes of ended messages back, if no port reads them any more. To be called after what peers wait for was
  /// sent.
  void recycleRetired();
  /// Gives all bytes back: the ports are stopped, and no session is there any more.
  void recycleAll();
  /// Messages that the peer does not have yet, or that a port still reads.
  size_t count() const { return outgoings_.size() - free_outgoings_.size(); }

  /// Bytes of our memory in a message: its head, copies, and chunks that are to be copied because they were borrowed
  /// for too long.
  uint64_t waitingBytes(const Outgoing& outgoing) const;
  /// Finds out how many such bytes wait in the session, for session.waiting_bytes.
  void countWaiting(Session& session);
  /// Sets session.waiting_bytes to 0.
  void forgetWaiting(Session& session);
  /// The sum of session.waiting_bytes.
  uint64_t allWaitingBytes() const { return waiting_bytes_; }

 private:
  void retire(Outgoing& outgoing);
  uint32_t sendSome(Session& session, Outgoing& outgoing, uint32_t count);
  void noteSent(const Session& session, Outgoing& outgoing, bool is_first);

  DatagramClock& clock_;
  PacketSender& packets_;
  const DatagramSessions& sessions_;
  const int64_t borrowed_ns_max_;
  std::vector<std::unique_ptr<Outgoing>> outgoings_;
  std::vector<Outgoing*> free_outgoings_;
  std::vector<Outgoing*> retired_;  // ended; a port still reads them, or they are in ready_
  std::vector<Outgoing*> begun_;    // messages that began since the last dateBegun()
  std::deque<Outgoing*> ready_;     // messages that have packets to send
  bool is_blocked_ = false;         // a port takes no more for now
  uint64_t waiting_bytes_ = 0;      // in all sessions, as of the last look at the timeouts
};

}  // namespace ramcore::transport::datagram
