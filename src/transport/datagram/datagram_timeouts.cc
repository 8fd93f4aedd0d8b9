// What a DatagramEndpoint does by the clock.
#include <algorithm>
#include <utility>

#include "transport/datagram/datagram_endpoint.h"
#include "transport/memory/chunk_copy.h"
#include "transport/session/open_failure.h"

namespace ramcore::transport::datagram {
namespace {

// With nothing to wait for.
constexpr int64_t kIdleTimeoutsNs = 1 * runtime::kNanosPerSecond;
// A look takes some time, too: deadlines may be late by so much.
constexpr int64_t kLeastTimeoutsNs = 200 * runtime::kNanosPerMicro;
constexpr int64_t kSuspectProbeNs = 10 * runtime::kNanosPerMilli;
constexpr int64_t kSuspectNs = 60 * runtime::kNanosPerMilli;
// Ports are looked after so often while something is expected of them.
constexpr int64_t kPortTimeoutsNs = 10 * runtime::kNanosPerMilli;
// What a port has not taken for so long is dropped: it holds bytes that are borrowed, and is sent again if it matters.
constexpr int64_t kPortStallNs = 50 * runtime::kNanosPerMilli;
// So that it takes eight losses in a row before a peer has to find out by itself.
constexpr uint8_t kCloseTries = 7;
// A look that comes so much too late: the thread was stopped, and what came meanwhile is still to be looked at.
constexpr int64_t kPauseNs = 20 * runtime::kNanosPerMilli;
constexpr uint8_t kTriesMax = 30;
// Sessions where nothing happens are given so many times what passes before they are asked.
constexpr int64_t kIdleProbes = 3;
constexpr int64_t kIdleProbesSooner = 8;
// A client that has nothing to say need not run: nobody looks at what comes for it.
constexpr int64_t kClientIdleNs = 120 * runtime::kNanosPerSecond;

}  // namespace

bool DatagramEndpoint::hasDeadlines() const { return open_count_ + young_count_ != 0 || !closing_.empty(); }

// Looks at every session, and notes when the next look is due.
void DatagramEndpoint::runTimeouts() {
  unknown_said_ = 0;
  // What is begun on the way, by calls that end with their session, has deadlines of its own.
  timeouts_due_ns_ = runtime::kNever;
  int64_t due_ns = now_ns_ + (open_count_ + young_count_ != 0 ? kPortTimeoutsNs : kIdleTimeoutsNs);
  if (now_ns_ >= timeouts_planned_ns_ + kPauseNs) listening_since_ns_ = now_ns_;
  keepPorts();
  chooseGranted();
  boundWaiting();
  sessions_.forEach([&](Session& session) {
    if (session.state == Session::State::Lost) return;
    due_ns = std::min(due_ns, checkGreeting(session));
    if (session.state == Session::State::Open) due_ns = std::min(due_ns, checkOpen(session));
  });
  checkClosing();
  for (const Closing& closing : closing_) due_ns = std::min(due_ns, closing.due_ns);
  if (is_short_of_memory_) evictStalled();
  timeouts_due_ns_ = std::max(std::min(due_ns, timeouts_due_ns_), now_ns_ + kLeastTimeoutsNs);
  timeouts_planned_ns_ = timeouts_due_ns_;
}

void DatagramEndpoint::keepPorts() {
  if (now_ns_ - ports_kept_ns_ < kPortTimeoutsNs) return;
  ports_kept_ns_ = now_ns_;
  for (uint32_t port = 0; port < ports_.size(); ++port) {
    TxBacklog& leaving = backlogs_[port];
    const bool had_link = std::exchange(leaving.has_link, ports_[port]->runTimeouts());
    if (had_link && !leaving.has_link && ports_[port]->facts().joins_two) suspectAllAt(port);
    if (leaving.refused_since_ns == runtime::kNever ||
        now_ns_ - std::max(leaving.refused_since_ns, listening_since_ns_) < kPortStallNs)
      continue;
    packet_counts_.dropped += leaving.frames.size();
    for (const OutFrame frame : leaving.frames) ports_[port]->drop(frame);
    leaving.frames.clear();
    leaving.refused_since_ns = runtime::kNever;
  }
}

// The process at the other end has gone, or opens its port anew.
void DatagramEndpoint::suspectAllAt(uint32_t port) {
  sessions_.forEach([&](Session& session) {
    if (session.state != Session::State::Open || session.route.port != port) return;
    if (session.suspected_ns == 0) session.suspected_ns = std::max<int64_t>(now_ns_, 1);
  });
}

int64_t DatagramEndpoint::checkGreeting(Session& session) {
  if (session.greeting == nullptr) return runtime::kNever;
  if (session.state == Session::State::Greeting && now_ns_ >= session.deadline_ns) {
    // It began, and left. (Who was refused has been counted.)
    const bool is_running = session.greeting->handshake().state() == Handshake::State::Running;
    if (session.is_accepted && session.was_heard && is_running) ++bad_count_;
    session.open_failure = {.kind = OpenFailure::Kind::Unreachable, .text = std::string(kNoAnswerInTime)};
    close(session, session.is_accepted ? Status::SessionLost : Status::Unreachable);
    return runtime::kNever;
  }
  if (session.state == Session::State::Open &&
      (session.greeting->isAcknowledged() || session.greet_tries > kTriesMax)) {
    session.greeting.reset();
    return runtime::kNever;
  }
  if (now_ns_ >= session.greet_due_ns) {
    if (session.greet_tries < UINT8_MAX) ++session.greet_tries;
    sendGreeting(session);
  }
  return session.state == Session::State::Open ? session.greet_due_ns
                                               : std::min(session.greet_due_ns, session.deadline_ns);
}

int64_t DatagramEndpoint::checkOpen(Session& session) {
  if (session.is_used_up && session.channel->calls_out == 0) {
    closeSilent(session, "the numbers of its calls are used up; another session has new ones");
    return runtime::kNever;
  }
  int64_t due_ns = checkSilence(session);
  for (const auto check :
       {&DatagramEndpoint::checkBorrowed, &DatagramEndpoint::checkSending, &DatagramEndpoint::checkArriving}) {
    if (session.state != Session::State::Open) return runtime::kNever;
    due_ns = std::min(due_ns, (this->*check)(session));
  }
  return due_ns;
}

// Whether the peer is still there.
int64_t DatagramEndpoint::checkSilence(Session& session) {
  const Channel& channel = *session.channel;
  const bool expects = channel.calls_out != 0 || !channel.sending.empty() || !channel.arriving.empty();
  // Nobody is silent before something is expected.
  const int64_t heard_ns = std::max(session.heard_ns, listening_since_ns_);
  const int64_t since_ns = expects ? std::max(heard_ns, session.expected_ns) : heard_ns;
  int64_t probe_every_ns = expects ? options_.silence_probe_ns : options_.idle_probe_ns;
  // One question may be lost, and so may its answer: the next ones come sooner.
  if (!expects && !session.is_bounded && session.probed_ns > heard_ns) probe_every_ns /= kIdleProbesSooner;
  int64_t close_after_ns = options_.silence_close_ns;
  if (!expects) close_after_ns = session.is_bounded ? kClientIdleNs : (kIdleProbes + 1) * options_.idle_probe_ns;
  int64_t close_ns = since_ns + close_after_ns;
  if (session.suspected_ns != 0) {
    probe_every_ns = kSuspectProbeNs;
    close_ns = std::min(close_ns, std::max(session.suspected_ns, listening_since_ns_) + kSuspectNs);
  }
  if (now_ns_ >= close_ns) {
    closeSilent(session, session.suspected_ns != 0 ? "it does not know the session" : "nothing is heard of it");
    return runtime::kNever;
  }
  const int64_t asked_ns = std::max(since_ns, session.probed_ns);
  if (session.suspected_ns != 0 ? now_ns_ >= session.probed_ns + probe_every_ns
                                : now_ns_ >= asked_ns + probe_every_ns) {
    session.probed_ns = now_ns_;
    sendControlPacket(session, wire::PacketKind::Probe);
  }
  return std::min(close_ns, std::max(asked_ns, session.probed_ns) + probe_every_ns);
}

// What has not been heard of for too long is sent again.
int64_t DatagramEndpoint::checkSending(Session& session) {
  int64_t due_ns = runtime::kNever;
  for (Outgoing* outgoing : session.channel->sending) {
    // What waits for its grants, or for its turn, is not late.
    if (outgoing->begun_ns == 0 || outgoing->is_queued) continue;
    const int64_t told_ns = std::max({outgoing->begun_ns, outgoing->told_ns, listening_since_ns_});
    if (outgoing->kind == wire::PacketKind::Response && now_ns_ - told_ns >= options_.stall_close_ns) {
      closeMalformed(session, "it does not take its answers");
      return runtime::kNever;
    }
    if (now_ns_ >= outgoing->due_ns) {
      if (outgoing->tries < kTriesMax) ++outgoing->tries;
      outgoing->resendFirst();
      outgoing->due_ns = now_ns_ + session.channel->round_trip.timeoutNs(outgoing->tries);
      makeReady(*outgoing);
    }
    due_ns = std::min(due_ns, outgoing->due_ns);
  }
  return due_ns;
}

// Messages in the middle of which nothing comes any more: the sender is told what is missing.
int64_t DatagramEndpoint::checkArriving(Session& session) {
  int64_t due_ns = runtime::kNever;
  for (const Arrival& arrival : session.channel->arriving) {
    Incoming& incoming = *incomingOf(arrival);
    if (incoming.owesPackets() &&
        now_ns_ - std::max(incoming.heard_ns, listening_since_ns_) >= options_.stall_close_ns) {
      closeMalformed(session, "it does not send the rest of its message");
      return runtime::kNever;
    }
    if (now_ns_ >= incoming.due_ns) {
      if (incoming.tries < kTriesMax) ++incoming.tries;
      if (incoming.isLong() && mayBeGranted(incoming) && incoming.grant(options_.grant_window)) {
        incoming.heard_ns = now_ns_;
      }
      sendGrant(session, arrival, incoming.progress(), incoming.header().sequence, true);
      incoming.due_ns = now_ns_ + session.channel->round_trip.timeoutNs(incoming.tries);
    }
    due_ns = std::min(due_ns, incoming.due_ns);
  }
  return due_ns;
}

// What was borrowed for too long is copied; what ports are about to read is waited for.
int64_t DatagramEndpoint::checkBorrowed(Session& session) {
  int64_t due_ns = runtime::kNever;
  for (Outgoing* outgoing : session.channel->sending) {
    if (!outgoing->is_dated || !holdsBorrowed(*outgoing->message)) continue;
    const int64_t end_ns = outgoing->message->borrowed_since_ns + options_.borrowed_ns_max;
    if (now_ns_ < end_ns) {
      due_ns = std::min(due_ns, end_ns);
    } else if (outgoing->pieces_out != 0) {
      due_ns = std::min(due_ns, now_ns_ + kLeastTimeoutsNs);
    } else {
      chunk_copies.replaceAll(*outgoing->message, false);
      ++borrowed_counts_.messages_copied_out;
    }
  }
  return due_ns;
}

// Of our memory: heads, copies, and what is copied now because it was borrowed for too long.
uint64_t DatagramEndpoint::waitingBytes(const Outgoing& outgoing) const {
  const TxBuffer& message = *outgoing.message;
  const bool is_overdue = outgoing.is_dated && now_ns_ >= message.borrowed_since_ns + options_.borrowed_ns_max;
  uint64_t bytes = message.head_bytes;
  for (uint32_t i = 0; i < message.chunk_count; ++i) {
    const Chunk& chunk = message.chunks[i];
    if (chunk.owner == &chunk_copies || (chunk.owner != nullptr && is_overdue)) bytes += chunk.bytes;
  }
  return bytes;
}

// Before anything is copied. Where all together leave too much, whoever leaves most has to go.
void DatagramEndpoint::boundWaiting() {
  sessions_.forEach([this](Session& session) {
    if (session.state != Session::State::Open) return;
    copied_out_bytes_ -= std::exchange(session.waiting_bytes, 0);
    for (const Outgoing* outgoing : session.channel->sending) session.waiting_bytes += waitingBytes(*outgoing);
    copied_out_bytes_ += session.waiting_bytes;
    if (session.waiting_bytes > options_.stall_bytes_max) dropUnread(session);
  });
  while (copied_out_bytes_ > options_.held_bytes_max) {
    Session* worst = nullptr;
    sessions_.forEach([&](Session& session) {
      if (session.state != Session::State::Open) return;
      if (worst == nullptr || session.waiting_bytes > worst->waiting_bytes) worst = &session;
    });
    RC_CHECK(worst != nullptr && worst->waiting_bytes != 0);  // it is the sum of these
    dropUnread(*worst);
  }
}

void DatagramEndpoint::dropUnread(Session& session) {
  ++borrowed_counts_.sessions_dropped;
  warnings_.warn("closing the session with " + session.peer.address + ": it leaves " +
                 std::to_string(session.waiting_bytes) +
                 " bytes unread, too many to copy them out of the log, which they would keep from being freed");
  closeSilent(session, "it leaves too many bytes unread");
}

// The peer is told of the end a few times.
void DatagramEndpoint::checkClosing() {
  std::erase_if(closing_, [this](Closing& closing) {
    if (now_ns_ < closing.due_ns) return false;
    if (++closing.tries > kCloseTries) return true;
    closing.due_ns = now_ns_ + RoundTrip().timeoutNs(closing.tries);
    sendControlPacket(closing.route, closing.seal_out, wire::PacketKind::Close, {}, {});
    return false;
  });
}

// Messages of clients do not find memory. The client that holds most, by what stands still, gives way.
void DatagramEndpoint::evictStalled() {
  is_short_of_memory_ = false;
  Session* worst = nullptr;
  uint64_t worst_bytes = 0;
  sessions_.forEach([&](Session& session) {
    if (session.state != Session::State::Open || !session.is_bounded) return;
    uint64_t bytes = 0;
    for (const Arrival& arrival : session.channel->arriving) {
      const Incoming& incoming = *incomingOf(arrival);
      if (incoming.owesPackets() && now_ns_ - incoming.heard_ns >= options_.stall_evict_ns) {
        bytes += incoming.header().message_bytes;
      }
    }
    for (const Outgoing* outgoing : session.channel->sending) {
      if (outgoing->is_dated && now_ns_ - outgoing->moved_ns >= options_.stall_evict_ns)
        bytes += waitingBytes(*outgoing);
    }
    if (bytes <= worst_bytes) return;
    worst = &session;
    worst_bytes = bytes;
  });
  if (worst != nullptr) closeMalformed(*worst, "it stands still in the middle of messages, and memory is short");
}

}  // namespace ramcore::transport::datagram
