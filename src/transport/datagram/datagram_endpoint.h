#pragma once

#include <array>
#include <memory>
#include <vector>

#include "transport/datagram/ack_sender.h"
#include "transport/datagram/borrowed_frames.h"
#include "transport/datagram/datagram_clock.h"
#include "transport/datagram/datagram_greeter.h"
#include "transport/datagram/datagram_options.h"
#include "transport/datagram/datagram_sessions.h"
#include "transport/datagram/datagram_timeouts.h"
#include "transport/datagram/message_receiver.h"
#include "transport/datagram/message_sender.h"
#include "transport/datagram/packet_sender.h"
#include "transport/datagram/reassembly.h"
#include "transport/datagram/session_closer.h"
#include "transport/memory/rx_block.h"
#include "transport/memory/tx_pool.h"

namespace ramcore::transport::datagram {

/// What an endpoint holds, for metrics and tests.
struct HeldCounts {
  uint64_t blocks = 0;       ///< blocks of received messages, and of messages that are arriving
  uint64_t block_bytes = 0;  ///< bytes of these blocks
  uint64_t frames = 0;       ///< frames of ports that received messages borrow
  uint64_t outgoing = 0;     ///< messages that the peer does not have yet, or that a port still reads
  uint64_t sessions = 0;     ///< sessions in any state
};

/// The sessions of one thread over Ethernet frames. Packets that are lost are sent again, duplicates are taken once,
/// and receivers say how much of a long message may be in flight. docs/datagram.md has the protocol. This class puts
/// the parts together, and decides in which round which of them runs.
class DatagramEndpoint final : public Endpoint {
 public:
  /// There is at least one port. All ports have the same address (checked) and outlive the endpoint.
  DatagramEndpoint(const DatagramOptions& options, DatagramContext context, const Limits& limits,
                   std::vector<FramePort*> ports, const Identity& identity);
  ~DatagramEndpoint() override;

  /// What an endpoint over these ports can do.
  static Limits limitsOf(const DatagramOptions& options);

  const Limits& limits() const override { return limits_; }
  Outcome<Locator> listen(const Locator& where) override { return greeter_.listen(where); }
  SessionId connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) override {
    return greeter_.connect(where, expected_id, deadline_ns);
  }
  TxMessage allocate(uint32_t head_bytes) override { return TxMessage(heads_.takeBuffer(head_bytes)); }
  Status call(SessionId session, TxMessage& request, const CallOptions& options, PendingCall& call) override;
  void abandon(SessionId session, PendingCall& call) override;
  void reply(const ReplyTo& to, TxMessage response) override;
  uint32_t poll(MessageSink& sink, uint32_t message_max) override;
  void flush() override;
  bool prepareSleep() override;
  void awake() override;
  const Peer* peer(SessionId session) const override;
  void close(SessionId session) override;
  uint32_t sessionCount() const override { return sessions_.admission().openCount(); }
  uint64_t badSessionCount() const override { return sessions_.badCount(); }
  BorrowedCounts borrowedCounts() const override { return timeouts_.borrowedCounts(); }
  SendCounts sendCounts() const override { return packets_.sendCounts(); }
  PacketCounts packetCounts() const override;
  HeldCounts heldCounts() const;

 private:
  static constexpr size_t kFramesPerPort = 32;  // frames of one port that are looked at before the next port

  const DatagramOptions options_;
  const DatagramContext context_;
  const Limits limits_;
  const std::vector<FramePort*> ports_;
  RxBlockPool blocks_;
  BorrowedFrames borrowed_;
  // (No lock: a locked instruction between the arrival of a frame and its answer would wait for the other core.)
  TxPool heads_{borrowed_.home()};
  DatagramClock clock_;
  DatagramSessions sessions_;
  PacketSender packets_;
  MessageSender sender_;
  AckSender acks_;
  Reassembly reassembly_;
  SessionCloser closer_;
  DatagramGreeter greeter_;
  MessageReceiver receiver_;
  DatagramTimeouts timeouts_;
  uint32_t next_port_ = 0;
  int64_t nap_ns_ = 0;
  std::array<InFrame, kFramesPerPort> frames_;
};

}  // namespace ramcore::transport::datagram
