// What a DatagramEndpoint does with the frames that arrive.
#include <algorithm>

#include "base/mutation.h"
#include "transport/datagram/datagram_endpoint.h"
#include "wire/frame.h"

namespace ramcore::transport::datagram {
namespace {

// Below it a message is put into one packet of the receiver's.
constexpr uint32_t kCopiedBytesAtOnce = RxBlockPool::kBlockBytes;
// A sender of a long message that was asked so often for what is missing: others are granted packets in its place.
constexpr uint8_t kTriesOfTheUnwilling = 2;
// Of so many calls the round trip of one is measured: what comes in the others needs no clock.
constexpr uint32_t kCallsPerSample = 8;

}  // namespace

// ---- frames

// True if the frame was kept.
bool DatagramEndpoint::takeFrame(uint32_t port, const InFrame& frame) {
  Packet packet;
  if (!takeApart(port, frame, packet)) return false;
  ++packet_counts_.received;
  if (packet.start.kind == wire::PacketKind::Greeting || packet.start.kind == wire::PacketKind::Unknown) {
    readClockInThisBurst();
    if (no_seal_.of(packet.start.version, packet.start.kind, packet.header, std::span(&packet.payload, 1)) !=
        packet.header.seal) {
      ++packet_counts_.unproven;
    } else if (packet.start.kind == wire::PacketKind::Unknown) {
      takeUnknown(packet);
    } else {
      takeGreeting(packet);
    }
    return false;
  }
  Session* const session = findNumber(packet.header.session);
  if (session == nullptr) {
    takeFromUnknownPeer(packet);
    return false;
  }
  // Nobody but the peer of an open session can have sealed anything.
  if (session->state != Session::State::Open) return false;
  if (session->channel->seal_in.of(packet.start.version, packet.start.kind, packet.header,
                                   std::span(&packet.payload, 1)) != packet.header.seal &&
      !RC_MUTATION("believe-unsealed")) {
    ++packet_counts_.unproven;
    if (++session->unproven >= options_.unproven_max) {
      closeSilent(*session, std::to_string(session->unproven) + " packets had wrong seals: somebody tries them");
    }
    return false;
  }
  session->heard_ns = now_ns_;
  session->suspected_ns = 0;
  session->greeting.reset();  // whoever seals has heard all of it
  const bool was_kept = takePacket(*session, packet, frame);
  return was_kept;
}

bool DatagramEndpoint::takeApart(uint32_t port, const InFrame& frame, Packet& packet) {
  if (frame.length < wire::kPacketHeaderBytes) {
    ++packet_counts_.nonsense;
    return false;
  }
  packet.port = port;
  packet.start = loadAs<wire::FrameStart>(frame.bytes);
  constexpr std::array<uint8_t, 2> kType = {wire::kDatagramEtherType >> 8, wire::kDatagramEtherType & 0xff};
  // Other protocols share the wire.
  if (packet.start.ether_type != kType) return false;
  // Nobody speaks from an address of many; whoever answered would reach all of them.
  if ((packet.start.from[0] & 1) != 0) {
    ++packet_counts_.nonsense;
    return false;
  }
  const MacAddress to{packet.start.to};
  if (to != address_ && !(to.isBroadcast() && packet.start.kind == wire::PacketKind::Greeting)) return false;
  packet.header = loadAs<wire::PacketHeader>(frame.bytes + sizeof(wire::FrameStart));
  if (packet.start.version != wire::kDatagramVersion ||
      packet.header.payload_bytes > frame.length - wire::kPacketHeaderBytes ||
      packet.header.payload_bytes > wire::kPacketBytesMax || packet.header.reserved1 != 0 ||
      packet.header.reserved2 != 0) {
    ++packet_counts_.nonsense;
    return false;
  }
  packet.payload = ByteSpan(frame.bytes + wire::kPacketHeaderBytes, packet.header.payload_bytes);
  return true;
}

// Of a session that has just ended, or of a process that was here before.
void DatagramEndpoint::takeFromUnknownPeer(const Packet& packet) {
  ++packet_counts_.unknown_peers;
  readClockInThisBurst();
  const auto closing =
      std::ranges::find_if(closing_, [&](const Closing& one) { return one.route.number == packet.header.session; });
  // (Who the sender is, it will know from the number it used.)
  if (closing == closing_.end()) return sayUnknown(packet.port, packet.from(), 0, packet.header.session);
  if (closing->seal_in.of(packet.start.version, packet.start.kind, packet.header, std::span(&packet.payload, 1)) !=
      packet.header.seal) {
    return;
  }
  if (packet.start.kind == wire::PacketKind::Closed || packet.start.kind == wire::PacketKind::Reset) {
    closing_.erase(closing);
  } else if (packet.start.kind == wire::PacketKind::Close) {
    sendControlPacket(closing->route, closing->seal_out, wire::PacketKind::Closed, {}, {});
    closing_.erase(closing);
  } else {
    sendControlPacket(closing->route, closing->seal_out, wire::PacketKind::Close, {}, {});
  }
}

// True if the frame was kept.
bool DatagramEndpoint::takePacket(Session& session, const Packet& packet, const InFrame& frame) {
  bool is_good = false;  // what has no name here is nothing either
  bool was_kept = false;
  if (packet.start.kind != wire::PacketKind::Request && packet.start.kind != wire::PacketKind::Response) {
    readClockInThisBurst();
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
      sendControlPacket(session, wire::PacketKind::ProbeReply);
      is_good = true;
      break;
    case wire::PacketKind::ProbeReply:
      is_good = true;
      break;
    case wire::PacketKind::Close:
      sendControlPacket(session, wire::PacketKind::Closed);
      close(session, Status::Shutdown);
      return false;
    case wire::PacketKind::Reset:
      close(session, Status::SessionLost);
      return false;
    case wire::PacketKind::Closed:
    case wire::PacketKind::Greeting:
    case wire::PacketKind::Unknown:
      break;
    default:
      is_good = false;
  }
  if (!is_good) closeMalformed(session, "a packet that no honest peer sends");
  return was_kept;
}

bool DatagramEndpoint::isValidData(const Channel& channel, const Packet& packet) const {
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

bool DatagramEndpoint::takeRequest(Session& session, const Packet& packet, const InFrame& frame) {
  Channel& channel = *session.channel;
  const wire::PacketHeader& header = packet.header;
  Served& served = channel.served[header.slot];
  if (header.sequence > served.sequence) return beginRequest(session, packet, frame);
  readClockInThisBurst();
  if (header.sequence != served.sequence || served.state == Served::State::Over) {
    ++packet_counts_.copies;
    return true;
  }
  switch (served.state) {
    case Served::State::None:
      return false;
    case Served::State::Arriving:
      return addArriving(session, served.request, packet, false);
    case Served::State::InService: {
      if (RC_MUTATION("deliver-copies") && header.message_bytes <= channel.packet_bytes) {
        deliverRequest(session, header, messageOf(packet, frame));
        return true;
      }
      // It has all come, and the answer takes its time.
      ++packet_counts_.copies;
      const uint32_t packets = std::max(1u, (header.message_bytes + channel.packet_bytes - 1) / channel.packet_bytes);
      sendGrant(session, {session.id, header.slot, false},
                {.later = 0, .received_packets = packets, .granted_packets = packets}, header.sequence, false);
      return true;
    }
    case Served::State::Answered:
      ++packet_counts_.copies;
      // Unless it is on its way just now.
      if (served.response != nullptr && served.response->begun_ns != 0 &&
          now_ns_ - served.response->begun_ns > channel.round_trip.smoothedNs()) {
        served.response->resendFirst();
        makeReady(*served.response);
      }
      return true;
    case Served::State::Over:
      break;
  }
  return true;
}

bool DatagramEndpoint::beginRequest(Session& session, const Packet& packet, const InFrame& frame) {
  Channel& channel = *session.channel;
  const wire::PacketHeader& header = packet.header;
  Served& served = channel.served[header.slot];
  // Nobody asks anew before the answer has come.
  if (served.state == Served::State::InService || served.state == Served::State::Arriving) return false;
  if (served.response != nullptr) endSending(channel, served.response);
  if (header.message_bytes > channel.packet_bytes) {
    if (!beginArriving(session, served.request, packet, false)) return true;
    served.sequence = header.sequence;
    served.state = Served::State::Arriving;
    return addArriving(session, served.request, packet, false);
  }
  served.sequence = header.sequence;
  deliverRequest(session, header, messageOf(packet, frame));
  return true;
}

void DatagramEndpoint::deliverRequest(Session& session, const wire::PacketHeader& header, RxMessage&& message) {
  ++delivered_count_;
  session.channel->served[header.slot].state = Served::State::InService;
  RxMessage& delivered = requests_.emplace_back(std::move(message));
  delivered.reply_to = ReplyTo{session.id, header.sequence, header.slot, header.response_bytes_max};
  delivered.priority = static_cast<runtime::Priority>(header.priority);
}

bool DatagramEndpoint::takeResponse(Session& session, const Packet& packet, const InFrame& frame) {
  Channel& channel = *session.channel;
  const wire::PacketHeader& header = packet.header;
  OwnCall& own = channel.own[header.slot];
  if (!channel.calls.isOut(header.slot, header.sequence)) {
    if (header.sequence > own.sequence) return false;
    ++packet_counts_.copies;
    // It was taken, and the peer does not know.
    if (header.sequence == own.sequence) noteAckDue(session, header);
    return true;
  }
  if (header.message_bytes > own.response_bytes_max) return false;
  if (own.asked_again_since_ns != 0) noteSlowAnswer(channel, own);
  // An answer says that the request was there. (One that is forged may come before the request has left: no matter.)
  if (own.request != nullptr) {
    if (isTimed(channel, own)) readClockInThisBurst();
    endRequest(channel, own);
  }
  if (header.message_bytes <= channel.packet_bytes) {
    finishCall(session, header, messageOf(packet, frame));
    return true;
  }
  if (!own.response.isActive() && !beginArriving(session, own.response, packet, true)) return true;
  return addArriving(session, own.response, packet, true);
}

void DatagramEndpoint::noteAckDue(Session& session, const wire::PacketHeader& header) {
  Channel& channel = *session.channel;
  OwnCall& own = channel.own[header.slot];
  if (std::exchange(own.owes_taken, true)) return;
  own.taken_ns = now_ns_;
  if (!std::exchange(own.is_in_taken, true)) channel.taken.push_back(header.slot);
  if (!std::exchange(session.has_taken, true)) acks_due_.push_back(session.id);
  const bool is_full = channel.taken.size() >= wire::kAckEntriesMax;
  first_ack_due_ns_ = std::min(first_ack_due_ns_, is_full ? now_ns_ : now_ns_ + kAckDelayNs);
}

// The completed call may close the session, or start another one in the same slot.
void DatagramEndpoint::finishCall(Session& session, const wire::PacketHeader& header, RxMessage&& message) {
  ++delivered_count_;
  Channel& channel = *session.channel;
  --channel.calls_out;
  noteAckDue(session, header);
  PendingCall* const call = channel.calls.finish(header.slot, header.sequence);
  if (call != nullptr) call->complete(*call, Status::Ok, std::move(message));
}

// A message of one packet: the frame itself, unless the port would have too few left.
RxMessage DatagramEndpoint::messageOf(const Packet& packet, const InFrame& frame) {
  const std::byte* const at = frame.bytes + wire::kPacketHeaderBytes;
  if (borrowed_.count() < borrowable_frames_[packet.port] && isAligned(reinterpret_cast<uintptr_t>(at), 8)) {
    borrowed_last_ = true;
    return {packet.payload, {}, &borrowed_, borrowed_.borrow(*ports_[packet.port], frame)};
  }
  const auto bytes = static_cast<uint32_t>(packet.payload.size());
  const auto room = static_cast<uint32_t>(alignUp(bytes, 8));
  if (copies_ == nullptr || copies_used_ + room > copies_->capacity()) {
    if (copies_ != nullptr) blocks_.drop(copies_);
    copies_ = blocks_.take(kCopiedBytesAtOnce);
    copies_used_ = 0;
  }
  std::byte* const copy = copies_->bytes() + copies_used_;
  std::copy(packet.payload.begin(), packet.payload.end(), copy);
  copies_used_ += room;
  copies_->addReference();
  return {ByteSpan(copy, bytes), {}, &blocks_, RxBlockPool::tokenOf(copies_)};
}

// ---- messages of several packets

// False if there is no memory for it now: it will be sent again.
bool DatagramEndpoint::beginArriving(Session& session, Incoming& incoming, const Packet& packet, bool is_response) {
  const wire::PacketHeader& header = packet.header;
  if (session.is_bounded && heldBytes() + header.message_bytes > options_.held_bytes_max) {
    is_short_of_memory_ = true;
    return false;
  }
  Channel& channel = *session.channel;
  readClockInThisBurst();
  incoming.begin(header, channel.packet_bytes, options_.unasked_packets, blocks_.take(header.message_bytes));
  incoming.begun_ns = now_ns_;
  incoming.heard_ns = now_ns_;
  const Arrival arrival{session.id, header.slot, is_response};
  channel.arriving.push_back(arrival);
  if (incoming.isLong()) long_.push_back(arrival);
  return true;
}

bool DatagramEndpoint::addArriving(Session& session, Incoming& incoming, const Packet& packet, bool is_response) {
  const wire::PacketHeader& header = packet.header;
  readClockInThisBurst();
  switch (incoming.take(header, packet.payload)) {
    case Incoming::Took::Nonsense:
      return false;
    case Incoming::Took::Copy:
      ++packet_counts_.copies;
      // Whoever sends again does not know how far it has come. (It gets no further by that: copies that come before
      // the time is up, again and again, do not put off asking for what is missing.)
      if ((header.flags & wire::kPacketAgain) != 0) incoming.is_asked_for = true;
      break;
    case Incoming::Took::News:
      incoming.heard_ns = now_ns_;
      incoming.due_ns = now_ns_ + session.channel->round_trip.timeoutNs(0);
      timeouts_due_ns_ = std::min(timeouts_due_ns_, incoming.due_ns);
      break;
  }
  if (!incoming.isComplete()) {
    list(incoming, {session.id, header.slot, is_response});
    return true;
  }
  const wire::PacketHeader first = incoming.header();
  const uint32_t packets = incoming.packetCount();
  RxMessage message = messageOf(incoming);
  endArriving(session, incoming, is_response, header.slot);
  if (is_response) {
    finishCall(session, first, std::move(message));
    return true;
  }
  // So that the sender's bytes go back, however long the answer takes.
  sendGrant(session, {session.id, header.slot, false},
            {.later = 0, .received_packets = packets, .granted_packets = packets}, first.sequence, false);
  deliverRequest(session, first, std::move(message));
  return true;
}

RxMessage DatagramEndpoint::messageOf(Incoming& incoming) {
  const uint32_t bytes = incoming.header().message_bytes;
  RxBlock* const block = incoming.takeBlock();
  return {ByteSpan(block->bytes(), bytes), {}, &blocks_, RxBlockPool::tokenOf(block)};
}

void DatagramEndpoint::endArriving(Session& session, Incoming& incoming, bool is_response, uint16_t slot) {
  const Arrival arrival{session.id, slot, is_response};
  std::erase(session.channel->arriving, arrival);
  if (RxBlock* block = incoming.takeBlock(); block != nullptr) blocks_.drop(block);
  if (!incoming.isLong()) return;
  std::erase(long_, arrival);
  // Its share goes to others.
  for (const Arrival& other : long_) {
    if (Incoming* waiting = incomingOf(other); waiting != nullptr) list(*waiting, other);
  }
}

void DatagramEndpoint::list(Incoming& incoming, const Arrival& arrival) {
  if (!std::exchange(incoming.is_listed, true)) listed_.push_back(arrival);
}

Incoming* DatagramEndpoint::incomingOf(const Arrival& arrival) {
  Session* const session = findOpen(arrival.session);
  if (session == nullptr) return nullptr;
  Channel& channel = *session->channel;
  Incoming& incoming = arrival.is_response ? channel.own[arrival.slot].response : channel.served[arrival.slot].request;
  return incoming.isActive() ? &incoming : nullptr;
}

// Of many long messages the shortest are granted first (Montazeri et al., Homa, 2018), and always the oldest. Who was
// asked more than once for what it may send, and sends nothing, keeps nobody waiting.
void DatagramEndpoint::chooseGranted() {
  granted_remaining_ = UINT32_MAX;
  granted_begun_ns_ = INT64_MIN;
  if (long_.size() <= options_.granted_messages) return;
  std::vector<uint32_t> remaining;
  remaining.reserve(long_.size());
  granted_begun_ns_ = INT64_MAX;
  for (const Arrival& arrival : long_) {
    const Incoming* const incoming = incomingOf(arrival);
    if (incoming == nullptr || (incoming->owesPackets() && incoming->tries >= kTriesOfTheUnwilling)) continue;
    remaining.push_back(incoming->remaining());
    granted_begun_ns_ = std::min(granted_begun_ns_, incoming->begun_ns);
  }
  if (remaining.size() <= options_.granted_messages) return;
  const auto last = remaining.begin() + (static_cast<ptrdiff_t>(options_.granted_messages) - 1);
  std::ranges::nth_element(remaining, last);
  granted_remaining_ = *last;
}

bool DatagramEndpoint::mayBeGranted(const Incoming& incoming) const {
  return incoming.remaining() <= granted_remaining_ || incoming.begun_ns <= granted_begun_ns_;
}

// What got on in this round: its sender hears of it once.
void DatagramEndpoint::tellListed() {
  if (listed_.empty()) return;
  chooseGranted();
  for (size_t i = 0; i < listed_.size(); ++i) {
    const Arrival arrival = listed_[i];
    Incoming* const incoming = incomingOf(arrival);
    if (incoming == nullptr) continue;
    incoming->is_listed = false;
    const bool has_more = incoming->isLong() && mayBeGranted(*incoming) && incoming->grant(options_.grant_window);
    const bool wants_resend = incoming->untold_packets != 0 && incoming->hasHole();
    if (!has_more && !wants_resend && !incoming->is_asked_for) continue;
    if (has_more) incoming->heard_ns = now_ns_;
    incoming->untold_packets = 0;
    incoming->is_asked_for = false;
    sendGrant(*findOpen(arrival.session), arrival, incoming->progress(), incoming->header().sequence, false);
  }
  listed_.clear();
}

void DatagramEndpoint::sendGrant(Session& session, const Arrival& arrival, const wire::GrantBody& body,
                                 uint32_t sequence, bool is_overdue) {
  wire::PacketHeader header{};
  header.sequence = sequence;
  header.slot = arrival.slot;
  if (arrival.is_response) header.flags |= wire::kPacketOfResponse;
  if (is_overdue) header.flags |= wire::kPacketOverdue;
  sendControlPacket(session, wire::PacketKind::Grant, header, bytesOf(body));
}

// ---- what the peer says of our messages

bool DatagramEndpoint::takeGrant(Session& session, const Packet& packet) {
  Channel& channel = *session.channel;
  const wire::PacketHeader& header = packet.header;
  if (packet.payload.size() != sizeof(wire::GrantBody) || header.slot >= channel.calls.slotCount() ||
      (header.flags & ~(wire::kPacketOfResponse | wire::kPacketOverdue)) != 0) {
    return false;
  }
  const auto body = loadAs<wire::GrantBody>(packet.payload.data());
  const bool of_response = (header.flags & wire::kPacketOfResponse) != 0;
  Outgoing*& outgoing = of_response ? channel.served[header.slot].response : channel.own[header.slot].request;
  // Of one that is over.
  if (outgoing == nullptr || outgoing->sequence != header.sequence) return true;
  const bool is_overdue = (header.flags & wire::kPacketOverdue) != 0;
  if (!outgoing->onGrant(body, is_overdue, now_ns_, channel.round_trip.smoothedNs())) return false;
  if (outgoing->isThere()) {
    noteRoundTrip(channel, *outgoing);
    if (!of_response && outgoing->was_resent && outgoing->packet_count == 1) {
      OwnCall& own = channel.own[header.slot];
      own.asked_again_since_ns = outgoing->begun_ns;
      own.answer_counts_ns = 2 * channel.round_trip.timeoutNs(0);
    }
    // An answer is over when it is taken, and this says that it will be.
    if (of_response) channel.served[header.slot].state = Served::State::Over;
    endSending(channel, outgoing);
    return true;
  }
  outgoing->due_ns = now_ns_ + channel.round_trip.timeoutNs(0);
  if (outgoing->isReady()) makeReady(*outgoing);
  return true;
}

bool DatagramEndpoint::takeAcks(Session& session, const Packet& packet) {
  Channel& channel = *session.channel;
  if (packet.payload.empty() || packet.payload.size() % sizeof(wire::AckEntry) != 0) return false;
  for (size_t at = 0; at < packet.payload.size(); at += sizeof(wire::AckEntry)) {
    const auto entry = loadAs<wire::AckEntry>(packet.payload.data() + at);
    if (entry.slot >= channel.served.size() || entry.reserved != 0) return false;
    Served& served = channel.served[entry.slot];
    if (served.sequence != entry.sequence || served.response == nullptr) continue;
    if (served.response->next == 0) return false;  // before any of it was sent
    noteRoundTrip(channel, *served.response);
    served.state = Served::State::Over;
    endSending(channel, served.response);
  }
  return true;
}

// The request is there. How long the answer took counts as a round trip: whoever is asked again too early only answers
// that it is at work.
void DatagramEndpoint::endRequest(Channel& channel, OwnCall& own) {
  if (isTimed(channel, own)) noteRoundTrip(channel, *own.request);
  endSending(channel, own.request);
}

// It was asked for again while the peer was at work. Were none of these measured, calls that are slow for good would be
// asked for again for good. But those that are slow by chance, as all are that a peer without its processor keeps
// waiting, count as twice what was waited for at most.
void DatagramEndpoint::noteSlowAnswer(Channel& channel, OwnCall& own) {
  readClockInThisBurst();
  const int64_t took_ns = now_ns_ - std::exchange(own.asked_again_since_ns, 0);
  channel.round_trip.note(std::min(took_ns, own.answer_counts_ns));
}

bool DatagramEndpoint::isTimed(const Channel& channel, const OwnCall& own) {
  // By no pattern that callers could have as well: calls that take turns in being fast and slow are both measured.
  return own.sequence * 0x9e3779b1u < UINT32_MAX / kCallsPerSample || !channel.round_trip.hasSample();
}

void DatagramEndpoint::noteRoundTrip(Channel& channel, const Outgoing& outgoing) {
  if (outgoing.was_resent || outgoing.begun_ns == 0 || outgoing.packet_count != 1) return;
  channel.round_trip.note(now_ns_ - outgoing.begun_ns);
}

}  // namespace ramcore::transport::datagram
