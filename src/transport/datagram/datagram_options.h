#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/trace.h"
#include "runtime/clock.h"
#include "runtime/random.h"
#include "transport/gather/gather_policy.h"
#include "transport/transport.h"

namespace ramcore::transport::datagram {

struct DatagramOptions {
  std::string_view scheme = "dpdk";
  /// Calls in flight on one session, 1..wire::kSlotCountMax. The smaller of both sides' counts holds.
  uint16_t slots_per_session = 64;
  /// With this many sessions, its own connects included, the endpoint accepts a further one only if it can drop a
  /// pending session for it. Its own connects are bounded by `places_max` alone. A value above `places_max` less
  /// `own_places` counts as that difference.
  uint32_t sessions_max = 4096;
  /// Maximum number of sessions in any state. Each has a session number, of which 16 bits are its index: 1..65,536.
  uint32_t places_max = 65'536;
  /// Part of `places_max` that accepted sessions cannot take, so that our own connects find a session however many
  /// peers come.
  uint32_t own_places = 8'192;
  /// Maximum number of accepted sessions that have not yet proven their identity. For one more, an old one is dropped.
  uint32_t greetings_max = 128;
  int64_t greeting_timeout_ns = 5 * runtime::kNanosPerSecond;
  /// Packets of each message that a peer may send before it was granted any: 1..1024.
  uint16_t unasked_packets = 16;
  /// Maximum number of packets of a long message that may be in flight.
  uint32_t grant_window = 64;
  /// Number of long messages that are granted packets at a time.
  uint32_t granted_messages = 8;
  /// Maximum number of calls in one slot of a session. Then the session ends and another one begins with other keys: a
  /// sequence number that was used before would admit a packet that was recorded under it.
  uint32_t slot_calls_max = UINT32_MAX - 1;
  /// Number of packets with a wrong seal after which a session ends. It bounds how many guesses an attacker has to find
  /// a right seal.
  uint64_t unproven_max = 1 << 20;
  /// Whether packets carry a MAC. They also carry one if only the peer wants it.
  bool wants_seal = true;
  /// From which length on chunks are sent from where they are, and how many pieces an Ethernet frame may have.
  GatherLimits gather = {.entries_max = 32};
  /// Silence after which a session is closed, while something is expected of the peer.
  int64_t silence_close_ns = 2 * runtime::kNanosPerSecond;
  /// Silence after which the peer is probed, and interval of further probes, while something is expected of the peer.
  int64_t silence_probe_ns = 50 * runtime::kNanosPerMilli;
  /// Silence after which the peer of an idle session is probed. An idle session is closed after four times this
  /// silence; one that was accepted from a client, after 120 s.
  int64_t idle_probe_ns = 5 * runtime::kNanosPerSecond;
  /// Maximum time for which a message borrows bytes. Then they are copied, unless the port is about to read them.
  int64_t borrowed_ns_max = 100 * runtime::kNanosPerMilli;
  /// Maximum number of bytes in our own memory that may wait for one session: message heads and copies of borrowed
  /// bytes. Beyond it the session is closed.
  uint64_t stall_bytes_max = 64 * 1024 * 1024;
  /// Time after which a session is closed if a message that arrives gets no further although its sender may send, or if
  /// the peer says nothing of an answer that was sent to it.
  int64_t stall_close_ns = 10 * runtime::kNanosPerSecond;
  /// Time after which such a message counts as stalled while memory is short. Then the client session that holds most
  /// bytes in stalled messages is closed.
  int64_t stall_evict_ns = 1 * runtime::kNanosPerSecond;
  /// Maximum number of bytes in blocks of received messages and in our own memory that waits for peers (see
  /// stall_bytes_max), in all sessions together. Beyond it, messages of several packets from clients are not accepted.
  /// If what waits for peers alone exceeds it, the session that leaves the most bytes unread is closed.
  uint64_t held_bytes_max = 256 * 1024 * 1024;
  /// The longest sleep of a thread whose ports do not wake it. A packet that arrives meanwhile waits until the sleep
  /// ends.
  int64_t nap_ns_max = 1 * runtime::kNanosPerMilli;
};

/// What an endpoint needs from its process. All borrowed.
struct DatagramContext {
  runtime::Clock& clock;
  runtime::Entropy& entropy;
  Trace& trace;
  /// Ends the next sleep of the thread at this time at the latest. May be empty where no thread sleeps.
  std::function<void(int64_t)> wake_by;
};

}  // namespace ramcore::transport::datagram
