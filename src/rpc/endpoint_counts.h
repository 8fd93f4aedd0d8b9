#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/number.h"

namespace ramcore::rpc {

/// The counts that an endpoint last had, published for other threads. kEndpointNumbers says what each of them means.
struct EndpointCounts {
  std::atomic<uint32_t> sessions{0};
  std::atomic<uint64_t> bad_sessions{0};
  std::atomic<uint64_t> messages_copied_out{0};  ///< see transport::BorrowedCounts
  std::atomic<uint64_t> sessions_dropped{0};     ///< see transport::BorrowedCounts
  std::atomic<uint64_t> payload_bytes{0};        ///< this and the next three: see transport::SendCounts
  std::atomic<uint64_t> gathered_bytes{0};
  std::atomic<uint64_t> chunks_gathered{0};
  std::atomic<uint64_t> long_chunks_copied{0};
  std::atomic<uint64_t> packets_sent{0};  ///< this and the next three: see transport::PacketCounts
  std::atomic<uint64_t> packets_resent{0};
  std::atomic<uint64_t> packet_copies{0};
  std::atomic<uint64_t> packets_unproven{0};
  std::atomic<uint64_t> registered_bytes{0};
};

/// The declaration of each count, in the order in which they are reported.
inline constexpr auto kEndpointNumbers = std::to_array<Number<EndpointCounts>>({
    gauge<&EndpointCounts::sessions>("ramcore_sessions", "Open sessions"),
    counter<&EndpointCounts::bad_sessions>(
        "ramcore_bad_sessions_total",
        "Sessions closed because of bytes that no honest peer sends, or that ended in the middle"),
    counter<&EndpointCounts::messages_copied_out>(
        "ramcore_pins_overdue_total",
        "Answers that a peer did not take in time, and that were copied so that they hold no memory of the log"),
    counter<&EndpointCounts::sessions_dropped>("ramcore_pin_sessions_dropped_total",
                                               "Sessions closed because they left more unread than is copied"),
    counter<&EndpointCounts::payload_bytes>("ramcore_sent_payload_bytes_total",
                                            "Bytes of messages given to hardware to send; 0 where the system sends",
                                            NumberUnit::Bytes),
    counter<&EndpointCounts::gathered_bytes>(
        "ramcore_sent_gathered_bytes_total",
        "Part of these: read by the hardware from where they are stored, and not copied", NumberUnit::Bytes),
    counter<&EndpointCounts::chunks_gathered>(
        "ramcore_sent_chunks_total", "Pieces of messages that the hardware has read from where they are stored"),
    counter<&EndpointCounts::long_chunks_copied>(
        "ramcore_sent_long_chunks_copied_total",
        "Pieces of messages that were copied although they are long enough to be read from where they are stored"),
    counter<&EndpointCounts::packets_sent>("ramcore_packets_sent_total",
                                           "Packets of transports that send lost ones again, copies included"),
    counter<&EndpointCounts::packets_resent>(
        "ramcore_packets_resent_total", "Packets that were sent again because nothing had said that they had arrived"),
    counter<&EndpointCounts::packet_copies>("ramcore_packets_copied_total",
                                            "Packets that arrived although what is in them had arrived already"),
    counter<&EndpointCounts::packets_unproven>(
        "ramcore_packets_unproven_total", "Packets whose seal or checksum was wrong: changed on the way, or forged"),
    gauge<&EndpointCounts::registered_bytes>(
        "ramcore_registered_bytes", "Memory registered with hardware for messages of all sessions", NumberUnit::Bytes),
});
static_assert(kEndpointNumbers.size() == fieldCount<EndpointCounts>(), "each count is declared");
static_assert(areSound(kEndpointNumbers));

}  // namespace ramcore::rpc
