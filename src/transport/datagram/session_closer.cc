#include "transport/datagram/session_closer.h"

#include <algorithm>

#include "transport/session/open_failure.h"

namespace ramcore::transport::datagram {
namespace {

// Maximum number of answers to packets of unknown sessions between two runs of the timeouts: a flood is not answered by
// a flood.
constexpr uint32_t kUnknownSaidMax = 64;
constexpr size_t kClosingMax = 256;
// With these repetitions it takes eight losses in a row before a peer has to find out by itself.
constexpr uint8_t kCloseTries = 7;

}  // namespace

// ---- ends

void SessionCloser::close(Session& session, Status reason) {
  if (session.state == Session::State::Lost) return;
  const bool was_open = session.state == Session::State::Open;
  // Memory that this session gives up counts as free from here on.
  parts_.sender.forgetWaiting(session);
  // The session ends before its calls complete: what they start from there must not go to this session.
  parts_.sessions.end(session, reason);
  if (!was_open) return;
  Channel& channel = *session.channel;
  dropChannel(channel);
  // Calls are taken one after the other, because a call that completes may abandon others that still wait.
  while (PendingCall* call = channel.calls.takeAny()) call->complete(*call, Status::SessionLost, RxMessage());
}

// The channel itself stays until the sink has been told: a function that is at work on it may have ended the session.
void SessionCloser::dropChannel(Channel& channel) {
  parts_.reassembly.dropAll(channel);
  parts_.sender.endAll(channel);
}

void SessionCloser::closeByUs(Session& session) {
  if (session.state == Session::State::Lost) return;
  if (session.state == Session::State::Open) {
    parts_.clock.readTime();
    parts_.packets.sendControlPacket(session, wire::PacketKind::Close);
    if (closing_.size() == kClosingMax) closing_.erase(closing_.begin());
    closing_.push_back({session.route, session.channel->seal_out, session.channel->seal_in,
                        parts_.clock.nowNs() + session.channel->round_trip.timeoutNs(0), 0});
    parts_.clock.runTimeoutsBy(closing_.back().due_ns);
  }
  close(session, Status::Shutdown);
}

void SessionCloser::closeMalformed(Session& session, std::string_view why) {
  if (session.state != Session::State::Open) return;
  parts_.sessions.noteBad();
  parts_.sessions.warnings().warn("closing the session with " + session.peer.address + ": " + std::string(why));
  parts_.packets.sendControlPacket(session, wire::PacketKind::Reset);
  close(session, Status::SessionLost);
}

void SessionCloser::closeSilent(Session& session, const std::string& why) {
  parts_.trace.debug(std::string(parts_.options.scheme) + ": lost " + session.peer.address + ": " + why);
  parts_.packets.sendControlPacket(session, wire::PacketKind::Reset);
  close(session, Status::SessionLost);
}

void SessionCloser::abandonAll() {
  parts_.sessions.forEach([this](Session& session) {
    if (session.state != Session::State::Open) return;
    parts_.packets.sendControlPacket(session, wire::PacketKind::Reset);
    Channel& channel = *session.channel;
    while (channel.calls.takeAny() != nullptr) {
    }
    dropChannel(channel);
  });
}

// Each peer is told of the end a few times.
int64_t SessionCloser::checkClosing() {
  const int64_t now_ns = parts_.clock.nowNs();
  int64_t due_ns = runtime::kNever;
  std::erase_if(closing_, [&](Closing& closing) {
    if (now_ns >= closing.due_ns) {
      if (++closing.tries > kCloseTries) return true;
      closing.due_ns = now_ns + RoundTrip().timeoutNs(closing.tries);
      parts_.packets.sendControlPacket(closing.route, closing.seal_out, wire::PacketKind::Close);
    }
    due_ns = std::min(due_ns, closing.due_ns);
    return false;
  });
  return due_ns;
}

// ---- sessions that are not there

void SessionCloser::takeFromUnknownPeer(const Packet& packet) {
  const auto closing =
      std::ranges::find_if(closing_, [&](const Closing& one) { return one.route.number == packet.header.session; });
  // (The sender recognises the session by the number that it used.)
  if (closing == closing_.end()) return sayUnknown(packet.port, packet.from(), 0, packet.header.session);
  if (closing->seal_in.of(packet.start.version, packet.start.kind, packet.header, std::span(&packet.payload, 1)) !=
      packet.header.seal) {
    return;
  }
  if (packet.start.kind == wire::PacketKind::Closed || packet.start.kind == wire::PacketKind::Reset) {
    closing_.erase(closing);
  } else if (packet.start.kind == wire::PacketKind::Close) {
    parts_.packets.sendControlPacket(closing->route, closing->seal_out, wire::PacketKind::Closed);
    closing_.erase(closing);
  } else {
    parts_.packets.sendControlPacket(closing->route, closing->seal_out, wire::PacketKind::Close);
  }
}

// The packet may be the peer's or forged: the peer is asked, and has to prove that it is there.
void SessionCloser::takeUnknown(const Packet& packet) {
  if (packet.payload.size() != sizeof(uint64_t)) return;
  const auto number = loadAs<uint64_t>(packet.payload.data());
  std::erase_if(closing_, [&](const Closing& closing) {
    return closing.route.address == packet.from() && closing.route.peer_number == number;
  });
  // A process that was just started knows neither our number nor its own former one; a peer that was refused knows ours
  // only.
  Session* session = nullptr;
  if (packet.header.session != 0) {
    session = parts_.sessions.findNumber(packet.header.session);
  } else if (const SessionId* known = parts_.sessions.idOfPeer(packet.from(), number); known != nullptr) {
    session = parts_.sessions.find(*known);
  }
  if (session == nullptr || packet.from() != session->route.address || session->route.peer_number != number) return;
  if (session->state == Session::State::Greeting) {
    session->open_failure = {.kind = OpenFailure::Kind::Unreachable, .text = std::string(kLeftInHandshake)};
    return close(*session, session->is_accepted ? Status::SessionLost : Status::Unreachable);
  }
  if (session->suspected_ns != 0) return;
  session->suspected_ns = std::max<int64_t>(parts_.clock.nowNs(), 1);
  parts_.clock.runTimeoutsNow();
}

void SessionCloser::sayUnknown(uint32_t port, const MacAddress& to, uint64_t peer_number, uint64_t number) {
  if (++unknown_said_ > kUnknownSaidMax) return;
  wire::PacketHeader header{};
  header.session = peer_number;
  const ByteSpan body = bytesOf(number);
  parts_.packets.sendUnsealed(port, to, wire::PacketKind::Unknown, header, std::span(&body, 1));
}

}  // namespace ramcore::transport::datagram
