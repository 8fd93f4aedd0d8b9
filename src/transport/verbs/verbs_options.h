#pragma once

#include <cstdint>
#include <string>

#include "base/trace.h"
#include "runtime/clock.h"
#include "runtime/random.h"
#include "transport/gather/gather_calibration.h"
#include "transport/os/epoll_sleeper.h"
#include "transport/transport.h"

namespace ramcore::transport::verbs {

struct VerbsOptions {
  /// Device, port and address to use: as a locator's options `device`, `port`, `gid`; what is empty is chosen.
  std::string device;
  uint8_t port = 0;
  int gid_index = -1;
  /// Numeric address that others reach this process at: the device that has it is chosen.
  std::string host;
  /// For the packets that are sent: the traffic class in the header of IP (RoCE), and the service level, 0..15.
  uint8_t traffic_class = 0;
  uint8_t service_level = 0;

  /// Calls in flight on one session, 1..wire::kSlotCountMax. The smaller of both sides' counts holds.
  uint16_t slots_per_session = 64;
  /// Sessions of an endpoint; more are refused. The device may take fewer.
  uint32_t sessions_max = 4096;
  /// Receive buffers of 16 KB of an endpoint, at most. Each session has as many as it has slots; beyond this number
  /// sessions share them, and senders wait in their adapters while none is free. More: more sessions that are busy at
  /// once.
  uint32_t receive_buffers_max = 4096;
  /// Accepted connections that have not yet proven who they are; for one more an old one is dropped.
  uint32_t greetings_max = 128;
  /// How long an accepted connection may take to prove who it is.
  int64_t greeting_timeout_ns = 5 * runtime::kNanosPerSecond;
  /// Chunks shorter than this are copied together with the head (GatherLimits).
  uint32_t copy_below_bytes = 256;
  /// Messages of up to this many bytes leave inside the descriptor, if the device takes as much.
  uint32_t inline_bytes = 256;
  /// Entries of one send, head included, if the device takes as many; at least 2.
  uint32_t entries_max = TxBuffer::kChunkCountMax + 1;
  /// On which devices memory windows, if there are any, open the memory of a transfer to one queue pair only. The
  /// driver of software devices has windows, but does not survive a peer that closes one of them twice (docs/rdma.md).
  enum class Windows : uint8_t { Nowhere, OnAdapters, Everywhere };
  Windows windows = Windows::OnAdapters;
  /// What was measured on this machine; what it says about the device takes the place of copy_below_bytes, inline_bytes
  /// and entries_max.
  GatherCalibration calibration;
  /// How long at most bytes are borrowed by a message that waits; then they are copied. Bytes that the adapter has are
  /// waited for, up to stall_close_ns.
  int64_t borrowed_ns_max = 100 * runtime::kNanosPerMilli;
  /// How long requests of clients may wait for memory before the client that holds most of it unread is closed; or, if
  /// there is none, the one whose request no memory can be registered for.
  int64_t stall_evict_ns = 1 * runtime::kNanosPerSecond;
  /// How long a session may stand still before it is closed.
  int64_t stall_close_ns = 10 * runtime::kNanosPerSecond;
  /// Maximum number of bytes that may wait, copied out, for one session. Beyond it the session is closed.
  uint64_t stall_bytes_max = 64 * 1024 * 1024;
  /// Maximum number of bytes that large messages of all sessions may take. Requests of clients beyond it wait where
  /// they are. While none are held, one message is let in whatever its length.
  uint64_t held_bytes_max = 256 * 1024 * 1024;
  /// Packets are sent again after 4.096 us x 2^this without an acknowledgement. If that happens too often
  /// (ConnectionTiming::retry_count), the session is lost. Larger: survives longer disturbances. Smaller: sooner known.
  /// 17: 0.5 s.
  uint8_t ack_timeout = 17;
};

/// What an endpoint needs from its process. All borrowed.
struct VerbsContext {
  runtime::Clock& clock;
  runtime::Entropy& entropy;
  Trace& trace;
  EpollSleeper* sleeper = nullptr;  ///< nullptr: the thread never sleeps
};

}  // namespace ramcore::transport::verbs
