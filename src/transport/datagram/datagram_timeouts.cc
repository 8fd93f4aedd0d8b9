#include "transport/datagram/datagram_timeouts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "transport/memory/chunk_copy.h"
#include "transport/session/stalls.h"

namespace ramcore::transport::datagram {
namespace {

// Time to the next run if there is no session.
constexpr int64_t kIdleTimeoutsNs = 1 * runtime::kNanosPerSecond;
// A session that the peer may not know (Session::suspected_ns) is probed this often, and closed if it proves nothing
// for kSuspectNs.
constexpr int64_t kSuspectProbeNs = 10 * runtime::kNanosPerMilli;
constexpr int64_t kSuspectNs = 60 * runtime::kNanosPerMilli;
// The timeouts of ports run this often while there are sessions.
constexpr int64_t kPortTimeoutsNs = 10 * runtime::kNanosPerMilli;
// An idle session is closed this many probe intervals after its first probe (idle_probe_ns). After a probe without an
// answer the next ones come kIdleProbesSooner times as often.
constexpr int64_t kIdleProbes = 3;
constexpr int64_t kIdleProbesSooner = 8;
// The idle session of a client lasts this long: a client without calls need not run, and then answers no probes.
constexpr int64_t kClientIdleNs = 120 * runtime::kNanosPerSecond;

}  // namespace

bool DatagramTimeouts::hasDeadlines() const {
  return parts_.sessions.admission().count() != 0 || parts_.closer.hasClosing();
}

void DatagramTimeouts::run() {
  parts_.closer.allowUnknown();
  // Calls that end with their session may begin something meanwhile, which has deadlines of its own.
  parts_.clock.beginTimeouts();
  int64_t due_ns =
      parts_.clock.nowNs() + (parts_.sessions.admission().count() != 0 ? kPortTimeoutsNs : kIdleTimeoutsNs);
  keepPorts();
  parts_.reassembly.chooseGranted();
  boundWaiting();
  parts_.sessions.forEach([&](Session& session) {
    if (session.state == Session::State::Lost) return;
    due_ns = std::min(due_ns, parts_.greeter.check(session));
    if (session.state == Session::State::Open) due_ns = std::min(due_ns, checkOpen(session));
  });
  due_ns = std::min(due_ns, parts_.closer.checkClosing());
  if (parts_.reassembly.takeShortness()) evictStalled();
  parts_.clock.endTimeouts(due_ns);
}

void DatagramTimeouts::keepPorts() {
  if (parts_.clock.nowNs() - ports_kept_ns_ < kPortTimeoutsNs) return;
  ports_kept_ns_ = parts_.clock.nowNs();
  for (uint32_t port = 0; port < parts_.port_count; ++port) {
    if (parts_.packets.runPortTimeouts(port)) suspectAllAt(port);
    parts_.packets.dropStalled(port);
  }
}

// Called when the link of a port that joins two processes has ended: the other process has gone, or opens its port
// anew.
void DatagramTimeouts::suspectAllAt(uint32_t port) {
  parts_.sessions.forEach([&](Session& session) {
    if (session.state != Session::State::Open || session.route.port != port) return;
    if (session.suspected_ns == 0) session.suspected_ns = std::max<int64_t>(parts_.clock.nowNs(), 1);
  });
}

int64_t DatagramTimeouts::checkOpen(Session& session) {
  if (session.is_used_up && session.channel->calls_out == 0) {
    parts_.closer.closeSilent(session, "the numbers of its calls are used up; another session has new ones");
    return runtime::kNever;
  }
  int64_t due_ns = checkSilence(session);
  for (const auto check :
       {&DatagramTimeouts::checkBorrowed, &DatagramTimeouts::checkSending, &DatagramTimeouts::checkArriving}) {
    if (session.state != Session::State::Open) return runtime::kNever;
    due_ns = std::min(due_ns, (this->*check)(session));
  }
  return due_ns;
}

// Probes a peer that is silent, and closes the session if it stays so.
int64_t DatagramTimeouts::checkSilence(Session& session) {
  const Channel& channel = *session.channel;
  const bool expects = channel.calls_out != 0 || !channel.sending.empty() || !channel.arriving.empty();
  // Silence counts only from when something is expected.
  const int64_t heard_ns = std::max(session.heard_ns, parts_.clock.listeningSinceNs());
  const int64_t since_ns = expects ? std::max(heard_ns, session.expected_ns) : heard_ns;
  int64_t probe_every_ns = expects ? parts_.options.silence_probe_ns : parts_.options.idle_probe_ns;
  // A probe may be lost, and so may its answer: the next ones come sooner.
  if (!expects && !session.is_bounded && session.probed_ns > heard_ns) probe_every_ns /= kIdleProbesSooner;
  int64_t close_after_ns = parts_.options.silence_close_ns;
  if (!expects) close_after_ns = session.is_bounded ? kClientIdleNs : (kIdleProbes + 1) * parts_.options.idle_probe_ns;
  int64_t close_ns = since_ns + close_after_ns;
  if (session.suspected_ns != 0) {
    probe_every_ns = kSuspectProbeNs;
    close_ns = std::min(close_ns, std::max(session.suspected_ns, parts_.clock.listeningSinceNs()) + kSuspectNs);
  }
  if (parts_.clock.nowNs() >= close_ns) {
    parts_.closer.closeSilent(session,
                              session.suspected_ns != 0 ? "it does not know the session" : "nothing is heard of it");
    return runtime::kNever;
  }
  const int64_t asked_ns = std::max(since_ns, session.probed_ns);
  if (session.suspected_ns != 0 ? parts_.clock.nowNs() >= session.probed_ns + probe_every_ns
                                : parts_.clock.nowNs() >= asked_ns + probe_every_ns) {
    session.probed_ns = parts_.clock.nowNs();
    parts_.packets.sendControlPacket(session, wire::PacketKind::Probe);
  }
  return std::min(close_ns, std::max(asked_ns, session.probed_ns) + probe_every_ns);
}

// Sends messages again of which nothing was heard for too long.
int64_t DatagramTimeouts::checkSending(Session& session) {
  int64_t due_ns = runtime::kNever;
  for (Outgoing* outgoing : session.channel->sending) {
    // A message that waits for its grants, or for its turn, is not late.
    if (outgoing->begun_ns == 0 || outgoing->is_queued) continue;
    const int64_t told_ns = std::max({outgoing->begun_ns, outgoing->told_ns, parts_.clock.listeningSinceNs()});
    if (outgoing->kind == wire::PacketKind::Response &&
        parts_.clock.nowNs() - told_ns >= parts_.options.stall_close_ns) {
      parts_.closer.closeMalformed(session, "it does not take its answers");
      return runtime::kNever;
    }
    if (parts_.clock.nowNs() >= outgoing->due_ns) {
      if (outgoing->tries < kTriesMax) ++outgoing->tries;
      outgoing->resendFirst();
      outgoing->due_ns = parts_.clock.nowNs() + session.channel->round_trip.timeoutNs(outgoing->tries);
      parts_.sender.makeReady(*outgoing);
    }
    due_ns = std::min(due_ns, outgoing->due_ns);
  }
  return due_ns;
}

// If nothing more comes of a message that has begun, tells its sender what is missing.
int64_t DatagramTimeouts::checkArriving(Session& session) {
  int64_t due_ns = runtime::kNever;
  for (const Arrival& arrival : session.channel->arriving) {
    Incoming& incoming = *parts_.reassembly.find(arrival);
    if (incoming.owesPackets() && parts_.clock.nowNs() - std::max(incoming.heard_ns, parts_.clock.listeningSinceNs()) >=
                                      parts_.options.stall_close_ns) {
      parts_.closer.closeMalformed(session, "it does not send the rest of its message");
      return runtime::kNever;
    }
    if (parts_.clock.nowNs() >= incoming.due_ns) parts_.reassembly.askForRest(session, arrival, incoming);
    due_ns = std::min(due_ns, incoming.due_ns);
  }
  return due_ns;
}

// Copies bytes that were borrowed for too long. Those that ports are about to read are waited for.
int64_t DatagramTimeouts::checkBorrowed(Session& session) {
  int64_t due_ns = runtime::kNever;
  for (Outgoing* outgoing : session.channel->sending) {
    if (!outgoing->is_dated || !holdsBorrowed(*outgoing->message)) continue;
    const int64_t end_ns = outgoing->message->borrowed_since_ns + parts_.options.borrowed_ns_max;
    if (parts_.clock.nowNs() < end_ns) {
      due_ns = std::min(due_ns, end_ns);
    } else if (outgoing->pieces_out != 0) {
      due_ns = std::min(due_ns, parts_.clock.nowNs() + DatagramClock::kLeastTimeoutsNs);
    } else {
      chunk_copies.replaceAll(*outgoing->message, false);
      ++borrowed_counts_.messages_copied_out;
    }
  }
  return due_ns;
}

// Closes sessions that leave too many bytes unread, before anything is copied. If all together leave too many, those go
// that leave most.
void DatagramTimeouts::boundWaiting() {
  parts_.sessions.forEach([this](Session& session) {
    if (session.state != Session::State::Open) return;
    parts_.sender.countWaiting(session);
    if (session.waiting_bytes > parts_.options.stall_bytes_max) dropUnread(session);
  });
  while (parts_.sender.allWaitingBytes() > parts_.options.held_bytes_max) {
    Session* worst = nullptr;
    parts_.sessions.forEach([&](Session& session) {
      if (session.state != Session::State::Open) return;
      if (worst == nullptr || session.waiting_bytes > worst->waiting_bytes) worst = &session;
    });
    RC_CHECK(worst != nullptr && worst->waiting_bytes != 0);  // it is the sum of these
    dropUnread(*worst);
  }
}

void DatagramTimeouts::dropUnread(Session& session) {
  ++borrowed_counts_.sessions_dropped;
  parts_.sessions.warnings().warn(
      "closing the session with " + session.peer.address + ": it leaves " + std::to_string(session.waiting_bytes) +
      " bytes unread, too many to copy them out of the log, which they would keep from being freed");
  parts_.closer.closeSilent(session, "it leaves too many bytes unread");
}

// Called when messages of clients find no memory: closes the client session that holds most in messages without
// progress.
void DatagramTimeouts::evictStalled() {
  LargestHolder<Session> largest;
  parts_.sessions.forEach([&](Session& session) {
    if (session.state != Session::State::Open || !session.is_bounded) return;
    uint64_t bytes = 0;
    for (const Arrival& arrival : session.channel->arriving) {
      const Incoming& incoming = *parts_.reassembly.find(arrival);
      if (incoming.owesPackets() && parts_.clock.nowNs() - incoming.heard_ns >= parts_.options.stall_evict_ns) {
        bytes += incoming.header().message_bytes;
      }
    }
    for (const Outgoing* outgoing : session.channel->sending) {
      if (outgoing->is_dated && parts_.clock.nowNs() - outgoing->moved_ns >= parts_.options.stall_evict_ns)
        bytes += parts_.sender.waitingBytes(*outgoing);
    }
    largest.consider(session, bytes);
  });
  if (largest.session() == nullptr) return;
  parts_.closer.closeMalformed(*largest.session(), "its messages make no progress, and memory is short");
}

}  // namespace ramcore::transport::datagram
