#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "transport/datagram/datagram_clock.h"
#include "transport/datagram/datagram_sessions.h"
#include "transport/datagram/message_sender.h"
#include "transport/datagram/packet_sender.h"
#include "transport/memory/tx_pool.h"
#include "unit/transport/datagram/datagram_harness.h"

namespace ramcore::transport::datagram {

/// The parts of an endpoint that send, at one port, with a port at the other end, for tests of each part alone.
struct EndpointParts {
  static constexpr uint32_t kPacketBytes = 1000;

  EndpointParts() = default;
  EndpointParts(const EndpointParts&) = delete;
  EndpointParts& operator=(const EndpointParts&) = delete;
  ~EndpointParts() {
    packets.stop();
    sender.recycleAll();
  }

  /// An open session with the other port, which takes two packets of each message without a grant.
  Session& open() {
    Session& session = *sessions.add(options.places_max, false);
    session.route.port = 0;
    session.route.address = macOf(2);
    session.route.peer_number = 7;
    session.channel = std::make_unique<Channel>(uint16_t{4}, PacketSeal(Handshake::Key{}, true, false),
                                                PacketSeal(Handshake::Key{}, false, false));
    session.channel->packet_bytes = kPacketBytes;
    session.channel->unasked_packets = 2;
    sessions.open(session);
    return session;
  }
  TxMessage message(uint32_t bytes) {
    TxMessage message(heads.takeBuffer(bytes));
    fillContent(MutableByteSpan(message->head, bytes), 1, 0);
    message->head_bytes = bytes;
    return message;
  }
  /// The kinds of the packets that have come to the other port since the last time.
  std::vector<wire::PacketKind> arrived() {
    lan.pass(10 * kMicro);
    std::vector<wire::PacketKind> kinds;
    std::array<InFrame, 32> frames;
    const uint32_t count = other_port.receive(frames);
    for (const InFrame& frame : std::span(frames).first(count)) {
      kinds.push_back(loadAs<wire::FrameStart>(frame.bytes).kind);
      other_port.release(frame);
    }
    return kinds;
  }

  Lan lan;
  Lines lines;
  const DatagramOptions options;
  const DatagramContext context{lan.clock, lan.entropy, lines, {}};
  SimEthernetPort own_port{lan.network, macOf(1), {}};
  SimEthernetPort other_port{lan.network, macOf(2), {}};
  CutPort port{own_port};
  const std::vector<FramePort*> ports{&port};
  HomeThread home;
  TxPool heads{home};
  DatagramClock clock{lan.clock};
  DatagramSessions sessions{options, context, clock};
  PacketSender packets{options, clock, ports};
  MessageSender sender{options, clock, sessions, packets};
};

}  // namespace ramcore::transport::datagram
