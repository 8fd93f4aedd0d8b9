#include "transport/sim/sim_sender.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "transport/memory/chunk_copy.h"
#include "transport/sim/sim_sessions.h"

namespace ramcore::transport {
namespace {

// How often a message whose receiver takes nothing is tried again.
constexpr int64_t kRetryNs = 1'000'000;

bool hasOwners(const TxBuffer& buffer) {
  return std::any_of(buffer.chunks.begin(), buffer.chunks.begin() + buffer.chunk_count,
                     [](const Chunk& chunk) { return chunk.owner != nullptr; });
}

}  // namespace

void SimSending::fire(Timer& timer) {
  SimSending& sending = static_cast<SimSending&>(timer);
  sending.sender.transmit(sending);
}

SimSending& SimSender::queue(TxMessage message) {
  SimSending& sending = unflushed_.emplace_back(*this);
  sending.self = std::prev(unflushed_.end());
  sending.message = std::move(message);
  sending.message->borrowed_since_ns = network_.scheduler().nowNs();
  return sending;
}

void SimSender::flush() {
  while (!unflushed_.empty()) {
    SimSending& sending = unflushed_.front();
    transmitting_.splice(transmitting_.end(), unflushed_, unflushed_.begin());
    last_transmit_ns_ = std::max(last_transmit_ns_ + 1, network_.scheduler().nowNs() + network_.drawNicDelay());
    network_.scheduler().at(sending, last_transmit_ns_);
  }
}

// The hardware reads the bytes: head, then chunks, where they are at this moment.
void SimSender::transmit(SimSending& sending) {
  const auto way = owner_.wayOf(sending.session);
  if (way && !network_.isRead(way->connection, way->end)) return waitForReader(sending);
  if (way) {
    const TxBuffer& buffer = *sending.message;
    SimFrameList one = network_.makeFrame({.kind = sending.kind,
                                           .from_end = way->end,
                                           .connection = way->connection,
                                           .slot = sending.slot,
                                           .sequence = sending.sequence,
                                           .priority = sending.priority,
                                           .response_bytes_max = sending.response_bytes_max});
    SimFrame& frame = one.front();
    frame.contiguous_bytes = buffer.contiguous_bytes != 0 ? buffer.contiguous_bytes : buffer.head_bytes;
    frame.bytes.reserve(sending.message.messageBytes());
    frame.bytes.insert(frame.bytes.end(), buffer.head, buffer.head + buffer.head_bytes);
    for (uint32_t i = 0; i < buffer.chunk_count; ++i) {
      const Chunk& chunk = buffer.chunks[i];
      frame.bytes.insert(frame.bytes.end(), chunk.address, chunk.address + chunk.bytes);
    }
    network_.send(std::move(one));
  }
  if (!hasOwners(*sending.message)) {
    transmitting_.erase(sending.self);  // nobody waits for the release
    return;
  }
  sent_.splice(sent_.end(), transmitting_, sending.self);
  if (wake_) wake_();
}

void SimSender::waitForReader(SimSending& sending) {
  const int64_t now_ns = network_.scheduler().nowNs();
  if (holdsBorrowed(*sending.message) &&
      now_ns - sending.message->borrowed_since_ns >= network_.options().borrowed_ns_max) {
    sending.is_overdue = true;
    has_overdue_ = true;
    if (wake_) wake_();  // owners are told in poll()
  }
  network_.scheduler().at(sending, now_ns + kRetryNs);
}

void SimSender::copyOutOverdue() {
  if (!std::exchange(has_overdue_, false)) return;
  for (SimSending& sending : transmitting_) {
    if (!std::exchange(sending.is_overdue, false) || !owner_.wayOf(sending.session)) continue;
    if (copyOut(sending)) {
      ++borrowed_counts_.messages_copied_out;
    } else {
      ++borrowed_counts_.sessions_dropped;
      owner_.closeUnread(sending.session);
    }
  }
}

// False if the session would have more in copies than it may.
bool SimSender::copyOut(SimSending& sending) {
  uint64_t bytes = 0;
  for (const SimSending& other : transmitting_) {
    if (!(other.session == sending.session)) continue;
    for (uint32_t i = 0; i < other.message->chunk_count; ++i) {
      const Chunk& chunk = other.message->chunks[i];
      if (&other == &sending || chunk.owner == &chunk_copies) bytes += chunk.bytes;
    }
  }
  if (bytes > network_.options().unread_bytes_max) return false;
  chunk_copies.replaceAll(*sending.message, false);
  return true;
}

void SimSender::releaseSent() {
  if (sent_.empty()) return;
  std::list<SimSending> done;
  done.swap(sent_);
  done.clear();
}

void SimSender::keepUnowned(SessionId session, const PendingCall& call) {
  keepUnowned(unflushed_, session, call);
  keepUnowned(transmitting_, session, call);
}

// The caller guarantees bytes without an owner only until its call completes. It does not wait any more, so they are
// copied.
void SimSender::keepUnowned(std::list<SimSending>& list, SessionId id, const PendingCall& call) {
  for (SimSending& sending : list) {
    if (sending.kind != SimFrameKind::Request || !(sending.session == id) || sending.slot != call.slot) continue;
    TxBuffer& buffer = *sending.message;
    for (uint32_t i = 0; i < buffer.chunk_count; ++i) {
      Chunk& chunk = buffer.chunks[i];
      if (chunk.owner != nullptr || chunk.bytes == 0) continue;
      sending.copies.emplace_back(chunk.address, chunk.address + chunk.bytes);
      chunk.address = sending.copies.back().data();
    }
  }
}

}  // namespace ramcore::transport
