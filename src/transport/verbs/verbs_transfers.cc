// Messages that fit no receive buffer: the side that was connected to reads requests from where the other one announced
// them, and writes answers to the place that the other one gives. And how long bytes may be lent meanwhile.
#include <algorithm>
#include <cstring>

#include "transport/chunk_copy.h"
#include "transport/verbs/verbs_endpoint.h"
#include "wire/frame.h"

namespace ramcore::transport::verbs {

// ---- requests

// The request is copied to a place of its own, which the peer may read: the log, where chunks stand, is nobody's to
// read.
Status VerbsEndpoint::offerRequest(Session& session, TxMessage& request, wire::VerbsHeader header, PendingCall& call,
                                   const CallOptions& options) {
  std::unique_ptr<Place> place = places_.take(header.message_bytes);
  if (place == nullptr) {
    complaints_.complain("no memory can be registered for a request of " + std::to_string(header.message_bytes) +
                         " bytes; raise 'ulimit -l'");
    return Status::RetryLater;
  }
  beginCall(*session.channel, header, call, options);
  std::byte* to = place->bytes;
  std::memcpy(to, request->head, request->head_bytes);
  to += request->head_bytes;
  for (uint32_t i = 0; i < request->chunk_count; ++i) {
    const Chunk& chunk = request->chunks[i];
    if (chunk.bytes != 0) std::memcpy(to, chunk.address, chunk.bytes);
    to += chunk.bytes;
  }
  send_counts_.payload_bytes += header.message_bytes;
  send_counts_.chunks_copied += request->chunk_count;
  request = TxMessage();
  const wire::VerbsPiece piece{reinterpret_cast<uint64_t>(place->bytes), place->region->rkey, header.message_bytes};
  session.channel->own[call.slot].request = std::move(place);
  sendWord(session, header, wire::VerbsKind::RequestOffer, bytesOf(piece));
  return Status::Ok;
}

bool VerbsEndpoint::takeRequestOffer(Session& session, const wire::VerbsHeader& header, ByteSpan body) {
  Channel& channel = *session.channel;
  ServedTransfer& served = channel.served[header.slot];
  const size_t count = body.size() / sizeof(wire::VerbsPiece);
  if (!session.is_accepted || served.response || served.into != nullptr) return false;
  if (count == 0 || count > wire::kVerbsPiecesMax || body.size() != count * sizeof(wire::VerbsPiece)) return false;
  served.pieces.clear();
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    served.pieces.push_back(loadAs<wire::VerbsPiece>(body.data() + i * sizeof(wire::VerbsPiece)));
    bytes += served.pieces.back().bytes;
  }
  if (bytes != header.message_bytes || bytes == 0) return false;
  if (!channel.requests.begin(header.slot, header.sequence)) return false;
  served.request = header;
  if (!startRead(session, header.slot)) waiting_reads_.push_back(ReadyRead{session.id, header.slot});
  return true;
}

// False: no memory now. Only clients have to wait: what the cluster's own processes say may be what frees memory.
bool VerbsEndpoint::startRead(Session& session, uint16_t slot) {
  ServedTransfer& served = session.channel->served[slot];
  const uint64_t held_bytes = blocks_.lentLargeBytes() + copied_out_bytes_;
  if (session.is_bounded && held_bytes + served.request.message_bytes > options_.held_bytes_max) return false;
  served.into = blocks_.take(served.request.message_bytes);
  if (served.into == nullptr) {
    complaints_.complain("a request of " + std::to_string(served.request.message_bytes) + " bytes from " +
                         session.peer.address + " waits: no more memory can be registered; raise 'ulimit -l'");
    return false;
  }
  served.is_read = false;
  session.channel->queue.read(slot, *served.into, served.pieces);
  makeDirty(session);
  return true;
}

void VerbsEndpoint::startReads() {
  size_t kept = 0;
  for (size_t i = 0; i < waiting_reads_.size(); ++i) {
    const ReadyRead waiting = waiting_reads_[i];
    Session* session = findOpen(waiting.session);
    if (session == nullptr || startRead(*session, waiting.slot)) continue;
    waiting_reads_[kept++] = waiting;
  }
  waiting_reads_.resize(kept);
}

bool VerbsEndpoint::deliverRead(const ReadyRead& ready) {
  Session* session = findOpen(ready.session);
  if (session == nullptr) return false;
  ServedTransfer& served = session->channel->served[ready.slot];
  Block* const block = std::exchange(served.into, nullptr);
  served.is_read = false;
  const wire::VerbsHeader& header = served.request;
  RxMessage message(ByteSpan(block->bytes(), header.message_bytes), {}, &read_messages_,
                    reinterpret_cast<uint64_t>(block));
  message.reply_to = ReplyTo{session->id, header.sequence, header.slot, header.response_bytes_max};
  message.priority = static_cast<runtime::Priority>(header.priority);
  requests_.push_back(std::move(message));
  return true;
}

// ---- responses

void VerbsEndpoint::offerResponse(Session& session, const wire::VerbsHeader& header, TxMessage response) {
  if (!session.is_accepted) {
    return loseLater(session,
                     "an answer of " + std::to_string(header.message_bytes) +
                         " bytes to the side that was connected to, which starts all transfers",
                     false);
  }
  ServedTransfer& served = session.channel->served[header.slot];
  served.response = std::move(response);
  served.response_header = header;
  served.response_since_ns = context_.clock.nowNs();
  sendWord(session, header, wire::VerbsKind::ResponseOffer, {});
  watch(session);
}

bool VerbsEndpoint::takeResponseOffer(Session& session, const wire::VerbsHeader& header) {
  Channel& channel = *session.channel;
  if (session.is_accepted || !channel.calls.isOut(header.slot, header.sequence)) return false;
  OwnTransfer& own = channel.own[header.slot];
  if (own.response != nullptr || header.message_bytes == 0 || header.message_bytes > own.response_bytes_max)
    return false;
  if (own.request != nullptr) places_.drop(std::move(own.request));
  own.response = places_.take(header.message_bytes);
  if (own.response == nullptr) {
    loseLater(session,
              "no memory can be registered for an answer of " + std::to_string(header.message_bytes) +
                  " bytes; raise 'ulimit -l'",
              false);
    return true;
  }
  own.response_bytes = header.message_bytes;
  const wire::VerbsPiece place{reinterpret_cast<uint64_t>(own.response->bytes), own.response->region->rkey,
                               header.message_bytes};
  sendWord(session, header, wire::VerbsKind::ResponsePlace, bytesOf(place));
  return true;
}

bool VerbsEndpoint::takeResponsePlace(Session& session, const wire::VerbsHeader& header, ByteSpan body) {
  ServedTransfer& served = session.channel->served[header.slot];
  if (!session.is_accepted || !served.response || body.size() != sizeof(wire::VerbsPiece)) return false;
  const auto place = loadAs<wire::VerbsPiece>(body.data());
  if (header.sequence != served.response_header.sequence || place.bytes < served.response_header.message_bytes) {
    return false;
  }
  wire::VerbsHeader written = served.response_header;
  written.kind = wire::VerbsKind::ResponseWritten;
  session.channel->queue.write(written, std::move(served.response), place);
  makeDirty(session);
  return true;
}

bool VerbsEndpoint::takeResponseWritten(Session& session, const wire::VerbsHeader& header) {
  Channel& channel = *session.channel;
  OwnTransfer& own = channel.own[header.slot];
  if (session.is_accepted || own.response == nullptr || !channel.calls.isOut(header.slot, header.sequence) ||
      header.message_bytes != own.response_bytes) {
    return false;
  }
  RxMessage message = places_.lend(std::move(own.response), header.message_bytes, header.head_bytes);
  finishCall(session, header, std::move(message));
  return true;
}

// ---- lent bytes

void VerbsEndpoint::watch(Session& session) {
  if (std::exchange(session.is_watched, true)) return;
  watched_.push_back(session.id);
  rounds_to_house_ = std::min<uint32_t>(rounds_to_house_, 256);
}

void VerbsEndpoint::checkLending(int64_t now_ns) {
  size_t kept = 0;
  copied_out_bytes_ = 0;
  for (size_t i = 0; i < watched_.size(); ++i) {
    Session* session = findOpen(watched_[i]);
    if (session == nullptr) continue;
    session->is_watched = checkLending(*session, now_ns);
    if (session->is_watched) watched_[kept++] = watched_[i];
  }
  watched_.resize(kept);
}

// False if nothing of the session waits any more.
bool VerbsEndpoint::checkLending(Session& session, int64_t now_ns) {
  Channel& channel = *session.channel;
  const int64_t overdue_ns = now_ns - options_.lent_ns_max;
  const int64_t stalled_ns = now_ns - options_.stall_close_ns;
  uint64_t bytes = 0;
  uint64_t waiting_count = 0;
  bool stands_still = channel.queue.oldestPostedLentNs() <= stalled_ns;
  for (ServedTransfer& served : channel.served) {
    if (!served.response) continue;
    ++waiting_count;
    stands_still = stands_still || served.response_since_ns <= stalled_ns;
    if (holdsLent(*served.response) && served.response->lent_since_ns <= overdue_ns) {
      chunk_copies.replaceAll(*served.response, false);
      ++lending_counts_.messages_copied_out;
    }
    if (!holdsLent(*served.response)) bytes += served.response_header.message_bytes;
  }
  if (stands_still) {
    loseLater(session, "it takes nothing of what we send", false);
    return false;
  }
  if (channel.queue.oldestWaitingLentNs() <= overdue_ns) {
    lending_counts_.messages_copied_out += channel.queue.copyOutWaiting(overdue_ns, options_.stall_bytes_max, bytes);
  }
  copied_out_bytes_ += bytes;
  if (bytes > options_.stall_bytes_max || copied_out_bytes_ > options_.held_bytes_max) {
    ++lending_counts_.sessions_dropped;
    complaints_.complain("closing the session with " + session.peer.address + ": it leaves " + std::to_string(bytes) +
                         " bytes of answers unread, too many to copy them out of the log, which they would keep from" +
                         " being freed");
    loseLater(session, "it leaves too many bytes unread", false);
    return false;
  }
  return waiting_count != 0 || channel.queue.hasWaiting() || channel.queue.oldestPostedLentNs() != runtime::kNever;
}

int64_t VerbsEndpoint::nextLendingNs() const {
  int64_t next_ns = runtime::kNever;
  const auto note = [&](int64_t since_ns, int64_t patience_ns) {
    if (since_ns != runtime::kNever) next_ns = std::min(next_ns, since_ns + patience_ns);
  };
  for (const SessionId id : watched_) {
    const Session* session = findOpen(id);
    if (session == nullptr) continue;
    note(session->channel->queue.oldestWaitingLentNs(), options_.lent_ns_max);
    note(session->channel->queue.oldestPostedLentNs(), options_.stall_close_ns);
    for (const ServedTransfer& served : session->channel->served) {
      if (!served.response) continue;
      note(served.response_since_ns, options_.stall_close_ns);
      if (holdsLent(*served.response)) note(served.response->lent_since_ns, options_.lent_ns_max);
    }
  }
  return next_ns;
}

}  // namespace ramcore::transport::verbs
