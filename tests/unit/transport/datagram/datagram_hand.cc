#include "unit/transport/datagram/datagram_hand.h"

namespace ramcore::transport::datagram {
namespace {

constexpr uint16_t kSlots = 64;

std::vector<std::byte> joined(const wire::GreetingBody& body, ByteSpan said) {
  std::vector<std::byte> bytes(bytesOf(body).begin(), bytesOf(body).end());
  bytes.insert(bytes.end(), said.begin(), said.end());
  return bytes;
}

}  // namespace

Hand::Hand(Lan& where, uint8_t number, const std::string& secret, Role role)
    : lan(where),
      port(where.network, macOf(number), {}),
      own_number(where.entropy.next() | 1),
      packet_bytes(port.facts().frame_bytes_max - wire::kPacketHeaderBytes),
      identity_{.role = role, .id = number, .cluster_name = "test", .secret = secret} {}

wire::GreetingBody Hand::bodyOf(uint64_t number, uint32_t received_bytes) const {
  return {.session = number,
          .received_bytes = received_bytes,
          .port = 1,
          .packet_bytes = static_cast<uint16_t>(packet_bytes),
          .unasked_packets = 16,
          .wants_seal = wants_seal ? uint8_t{1} : uint8_t{0},
          .reserved1 = 0,
          .reserved2 = 0};
}

wire::FrameStart Hand::startOf(wire::PacketKind kind) const {
  return {.to = peer.bytes,
          .from = port.facts().address.bytes,
          .ether_type = {wire::kDatagramEtherType >> 8, wire::kDatagramEtherType & 0xff},
          .version = wire::kDatagramVersion,
          .kind = kind};
}

bool Hand::greet(Station& station) {
  peer = station.port.facts().address;
  own_number = lan.entropy.next() | 1;
  session = 0;
  GreetingStream greeting({.side = HandshakeSide::Initiator,
                           .identity = identity_,
                           .slot_count = kSlots,
                           .peer_is_local = true,
                           .locators = {}},
                          lan.entropy);
  for (int round = 0; round < 200; ++round) {
    if (round % 20 == 0 || greeting.handshake().state() == Handshake::State::Done) {
      wire::PacketHeader header{};
      header.session = session;
      header.offset = greeting.offset();
      sendAs(startOf(wire::PacketKind::Greeting), header,
             joined(bodyOf(own_number, greeting.receivedBytes()), greeting.toSend(400)), &no_seal_);
    }
    if (greeting.handshake().state() == Handshake::State::Done && greeting.isAcknowledged()) {
      const Handshake::Key& key = greeting.handshake().sessionKey();
      seal_out = std::make_unique<PacketSeal>(key, true, wants_seal || peer_wants_seal);
      seal_in = std::make_unique<PacketSeal>(key, false, wants_seal || peer_wants_seal);
      for (int i = 0; i < 10; ++i) {
        station.step();
        lan.pass(5'000);
      }
      return true;
    }
    station.step();
    lan.pass(5'000);
    for (const Packet& packet : take()) {
      if (packet.start.kind != wire::PacketKind::Greeting) continue;
      const auto body = loadAs<wire::GreetingBody>(packet.payload.data());
      session = body.session;
      peer_wants_seal = body.wants_seal != 0;
      const bool is_news =
          greeting.onPacket(packet.header.offset, body.received_bytes, ByteSpan(packet.payload).subspan(sizeof(body)));
      if (!is_news || greeting.handshake().state() == Handshake::State::Done) continue;
      wire::PacketHeader header{};
      header.session = session;
      header.offset = greeting.offset();
      sendAs(startOf(wire::PacketKind::Greeting), header,
             joined(bodyOf(own_number, greeting.receivedBytes()), greeting.toSend(400)), &no_seal_);
    }
  }
  return false;
}

void Hand::hello(const MacAddress& to, const MacAddress& from, uint16_t wanted) {
  const Handshake handshake({.side = HandshakeSide::Initiator,
                             .identity = identity_,
                             .slot_count = kSlots,
                             .peer_is_local = true,
                             .locators = {}},
                            lan.entropy);
  wire::FrameStart start = startOf(wire::PacketKind::Greeting);
  start.to = to.bytes;
  start.from = from.bytes;
  wire::GreetingBody body = bodyOf(lan.entropy.next() | 1, 0);
  body.port = wanted;
  sendAs(start, {}, joined(body, handshake.toSend()), &no_seal_);
}

void Hand::send(wire::PacketKind kind, const wire::PacketHeader& header, ByteSpan payload) {
  wire::PacketHeader whole = header;
  whole.session = session;
  sendAs(startOf(kind), whole, payload, seal_out.get());
}

void Hand::sendAs(const wire::FrameStart& start, wire::PacketHeader header, ByteSpan payload, const PacketSeal* seal) {
  if (header.payload_bytes == 0) header.payload_bytes = static_cast<uint16_t>(payload.size());
  if (seal != nullptr) header.seal = seal->of(start.version, start.kind, header, std::span(&payload, 1));
  std::vector<std::byte> frame(wire::kPacketHeaderBytes + payload.size());
  storeAs(frame.data(), start);
  storeAs(frame.data() + sizeof(start), header);
  std::ranges::copy(payload, frame.begin() + wire::kPacketHeaderBytes);
  sendFrame(frame);
}

void Hand::sendFrame(ByteSpan frame) {
  std::byte* at = nullptr;
  const OutFrame out = port.make(static_cast<uint32_t>(frame.size()), at);
  ASSERT_TRUE(out);
  std::ranges::copy(frame, at);
  if (port.send(std::span(&out, 1)) == 0) port.drop(out);
}

wire::PacketHeader Hand::requestOf(uint16_t slot, uint32_t sequence, uint32_t message_bytes, uint32_t offset) const {
  wire::PacketHeader header{};
  header.sequence = sequence;
  header.message_bytes = message_bytes;
  header.head_bytes = std::min(message_bytes, 16u);
  header.offset = offset;
  header.response_bytes_max = UINT32_MAX;
  header.slot = slot;
  return header;
}

void Hand::sendRequest(uint16_t slot, uint32_t sequence, uint32_t message_bytes, uint32_t offset) {
  const std::vector<std::byte> payload(std::min(packet_bytes, message_bytes - offset), std::byte{9});
  send(wire::PacketKind::Request, requestOf(slot, sequence, message_bytes, offset), payload);
}

std::vector<Hand::Packet> Hand::take() {
  std::vector<Packet> packets;
  std::array<InFrame, 16> frames;
  while (const uint32_t count = port.receive(frames)) {
    for (const InFrame& frame : std::span(frames).first(count)) {
      Packet packet;
      packet.frame.assign(frame.bytes, frame.bytes + frame.length);
      packet.start = loadAs<wire::FrameStart>(frame.bytes);
      packet.header = loadAs<wire::PacketHeader>(frame.bytes + sizeof(wire::FrameStart));
      packet.payload.assign(packet.frame.begin() + wire::kPacketHeaderBytes,
                            packet.frame.begin() + wire::kPacketHeaderBytes + packet.header.payload_bytes);
      port.release(frame);
      packets.push_back(std::move(packet));
    }
  }
  return packets;
}

}  // namespace ramcore::transport::datagram
