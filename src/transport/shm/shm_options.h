#pragma once

#include <cstdint>

#include "base/trace.h"
#include "runtime/clock.h"
#include "runtime/random.h"
#include "transport/os/epoll_sleeper.h"
#include "transport/transport.h"

namespace ramcore::transport::shm {

struct ShmOptions {
  /// Length of each of the two rings of a session that this side accepts; a power of two. Larger: bursts and long
  /// messages wait less for the reader. Smaller: less memory a session, and it stays in the caches.
  uint32_t ring_bytes = 256 * 1024;
  /// Calls in flight on one session, 1..wire::kSlotCountMax. The smaller of both sides' counts holds.
  uint16_t slots_per_session = 64;
  /// Values of an answer from this length on are borrowed instead of copied into its head
  /// (Limits::zero_copy_bytes_min).
  uint32_t zero_copy_bytes_min = Limits().zero_copy_bytes_min;
  /// Sessions that an endpoint accepts; more are closed at once.
  uint32_t sessions_max = 4096;
  /// Accepted connections that have not yet proven who they are.
  uint32_t greetings_max = 64;
  /// How long an accepted connection may take for the handshake.
  int64_t greeting_timeout_ns = 5 * runtime::kNanosPerSecond;
  /// How long a peer may leave its full ring unread before what waits for it is copied out of the log.
  int64_t stall_copy_ns = 10 * runtime::kNanosPerMilli;
  /// How long at most bytes are borrowed by a message, however well the peer reads: what is not in the ring by then is
  /// copied.
  int64_t borrowed_ns_max = 100 * runtime::kNanosPerMilli;
  /// How long a peer that leaves its ring full, or does not send the rest of a message, may make no progress before the
  /// session is closed. Less than Progress::kProgressBytesMin in this time is no progress.
  int64_t stall_close_ns = 5 * runtime::kNanosPerSecond;
  /// Maximum number of bytes that may wait, copied out, for one peer. Beyond it the session is closed.
  uint64_t stall_bytes_max = 32 * 1024 * 1024;
  /// Maximum number of bytes that all sessions of an endpoint may make it hold: messages of 4 KB and more that are not
  /// yet whole or in service, and messages that wait for room in rings. Beyond it no such message of a client is begun,
  /// and a client that makes no progress is closed (stall_evict_ns).
  uint64_t held_bytes_max = 256 * 1024 * 1024;
  /// How long a client may stand still while held_bytes_max is used up, before the one that holds most is closed.
  int64_t stall_evict_ns = 100 * runtime::kNanosPerMilli;
};

/// What an endpoint needs from its process. All borrowed.
struct ShmContext {
  runtime::Clock& clock;
  runtime::Entropy& entropy;
  Trace& trace;
  EpollSleeper* sleeper = nullptr;  ///< nullptr: the thread never sleeps
};

}  // namespace ramcore::transport::shm
