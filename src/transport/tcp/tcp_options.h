#pragma once

#include <cstdint>

#include "base/trace.h"
#include "runtime/clock.h"
#include "runtime/random.h"
#include "transport/tcp/asio_sleeper.h"
#include "transport/transport.h"

namespace ramcore::transport::tcp {

struct TcpOptions {
  /// Calls in flight on one session, 1..wire::kSlotCountMax. The smaller of both sides' counts holds.
  uint16_t slots_per_session = 64;
  /// Values of an answer from this length on are borrowed instead of copied into its head
  /// (Limits::zero_copy_bytes_min).
  uint32_t zero_copy_bytes_min = Limits().zero_copy_bytes_min;
  /// Sessions of an endpoint; more are refused.
  uint32_t sessions_max = 16 * 1024;
  /// Accepted connections that have not yet proven who they are; for one more an old one is dropped.
  uint32_t handshakes_max = 128;
  /// How long an accepted connection may take to prove who it is.
  int64_t handshake_timeout_ns = 5 * runtime::kNanosPerSecond;
  /// Nothing more is read from a session while it leaves more than this many bytes of our answers unread.
  uint64_t unsent_bytes_max = 1024 * 1024;
  /// How long a session may leave bytes unread before they are copied out of the memory they were borrowed from.
  int64_t stall_copy_ns = 20 * runtime::kNanosPerMilli;
  /// How long at most bytes are borrowed by a message, however well the session gets on: what has not left by then is
  /// copied. Longer: fewer copies for peers on slow links. Shorter: their owner has the memory back sooner.
  int64_t borrowed_ns_max = 100 * runtime::kNanosPerMilli;
  /// How long a session that leaves bytes unread, or does not send the rest of a message, may make no progress before
  /// it is closed. Less than Progress::kProgressBytesMin in this time is no progress. Longer: survives longer stalls of
  /// the network. Shorter: frees memory sooner.
  int64_t stall_close_ns = 10 * runtime::kNanosPerSecond;
  /// Maximum number of bytes that may wait, copied out, for one session. Beyond it the session is closed.
  uint64_t stall_bytes_max = 64 * 1024 * 1024;
  /// Maximum number of bytes that all sessions of an endpoint may make it hold: messages that are not yet whole or in
  /// service, and bytes that wait to be sent. Beyond it nothing more is read from clients, and a client that makes no
  /// progress is closed (stall_evict_ns). More: more large messages at once.
  uint64_t held_bytes_max = 256 * 1024 * 1024;
  /// How long a client may stand still while held_bytes_max is used up, before the one that holds most is closed.
  int64_t stall_evict_ns = 100 * runtime::kNanosPerMilli;
  /// Bytes the kernel may hold for a socket to send; 0 = the system's default. Tests make it small.
  int32_t kernel_send_bytes = 0;
};

/// What endpoints need from their thread. All borrowed; outlives the endpoints.
struct TcpContext {
  runtime::Clock& clock;
  runtime::Entropy& entropy;
  Trace& trace;
  AsioSleeper& sleeper;
};

}  // namespace ramcore::transport::tcp
