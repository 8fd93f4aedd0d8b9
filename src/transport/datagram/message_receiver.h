#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/datagram/ack_sender.h"
#include "transport/datagram/borrowed_frames.h"
#include "transport/datagram/datagram_greeter.h"
#include "transport/datagram/datagram_sessions.h"
#include "transport/datagram/message_sender.h"
#include "transport/datagram/packet.h"
#include "transport/datagram/reassembly.h"
#include "transport/datagram/session_closer.h"

namespace ramcore::transport::datagram {

/// Takes the Ethernet frames that arrive at one endpoint: checks them, and delivers the messages that are complete.
/// Completes calls on the way; requests wait for handOver(). One thread.
class MessageReceiver {
 public:
  /// What it works with. All borrowed.
  struct Parts {
    // What each packet needs stands in front.
    DatagramClock& clock;
    DatagramSessions& sessions;
    MessageSender& sender;
    AckSender& acks;
    BorrowedFrames& borrowed;
    std::span<FramePort* const> ports;
    const DatagramOptions& options;
    PacketSender& packets;
    Reassembly& reassembly;
    SessionCloser& closer;
    DatagramGreeter& greeter;
    RxBlockPool& blocks;
  };
  explicit MessageReceiver(const Parts& parts);
  MessageReceiver(const MessageReceiver&) = delete;
  MessageReceiver& operator=(const MessageReceiver&) = delete;

  /// Takes frames that a port has received. The port has those back that no message borrows.
  void take(uint32_t port, std::span<const InFrame> frames);
  /// How many messages were delivered so far: requests to handOver(), and answers to their calls.
  uint64_t deliveredCount() const { return delivered_count_; }
  bool hasRequests() const { return !requests_.empty(); }
  /// Delivers the requests of sessions that are still open.
  void handOver(MessageSink& sink);
  /// For the end of the endpoint: drops what is kept. Nothing may be taken afterwards.
  void stop();

  /// Whether it keeps a block for short messages.
  bool hasCopies() const { return copies_ != nullptr; }
  /// Counts of what arrives; the others are 0.
  const PacketCounts& packetCounts() const { return packet_counts_; }

 private:
  bool takeFrame(uint32_t port, const InFrame& frame);
  bool takeApart(uint32_t port, const InFrame& frame, Packet& packet);
  void takeUnsealed(const Packet& packet);
  bool takePacket(Session& session, const Packet& packet, const InFrame& frame);
  static bool isValidData(const Channel& channel, const Packet& packet);
  bool takeRequest(Session& session, const Packet& packet, const InFrame& frame);
  bool beginRequest(Session& session, const Packet& packet, const InFrame& frame);
  bool takeResponse(Session& session, const Packet& packet, const InFrame& frame);
  bool takeArriving(Session& session, Incoming& incoming, const Packet& packet, bool is_response);
  void deliverRequest(Session& session, const wire::PacketHeader& header, RxMessage&& message);
  void finishCall(Session& session, const wire::PacketHeader& header, RxMessage&& message);
  RxMessage messageOf(const Packet& packet, const InFrame& frame);
  bool takeGrant(Session& session, const Packet& packet);
  bool takeAcks(Session& session, const Packet& packet);
  void endRequest(Channel& channel, OwnCall& own);
  void noteSlowAnswer(Channel& channel, OwnCall& own);
  static bool isTimed(const Channel& channel, const OwnCall& own);
  void noteRoundTrip(Channel& channel, const Outgoing& outgoing);

  const Parts parts_;
  const MacAddress address_;
  bool borrowed_last_ = false;  // a message has borrowed the frame that was just looked at
  uint64_t delivered_count_ = 0;
  PacketCounts packet_counts_;
  // By port: messages may borrow a frame of it while they borrow fewer frames than this of all ports together.
  std::vector<uint64_t> borrowable_frames_;
  std::vector<RxMessage> requests_;  // requests that were found in this round
  RxBlock* copies_ = nullptr;        // block for short messages that cannot stay in their frames
  uint32_t copies_used_ = 0;
};

}  // namespace ramcore::transport::datagram
