// The life of a DatagramEndpoint's sessions.
#include <algorithm>
#include <utility>

#include "transport/datagram/datagram_endpoint.h"
#include "transport/memory/chunk_copy.h"
#include "transport/session/open_failure.h"
#include "transport/session/pending_sessions.h"

namespace ramcore::transport::datagram {
namespace {

constexpr std::string_view kAnyHost = "any";
// The index of a session in its number; the rest is random.
constexpr uint64_t kIndexMask = 0xffff;
// Answers to packets of sessions that are not there, between two looks at the timeouts: whoever floods us gets no
// flood.
constexpr uint32_t kUnknownSaidMax = 64;
constexpr size_t kClosingMax = 256;

bool isLocal(const FramePort* port) { return port->facts().is_local; }

}  // namespace

// ---- listening and connecting

Outcome<Locator> DatagramEndpoint::listen(const Locator& where) {
  const std::string text = where.toString();
  if (where.scheme != options_.scheme) {
    return Failure{Status::BadConfig, "'" + text + "' is no " + std::string(options_.scheme) + " locator"};
  }
  if (listening_ != 0) {
    return Failure{Status::BadConfig, "an endpoint listens at one " + std::string(options_.scheme) + " locator only"};
  }
  if (where.host != kAnyHost && MacAddress::parse(where.host) != address_) {
    return Failure{Status::InUse, "cannot listen at " + text + ": that is not the address of our port, which is " +
                                      address_.toString() + "; write this one, or 'any'"};
  }
  if (identity_.secret.empty() && !std::ranges::all_of(ports_, isLocal)) {
    return Failure{Status::BadConfig, "cannot listen at " + text +
                                          " without a cluster secret: other machines reach it; give a secret file"};
  }
  listening_ = where.port;
  // The address is ours alone, and so are all numbers behind it.
  if (listening_ == 0) listening_ = 1;
  Locator locator = where;
  locator.host = address_.toString();
  locator.port = listening_;
  locators_ = {locator};
  return locator;
}

SessionId DatagramEndpoint::connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) {
  now_ns_ = context_.clock.nowNs();
  Session* const added = addSession(options_.places_max);
  RC_CHECK_MSG(added != nullptr, "an endpoint has at most 65,536 sessions");  // no peer can bring this about
  Session& session = *added;
  session.is_announced = true;
  session.peer.address = where.toString();
  session.deadline_ns = deadline_ns;
  session.looked_for = where.port;
  session.wants_seal = options_.wants_seal;
  const auto address = where.host == kAnyHost ? MacAddress::broadcast() : MacAddress::parse(where.host);
  if (where.scheme != options_.scheme || !address) {
    close(session, Status::Unreachable);
    return session.id;
  }
  session.route.address = *address;
  if (ports_.size() == 1) session.route.port = 0;
  session.greeting =
      std::make_unique<GreetingStream>(HandshakeOptions{.side = HandshakeSide::Initiator,
                                                        .identity = identity_,
                                                        .expected_id = expected_id,
                                                        .slot_count = options_.slots_per_session,
                                                        .peer_is_local = std::ranges::all_of(ports_, isLocal),
                                                        .locators = {}},
                                       context_.entropy);
  stepGreeting(session);
  return session.id;
}

// ---- the table

Session* DatagramEndpoint::findNumber(uint64_t number) const {
  Session* const session = sessions_.atIndex(number & kIndexMask);
  const bool is_it = session != nullptr && session->route.number == number && session->state != Session::State::Lost;
  return is_it ? session : nullptr;
}

// Also sessions that are lost have their place, until the sink has heard of them.
Session* DatagramEndpoint::addSession(uint32_t places) {
  if (sessions_.count() >= places) return nullptr;
  Session& session = *sessions_.add([](SessionId id) { return std::make_unique<Session>(id); });
  do {
    session.route.number = (context_.entropy.next() & ~kIndexMask) | session.id.index;
  } while ((session.route.number & ~kIndexMask) == 0);
  session.heard_ns = now_ns_;
  ++young_count_;
  timeouts_due_ns_ = now_ns_;
  return &session;
}

// ---- the greeting

// The packet is whole, and anybody's.
void DatagramEndpoint::takeGreeting(const Packet& packet) {
  if (packet.payload.size() < sizeof(wire::GreetingBody)) {
    ++packet_counts_.nonsense;
    return;
  }
  const auto body = loadAs<wire::GreetingBody>(packet.payload.data());
  if (body.session == 0 || body.reserved1 != 0 || body.reserved2 != 0 || body.wants_seal > 1 ||
      body.packet_bytes < wire::kPacketBytesMin || body.unasked_packets == 0) {
    ++packet_counts_.nonsense;
    return;
  }
  Session* session = nullptr;
  if (packet.header.session != 0) {
    session = findNumber(packet.header.session);
    if (session == nullptr) {
      ++packet_counts_.unknown_peers;
      return sayUnknown(packet.port, packet.from(), body.session, packet.header.session);
    }
  } else {
    const auto known = by_peer_.find({packet.from(), body.session});
    session = known != by_peer_.end() ? find(known->second) : acceptPending(packet, body);
  }
  if (session == nullptr || session->state == Session::State::Lost) return;
  Route& route = session->route;
  if (route.peer_number == 0) {
    // The first word of whom we looked for.
    if (!route.address.isBroadcast() && route.address != packet.from()) return;
    route.address = packet.from();
    route.port = packet.port;
    route.peer_number = body.session;
    by_peer_[{route.address, route.peer_number}] = session->id;
    session->peer_packet_bytes = body.packet_bytes;
    session->peer_unasked_packets = body.unasked_packets;
    session->wants_seal = session->wants_seal || body.wants_seal != 0;
  } else if (route.peer_number != body.session || route.address != packet.from()) {
    return;
  }
  if (session->greeting == nullptr) {
    // A copy of what was said at the end: the peer does not know that we have it.
    if (!session->is_accepted) sendGreeting(*session);
    return;
  }
  if (packet.header.session != 0) session->was_heard = true;
  GreetingStream& greeting = *session->greeting;
  const bool is_over = greeting.handshake().state() != Handshake::State::Running;
  const ByteSpan said = packet.payload.subspan(sizeof(body));
  const bool is_news = greeting.onPacket(packet.header.offset, body.received_bytes, said);
  session->greeting_received_bytes = greeting.receivedBytes();
  if (!is_over) {
    if (is_news || !said.empty()) stepGreeting(*session);
  } else if (!greeting.isAcknowledged()) {
    if (!said.empty()) sendGreeting(*session);
  } else if (session->state == Session::State::Open) {
    session->greeting.reset();
  } else {
    close(*session, Status::SessionLost);  // it has heard why it is refused
  }
}

Session* DatagramEndpoint::acceptPending(const Packet& packet, const wire::GreetingBody& body) {
  if (listening_ == 0 || body.port != listening_ || packet.header.offset != 0) {
    if (!MacAddress{packet.start.to}.isBroadcast()) {
      sayUnknown(packet.port, packet.from(), body.session, packet.header.session);
    }
    return nullptr;
  }
  const bool is_full =
      accepting_count_ >= options_.greetings_max || open_count_ + young_count_ >= options_.sessions_max;
  Session* const session = is_full && !dropPending() ? nullptr : addSession(options_.places_max - options_.own_places);
  if (session == nullptr) {
    warnings_.warn("refusing a session from " + packet.from().toString() + ": " + std::string(kTooManySessions));
    return nullptr;
  }
  ++accepting_count_;
  session->is_accepted = true;
  session->deadline_ns = now_ns_ + options_.greeting_timeout_ns;
  session->looked_for = body.port;
  session->wants_seal = options_.wants_seal;
  session->route.port = packet.port;
  session->route.address = packet.from();
  session->peer.address = std::string(options_.scheme) + "://" + packet.from().toString();
  session->greeting =
      std::make_unique<GreetingStream>(HandshakeOptions{.side = HandshakeSide::Acceptor,
                                                        .identity = identity_,
                                                        .slot_count = options_.slots_per_session,
                                                        .peer_is_local = isLocal(ports_[packet.port]),
                                                        .locators = locators_,
                                                        .has_room_for_client = [this] { return clients_.hasRoom(); }},
                                       context_.entropy);
  return session;
}

bool DatagramEndpoint::dropPending() {
  std::vector<PendingSession> pending;
  std::vector<Session*> candidates;
  sessions_.forEach([&](Session& session) {
    if (!session.is_accepted || session.state != Session::State::Greeting) return;
    pending.push_back({session.route.address.toString(), session.deadline_ns, !session.was_heard});
    candidates.push_back(&session);
  });
  if (pending.empty()) return false;
  close(*candidates[chooseWhoLeaves(pending)], Status::SessionLost);
  return true;
}

void DatagramEndpoint::stepGreeting(Session& session) {
  const Handshake& handshake = session.greeting->handshake();
  session.greet_tries = 0;
  sendGreeting(session);
  if (handshake.state() == Handshake::State::Done) return openSession(session);
  if (handshake.state() == Handshake::State::Running) return;
  if (handshake.isBad()) {
    ++bad_count_;
    warnings_.warn("refusing " + session.peer.address + ": " + handshake.failureText());
  } else if (session.is_accepted && handshake.status() == Status::Unreachable) {
    warnings_.warn("no session with " + session.peer.address + ": " + handshake.failureText());
  } else if (!session.is_accepted) {
    context_.trace.info(session.peer.address + ": " + handshake.failureText());
  }
  // Whoever connected is told why, and again until it has heard.
  if (session.is_accepted && !session.greeting->isAcknowledged()) return;
  session.open_failure = openFailureOf(handshake.status(), handshake.failureText());
  close(session, handshake.status());
}

void DatagramEndpoint::sendGreeting(Session& session) {
  const uint32_t room = wire::kPacketBytesMin - sizeof(wire::GreetingBody);
  const GreetingStream* const greeting = session.greeting.get();
  const ByteSpan said = greeting != nullptr ? greeting->toSend(room) : ByteSpan{};
  wire::PacketHeader header{};
  header.session = session.route.peer_number;
  header.offset = greeting != nullptr ? greeting->offset() : session.greeting_sent_bytes;
  const wire::GreetingBody body{.session = session.route.number,
                                .received_bytes = session.greeting_received_bytes,
                                .port = session.looked_for,
                                .packet_bytes = static_cast<uint16_t>(packet_bytes_),
                                .unasked_packets = options_.unasked_packets,
                                .wants_seal = options_.wants_seal ? uint8_t{1} : uint8_t{0},
                                .reserved1 = 0,
                                .reserved2 = 0};
  const std::array<ByteSpan, 2> pieces = {bytesOf(body), said};
  for (uint32_t port = 0; port < ports_.size(); ++port) {
    if (session.route.port != Route::kAnyPort && session.route.port != port) continue;
    sendOn(port, session.route.address, no_seal_, wire::PacketKind::Greeting, header, pieces);
  }
  session.greet_due_ns = now_ns_ + RoundTrip().timeoutNs(session.greet_tries);
  timeouts_due_ns_ = std::min(timeouts_due_ns_, session.greet_due_ns);
}

void DatagramEndpoint::openSession(Session& session) {
  const Handshake& handshake = session.greeting->handshake();
  std::string address = std::move(session.peer.address);
  session.peer = handshake.peer();
  session.peer.address = std::move(address);
  session.peer.transport = limits_.name;
  session.is_bounded = session.is_accepted && ClientShare::isOf(session.peer.role);
  if (session.is_bounded) clients_.add();
  const Handshake::Key& key = handshake.sessionKey();
  session.channel =
      std::make_unique<Channel>(handshake.slotCount(), PacketSeal(key, !session.is_accepted, session.wants_seal),
                                PacketSeal(key, session.is_accepted, session.wants_seal));
  session.channel->packet_bytes = std::min<uint32_t>(packet_bytes_, session.peer_packet_bytes);
  session.channel->unasked_packets = session.peer_unasked_packets;
  session.state = Session::State::Open;
  session.heard_ns = now_ns_;
  session.expected_ns = now_ns_;
  session.greeting_sent_bytes = session.greeting->offset();
  // The acceptor's last word may be lost: it is said again until the peer sends something that it can only send then.
  if (!session.is_accepted) session.greeting.reset();
  --young_count_;
  if (session.is_accepted) --accepting_count_;
  ++open_count_;
  timeouts_due_ns_ = now_ns_;
  opened_.push_back(session.id);
}

// ---- ends

// It may be so, or somebody else says it: the peer is asked, and has to prove that it is there.
void DatagramEndpoint::takeUnknown(const Packet& packet) {
  if (packet.payload.size() != sizeof(uint64_t)) return;
  const auto number = loadAs<uint64_t>(packet.payload.data());
  std::erase_if(closing_, [&](const Closing& closing) {
    return closing.route.address == packet.from() && closing.route.peer_number == number;
  });
  // A process that was just started knows neither our number nor its own former one; who was refused knows ours only.
  Session* session = nullptr;
  if (packet.header.session != 0) {
    session = findNumber(packet.header.session);
  } else if (const auto known = by_peer_.find({packet.from(), number}); known != by_peer_.end()) {
    session = find(known->second);
  }
  if (session == nullptr || packet.from() != session->route.address || session->route.peer_number != number) return;
  if (session->state == Session::State::Greeting) {
    session->open_failure = {.kind = OpenFailure::Kind::Unreachable, .text = std::string(kLeftInHandshake)};
    return close(*session, session->is_accepted ? Status::SessionLost : Status::Unreachable);
  }
  if (session->suspected_ns != 0) return;
  session->suspected_ns = std::max<int64_t>(now_ns_, 1);
  timeouts_due_ns_ = now_ns_;
}

void DatagramEndpoint::sayUnknown(uint32_t port, const MacAddress& to, uint64_t peer_number, uint64_t number) {
  if (++unknown_said_ > kUnknownSaidMax) return;
  wire::PacketHeader header{};
  header.session = peer_number;
  const ByteSpan body = bytesOf(number);
  sendOn(port, to, no_seal_, wire::PacketKind::Unknown, header, std::span(&body, 1));
}

void DatagramEndpoint::close(Session& session, Status reason) {
  if (session.state == Session::State::Lost) return;
  const bool was_open = session.state == Session::State::Open;
  // Whoever looks for memory now finds what this session gives up.
  copied_out_bytes_ -= std::exchange(session.waiting_bytes, 0);
  if (was_open) {
    --open_count_;
  } else {
    --young_count_;
    if (session.is_accepted) --accepting_count_;
  }
  if (session.is_bounded) clients_.remove();
  session.state = Session::State::Lost;
  session.lost_reason = reason;
  lost_.push_back(&session);
  // (A peer may have named two by one number: that is the other one's, then.)
  const auto named = by_peer_.find({session.route.address, session.route.peer_number});
  if (named != by_peer_.end() && named->second == session.id) by_peer_.erase(named);
  session.greeting.reset();
  if (was_open) dropChannel(*session.channel);
}

// The channel itself stays until the sink has heard: whoever is at work on it may have ended it.
void DatagramEndpoint::dropChannel(Channel& channel) {
  for (const Arrival& arrival : channel.arriving) {
    Incoming& incoming =
        arrival.is_response ? channel.own[arrival.slot].response : channel.served[arrival.slot].request;
    if (RxBlock* block = incoming.takeBlock(); block != nullptr) blocks_.drop(block);
    std::erase(long_, arrival);
  }
  channel.arriving.clear();
  for (Outgoing* outgoing : channel.sending) retire(*outgoing);
  channel.sending.clear();
  recycleRetired();
  for (OwnCall& own : channel.own) own.request = nullptr;
  for (Served& served : channel.served) served.response = nullptr;
  // One after the other: a call that completes may abandon those that still wait, and they are gone then.
  while (PendingCall* call = channel.calls.takeAny()) call->complete(*call, Status::SessionLost, RxMessage());
}

void DatagramEndpoint::closeMalformed(Session& session, std::string_view why) {
  if (session.state != Session::State::Open) return;
  ++bad_count_;
  warnings_.warn("closing the session with " + session.peer.address + ": " + std::string(why));
  sendControlPacket(session, wire::PacketKind::Reset);
  close(session, Status::SessionLost);
}

void DatagramEndpoint::closeSilent(Session& session, const std::string& why) {
  context_.trace.debug(std::string(options_.scheme) + ": lost " + session.peer.address + ": " + why);
  sendControlPacket(session, wire::PacketKind::Reset);
  close(session, Status::SessionLost);
}

void DatagramEndpoint::close(SessionId id) {
  Session* const session = find(id);
  if (session == nullptr || session->state == Session::State::Lost) return;
  if (session->state == Session::State::Open) {
    now_ns_ = context_.clock.nowNs();
    sendControlPacket(*session, wire::PacketKind::Close);
    if (closing_.size() == kClosingMax) closing_.erase(closing_.begin());
    closing_.push_back({session->route, session->channel->seal_out, session->channel->seal_in,
                        now_ns_ + session->channel->round_trip.timeoutNs(0), 0});
    timeouts_due_ns_ = std::min(timeouts_due_ns_, closing_.back().due_ns);
  }
  close(*session, Status::Shutdown);
}

// As when the process dies, but that the peers are told.
DatagramEndpoint::~DatagramEndpoint() {
  sessions_.forEach([this](Session& session) {
    if (session.state != Session::State::Open) return;
    sendControlPacket(session, wire::PacketKind::Reset);
    Channel& channel = *session.channel;
    while (channel.calls.takeAny() != nullptr) {
    }
    dropChannel(channel);
  });
  for (uint32_t port = 0; port < ports_.size(); ++port) {
    flushPort(port);
    for (const OutFrame frame : backlogs_[port].frames) ports_[port]->drop(frame);
    backlogs_[port].frames.clear();
    ports_[port]->stop();
  }
  requests_.clear();
  if (copies_ != nullptr) blocks_.drop(copies_);
  for (const auto& outgoing : outgoings_) {
    RC_CHECK_MSG(outgoing->pieces_out == 0, "a port still reads what is being destroyed");
    outgoing->recycle();
  }
}

}  // namespace ramcore::transport::datagram
