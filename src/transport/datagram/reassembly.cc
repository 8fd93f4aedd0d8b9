#include "transport/datagram/reassembly.h"

#include <algorithm>

namespace ramcore::transport::datagram {
namespace {

// If the sender of a long message was asked this often for what is missing, others are granted packets in its place.
constexpr uint8_t kTriesOfTheUnwilling = 2;

}  // namespace

Reassembly::Reassembly(const DatagramOptions& options, DatagramClock& clock, const DatagramSessions& sessions,
                       PacketSender& packets, const MessageSender& sender, RxBlockPool& blocks)
    : options_(options), clock_(clock), sessions_(sessions), packets_(packets), sender_(sender), blocks_(blocks) {}

Incoming* Reassembly::find(const Arrival& arrival) const {
  Session* const session = sessions_.findOpen(arrival.session);
  if (session == nullptr) return nullptr;
  Channel& channel = *session->channel;
  Incoming& incoming = arrival.is_response ? channel.own[arrival.slot].response : channel.served[arrival.slot].request;
  return incoming.isActive() ? &incoming : nullptr;
}

bool Reassembly::begin(Session& session, Incoming& incoming, const Packet& packet, bool is_response) {
  const wire::PacketHeader& header = packet.header;
  const uint64_t held_bytes = blocks_.borrowedBytes() + sender_.allWaitingBytes();
  if (session.is_bounded && held_bytes + header.message_bytes > options_.held_bytes_max) {
    is_short_of_memory_ = true;
    return false;
  }
  Channel& channel = *session.channel;
  clock_.readInThisBurst();
  incoming.begin(header, channel.packet_bytes, options_.unasked_packets, blocks_.take(header.message_bytes));
  incoming.begun_ns = clock_.nowNs();
  incoming.heard_ns = clock_.nowNs();
  const Arrival arrival{session.id, header.slot, is_response};
  channel.arriving.push_back(arrival);
  if (incoming.isLong()) long_.push_back(arrival);
  return true;
}

Incoming::Took Reassembly::take(Session& session, Incoming& incoming, const Packet& packet, bool is_response) {
  const wire::PacketHeader& header = packet.header;
  clock_.readInThisBurst();
  const Incoming::Took took = incoming.take(header, packet.payload);
  switch (took) {
    case Incoming::Took::Nonsense:
      return took;
    case Incoming::Took::Copy:
      // A peer that sends again does not know how far the message has come. (That is no progress: copies that come
      // again and again do not put off asking for what is missing.)
      if ((header.flags & wire::kPacketAgain) != 0) incoming.is_asked_for = true;
      break;
    case Incoming::Took::News:
      incoming.heard_ns = clock_.nowNs();
      incoming.due_ns = clock_.nowNs() + session.channel->round_trip.timeoutNs(0);
      clock_.runTimeoutsBy(incoming.due_ns);
      break;
  }
  if (!incoming.isComplete()) list(incoming, {session.id, header.slot, is_response});
  return took;
}

RxMessage Reassembly::finish(Session& session, Incoming& incoming, bool is_response) {
  const wire::PacketHeader& header = incoming.header();
  RxBlock* const block = incoming.takeBlock();
  RxMessage message(ByteSpan(block->bytes(), header.message_bytes), {}, &blocks_, RxBlockPool::tokenOf(block));
  end(session, incoming, {session.id, header.slot, is_response});
  return message;
}

void Reassembly::dropAll(Channel& channel) {
  for (const Arrival& arrival : channel.arriving) {
    Incoming& incoming =
        arrival.is_response ? channel.own[arrival.slot].response : channel.served[arrival.slot].request;
    if (RxBlock* block = incoming.takeBlock(); block != nullptr) blocks_.drop(block);
    std::erase(long_, arrival);
  }
  channel.arriving.clear();
}

void Reassembly::end(Session& session, Incoming& incoming, const Arrival& arrival) {
  std::erase(session.channel->arriving, arrival);
  if (!incoming.isLong()) return;
  std::erase(long_, arrival);
  // Other long messages may be granted its share.
  for (const Arrival& other : long_) {
    if (Incoming* waiting = find(other); waiting != nullptr) list(*waiting, other);
  }
}

void Reassembly::list(Incoming& incoming, const Arrival& arrival) {
  if (!std::exchange(incoming.is_listed, true)) listed_.push_back(arrival);
}

// ---- grants

// The shortest of many long messages are granted first (Montazeri et al., Homa, 2018), and always the oldest. A sender
// that was asked more than once for what it may send, and sends nothing, keeps nobody waiting.
void Reassembly::chooseGranted() {
  granted_remaining_ = UINT32_MAX;
  granted_begun_ns_ = INT64_MIN;
  if (long_.size() <= options_.granted_messages) return;
  std::vector<uint32_t> remaining;
  remaining.reserve(long_.size());
  granted_begun_ns_ = INT64_MAX;
  for (const Arrival& arrival : long_) {
    const Incoming* const incoming = find(arrival);
    if (incoming == nullptr || (incoming->owesPackets() && incoming->tries >= kTriesOfTheUnwilling)) continue;
    remaining.push_back(incoming->remaining());
    granted_begun_ns_ = std::min(granted_begun_ns_, incoming->begun_ns);
  }
  if (remaining.size() <= options_.granted_messages) return;
  const auto last = remaining.begin() + (static_cast<ptrdiff_t>(options_.granted_messages) - 1);
  std::ranges::nth_element(remaining, last);
  granted_remaining_ = *last;
}

bool Reassembly::mayBeGranted(const Incoming& incoming) const {
  return incoming.remaining() <= granted_remaining_ || incoming.begun_ns <= granted_begun_ns_;
}

// Each sender whose message made progress in this round is told once.
void Reassembly::tellListed() {
  chooseGranted();
  for (size_t i = 0; i < listed_.size(); ++i) {
    const Arrival arrival = listed_[i];
    Incoming* const incoming = find(arrival);
    if (incoming == nullptr) continue;
    incoming->is_listed = false;
    const bool has_more = incoming->isLong() && mayBeGranted(*incoming) && incoming->grant(options_.grant_window);
    const bool wants_resend = incoming->untold_packets != 0 && incoming->hasHole();
    if (!has_more && !wants_resend && !incoming->is_asked_for) continue;
    if (has_more) incoming->heard_ns = clock_.nowNs();
    incoming->untold_packets = 0;
    incoming->is_asked_for = false;
    sendGrant(*sessions_.findOpen(arrival.session), arrival, incoming->progress(), incoming->header().sequence, false);
  }
  listed_.clear();
}

void Reassembly::tellComplete(Session& session, const Arrival& arrival, uint32_t packets, uint32_t sequence) {
  sendGrant(session, arrival, {.later = 0, .received_packets = packets, .granted_packets = packets}, sequence, false);
}

void Reassembly::askForRest(Session& session, const Arrival& arrival, Incoming& incoming) {
  if (incoming.tries < kTriesMax) ++incoming.tries;
  if (incoming.isLong() && mayBeGranted(incoming) && incoming.grant(options_.grant_window)) {
    incoming.heard_ns = clock_.nowNs();
  }
  sendGrant(session, arrival, incoming.progress(), incoming.header().sequence, true);
  incoming.due_ns = clock_.nowNs() + session.channel->round_trip.timeoutNs(incoming.tries);
}

void Reassembly::sendGrant(Session& session, const Arrival& arrival, const wire::GrantBody& body, uint32_t sequence,
                           bool is_overdue) {
  wire::PacketHeader header{};
  header.sequence = sequence;
  header.slot = arrival.slot;
  if (arrival.is_response) header.flags |= wire::kPacketOfResponse;
  if (is_overdue) header.flags |= wire::kPacketOverdue;
  packets_.sendControlPacket(session, wire::PacketKind::Grant, header, bytesOf(body));
}

}  // namespace ramcore::transport::datagram
