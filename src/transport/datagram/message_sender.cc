#include "transport/datagram/message_sender.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/mutation.h"
#include "transport/memory/chunk_copy.h"
#include "wire/frame.h"

namespace ramcore::transport::datagram {
namespace {

// Packets that a message sends before the next one has its turn.
constexpr uint32_t kPacketsInTurn = 16;
// Packets of one sendReady(), so that the thread soon looks again at what has come.
constexpr uint32_t kPacketsPerFlush = 256;

}  // namespace

MessageSender::MessageSender(const DatagramOptions& options, DatagramClock& clock, const DatagramSessions& sessions,
                             PacketSender& packets)
    : clock_(clock), packets_(packets), sessions_(sessions), borrowed_ns_max_(options.borrowed_ns_max) {}

Outgoing& MessageSender::start(Session& session, TxMessage message, const Purpose& purpose) {
  if (free_outgoings_.empty()) free_outgoings_.push_back(outgoings_.emplace_back(std::make_unique<Outgoing>()).get());
  Outgoing& outgoing = *free_outgoings_.back();
  free_outgoings_.pop_back();
  Channel& channel = *session.channel;
  // These are times of the last reading of the clock. dateBegun() sets those of flush(); before that no answer is
  // waited for.
  outgoing.begins_expecting = channel.sending.empty();
  if (outgoing.begins_expecting) session.expected_ns = clock_.nowNs();
  message->borrowed_since_ns = clock_.nowNs();
  clock_.runTimeoutsBy(clock_.nowNs() + borrowed_ns_max_);
  outgoing.begin(session.id, std::move(message), purpose.kind, channel.packet_bytes, channel.unasked_packets);
  const TxBuffer& buffer = *outgoing.message;
  const uint32_t head_bytes = buffer.contiguous_bytes != 0 ? buffer.contiguous_bytes : buffer.head_bytes;
  outgoing.sequence = purpose.sequence;
  outgoing.header =
      std::bit_cast<HeaderWords>(wire::PacketHeader{.session = session.route.peer_number,
                                                    .seal = 0,
                                                    .sequence = purpose.sequence,
                                                    .message_bytes = outgoing.bytes,
                                                    .head_bytes = std::min(head_bytes, wire::kHeadBytesMax),
                                                    .offset = 0,
                                                    .response_bytes_max = purpose.response_bytes_max,
                                                    .slot = purpose.slot,
                                                    .payload_bytes = 0,
                                                    .priority = purpose.priority,
                                                    .flags = 0,
                                                    .reserved1 = 0,
                                                    .reserved2 = 0});
  outgoing.moved_ns = clock_.nowNs();
  channel.sending.push_back(&outgoing);
  begun_.push_back(&outgoing);
  // A message of one packet is sent at once if no other one waits for its turn.
  if (outgoing.packet_count == 1 && ready_.empty()) {
    outgoing.next = 1;
    if (packets_.send(session, outgoing, 0, false)) return outgoing;
    outgoing.next = 0;
  }
  makeReady(outgoing);
  return outgoing;
}

// Reads the clock first: making the messages may have taken long since the last reading. (An Outgoing that has become
// another message since it began is in the list twice, and was begun as well.)
void MessageSender::dateBegun() {
  clock_.readIfStale();
  for (Outgoing* const outgoing : begun_) {
    if (!outgoing->isActive()) continue;
    Session& session = *sessions_.find(outgoing->session);
    if (outgoing->begins_expecting) session.expected_ns = clock_.nowNs();
    outgoing->is_dated = true;
    outgoing->message->borrowed_since_ns = clock_.nowNs();
    outgoing->moved_ns = clock_.nowNs();
    if (outgoing->next != 0) noteSent(session, *outgoing, true);
  }
  begun_.clear();
}

void MessageSender::makeReady(Outgoing& outgoing) {
  if (!std::exchange(outgoing.is_queued, true)) ready_.push_back(&outgoing);
}

void MessageSender::end(Channel& channel, Outgoing*& outgoing) {
  Outgoing& ended = *std::exchange(outgoing, nullptr);
  const auto found = std::ranges::find(channel.sending, &ended);
  RC_CHECK(found != channel.sending.end());
  *found = channel.sending.back();
  channel.sending.pop_back();
  retire(ended);
}

// The bytes of the message go back in recycleRetired(), after flush() of the endpoint has sent what peers wait for.
void MessageSender::retire(Outgoing& outgoing) {
  outgoing.finish();
  if (RC_MUTATION("forget-what-ports-read")) outgoing.recycle();
  retired_.push_back(&outgoing);
}

void MessageSender::endAll(Channel& channel) {
  for (Outgoing* outgoing : channel.sending) retire(*outgoing);
  channel.sending.clear();
  recycleRetired();
  for (OwnCall& own : channel.own) own.request = nullptr;
  for (Served& served : channel.served) served.response = nullptr;
}

void MessageSender::recycleRetired() {
  size_t kept = 0;
  for (Outgoing* const outgoing : retired_) {
    // The owner of borrowed bytes has them back even while the message still stands in ready_.
    if (outgoing->isIdle()) outgoing->recycle();
    if (!outgoing->isIdle() || outgoing->is_queued) {
      retired_[kept++] = outgoing;
    } else {
      free_outgoings_.push_back(outgoing);
    }
  }
  retired_.resize(kept);
}

// Sends at most `count` packets. Returns how many; fewer than there are: the port takes no more for now.
uint32_t MessageSender::sendSome(Session& session, Outgoing& outgoing, uint32_t count) {
  const bool is_first = outgoing.begun_ns == 0;
  uint32_t sent = 0;
  for (; sent < count && outgoing.isReady(); ++sent) {
    bool is_again = false;
    const uint32_t packet = outgoing.takeNext(is_again);
    if (packets_.send(session, outgoing, packet, is_again)) continue;
    outgoing.putBack(packet, is_again);
    is_blocked_ = true;
    break;
  }
  noteSent(session, outgoing, is_first && outgoing.next != 0);
  return sent;
}

void MessageSender::noteSent(const Session& session, Outgoing& outgoing, bool is_first) {
  if (is_first) outgoing.begun_ns = std::max<int64_t>(clock_.nowNs(), 1);
  outgoing.due_ns = clock_.nowNs() + session.channel->round_trip.timeoutNs(outgoing.tries);
  clock_.runTimeoutsBy(outgoing.due_ns);
}

// Each message in turn sends some of its packets.
void MessageSender::sendReady() {
  // Making the messages may have taken long since the round began.
  begun_.empty() ? clock_.readIfStale() : dateBegun();
  is_blocked_ = false;
  for (uint32_t sent = 0; sent < kPacketsPerFlush && !ready_.empty() && !is_blocked_;) {
    Outgoing& outgoing = *ready_.front();
    ready_.pop_front();
    outgoing.is_queued = false;
    if (!outgoing.isActive()) continue;
    sent += sendSome(*sessions_.find(outgoing.session), outgoing, kPacketsInTurn);
    if (!outgoing.isReady()) continue;
    outgoing.is_queued = true;
    if (is_blocked_) {
      ready_.push_front(&outgoing);
    } else {
      ready_.push_back(&outgoing);
    }
  }
}

void MessageSender::recycleAll() {
  for (const auto& outgoing : outgoings_) {
    RC_CHECK_MSG(outgoing->pieces_out == 0, "a port still reads what is being destroyed");
    outgoing->recycle();
  }
}

// ---- our memory

uint64_t MessageSender::waitingBytes(const Outgoing& outgoing) const {
  const TxBuffer& message = *outgoing.message;
  const bool is_overdue = outgoing.is_dated && clock_.nowNs() >= message.borrowed_since_ns + borrowed_ns_max_;
  uint64_t bytes = message.head_bytes;
  for (uint32_t i = 0; i < message.chunk_count; ++i) {
    const Chunk& chunk = message.chunks[i];
    if (chunk.owner == &chunk_copies || (chunk.owner != nullptr && is_overdue)) bytes += chunk.bytes;
  }
  return bytes;
}

void MessageSender::countWaiting(Session& session) {
  forgetWaiting(session);
  for (const Outgoing* outgoing : session.channel->sending) session.waiting_bytes += waitingBytes(*outgoing);
  waiting_bytes_ += session.waiting_bytes;
}

void MessageSender::forgetWaiting(Session& session) { waiting_bytes_ -= std::exchange(session.waiting_bytes, 0); }

}  // namespace ramcore::transport::datagram
