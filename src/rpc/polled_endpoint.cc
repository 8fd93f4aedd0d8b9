#include "rpc/polled_endpoint.h"

namespace ramcore::rpc {

void PolledEndpoint::publishCounts() {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  counts_.sessions.store(endpoint_.sessionCount(), kRelaxed);
  counts_.bad_sessions.store(endpoint_.badSessionCount(), kRelaxed);
  const transport::BorrowedCounts borrowing = endpoint_.borrowedCounts();
  counts_.messages_copied_out.store(borrowing.messages_copied_out, kRelaxed);
  counts_.sessions_dropped.store(borrowing.sessions_dropped, kRelaxed);
  const transport::SendCounts sent = endpoint_.sendCounts();
  counts_.payload_bytes.store(sent.payload_bytes, kRelaxed);
  counts_.gathered_bytes.store(sent.gathered_bytes, kRelaxed);
  counts_.chunks_gathered.store(sent.chunks_gathered, kRelaxed);
  counts_.long_chunks_copied.store(sent.long_chunks_copied, kRelaxed);
  const transport::PacketCounts packets = endpoint_.packetCounts();
  counts_.packets_sent.store(packets.sent, kRelaxed);
  counts_.packets_resent.store(packets.resent, kRelaxed);
  counts_.packet_copies.store(packets.copies, kRelaxed);
  counts_.packets_unproven.store(packets.unproven, kRelaxed);
  counts_.registered_bytes.store(endpoint_.registeredBytes(), kRelaxed);
}

}  // namespace ramcore::rpc
