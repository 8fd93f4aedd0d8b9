// Bounds on the memory that peers make a TcpEndpoint hold: parts of messages, requests in service, unread answers.
#include "transport/tcp/tcp_endpoint.h"

namespace ramcore::transport::tcp {

uint64_t TcpEndpoint::heldBytes() const { return blocks_.borrowedBytes() + unsent_bytes_; }

// Only clients have to wait: what the cluster's own processes say may be what frees memory. And only for new memory:
// what has its place may come in, and makes room when it is whole.
bool TcpEndpoint::mustWaitForMemory(const TcpSession& session) {
  const FrameReader& reader = session.channel->reader;
  const uint32_t wanted_bytes = reader.wantedBytes();
  if (heldBytes() + wanted_bytes <= options_.held_bytes_max) [[likely]]
    return false;
  if (!session.is_bounded || (reader.hasPart() && wanted_bytes == 0)) return false;
  is_short_of_memory_ = true;
  rounds_to_sleeper_ = 1;
  return true;
}

void TcpEndpoint::noteReception(TcpSession& session) {
  const FrameReader& reader = session.channel->reader;
  Reception& reception = session.reception;
  if (reception.is_going_on || !reader.hasPart()) return;
  reception.is_going_on = true;
  reception.message_count = reader.messageCount();
  reception.progress.begin(context_.clock.nowNs(), reader.receivedBytes());
  receiving_.push_back(session.id);
}

void TcpEndpoint::checkReceiving(int64_t now_ns) {
  size_t kept = 0;
  for (const SessionId id : receiving_) {
    TcpSession* session = findOpen(id);
    if (session == nullptr) continue;
    const FrameReader& reader = session->channel->reader;
    Reception& reception = session->reception;
    reception.is_going_on = reader.hasPart();
    if (!reception.is_going_on) continue;
    receiving_[kept++] = id;
    if (reception.message_count != reader.messageCount() || isReadPaused(*session) || mustWaitForMemory(*session)) {
      // Another message, or it is we who do not read.
      reception.message_count = reader.messageCount();
      reception.progress.begin(now_ns, reader.receivedBytes());
    }
    reception.progress.note(now_ns, reader.receivedBytes());
    if (now_ns - reception.progress.sinceNs() >= options_.stall_close_ns) {
      closeLater(*session, "it does not send the rest of its message", false);
    }
  }
  receiving_.resize(kept);
}

// The one that holds most and stands still gives way: whoever gets on will free memory.
void TcpEndpoint::evictStalled(int64_t now_ns) {
  TcpSession* worst = nullptr;
  uint64_t worst_bytes = 0;
  const auto look = [&](TcpSession* session, bool stands_still) {
    if (session == nullptr || !session->is_bounded || !stands_still) return;
    const uint64_t bytes = session->channel->queue.unsentBytes() + session->channel->reader.heldBytes();
    if (bytes <= worst_bytes) return;
    worst = session;
    worst_bytes = bytes;
  };
  for (const SessionId id : blocked_) {
    TcpSession* session = findOpen(id);
    look(session, session != nullptr && now_ns - session->sending.sinceNs() >= options_.stall_evict_ns);
  }
  for (const SessionId id : receiving_) {
    TcpSession* session = findOpen(id);
    look(session, session != nullptr && now_ns - session->reception.progress.sinceNs() >= options_.stall_evict_ns);
  }
  if (worst == nullptr) return;
  warnings_.warn("closing the session with " + worst->peer.address + ": memory for messages is used up, and " +
                 std::to_string(worst_bytes) + " bytes of it wait for this peer");
  closeLater(*worst, "it stands still and memory is short", false);
}

}  // namespace ramcore::transport::tcp
