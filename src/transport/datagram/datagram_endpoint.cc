#include "transport/datagram/datagram_endpoint.h"

#include <algorithm>
#include <utility>

#include "transport/memory/chunk_copy.h"
#include "wire/frame.h"

namespace ramcore::transport::datagram {
namespace {

// The first nap of a thread whose ports do not wake it. Each further one is twice as long.
constexpr int64_t kFirstNapNs = 10 * runtime::kNanosPerMicro;

// There cannot be more sessions than places for them.
DatagramOptions withinPlaces(DatagramOptions options) {
  RC_CHECK(options.own_places < options.places_max && options.places_max <= 65'536);
  options.sessions_max = std::min(options.sessions_max, options.places_max - options.own_places);
  return options;
}

// All ports have the same address, and take packets of kPacketBytesMin bytes at least.
std::vector<FramePort*> checked(std::vector<FramePort*> ports) {
  const MacAddress address = ports.at(0)->facts().address;
  for (const FramePort* port : ports) {
    RC_CHECK(port->facts().address == address &&
             port->facts().frame_bytes_max >= wire::kPacketHeaderBytes + wire::kPacketBytesMin);
  }
  return ports;
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
      ports_(checked(std::move(ports))),
      clock_(context_.clock),
      sessions_(options_, context_, clock_),
      packets_(options_, clock_, ports_),
      sender_(options_, clock_, sessions_, packets_),
      acks_(clock_, sessions_, packets_),
      reassembly_(options_, clock_, sessions_, packets_, sender_, blocks_),
      closer_({.options = options_,
               .trace = context_.trace,
               .clock = clock_,
               .sessions = sessions_,
               .packets = packets_,
               .sender = sender_,
               .reassembly = reassembly_}),
      greeter_({.options = options_,
                .context = context_,
                .limits = limits_,
                .identity = identity,
                .ports = ports_,
                .clock = clock_,
                .sessions = sessions_,
                .packets = packets_,
                .closer = closer_}),
      receiver_({.clock = clock_,
                 .sessions = sessions_,
                 .sender = sender_,
                 .acks = acks_,
                 .borrowed = borrowed_,
                 .ports = ports_,
                 .options = options_,
                 .packets = packets_,
                 .reassembly = reassembly_,
                 .closer = closer_,
                 .greeter = greeter_,
                 .blocks = blocks_}),
      timeouts_({.options = options_,
                 .port_count = static_cast<uint32_t>(ports_.size()),
                 .clock = clock_,
                 .sessions = sessions_,
                 .packets = packets_,
                 .sender = sender_,
                 .reassembly = reassembly_,
                 .closer = closer_,
                 .greeter = greeter_}) {}

// The sessions end as if the process died, but the peers are told.
DatagramEndpoint::~DatagramEndpoint() {
  closer_.abandonAll();
  packets_.stop();
  receiver_.stop();
  sender_.recycleAll();
}

const Peer* DatagramEndpoint::peer(SessionId id) const {
  const Session* session = sessions_.findOpen(id);
  return session != nullptr ? &session->peer : nullptr;
}

HeldCounts DatagramEndpoint::heldCounts() const {
  return {.blocks = blocks_.outstanding() - (receiver_.hasCopies() ? 1 : 0),
          .block_bytes = blocks_.borrowedBytes(),
          .frames = borrowed_.count(),
          .outgoing = sender_.count(),
          .sessions = sessions_.count()};
}

PacketCounts DatagramEndpoint::packetCounts() const {
  PacketCounts counts = receiver_.packetCounts();
  const PacketCounts& outgoing = packets_.packetCounts();
  counts.sent = outgoing.sent;
  counts.resent = outgoing.resent;
  counts.dropped = outgoing.dropped;
  return counts;
}

void DatagramEndpoint::close(SessionId id) {
  if (Session* const session = sessions_.find(id); session != nullptr) closer_.closeByUs(*session);
}

// ---- messages

Status DatagramEndpoint::call(SessionId id, TxMessage& request, const CallOptions& options, PendingCall& call) {
  Session* session = sessions_.findOpen(id);
  if (session == nullptr) return Status::SessionLost;
  if (request.messageBytes() > limits_.message_bytes_max || request->contiguous_bytes > wire::kHeadBytesMax) {
    return Status::TooLarge;
  }
  Channel& channel = *session->channel;
  if (channel.calls.isFull() || session->is_used_up) return Status::RetryLater;
  if (channel.calls.nextSequence() > options_.slot_calls_max) {
    session->is_used_up = true;
    clock_.runTimeoutsNow();
    return Status::RetryLater;
  }
  channel.calls.begin(call);
  ++channel.calls_out;
  OwnCall& own = channel.own[call.slot];
  own.sequence = call.sequence;
  own.response_bytes_max = options.response_bytes_max;
  // The request acknowledges the answer that came in this slot before.
  own.owes_taken = false;
  own.asked_again_since_ns = 0;
  own.request = &sender_.start(*session, std::move(request),
                               {.kind = wire::PacketKind::Request,
                                .sequence = call.sequence,
                                .slot = call.slot,
                                .priority = static_cast<uint8_t>(options.priority),
                                .response_bytes_max = options.response_bytes_max});
  return Status::Ok;
}

void DatagramEndpoint::abandon(SessionId id, PendingCall& call) {
  // The session need not be open: while one is being closed, a call that completes may abandon others.
  Session* session = sessions_.find(id);
  if (session == nullptr || session->channel == nullptr || !call.in_flight) return;
  // The caller guarantees bytes without an owner only until now, and the request may have to be sent once more.
  Outgoing* request = session->channel->own[call.slot].request;
  if (request != nullptr) chunk_copies.replaceUnowned(*request->message);
  session->channel->calls.abandon(call);
}

void DatagramEndpoint::reply(const ReplyTo& to, TxMessage response) {
  Session* session = sessions_.findOpen(to.session);
  if (session == nullptr || to.slot >= session->channel->served.size()) return;
  Served& served = session->channel->served[to.slot];
  if (served.state != Served::State::InService || served.sequence != to.sequence) return;
  served.state = Served::State::Answered;
  // Nobody guarantees bytes without an owner once reply() has returned, and they may have to be sent again.
  chunk_copies.replaceUnowned(*response);
  served.response = &sender_.start(*session, std::move(response),
                                   {.kind = wire::PacketKind::Response, .sequence = to.sequence, .slot = to.slot});
}

// ---- rounds

uint32_t DatagramEndpoint::poll(MessageSink& sink, uint32_t message_max) {
  RC_CHECK(message_max >= 1 && message_max <= limits_.burst_messages_max);
  borrowed_.enter();
  const uint64_t before = receiver_.deliveredCount();
  uint32_t arrived = 0;
  for (size_t i = 0; i < ports_.size(); ++i) {
    const auto room = message_max - static_cast<uint32_t>(receiver_.deliveredCount() - before);
    if (room == 0) break;
    if (++next_port_ >= ports_.size()) next_port_ = 0;
    const auto frames = std::span(frames_).first(std::min<uint32_t>(room, kFramesPerPort));
    const uint32_t count = ports_[next_port_]->receive(frames);
    if (count == 0) continue;
    arrived += count;
    receiver_.take(next_port_, frames.first(count));
  }
  if (arrived != 0) {
    nap_ns_ = 0;
    if (reassembly_.hasListed()) reassembly_.tellListed();
  } else {
    borrowed_.takeBack();
  }
  clock_.countRound();
  if (clock_.areTimeoutsDue()) timeouts_.run();
  // In this order the sink hears of a session before it gets requests of it, and of the end after them.
  if (sessions_.hasOpened()) sessions_.announceOpened(sink);
  if (receiver_.hasRequests()) receiver_.handOver(sink);
  if (sessions_.hasClosed()) sessions_.report(sink, open_failure_);
  return static_cast<uint32_t>(receiver_.deliveredCount() - before);
}

void DatagramEndpoint::flush() {
  if (sender_.hasReady()) sender_.sendReady();
  if (acks_.isAnyDue()) acks_.send(false);
  packets_.flush();
  // This comes behind everything that peers wait for.
  if (sender_.hasBegun()) sender_.dateBegun();
  if (sender_.hasRetired()) sender_.recycleRetired();
  borrowed_.takeBack();
  borrowed_.leave();
}

// ---- sleep

bool DatagramEndpoint::prepareSleep() {
  acks_.send(true);
  flush();
  if (sessions_.hasClosed() || sessions_.hasOpened() || sender_.hasReady() || receiver_.hasRequests()) return false;
  if (packets_.hasBacklog()) return false;
  if (!context_.wake_by) return true;
  clock_.readTime();
  if (timeouts_.hasDeadlines() && clock_.areTimeoutsDue()) {
    // The next round runs the timeouts. They do not run here: sessions may end by them, and calls complete in rounds
    // alone.
    clock_.readInNextRound();
    return false;
  }
  // Ports that do not wake the thread are looked at again after a nap, which is longer each time that nothing came. The
  // same holds while ports still read bytes of messages that have ended.
  int64_t wake_ns = timeouts_.hasDeadlines() ? clock_.timeoutsDueNs() : runtime::kNever;
  const bool naps = sender_.hasRetired() ||
                    std::ranges::any_of(ports_, [](const FramePort* port) { return !port->facts().has_wakeups; });
  if (naps) {
    nap_ns_ = std::clamp(2 * nap_ns_, kFirstNapNs, options_.nap_ns_max);
    wake_ns = std::min(wake_ns, clock_.nowNs() + nap_ns_);
  }
  if (wake_ns != runtime::kNever) context_.wake_by(wake_ns);
  return true;
}

void DatagramEndpoint::awake() { clock_.readInNextRound(); }

}  // namespace ramcore::transport::datagram
