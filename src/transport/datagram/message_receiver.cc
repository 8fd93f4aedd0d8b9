#include "transport/datagram/message_receiver.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/mutation.h"
#include "wire/frame.h"

namespace ramcore::transport::datagram {
namespace {

// Length of a block for copies of short messages (messageOf()).
constexpr uint32_t kCopiedBytesAtOnce = RxBlockPool::kBlockBytes;
// The round trip of one in this many calls is measured: the answers to the others need no clock.
constexpr uint32_t kCallsPerSample = 8;

}  // namespace

MessageReceiver::MessageReceiver(const Parts& parts) : parts_(parts), address_(parts.ports[0]->facts().address) {
  for (const FramePort* port : parts.ports) {
    borrowable_frames_.push_back(uint64_t{port->facts().borrowable_frames} * parts.ports.size());
  }
}

// ---- frames

void MessageReceiver::take(uint32_t port, std::span<const InFrame> frames) {
  parts_.clock.beginBurst();
  for (const InFrame& frame : frames) {
    if (!takeFrame(port, frame)) parts_.ports[port]->release(frame);
  }
}

// True if the frame was kept.
bool MessageReceiver::takeFrame(uint32_t port, const InFrame& frame) {
  Packet packet;
  if (!takeApart(port, frame, packet)) return false;
  ++packet_counts_.received;
  if (packet.start.kind == wire::PacketKind::Greeting || packet.start.kind == wire::PacketKind::Unknown) {
    takeUnsealed(packet);
    return false;
  }
  Session* const session = parts_.sessions.findNumber(packet.header.session);
  if (session == nullptr) {
    ++packet_counts_.unknown_peers;
    parts_.clock.readInThisBurst();
    parts_.closer.takeFromUnknownPeer(packet);
    return false;
  }
  // Only the peer of an open session can have sealed a packet.
  if (session->state != Session::State::Open) return false;
  if (session->channel->seal_in.of(packet.start.version, packet.start.kind, packet.header,
                                   std::span(&packet.payload, 1)) != packet.header.seal &&
      !RC_MUTATION("believe-unsealed")) {
    ++packet_counts_.unproven;
    if (++session->unproven >= parts_.options.unproven_max) {
      parts_.closer.closeSilent(
          *session, std::to_string(session->unproven) + " packets had wrong seals: a sender may be guessing them");
    }
    return false;
  }
  // Only after the check of the seal: a forged packet must not keep a session alive.
  session->heard_ns = parts_.clock.nowNs();
  session->suspected_ns = 0;
  session->greeting.reset();  // a peer that seals has all of it
  const bool was_kept = takePacket(*session, packet, frame);
  return was_kept;
}

bool MessageReceiver::takeApart(uint32_t port, const InFrame& frame, Packet& packet) {
  if (frame.length < wire::kPacketHeaderBytes) {
    ++packet_counts_.nonsense;
    return false;
  }
  packet.port = port;
  // FrameStart has no isValid(): packets with a wrong one are either ignored or counted below.
  packet.start = loadAs<wire::FrameStart>(frame.bytes);
  constexpr std::array<uint8_t, 2> kType = {wire::kDatagramEtherType >> 8, wire::kDatagramEtherType & 0xff};
  // Other protocols share the wire.
  if (packet.start.ether_type != kType) return false;
  // No honest peer sends from a group address, and an answer to it would reach the whole group.
  if ((packet.start.from[0] & 1) != 0) {
    ++packet_counts_.nonsense;
    return false;
  }
  const MacAddress to{packet.start.to};
  if (to != address_ && !(to.isBroadcast() && packet.start.kind == wire::PacketKind::Greeting)) return false;
  const ByteSpan behind_start(frame.bytes + sizeof(wire::FrameStart), frame.length - sizeof(wire::FrameStart));
  if (packet.start.version != wire::kDatagramVersion || !wire::decode(behind_start, packet.header) ||
      packet.header.payload_bytes > frame.length - wire::kPacketHeaderBytes) {
    ++packet_counts_.nonsense;
    return false;
  }
  packet.payload = ByteSpan(frame.bytes + wire::kPacketHeaderBytes, packet.header.payload_bytes);
  return true;
}

// A packet that belongs to no open session.
void MessageReceiver::takeUnsealed(const Packet& packet) {
  parts_.clock.readInThisBurst();
  if (parts_.packets.noSeal().of(packet.start.version, packet.start.kind, packet.header,
                                 std::span(&packet.payload, 1)) != packet.header.seal) {
    ++packet_counts_.unproven;
  } else if (packet.start.kind == wire::PacketKind::Unknown) {
    parts_.closer.takeUnknown(packet);
  } else {
    const DatagramGreeter::Took took = parts_.greeter.take(packet);
    if (took == DatagramGreeter::Took::Nonsense) ++packet_counts_.nonsense;
    if (took == DatagramGreeter::Took::OfUnknownPeer) ++packet_counts_.unknown_peers;
  }
}

// True if the frame was kept.
bool MessageReceiver::takePacket(Session& session, const Packet& packet, const InFrame& frame) {
  bool is_good = false;  // kinds that have no name are bad, too
  bool was_kept = false;
  if (packet.start.kind != wire::PacketKind::Request && packet.start.kind != wire::PacketKind::Response) {
    parts_.clock.readInThisBurst();
  }
  switch (packet.start.kind) {
    case wire::PacketKind::Request:
    case wire::PacketKind::Response:
      is_good = isValidData(*session.channel, packet);
      if (!is_good) break;
      borrowed_last_ = false;
      is_good = packet.start.kind == wire::PacketKind::Request ? takeRequest(session, packet, frame)
                                                               : takeResponse(session, packet, frame);
      was_kept = borrowed_last_;
      break;
    case wire::PacketKind::Grant:
      is_good = takeGrant(session, packet);
      break;
    case wire::PacketKind::Ack:
      is_good = takeAcks(session, packet);
      break;
    case wire::PacketKind::Probe:
      parts_.packets.sendControlPacket(session, wire::PacketKind::ProbeReply);
      is_good = true;
      break;
    case wire::PacketKind::ProbeReply:
      is_good = true;
      break;
    case wire::PacketKind::Close:
      parts_.packets.sendControlPacket(session, wire::PacketKind::Closed);
      parts_.closer.close(session, Status::Shutdown);
      return false;
    case wire::PacketKind::Reset:
      parts_.closer.close(session, Status::SessionLost);
      return false;
    case wire::PacketKind::Closed:
    case wire::PacketKind::Greeting:
    case wire::PacketKind::Unknown:
      break;
    default:
      is_good = false;
  }
  if (!is_good) parts_.closer.closeMalformed(session, "a packet that no honest peer sends");
  return was_kept;
}

bool MessageReceiver::isValidData(const Channel& channel, const Packet& packet) {
  const wire::PacketHeader& header = packet.header;
  if (header.message_bytes > wire::kMessageBytesMax || header.head_bytes > header.message_bytes ||
      header.head_bytes > wire::kHeadBytesMax || header.slot >= channel.calls.slotCount() ||
      header.priority >= runtime::kPriorityCount || (header.flags & ~wire::kPacketAgain) != 0) {
    return false;
  }
  if (header.offset != 0 && (header.offset % channel.packet_bytes != 0 || header.offset >= header.message_bytes)) {
    return false;
  }
  return header.payload_bytes == std::min(channel.packet_bytes, header.message_bytes - header.offset);
}

// ---- messages of the peer

bool MessageReceiver::takeRequest(Session& session, const Packet& packet, const InFrame& frame) {
  Channel& channel = *session.channel;
  const wire::PacketHeader& header = packet.header;
  Served& served = channel.served[header.slot];
  if (header.sequence > served.sequence) return beginRequest(session, packet, frame);
  parts_.clock.readInThisBurst();
  if (header.sequence != served.sequence || served.state == Served::State::Over) {
    ++packet_counts_.copies;
    return true;
  }
  switch (served.state) {
    case Served::State::None:
      return false;
    case Served::State::Arriving:
      return takeArriving(session, served.request, packet, false);
    case Served::State::InService: {
      if (RC_MUTATION("deliver-copies") && header.message_bytes <= channel.packet_bytes) {
        deliverRequest(session, header, messageOf(packet, frame));
        return true;
      }
      // The request is complete, and the answer is not there yet.
      ++packet_counts_.copies;
      const uint32_t packets = std::max(1u, (header.message_bytes + channel.packet_bytes - 1) / channel.packet_bytes);
      parts_.reassembly.tellComplete(session, {session.id, header.slot, false}, packets, header.sequence);
      return true;
    }
    case Served::State::Answered:
      ++packet_counts_.copies;
      // The answer is sent again, unless it was sent just now.
      if (served.response != nullptr && served.response->begun_ns != 0 &&
          parts_.clock.nowNs() - served.response->begun_ns > channel.round_trip.smoothedNs()) {
        served.response->resendFirst();
        parts_.sender.makeReady(*served.response);
      }
      return true;
    case Served::State::Over:
      break;
  }
  return true;
}

bool MessageReceiver::beginRequest(Session& session, const Packet& packet, const InFrame& frame) {
  Channel& channel = *session.channel;
  const wire::PacketHeader& header = packet.header;
  Served& served = channel.served[header.slot];
  // No honest peer sends a new request in a slot before it has the answer to the last one.
  if (served.state == Served::State::InService || served.state == Served::State::Arriving) return false;
  if (served.response != nullptr) parts_.sender.end(channel, served.response);
  if (header.message_bytes > channel.packet_bytes) {
    // Without memory the sequence stays as it is: the packet is sent again, and has to count as new then.
    if (!parts_.reassembly.begin(session, served.request, packet, false)) return true;
    served.sequence = header.sequence;
    served.state = Served::State::Arriving;
    return takeArriving(session, served.request, packet, false);
  }
  served.sequence = header.sequence;
  deliverRequest(session, header, messageOf(packet, frame));
  return true;
}

void MessageReceiver::deliverRequest(Session& session, const wire::PacketHeader& header, RxMessage&& message) {
  ++delivered_count_;
  session.channel->served[header.slot].state = Served::State::InService;
  RxMessage& delivered = requests_.emplace_back(std::move(message));
  delivered.reply_to = ReplyTo{session.id, header.sequence, header.slot, header.response_bytes_max};
  delivered.priority = static_cast<runtime::Priority>(header.priority);
}

bool MessageReceiver::takeResponse(Session& session, const Packet& packet, const InFrame& frame) {
  Channel& channel = *session.channel;
  const wire::PacketHeader& header = packet.header;
  OwnCall& own = channel.own[header.slot];
  if (!channel.calls.isOut(header.slot, header.sequence)) {
    if (header.sequence > own.sequence) return false;
    ++packet_counts_.copies;
    // The answer was taken already, and the peer does not know.
    if (header.sequence == own.sequence) parts_.acks.note(session, header);
    return true;
  }
  if (header.message_bytes > own.response_bytes_max) return false;
  if (own.asked_again_since_ns != 0) noteSlowAnswer(channel, own);
  // An answer means that the peer has the request. (A forged one may come before the request has left, which does no
  // harm.)
  if (own.request != nullptr) {
    if (isTimed(channel, own)) parts_.clock.readInThisBurst();
    endRequest(channel, own);
  }
  if (header.message_bytes <= channel.packet_bytes) {
    finishCall(session, header, messageOf(packet, frame));
    return true;
  }
  if (!own.response.isActive() && !parts_.reassembly.begin(session, own.response, packet, true)) return true;
  return takeArriving(session, own.response, packet, true);
}

// The completed call may close the session, or start another one in the same slot.
void MessageReceiver::finishCall(Session& session, const wire::PacketHeader& header, RxMessage&& message) {
  ++delivered_count_;
  Channel& channel = *session.channel;
  --channel.calls_out;
  parts_.acks.note(session, header);
  PendingCall* const call = channel.calls.finish(header.slot, header.sequence);
  if (call != nullptr) call->complete(*call, Status::Ok, std::move(message));
}

// A message of one packet: the frame itself, unless the port would have too few left.
RxMessage MessageReceiver::messageOf(const Packet& packet, const InFrame& frame) {
  const std::byte* const at = frame.bytes + wire::kPacketHeaderBytes;
  if (parts_.borrowed.count() < borrowable_frames_[packet.port] && isAligned(reinterpret_cast<uintptr_t>(at), 8)) {
    borrowed_last_ = true;
    return {packet.payload, {}, &parts_.borrowed, parts_.borrowed.borrow(*parts_.ports[packet.port], frame)};
  }
  const auto bytes = static_cast<uint32_t>(packet.payload.size());
  const auto room = static_cast<uint32_t>(alignUp(bytes, 8));
  if (copies_ == nullptr || copies_used_ + room > copies_->capacity()) {
    if (copies_ != nullptr) parts_.blocks.drop(copies_);
    copies_ = parts_.blocks.take(kCopiedBytesAtOnce);
    copies_used_ = 0;
  }
  std::byte* const copy = copies_->bytes() + copies_used_;
  std::copy(packet.payload.begin(), packet.payload.end(), copy);
  copies_used_ += room;
  copies_->addReference();
  return {ByteSpan(copy, bytes), {}, &parts_.blocks, RxBlockPool::tokenOf(copies_)};
}

// A message of several packets.
bool MessageReceiver::takeArriving(Session& session, Incoming& incoming, const Packet& packet, bool is_response) {
  const Incoming::Took took = parts_.reassembly.take(session, incoming, packet, is_response);
  if (took == Incoming::Took::Nonsense) return false;
  if (took == Incoming::Took::Copy) ++packet_counts_.copies;
  if (!incoming.isComplete()) return true;
  const wire::PacketHeader first = incoming.header();
  const uint32_t packets = incoming.packetCount();
  RxMessage message = parts_.reassembly.finish(session, incoming, is_response);
  if (is_response) {
    finishCall(session, first, std::move(message));
    return true;
  }
  // The sender is told, so that its bytes go back however long the answer takes.
  parts_.reassembly.tellComplete(session, {session.id, first.slot, false}, packets, first.sequence);
  deliverRequest(session, first, std::move(message));
  return true;
}

// Nothing of a session that has ended is delivered.
void MessageReceiver::handOver(MessageSink& sink) {
  bool are_open = true;
  for (const RxMessage& request : requests_) are_open &= parts_.sessions.findOpen(request.reply_to.session) != nullptr;
  if (!are_open) {
    std::erase_if(requests_, [this](const RxMessage& request) {
      return parts_.sessions.findOpen(request.reply_to.session) == nullptr;
    });
  }
  if (!requests_.empty()) sink.onRequests(requests_);
  requests_.clear();
}

void MessageReceiver::stop() {
  requests_.clear();
  if (copies_ != nullptr) parts_.blocks.drop(std::exchange(copies_, nullptr));
}

// ---- what the peer says of our messages

bool MessageReceiver::takeGrant(Session& session, const Packet& packet) {
  Channel& channel = *session.channel;
  const wire::PacketHeader& header = packet.header;
  wire::GrantBody body;
  if (packet.payload.size() != sizeof(body) || !wire::decode(packet.payload, body) ||
      header.slot >= channel.calls.slotCount() ||
      (header.flags & ~(wire::kPacketOfResponse | wire::kPacketOverdue)) != 0) {
    return false;
  }
  const bool of_response = (header.flags & wire::kPacketOfResponse) != 0;
  Outgoing*& outgoing = of_response ? channel.served[header.slot].response : channel.own[header.slot].request;
  // The message has ended already.
  if (outgoing == nullptr || outgoing->sequence != header.sequence) return true;
  const bool is_overdue = (header.flags & wire::kPacketOverdue) != 0;
  if (!outgoing->onGrant(body, is_overdue, parts_.clock.nowNs(), channel.round_trip.smoothedNs())) return false;
  if (outgoing->isThere()) {
    noteRoundTrip(channel, *outgoing);
    if (!of_response && outgoing->was_resent && outgoing->packet_count == 1) {
      OwnCall& own = channel.own[header.slot];
      own.asked_again_since_ns = outgoing->begun_ns;
      own.answer_counts_ns = 2 * channel.round_trip.timeoutNs(0);
    }
    // The peer has all of the answer, and will take it: nothing of it is needed any more.
    if (of_response) channel.served[header.slot].state = Served::State::Over;
    parts_.sender.end(channel, outgoing);
    return true;
  }
  outgoing->due_ns = parts_.clock.nowNs() + channel.round_trip.timeoutNs(0);
  if (outgoing->isReady()) parts_.sender.makeReady(*outgoing);
  return true;
}

bool MessageReceiver::takeAcks(Session& session, const Packet& packet) {
  Channel& channel = *session.channel;
  if (packet.payload.empty() || packet.payload.size() % sizeof(wire::AckEntry) != 0) return false;
  for (size_t at = 0; at < packet.payload.size(); at += sizeof(wire::AckEntry)) {
    wire::AckEntry entry;
    if (!wire::decode(packet.payload.subspan(at), entry) || entry.slot >= channel.served.size()) return false;
    Served& served = channel.served[entry.slot];
    if (served.sequence != entry.sequence || served.response == nullptr) continue;
    if (served.response->next == 0) return false;  // before any of it was sent
    noteRoundTrip(channel, *served.response);
    served.state = Served::State::Over;
    parts_.sender.end(channel, served.response);
  }
  return true;
}

// Called when the peer has the request. The time until the answer counts as a round trip. If that makes the timeout too
// short for another answer, the peer only says that it is at work.
void MessageReceiver::endRequest(Channel& channel, OwnCall& own) {
  if (isTimed(channel, own)) noteRoundTrip(channel, *own.request);
  parts_.sender.end(channel, own.request);
}

// Measures an answer whose request was sent again while the peer was at work. Without these the timeout would never
// adapt to calls that always take long. Such an answer counts as answer_counts_ns at most (twice the timeout), so that
// calls that are slow by chance do not raise the timeout much: all calls that wait for a peer without a processor are
// slow.
void MessageReceiver::noteSlowAnswer(Channel& channel, OwnCall& own) {
  parts_.clock.readInThisBurst();
  const int64_t took_ns = parts_.clock.nowNs() - std::exchange(own.asked_again_since_ns, 0);
  channel.round_trip.note(std::min(took_ns, own.answer_counts_ns));
}

bool MessageReceiver::isTimed(const Channel& channel, const OwnCall& own) {
  // The calls to be timed are chosen by a hash of the sequence and not as every n-th one: callers may alternate between
  // fast and slow calls.
  return own.sequence * 0x9e3779b1u < UINT32_MAX / kCallsPerSample || !channel.round_trip.hasSample();
}

void MessageReceiver::noteRoundTrip(Channel& channel, const Outgoing& outgoing) {
  if (outgoing.was_resent || outgoing.begun_ns == 0 || outgoing.packet_count != 1) return;
  channel.round_trip.note(parts_.clock.nowNs() - outgoing.begun_ns);
}

}  // namespace ramcore::transport::datagram
