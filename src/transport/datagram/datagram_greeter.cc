#include "transport/datagram/datagram_greeter.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "transport/session/open_failure.h"
#include "transport/session/pending_sessions.h"

namespace ramcore::transport::datagram {
namespace {

constexpr std::string_view kAnyHost = "any";

bool isLocal(const FramePort* port) { return port->facts().is_local; }

uint32_t packetBytesOf(std::span<FramePort* const> ports) {
  uint32_t packet_bytes = wire::kPacketBytesMax;
  for (const FramePort* port : ports) {
    packet_bytes = std::min(packet_bytes, port->facts().frame_bytes_max - wire::kPacketHeaderBytes);
  }
  return packet_bytes;
}

}  // namespace

DatagramGreeter::DatagramGreeter(const Parts& parts)
    : parts_(parts), address_(parts.ports[0]->facts().address), packet_bytes_(packetBytesOf(parts.ports)) {}

bool DatagramGreeter::areAllLocal() const { return std::ranges::all_of(parts_.ports, isLocal); }

// ---- listening and connecting

Outcome<Locator> DatagramGreeter::listen(const Locator& where) {
  const std::string text = where.toString();
  if (where.scheme != parts_.options.scheme) {
    return Failure{Status::BadConfig, "'" + text + "' is no " + std::string(parts_.options.scheme) + " locator"};
  }
  if (listening_ != 0) {
    return Failure{Status::BadConfig,
                   "an endpoint listens at one " + std::string(parts_.options.scheme) + " locator only"};
  }
  if (where.host != kAnyHost && MacAddress::parse(where.host) != address_) {
    return Failure{Status::InUse, "cannot listen at " + text + ": that is not the address of our port, which is " +
                                      address_.toString() + "; write this one, or 'any'"};
  }
  if (parts_.identity.secret.empty() && !areAllLocal()) {
    return Failure{Status::BadConfig, "cannot listen at " + text +
                                          " without a cluster secret: other machines reach it; give a secret file"};
  }
  listening_ = where.port;
  // The address is this endpoint's alone, and so are all numbers behind it.
  if (listening_ == 0) listening_ = 1;
  Locator locator = where;
  locator.host = address_.toString();
  locator.port = listening_;
  locators_ = {locator};
  return locator;
}

SessionId DatagramGreeter::connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) {
  parts_.clock.readTime();
  Session* const added = parts_.sessions.add(parts_.options.places_max, false);
  RC_CHECK_MSG(added != nullptr, "an endpoint has at most 65,536 sessions");  // no peer can bring this about
  Session& session = *added;
  session.is_announced = true;
  session.peer.address = where.toString();
  session.deadline_ns = deadline_ns;
  session.looked_for = where.port;
  session.wants_seal = parts_.options.wants_seal;
  const auto address = where.host == kAnyHost ? MacAddress::broadcast() : MacAddress::parse(where.host);
  if (where.scheme != parts_.options.scheme || !address) {
    parts_.closer.close(session, Status::Unreachable);
    return session.id;
  }
  session.route.address = *address;
  if (parts_.ports.size() == 1) session.route.port = 0;
  session.greeting = std::make_unique<GreetingStream>(HandshakeOptions{.side = HandshakeSide::Initiator,
                                                                       .identity = parts_.identity,
                                                                       .expected_id = expected_id,
                                                                       .slot_count = parts_.options.slots_per_session,
                                                                       .peer_is_local = areAllLocal(),
                                                                       .locators = {}},
                                                      parts_.context.entropy);
  step(session);
  return session.id;
}

// ---- packets of handshakes

DatagramGreeter::Took DatagramGreeter::take(const Packet& packet) {
  wire::GreetingBody body;
  if (!wire::decode(packet.payload, body)) return Took::Nonsense;
  Session* session = nullptr;
  if (packet.header.session != 0) {
    session = parts_.sessions.findNumber(packet.header.session);
    if (session == nullptr) {
      parts_.closer.sayUnknown(packet.port, packet.from(), body.session, packet.header.session);
      return Took::OfUnknownPeer;
    }
  } else {
    const SessionId* const known = parts_.sessions.idOfPeer(packet.from(), body.session);
    session = known != nullptr ? parts_.sessions.find(*known) : acceptPending(packet, body);
  }
  if (session == nullptr || session->state == Session::State::Lost) return Took::Greeting;
  if (!isOfItsPeer(*session, packet, body)) return Took::Greeting;
  if (session->greeting == nullptr) {
    // A duplicate of the peer's last bytes: the peer does not know that we have them.
    if (!session->is_accepted) send(*session);
    return Took::Greeting;
  }
  if (packet.header.session != 0) session->was_heard = true;
  GreetingStream& greeting = *session->greeting;
  const bool is_over = greeting.handshake().state() != Handshake::State::Running;
  const ByteSpan said = packet.payload.subspan(sizeof(body));
  const bool is_news = greeting.onPacket(packet.header.offset, body.received_bytes, said);
  session->greeting_received_bytes = greeting.receivedBytes();
  if (!is_over) {
    if (is_news || !said.empty()) step(*session);
  } else if (!greeting.isAcknowledged()) {
    if (!said.empty()) send(*session);
  } else if (session->state == Session::State::Open) {
    session->greeting.reset();
  } else {
    parts_.closer.close(*session, Status::SessionLost);  // it has heard why it is refused
  }
  return Took::Greeting;
}

// False: the packet is not from the session's peer. A session that had no peer yet has this one from now on.
bool DatagramGreeter::isOfItsPeer(Session& session, const Packet& packet, const wire::GreetingBody& body) {
  Route& route = session.route;
  if (route.peer_number != 0) return route.peer_number == body.session && route.address == packet.from();
  // This is the first packet of the peer that we look for.
  if (!route.address.isBroadcast() && route.address != packet.from()) return false;
  route.address = packet.from();
  route.port = packet.port;
  route.peer_number = body.session;
  parts_.sessions.setPeer(session);
  session.peer_packet_bytes = body.packet_bytes;
  session.peer_unasked_packets = body.unasked_packets;
  session.wants_seal = session.wants_seal || body.wants_seal != 0;
  return true;
}

Session* DatagramGreeter::acceptPending(const Packet& packet, const wire::GreetingBody& body) {
  if (listening_ == 0 || body.port != listening_ || packet.header.offset != 0) {
    if (!MacAddress{packet.start.to}.isBroadcast()) {
      parts_.closer.sayUnknown(packet.port, packet.from(), body.session, packet.header.session);
    }
    return nullptr;
  }
  const bool is_full = !parts_.sessions.admission().hasRoomToAccept();
  Session* const session = is_full && !dropPending()
                               ? nullptr
                               : parts_.sessions.add(parts_.options.places_max - parts_.options.own_places, true);
  if (session == nullptr) {
    parts_.sessions.warnings().warn("refusing a session from " + packet.from().toString() + ": " +
                                    std::string(kTooManySessions));
    return nullptr;
  }
  session->deadline_ns = parts_.clock.nowNs() + parts_.options.greeting_timeout_ns;
  session->looked_for = body.port;
  session->wants_seal = parts_.options.wants_seal;
  session->route.port = packet.port;
  session->route.address = packet.from();
  session->peer.address = std::string(parts_.options.scheme) + "://" + packet.from().toString();
  session->greeting = std::make_unique<GreetingStream>(
      HandshakeOptions{.side = HandshakeSide::Acceptor,
                       .identity = parts_.identity,
                       .slot_count = parts_.options.slots_per_session,
                       .peer_is_local = isLocal(parts_.ports[packet.port]),
                       .locators = locators_,
                       .has_room_for_client = [this] { return parts_.sessions.admission().hasRoomForClient(); }},
      parts_.context.entropy);
  return session;
}

bool DatagramGreeter::dropPending() {
  PendingChoice<Session> pending;
  parts_.sessions.forEach([&](Session& session) {
    if (!session.is_accepted || session.state != Session::State::Greeting) return;
    pending.add(session, {session.route.address.toString(), session.deadline_ns, !session.was_heard});
  });
  Session* const chosen = pending.whoLeaves();
  if (chosen == nullptr) return false;
  parts_.closer.close(*chosen, Status::SessionLost);
  return true;
}

// ---- the handshake of a session

void DatagramGreeter::step(Session& session) {
  const Handshake& handshake = session.greeting->handshake();
  session.greet_tries = 0;
  send(session);
  if (handshake.state() == Handshake::State::Done) return open(session);
  if (handshake.state() == Handshake::State::Running) return;
  if (handshake.isBad()) {
    parts_.sessions.noteBad();
    parts_.sessions.warnings().warn("refusing " + session.peer.address + ": " + handshake.failureText());
  } else if (session.is_accepted && handshake.status() == Status::Unreachable) {
    parts_.sessions.warnings().warn("no session with " + session.peer.address + ": " + handshake.failureText());
  } else if (!session.is_accepted) {
    parts_.context.trace.info(session.peer.address + ": " + handshake.failureText());
  }
  // A peer that connected is told why, again and again until it has acknowledged that.
  if (session.is_accepted && !session.greeting->isAcknowledged()) return;
  session.open_failure = openFailureOf(handshake.status(), handshake.failureText());
  parts_.closer.close(session, handshake.status());
}

void DatagramGreeter::send(Session& session) {
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
                                .unasked_packets = parts_.options.unasked_packets,
                                .wants_seal = parts_.options.wants_seal ? uint8_t{1} : uint8_t{0},
                                .reserved1 = 0,
                                .reserved2 = 0};
  const std::array<ByteSpan, 2> pieces = {bytesOf(body), said};
  for (uint32_t port = 0; port < parts_.ports.size(); ++port) {
    if (session.route.port != Route::kAnyPort && session.route.port != port) continue;
    parts_.packets.sendUnsealed(port, session.route.address, wire::PacketKind::Greeting, header, pieces);
  }
  session.greet_due_ns = parts_.clock.nowNs() + RoundTrip().timeoutNs(session.greet_tries);
  parts_.clock.runTimeoutsBy(session.greet_due_ns);
}

void DatagramGreeter::open(Session& session) {
  const Handshake& handshake = session.greeting->handshake();
  std::string address = std::move(session.peer.address);
  session.peer = handshake.peer();
  session.peer.address = std::move(address);
  session.peer.transport = parts_.limits.name;
  session.is_bounded = session.is_accepted && ClientShare::isOf(session.peer.role);
  const Handshake::Key& key = handshake.sessionKey();
  session.channel =
      std::make_unique<Channel>(handshake.slotCount(), PacketSeal(key, !session.is_accepted, session.wants_seal),
                                PacketSeal(key, session.is_accepted, session.wants_seal));
  session.channel->packet_bytes = std::min<uint32_t>(packet_bytes_, session.peer_packet_bytes);
  session.channel->unasked_packets = session.peer_unasked_packets;
  session.greeting_sent_bytes = session.greeting->offset();
  // The acceptor's last message may be lost. It is sent again until the peer sends something that it can send only when
  // it has that message.
  if (!session.is_accepted) session.greeting.reset();
  parts_.sessions.open(session);
}

int64_t DatagramGreeter::check(Session& session) {
  if (session.greeting == nullptr) return runtime::kNever;
  if (session.state == Session::State::Greeting && parts_.clock.nowNs() >= session.deadline_ns) {
    // The peer began the handshake and left. (A peer that was refused has been counted already.)
    const bool is_running = session.greeting->handshake().state() == Handshake::State::Running;
    if (session.is_accepted && session.was_heard && is_running) parts_.sessions.noteBad();
    session.open_failure = {.kind = OpenFailure::Kind::Unreachable, .text = std::string(kNoAnswerInTime)};
    parts_.closer.close(session, session.is_accepted ? Status::SessionLost : Status::Unreachable);
    return runtime::kNever;
  }
  if (session.state == Session::State::Open &&
      (session.greeting->isAcknowledged() || session.greet_tries > kTriesMax)) {
    session.greeting.reset();
    return runtime::kNever;
  }
  if (parts_.clock.nowNs() >= session.greet_due_ns) {
    if (session.greet_tries < UINT8_MAX) ++session.greet_tries;
    send(session);
  }
  return session.state == Session::State::Open ? session.greet_due_ns
                                               : std::min(session.greet_due_ns, session.deadline_ns);
}

}  // namespace ramcore::transport::datagram
