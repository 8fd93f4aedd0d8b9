#include "transport/datagram/datagram_endpoint.h"

#include <algorithm>
#include <utility>

#include "transport/memory/chunk_copy.h"
#include "wire/frame.h"

namespace ramcore::transport::datagram {
namespace {

// An idle round takes some tens of nanoseconds: the clock is read every few microseconds.
constexpr uint32_t kRoundsPerLook = 64;
// The clock is not read again within it, some microseconds: less than anything here takes that is timed.
constexpr uint64_t kStaleTicks = 16'000;
// For how long at least nothing has come when the thread may nap.
constexpr int64_t kFirstNapNs = 10 * runtime::kNanosPerMicro;

// Bounds by the number of sessions mean what there are places for.
DatagramOptions withinPlaces(DatagramOptions options) {
  RC_CHECK(options.own_places < options.places_max && options.places_max <= 65'536);
  options.sessions_max = std::min(options.sessions_max, options.places_max - options.own_places);
  return options;
}

}  // namespace

Limits DatagramEndpoint::limitsOf(const DatagramOptions& options) {
  Limits limits;
  limits.name = options.scheme;
  limits.message_bytes_max = wire::kMessageBytesMax;
  limits.gather_count_max = TxBuffer::kChunkCountMax;
  limits.burst_messages_max = 64;
  limits.slots_per_session = options.slots_per_session;
  limits.zero_copy_bytes_min = options.gather.copy_below_bytes;
  limits.zero_copy = true;
  limits.needs_registration = true;
  return limits;
}

DatagramEndpoint::DatagramEndpoint(const DatagramOptions& options, DatagramContext context, const Limits& limits,
                                   std::vector<FramePort*> ports, const Identity& identity)
    : options_(withinPlaces(options)),
      context_(std::move(context)),
      limits_(limits),
      identity_(identity),
      ports_(std::move(ports)),
      address_(ports_.at(0)->facts().address),
      no_seal_(Handshake::Key{}, true, false),
      warnings_(context_.clock, context_.trace, "dpdk: "),
      clients_(options_.sessions_max),
      backlogs_(ports_.size()) {
  uint32_t packet_bytes = wire::kPacketBytesMax;
  for (const FramePort* port : ports_) {
    RC_CHECK(port->facts().address == address_ &&
             port->facts().frame_bytes_max >= wire::kPacketHeaderBytes + wire::kPacketBytesMin);
    packet_bytes = std::min(packet_bytes, port->facts().frame_bytes_max - wire::kPacketHeaderBytes);
    borrowable_frames_.push_back(uint64_t{port->facts().borrowable_frames} * ports_.size());
  }
  packet_bytes_ = packet_bytes;
  now_ns_ = context_.clock.nowNs();
}

const Peer* DatagramEndpoint::peer(SessionId id) const {
  const Session* session = findOpen(id);
  return session != nullptr ? &session->peer : nullptr;
}

HeldCounts DatagramEndpoint::heldCounts() const {
  return {.blocks = blocks_.outstanding() - (copies_ != nullptr ? 1 : 0),
          .block_bytes = blocks_.borrowedBytes(),
          .frames = borrowed_.count(),
          .outgoing = outgoings_.size() - free_outgoings_.size(),
          .sessions = sessions_.count()};
}

// ---- messages

Status DatagramEndpoint::call(SessionId id, TxMessage& request, const CallOptions& options, PendingCall& call) {
  Session* session = findOpen(id);
  if (session == nullptr) return Status::SessionLost;
  if (request.messageBytes() > limits_.message_bytes_max || request->contiguous_bytes > wire::kHeadBytesMax) {
    return Status::TooLarge;
  }
  Channel& channel = *session->channel;
  if (channel.calls.isFull() || session->is_used_up) return Status::RetryLater;
  if (channel.calls.nextSequence() > options_.slot_calls_max) {
    session->is_used_up = true;
    timeouts_due_ns_ = now_ns_;
    return Status::RetryLater;
  }
  channel.calls.begin(call);
  ++channel.calls_out;
  OwnCall& own = channel.own[call.slot];
  own.sequence = call.sequence;
  own.response_bytes_max = options.response_bytes_max;
  // Whoever uses the slot again has taken what came in it before.
  own.owes_taken = false;
  own.asked_again_since_ns = 0;
  own.request = &startSending(*session, std::move(request),
                              {.kind = wire::PacketKind::Request,
                               .sequence = call.sequence,
                               .slot = call.slot,
                               .priority = static_cast<uint8_t>(options.priority),
                               .response_bytes_max = options.response_bytes_max});
  return Status::Ok;
}

void DatagramEndpoint::abandon(SessionId id, PendingCall& call) {
  // Also of a session that is just being lost: a call that completes may abandon others.
  Session* session = find(id);
  if (session == nullptr || session->channel == nullptr || !call.in_flight) return;
  // Its bytes are the caller's again; the request may have to be sent once more all the same.
  Outgoing* request = session->channel->own[call.slot].request;
  if (request != nullptr) chunk_copies.replaceUnowned(*request->message);
  session->channel->calls.abandon(call);
}

void DatagramEndpoint::reply(const ReplyTo& to, TxMessage response) {
  Session* session = findOpen(to.session);
  if (session == nullptr || to.slot >= session->channel->served.size()) return;
  Served& served = session->channel->served[to.slot];
  if (served.state != Served::State::InService || served.sequence != to.sequence) return;
  served.state = Served::State::Answered;
  // Nobody answers for bytes without owner once reply() has returned, and they may have to be sent again.
  chunk_copies.replaceUnowned(*response);
  served.response = &startSending(*session, std::move(response),
                                  {.kind = wire::PacketKind::Response, .sequence = to.sequence, .slot = to.slot});
}

// ---- rounds

uint32_t DatagramEndpoint::poll(MessageSink& sink, uint32_t message_max) {
  RC_CHECK(message_max >= 1 && message_max <= limits_.burst_messages_max);
  borrowed_.enter();
  const uint64_t before = delivered_count_;
  uint32_t arrived = 0;
  for (size_t i = 0; i < ports_.size(); ++i) {
    const auto room = message_max - static_cast<uint32_t>(delivered_count_ - before);
    if (room == 0) break;
    if (++next_port_ >= ports_.size()) next_port_ = 0;
    const auto frames = std::span(frames_).first(std::min<uint32_t>(room, kFramesPerPort));
    const uint32_t count = ports_[next_port_]->receive(frames);
    if (count == 0) continue;
    arrived += count;
    takeFrames(next_port_, frames.first(count));
  }
  if (arrived != 0) {
    nap_ns_ = 0;
    if (!listed_.empty()) tellListed();
  } else {
    borrowed_.takeBack();
  }
  if (--rounds_to_clock_ == 0) readClock();
  if (now_ns_ >= timeouts_due_ns_) runTimeouts();
  if (!opened_.empty()) announceOpened(sink);
  if (!requests_.empty()) handOver(sink);
  if (!lost_.empty()) reportClosed(sink);
  return static_cast<uint32_t>(delivered_count_ - before);
}

void DatagramEndpoint::takeFrames(uint32_t port, std::span<const InFrame> frames) {
  is_time_fresh_ = false;
  for (const InFrame& frame : frames) {
    if (!takeFrame(port, frame)) ports_[port]->release(frame);
  }
}

// What comes in one packet and is not timed does without: reading the clock's counter takes as long as a seal.
void DatagramEndpoint::readClockInThisBurst() {
  if (!std::exchange(is_time_fresh_, true)) readClockIfStale();
}

// Not by rounds: the thread may have been away since the last one, and what is begun now would look that old.
void DatagramEndpoint::readClockIfStale() {
  if (context_.clock.ticks() - clock_ticks_ >= kStaleTicks) readClock();
}

void DatagramEndpoint::readClock() {
  // The ticks first: a pause between the two must not look like no time at all.
  clock_ticks_ = context_.clock.ticks();
  now_ns_ = context_.clock.nowNs();
  rounds_to_clock_ = kRoundsPerLook;
}

// Of sessions that are still open: nothing of one that has ended is delivered.
void DatagramEndpoint::handOver(MessageSink& sink) {
  bool are_open = true;
  for (const RxMessage& request : requests_) are_open &= findOpen(request.reply_to.session) != nullptr;
  if (!are_open) {
    std::erase_if(requests_,
                  [this](const RxMessage& request) { return findOpen(request.reply_to.session) == nullptr; });
  }
  if (!requests_.empty()) sink.onRequests(requests_);
  requests_.clear();
}

void DatagramEndpoint::announceOpened(MessageSink& sink) {
  for (size_t i = 0; i < opened_.size(); ++i) {
    Session* const session = findOpen(opened_[i]);
    if (session == nullptr) continue;
    session->is_announced = true;
    sink.onSessionOpen(session->id);
  }
  opened_.clear();
}

// Announcing may lose or close other sessions, which then stand behind in the list.
void DatagramEndpoint::reportClosed(MessageSink& sink) {
  for (size_t i = 0; i < lost_.size(); ++i) {
    Session& session = *lost_[i];
    const SessionId id = session.id;
    open_failure_ = std::move(session.open_failure);
    if (session.is_announced) sink.onSessionLost(id, session.lost_reason);
    sessions_.remove(id);
  }
  lost_.clear();
}

void DatagramEndpoint::flush() {
  if (!ready_.empty()) {
    // What made them may have taken its time since the round began.
    begun_.empty() ? readClockIfStale() : dateBegun();
    pump();
  }
  if (now_ns_ >= first_ack_due_ns_) tellTakers(false);
  for (uint32_t port = 0; port < ports_.size(); ++port) {
    if (!backlogs_[port].frames.empty()) flushPort(port);
  }
  // All behind what peers wait for.
  if (!begun_.empty()) dateBegun();
  if (!retired_.empty()) recycleRetired();
  borrowed_.takeBack();
  borrowed_.leave();
}

// ---- sleep

bool DatagramEndpoint::prepareSleep() {
  tellTakers(true);
  flush();
  if (!lost_.empty() || !opened_.empty() || !ready_.empty() || !requests_.empty()) return false;
  if (std::ranges::any_of(backlogs_, [](const TxBacklog& leaving) { return !leaving.frames.empty(); })) return false;
  if (!context_.wake_by) return true;
  now_ns_ = context_.clock.nowNs();
  if (hasDeadlines() && now_ns_ >= timeouts_due_ns_) {
    // The next round looks at the timeouts: sessions may end there, and calls complete in rounds alone.
    rounds_to_clock_ = 1;
    return false;
  }
  // Ports that wake nobody are looked at again after a while, and after a longer one each time that nothing came. So
  // are those that have still to say that they have read what was borrowed.
  int64_t wake_ns = hasDeadlines() ? timeouts_due_ns_ : runtime::kNever;
  const bool naps = !retired_.empty() ||
                    std::ranges::any_of(ports_, [](const FramePort* port) { return !port->facts().has_wakeups; });
  if (naps) {
    nap_ns_ = std::clamp(2 * nap_ns_, kFirstNapNs, options_.nap_ns_max);
    wake_ns = std::min(wake_ns, now_ns_ + nap_ns_);
  }
  if (wake_ns != runtime::kNever) context_.wake_by(wake_ns);
  return true;
}

void DatagramEndpoint::awake() { rounds_to_clock_ = 1; }

}  // namespace ramcore::transport::datagram
