#include "transport/verbs/verbs_transfers.h"

#include <cstring>
#include <utility>

#include "transport/session/stalls.h"

namespace ramcore::transport::verbs {

// Returns what the peer has to know of a place. If the place has a window that is not bound yet, the request for that
// goes in front of the control packet that tells the peer: queue pairs begin no later request before the window is
// bound.
wire::VerbsPiece VerbsTransfers::openPlace(Session& session, const std::shared_ptr<Place>& place, uint32_t bytes) {
  if (!std::exchange(place->is_open, true)) session.channel->queue.bind(place);
  return {reinterpret_cast<uint64_t>(place->bytes), place->key, bytes};
}

// ---- requests

// The request is copied to a place of its own, which the peer may read: no peer may read the log, where chunks stand.
Status VerbsTransfers::offerRequest(Session& session, TxMessage& request, wire::VerbsHeader header, PendingCall& call,
                                    const CallOptions& options) {
  auto taken = parts_.memory.places.take(header.message_bytes, session.channel->tag);
  if (!taken.ok()) {
    parts_.sessions.warnings().warn("no place for a request of " + std::to_string(header.message_bytes) +
                                    " bytes: " + taken.error().message);
    return Status::RetryLater;
  }
  std::shared_ptr<Place> place = std::move(taken).value();
  session.channel->beginCall(header, call, options);
  std::byte* to = place->bytes;
  std::memcpy(to, request->head, request->head_bytes);
  to += request->head_bytes;
  for (uint32_t i = 0; i < request->chunk_count; ++i) {
    const Chunk& chunk = request->chunks[i];
    if (chunk.bytes != 0) std::memcpy(to, chunk.address, chunk.bytes);
    to += chunk.bytes;
  }
  parts_.counts.payload_bytes += header.message_bytes;
  parts_.counts.chunks_copied += request->chunk_count;
  request = TxMessage();
  const wire::VerbsPiece piece = openPlace(session, place, header.message_bytes);
  session.channel->own[call.slot].request = std::move(place);
  parts_.sender.sendControlPacket(session, header, wire::VerbsKind::RequestOffer, bytesOf(piece));
  return Status::Ok;
}

bool VerbsTransfers::takeRequestOffer(Session& session, const VerbsMessage& offer) {
  const wire::VerbsHeader& header = offer.header;
  Channel& channel = *session.channel;
  ServedTransfer& served = channel.served[header.slot];
  if (!session.is_accepted || served.response || served.into != nullptr) return false;
  if (!decodeOffer(offer, served.pieces)) return false;
  if (!channel.requests.begin(header.slot, header.sequence)) return false;
  served.request = header;
  const bool waits_in_line = session.is_bounded && !parts_.waiting.empty();
  if (waits_in_line || startRead(session, header.slot) != ReadStart::Begun) {
    parts_.waiting.add(session.id, header.slot, session.is_bounded, parts_.rounds.lastNs());
  }
  return true;
}

// Only clients have to wait for the bound: messages of the cluster's own processes may be what frees memory. If nothing
// is held, one message is let in whatever the bound is: otherwise one that is longer would wait for ever, and all
// others behind it.
VerbsTransfers::ReadStart VerbsTransfers::startRead(Session& session, uint16_t slot) {
  ServedTransfer& served = session.channel->served[slot];
  ReadMessages& read_messages = parts_.memory.read_messages;
  const uint64_t read_bytes = read_messages.heldBytes();
  const uint64_t held_bytes = read_bytes + parts_.receives.copiedBytes() + parts_.watch.copiedOutBytes();
  if (session.is_bounded && read_bytes != 0 &&
      held_bytes + served.request.message_bytes > parts_.options.held_bytes_max) {
    return ReadStart::BeyondBound;
  }
  served.into = parts_.memory.blocks.take(served.request.message_bytes);
  if (served.into == nullptr) return ReadStart::NoMemory;
  served.into_bytes = served.into->capacity;
  read_messages.hold(served.into_bytes);
  served.is_read = false;
  session.channel->queue.read(slot, *served.into, served.pieces);
  parts_.sender.markDirty(session);
  return ReadStart::Begun;
}

void VerbsTransfers::startReads() {
  WaitingReads& waiting = parts_.waiting;
  const int64_t now_ns = parts_.rounds.lastNs();
  while (!waiting.empty()) {
    WaitingReads::Read& first = waiting.first();
    Session* session = parts_.sessions.findOpen(first.session);
    const ReadStart start = session != nullptr ? startRead(*session, first.slot) : ReadStart::Begun;
    if (start != ReadStart::Begun) {
      if (start == ReadStart::BeyondBound) first.refused_since_ns.reset();
      if (start == ReadStart::NoMemory && !first.refused_since_ns) first.refused_since_ns = now_ns;
      break;
    }
    waiting.removeFirst(now_ns);
  }
  if (!waiting.isOverdue(now_ns, parts_.options.stall_evict_ns)) return;
  if (!evictStalled()) giveUpFirstRead();
}

// A request that is beyond the bound waits until others give memory back. But memory that the system or the device
// refuses may be refused for ever, while other requests wait behind this one, so its session is closed.
void VerbsTransfers::giveUpFirstRead() {
  const WaitingReads::Read& first = parts_.waiting.first();
  Session* session = parts_.sessions.findOpen(first.session);
  if (session == nullptr || !first.refused_since_ns ||
      parts_.rounds.lastNs() - *first.refused_since_ns < parts_.options.stall_evict_ns) {
    return;
  }
  const uint32_t bytes = session->channel->served[first.slot].request.message_bytes;
  parts_.sessions.warnings().warn(
      "closing the session with " + session->peer.address + ": no memory can be registered for a request of " +
      std::to_string(bytes) +
      " bytes, and others wait behind it; raise the limit of locked memory (ulimit -l; LimitMEMLOCK= "
      "of systemd)");
  parts_.sessions.closeLater(*session, "no memory can be registered for what it announced", false);
}

// Closes the client session for whose announced messages most memory is held and not yet read into. The sessions that
// make progress will free memory themselves. False: there is no such session.
bool VerbsTransfers::evictStalled() {
  LargestHolder<Session> largest;
  parts_.sessions.table().forEach([&](Session& session) {
    if (session.state != Session::State::Open || !session.is_bounded) return;
    uint64_t bytes = 0;
    for (const ServedTransfer& served : session.channel->served) {
      if (served.into != nullptr && !served.is_read) bytes += served.into_bytes;
    }
    largest.consider(session, bytes);
  });
  if (largest.session() == nullptr) return false;
  parts_.sessions.warnings().warn("closing the session with " + largest.session()->peer.address +
                                  ": memory for messages is used up, and " + std::to_string(largest.bytes()) +
                                  " bytes of it wait for what this peer has announced");
  parts_.sessions.closeLater(*largest.session(), "it makes no progress and memory is short", false);
  return true;
}

uint32_t VerbsTransfers::deliverReads(uint32_t count_max, std::vector<RxMessage>& requests) {
  uint32_t delivered = 0;
  while (!ready_.empty() && delivered < count_max) {
    const ReadyRead ready = ready_.front();
    ready_.pop_front();
    delivered += deliver(ready, requests) ? 1 : 0;
  }
  return delivered;
}

bool VerbsTransfers::deliver(const ReadyRead& ready, std::vector<RxMessage>& requests) {
  Session* session = parts_.sessions.findOpen(ready.session);
  if (session == nullptr) return false;
  ServedTransfer& served = session->channel->served[ready.slot];
  Block* const block = std::exchange(served.into, nullptr);
  served.is_read = false;
  const wire::VerbsHeader& header = served.request;
  RxMessage message = parts_.memory.read_messages.makeMessage(*block, header.message_bytes);
  message.reply_to = ReplyTo{session->id, header.sequence, header.slot, header.response_bytes_max};
  message.priority = static_cast<runtime::Priority>(header.priority);
  requests.push_back(std::move(message));
  return true;
}

// ---- responses

void VerbsTransfers::offerResponse(Session& session, const wire::VerbsHeader& header, TxMessage response) {
  if (!session.is_accepted) {
    return parts_.sessions.closeLater(session,
                                      "an answer of " + std::to_string(header.message_bytes) +
                                          " bytes to the side that was connected to, which starts all transfers",
                                      false);
  }
  ServedTransfer& served = session.channel->served[header.slot];
  served.response = std::move(response);
  served.response_header = header;
  served.response_since_ns = parts_.context.clock.nowNs();
  ++session.channel->responses_waiting;
  parts_.sender.sendControlPacket(session, header, wire::VerbsKind::ResponseOffer, {});
  parts_.watch.watch(session);
}

bool VerbsTransfers::takeResponseOffer(Session& session, const wire::VerbsHeader& header) {
  Channel& channel = *session.channel;
  if (session.is_accepted || !channel.calls.isOut(header.slot, header.sequence)) return false;
  OwnTransfer& own = channel.own[header.slot];
  if (own.response != nullptr || header.message_bytes == 0 || header.message_bytes > own.response_bytes_max)
    return false;
  if (own.request != nullptr) parts_.memory.places.drop(std::move(own.request));
  auto taken = parts_.memory.places.take(header.message_bytes, channel.tag);
  if (!taken.ok()) {
    parts_.sessions.closeLater(
        session,
        "no place for an answer of " + std::to_string(header.message_bytes) + " bytes: " + taken.error().message,
        false);
    return true;
  }
  own.response = std::move(taken).value();
  own.response_bytes = header.message_bytes;
  const wire::VerbsPiece place = openPlace(session, own.response, header.message_bytes);
  parts_.sender.sendControlPacket(session, header, wire::VerbsKind::ResponsePlace, bytesOf(place));
  return true;
}

bool VerbsTransfers::takeResponsePlace(Session& session, const VerbsMessage& word) {
  ServedTransfer& served = session.channel->served[word.header.slot];
  if (!session.is_accepted || !served.response) return false;
  const auto place = decodePlace(word, served.response_header.message_bytes);
  if (!place || word.header.sequence != served.response_header.sequence) return false;
  wire::VerbsHeader written = served.response_header;
  written.kind = wire::VerbsKind::ResponseWritten;
  --session.channel->responses_waiting;
  session.channel->queue.write(written, std::move(served.response), *place);
  parts_.sender.markDirty(session);
  return true;
}

bool VerbsTransfers::takeResponseWritten(Session& session, const wire::VerbsHeader& header, RxMessage& response) {
  Channel& channel = *session.channel;
  OwnTransfer& own = channel.own[header.slot];
  if (session.is_accepted || own.response == nullptr || !channel.calls.isOut(header.slot, header.sequence) ||
      header.message_bytes != own.response_bytes) {
    return false;
  }
  response = parts_.memory.places.borrow(std::move(own.response), header.message_bytes, header.head_bytes);
  return true;
}

}  // namespace ramcore::transport::verbs
