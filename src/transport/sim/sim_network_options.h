#pragma once

#include <cstdint>

namespace ramcore::transport {

/// What the sessions of a simulated network are made of.
enum class SimMode : uint8_t {
  Stream,    ///< like tcp and shm: messages keep their order; one that cannot be delivered ends the session
  Datagram,  ///< like our own protocol on frames: each message is lost, delayed and overtaken for itself
  Mixed,     ///< each session is one or the other, by the seed
  /// The product's protocol over frames of a simulated switch, which loses, delays, copies and changes them. That a
  /// peer is gone is noticed only by its silence: sessions cannot be cut, and nothing is stalled.
  Frames,
};

/// The quiet part of the network. Times are drawn uniformly up to the bounds.
struct SimNetworkOptions {
  SimMode mode = SimMode::Mixed;
  int64_t latency_ns_min = 1'000;
  int64_t latency_ns_max = 20'000;
  int64_t ns_per_kilobyte = 100;  ///< of bandwidth
  int64_t nic_ns_max = 3'000;     ///< from flush() until the bytes have been read and owners can be released
  uint16_t slots_per_session = 32;
  /// How long at most bytes are borrowed by a message that waits because the node it goes to reads nothing.
  int64_t borrowed_ns_max = 100'000'000;
  /// Maximum number of bytes that may wait, copied, for one session whose peer reads nothing. Beyond it the session is
  /// closed.
  uint64_t unread_bytes_max = 64 * 1024 * 1024;
  /// How long a sender tries before it gives a session up: a stream whose messages are held by a partition, a datagram
  /// session whose lost message somebody still waits for.
  int64_t give_up_ns_min = 100'000'000;
  int64_t give_up_ns_max = 2'000'000'000;
};

/// Faults that happen by themselves, per message, in millionths.
struct SimFaultRates {
  uint32_t lose_ppm = 0;       ///< datagram: the message is gone. Stream: the session is cut
  uint32_t delay_ppm = 0;      ///< it arrives up to delay_ns_max later
  uint32_t reorder_ppm = 0;    ///< datagram: it arrives a little later, so that others overtake it
  uint32_t duplicate_ppm = 0;  ///< datagram: it arrives twice, the copy up to duplicate_ns_max later
  /// Datagram: it arrives up to late_ns_max later. Its caller cannot tell that from a loss and may give the session up
  /// before; in `lose_notice_ppm` of the cases the other end does not hear that, and takes the message when it comes.
  uint32_t late_ppm = 0;
  uint32_t lose_notice_ppm = 0;
  int64_t delay_ns_max = 20'000'000;
  int64_t late_ns_max = 3'000'000'000;
  int64_t duplicate_ns_max = 3'000'000'000;
};

/// What really happened, for the totals of a run.
struct SimFaultCounts {
  uint64_t sent = 0;     ///< messages, to compare with
  uint64_t lost = 0;     ///< by themselves
  uint64_t blocked = 0;  ///< lost or held because of a partition
  uint64_t delayed = 0;
  uint64_t late = 0;
  uint64_t given_up_late = 0;  ///< requests that arrived after their caller had given the session up
  uint64_t reordered = 0;      ///< arrived before one that was sent earlier on the same session
  uint64_t duplicated = 0;     ///< messages that were sent once and travelled twice
  uint64_t suppressed = 0;     ///< recognised by the receiver, by session or call number, and thrown away
  uint64_t changed = 0;        ///< frames of which a bit was turned over
  uint64_t partitions = 0;
  uint64_t cuts = 0;  ///< sessions ended by a fault
};

}  // namespace ramcore::transport
