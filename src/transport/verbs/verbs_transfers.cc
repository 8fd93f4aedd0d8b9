// Messages that fit no receive buffer: the side that was connected to reads requests from where the other one announced
// them, and writes answers to the place that the other one gives. And how long bytes may be borrowed meanwhile.
#include <algorithm>
#include <cstring>

#include "transport/memory/chunk_copy.h"
#include "transport/verbs/verbs_endpoint.h"
#include "wire/frame.h"

namespace ramcore::transport::verbs {

// What the peer has to know of a place. Where it has a window that is not bound yet, the request for that goes in front
// of the word that tells the peer: queue pairs begin nothing behind it before it is bound.
wire::VerbsPiece VerbsEndpoint::openPlace(Session& session, const std::shared_ptr<Place>& place, uint32_t bytes) {
  if (!std::exchange(place->is_open, true)) session.channel->queue.bind(place);
  return {reinterpret_cast<uint64_t>(place->bytes), place->key, bytes};
}

// ---- requests

// The request is copied to a place of its own, which the peer may read: the log, where chunks stand, is nobody's to
// read.
Status VerbsEndpoint::offerRequest(Session& session, TxMessage& request, wire::VerbsHeader header, PendingCall& call,
                                   const CallOptions& options) {
  auto taken = places_.take(header.message_bytes, session.channel->tag);
  if (!taken.ok()) {
    warnings_.warn("no place for a request of " + std::to_string(header.message_bytes) +
                   " bytes: " + taken.error().message);
    return Status::RetryLater;
  }
  std::shared_ptr<Place> place = std::move(taken).value();
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
  const wire::VerbsPiece piece = openPlace(session, place, header.message_bytes);
  session.channel->own[call.slot].request = std::move(place);
  sendControlPacket(session, header, wire::VerbsKind::RequestOffer, bytesOf(piece));
  return Status::Ok;
}

bool VerbsEndpoint::takeRequestOffer(Session& session, const VerbsMessage& offer) {
  const wire::VerbsHeader& header = offer.header;
  Channel& channel = *session.channel;
  ServedTransfer& served = channel.served[header.slot];
  if (!session.is_accepted || served.response || served.into != nullptr) return false;
  if (!decodeOffer(offer, served.pieces)) return false;
  if (!channel.requests.begin(header.slot, header.sequence)) return false;
  served.request = header;
  const bool waits_in_line = session.is_bounded && !waiting_reads_.empty();
  if (waits_in_line || startRead(session, header.slot) != ReadStart::Begun) waitForMemory(session, header.slot);
  return true;
}

void VerbsEndpoint::waitForMemory(const Session& session, uint16_t slot) {
  if (waiting_reads_.empty()) reads_wait_since_ns_ = last_timeouts_ns_;
  const auto behind =
      session.is_bounded ? waiting_reads_.end() : std::ranges::find_if(waiting_reads_, &WaitingRead::is_bounded);
  waiting_reads_.insert(behind, WaitingRead{session.id, slot, session.is_bounded});
}

// Only clients have to wait for the bound: what the cluster's own processes say may be what frees memory. One message
// is let in whatever the bound is, or one that is longer than that would wait for ever, and all others behind it.
VerbsEndpoint::ReadStart VerbsEndpoint::startRead(Session& session, uint16_t slot) {
  ServedTransfer& served = session.channel->served[slot];
  const uint64_t read_bytes = read_messages_.held_bytes.load(std::memory_order_relaxed);
  const uint64_t held_bytes = read_bytes + receives_.copiedBytes() + copied_out_bytes_;
  if (session.is_bounded && read_bytes != 0 && held_bytes + served.request.message_bytes > options_.held_bytes_max) {
    return ReadStart::BeyondBound;
  }
  served.into = blocks_.take(served.request.message_bytes);
  if (served.into == nullptr) return ReadStart::NoMemory;
  served.into_bytes = served.into->capacity;
  read_messages_.held_bytes.fetch_add(served.into_bytes, std::memory_order_relaxed);
  served.is_read = false;
  session.channel->queue.read(slot, *served.into, served.pieces);
  makeDirty(session);
  return ReadStart::Begun;
}

void VerbsEndpoint::startReads() {
  while (!waiting_reads_.empty()) {
    WaitingRead& first = waiting_reads_.front();
    Session* session = findOpen(first.session);
    const ReadStart start = session != nullptr ? startRead(*session, first.slot) : ReadStart::Begun;
    if (start != ReadStart::Begun) {
      if (start == ReadStart::BeyondBound) first.refused_since_ns.reset();
      if (start == ReadStart::NoMemory && !first.refused_since_ns) first.refused_since_ns = last_timeouts_ns_;
      break;
    }
    waiting_reads_.pop_front();
    reads_wait_since_ns_ = last_timeouts_ns_;
  }
  if (waiting_reads_.empty() || last_timeouts_ns_ - reads_wait_since_ns_ < options_.stall_evict_ns) return;
  reads_wait_since_ns_ = last_timeouts_ns_;
  if (!evictStalled()) giveUpFirstRead();
}

// What is beyond the bound waits for those who have the memory. But what the system or the device refuses may be
// refused for ever, and others wait behind it.
void VerbsEndpoint::giveUpFirstRead() {
  const WaitingRead& first = waiting_reads_.front();
  Session* session = findOpen(first.session);
  if (session == nullptr || !first.refused_since_ns ||
      last_timeouts_ns_ - *first.refused_since_ns < options_.stall_evict_ns) {
    return;
  }
  const uint32_t bytes = session->channel->served[first.slot].request.message_bytes;
  warnings_.warn("closing the session with " + session->peer.address +
                 ": no memory can be registered for a request of " + std::to_string(bytes) +
                 " bytes, and others wait behind it; raise the limit of locked memory (ulimit -l; LimitMEMLOCK= "
                 "of systemd)");
  closeLater(*session, "no memory can be registered for what it announced", false);
}

// The one that makes us hold most for what it lets us not read gives way: whoever gets on will free memory. False:
// there is none.
bool VerbsEndpoint::evictStalled() {
  Session* worst = nullptr;
  uint64_t worst_bytes = 0;
  sessions_.forEach([&](Session& session) {
    if (session.state != Session::State::Open || !session.is_bounded) return;
    uint64_t bytes = 0;
    for (const ServedTransfer& served : session.channel->served) {
      if (served.into != nullptr && !served.is_read) bytes += served.into_bytes;
    }
    if (bytes <= worst_bytes) return;
    worst = &session;
    worst_bytes = bytes;
  });
  if (worst == nullptr) return false;
  warnings_.warn("closing the session with " + worst->peer.address + ": memory for messages is used up, and " +
                 std::to_string(worst_bytes) + " bytes of it wait for what this peer has announced");
  closeLater(*worst, "it stands still and memory is short", false);
  return true;
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
    return closeLater(session,
                      "an answer of " + std::to_string(header.message_bytes) +
                          " bytes to the side that was connected to, which starts all transfers",
                      false);
  }
  ServedTransfer& served = session.channel->served[header.slot];
  served.response = std::move(response);
  served.response_header = header;
  served.response_since_ns = context_.clock.nowNs();
  ++session.channel->responses_waiting;
  sendControlPacket(session, header, wire::VerbsKind::ResponseOffer, {});
  watch(session);
}

bool VerbsEndpoint::takeResponseOffer(Session& session, const wire::VerbsHeader& header) {
  Channel& channel = *session.channel;
  if (session.is_accepted || !channel.calls.isOut(header.slot, header.sequence)) return false;
  OwnTransfer& own = channel.own[header.slot];
  if (own.response != nullptr || header.message_bytes == 0 || header.message_bytes > own.response_bytes_max)
    return false;
  if (own.request != nullptr) places_.drop(std::move(own.request));
  auto taken = places_.take(header.message_bytes, channel.tag);
  if (!taken.ok()) {
    closeLater(session,
               "no place for an answer of " + std::to_string(header.message_bytes) + " bytes: " + taken.error().message,
               false);
    return true;
  }
  own.response = std::move(taken).value();
  own.response_bytes = header.message_bytes;
  const wire::VerbsPiece place = openPlace(session, own.response, header.message_bytes);
  sendControlPacket(session, header, wire::VerbsKind::ResponsePlace, bytesOf(place));
  return true;
}

bool VerbsEndpoint::takeResponsePlace(Session& session, const VerbsMessage& word) {
  ServedTransfer& served = session.channel->served[word.header.slot];
  if (!session.is_accepted || !served.response) return false;
  const auto place = decodePlace(word, served.response_header.message_bytes);
  if (!place || word.header.sequence != served.response_header.sequence) return false;
  wire::VerbsHeader written = served.response_header;
  written.kind = wire::VerbsKind::ResponseWritten;
  --session.channel->responses_waiting;
  session.channel->queue.write(written, std::move(served.response), *place);
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
  RxMessage message = places_.borrow(std::move(own.response), header.message_bytes, header.head_bytes);
  finishCall(session, header, std::move(message));
  return true;
}

// ---- borrowed bytes

void VerbsEndpoint::watch(Session& session) {
  if (std::exchange(session.is_watched, true)) return;
  watched_.push_back(session.id);
  rounds_to_timeouts_ = std::min<uint32_t>(rounds_to_timeouts_, 256);
}

void VerbsEndpoint::checkBorrowed(int64_t now_ns) {
  size_t kept = 0;
  copied_out_bytes_ = 0;
  for (size_t i = 0; i < watched_.size(); ++i) {
    Session* session = findOpen(watched_[i]);
    if (session == nullptr) continue;
    session->is_watched = checkBorrowed(*session, now_ns);
    if (session->is_watched) watched_[kept++] = watched_[i];
  }
  watched_.resize(kept);
}

// What waits to be sent, and to be asked for.
WaitingBytes VerbsEndpoint::waitingBytes(const Channel& channel, int64_t borrowed_by_ns) {
  WaitingBytes found;
  if (channel.queue.hasWaiting()) found = channel.queue.waitingBytes(borrowed_by_ns);
  if (channel.responses_waiting == 0) return found;
  for (const ServedTransfer& served : channel.served) {
    if (served.response) found.add(served.response, borrowed_by_ns);
  }
  return found;
}

// The adapter does not get on with what it was given, or the peer asks for no answer that was announced. A few requests
// that end now and then are no progress.
bool VerbsEndpoint::standsStill(Channel& channel, int64_t now_ns) const {
  constexpr uint32_t kProgressMin = 16;
  const uint32_t completed = channel.queue.completedPosition();
  if (!channel.queue.awaitsCompletion() || completed - channel.seen_completed >= kProgressMin || channel.seen_ns == 0) {
    channel.seen_completed = completed;
    channel.seen_ns = now_ns;
  }
  if (now_ns - channel.seen_ns >= options_.stall_close_ns) return true;
  return channel.responses_waiting != 0 && std::ranges::any_of(channel.served, [&](const ServedTransfer& served) {
           return served.response && now_ns - served.response_since_ns >= options_.stall_close_ns;
         });
}

// False if nothing of the session waits any more, or it is given up.
bool VerbsEndpoint::checkBorrowed(Session& session, int64_t now_ns) {
  Channel& channel = *session.channel;
  if (standsStill(channel, now_ns)) {
    closeLater(session, "it takes nothing of what we send", false);
    return false;
  }
  const int64_t overdue_ns = now_ns - options_.borrowed_ns_max;
  const WaitingBytes waiting = waitingBytes(channel, overdue_ns);
  // Before anything is copied.
  if (waiting.own_bytes > options_.stall_bytes_max || copied_out_bytes_ + waiting.own_bytes > options_.held_bytes_max) {
    ++borrowed_counts_.sessions_dropped;
    warnings_.warn(
        "closing the session with " + session.peer.address + ": it leaves " + std::to_string(waiting.own_bytes) +
        " bytes of answers unread, too many to copy them out of the log, which they would keep from" + " being freed");
    closeLater(session, "it leaves too many bytes unread", false);
    return false;
  }
  copied_out_bytes_ += waiting.own_bytes;
  if (waiting.is_overdue) {
    borrowed_counts_.messages_copied_out += channel.queue.copyOutWaiting(overdue_ns);
    for (ServedTransfer& served : channel.served) {
      if (!served.response || served.response->borrowed_since_ns > overdue_ns || !holdsBorrowed(*served.response))
        continue;
      chunk_copies.replaceAll(*served.response, false);
      ++borrowed_counts_.messages_copied_out;
    }
  }
  return channel.responses_waiting != 0 || channel.queue.hasWaiting() || channel.queue.awaitsCompletion();
}

int64_t VerbsEndpoint::nextBorrowedNs() const {
  int64_t next_ns = runtime::kNever;
  for (const SessionId id : watched_) {
    const Session* session = findOpen(id);
    if (session == nullptr) continue;
    const Channel& channel = *session->channel;
    // None is overdue by the beginning of time: all that are borrowed count.
    const WaitingBytes waiting = waitingBytes(channel, INT64_MIN);
    if (waiting.oldest_borrowed_ns != INT64_MAX)
      next_ns = std::min(next_ns, waiting.oldest_borrowed_ns + options_.borrowed_ns_max);
    next_ns = std::min(next_ns, channel.seen_ns + options_.stall_close_ns);
  }
  return next_ns;
}

}  // namespace ramcore::transport::verbs
