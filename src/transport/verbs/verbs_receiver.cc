#include "transport/verbs/verbs_receiver.h"

#include <algorithm>
#include <utility>

namespace ramcore::transport::verbs {
namespace {

// True for control packets: about a message that stands elsewhere, or about the session.
bool isWord(wire::VerbsKind kind) { return kind != wire::VerbsKind::Request && kind != wire::VerbsKind::Response; }

}  // namespace

// Takes no more completions than messages may be delivered, although some of what arrives is no message.
uint32_t VerbsReceiver::takeArrivals(uint32_t message_max, bool& is_empty) {
  uint32_t delivered = parts_.transfers.deliverReads(message_max, requests_);
  while (!parts_.early.empty() && delivered < message_max) {
    const uint64_t before = delivered_count_;
    takeEarly(parts_.early.take());
    delivered += static_cast<uint32_t>(delivered_count_ - before);
  }
  if (delivered >= message_max || !parts_.early.empty()) return delivered;
  const uint64_t before = delivered_count_;
  parts_.queues.pollArrivals(
      message_max - delivered, is_empty,
      [this](const ibv_wc& completion, ReceiveBuffer& buffer) { onArrival(completion, buffer); });
  return delivered + static_cast<uint32_t>(delivered_count_ - before);
}

// Keeps a copy of a message if its session is in handshake: the peer sends as soon as it has said on the socket that it
// is ready. The buffer goes back, whether that comes or not.
void VerbsReceiver::keepForLater(const ibv_wc& completion, const ReceiveBuffer& buffer) {
  const auto id = parts_.channels.findGreeting(completion.qp_num);
  Session* const session = id ? parts_.sessions.find(*id) : nullptr;
  if (session == nullptr || session->state != Session::State::Greeting || completion.status != IBV_WC_SUCCESS) return;
  const ByteSpan bytes(buffer.bytes, std::min(completion.byte_len, ReceiveBuffers::kBytes));
  if (!parts_.early.keep(*session, bytes)) {
    return parts_.sessions.closeMalformed(*session, "it sends and does not say that it is ready");
  }
  parts_.sockets.note(*session);
}

void VerbsReceiver::takeEarly(const EarlyMessages::Message& early) {
  Session* const session = parts_.sessions.findOpen(early.session);
  if (session == nullptr) return;
  VerbsMessage message;
  const std::string_view why_bad = decodeMessage(early.bytes, session->channel->calls.slotCount(), message);
  if (!why_bad.empty()) return parts_.sessions.closeMalformed(*session, why_bad);
  const bool is_good = isWord(message.header.kind)
                           ? takeWord(*session, message)
                           : takeMessage(*session, message.header, parts_.queues.receives().borrowCopy(message.body));
  if (!is_good) parts_.sessions.closeMalformed(*session, "a message that nobody asked for");
}

void VerbsReceiver::onArrival(const ibv_wc& completion, ReceiveBuffer& buffer) {
  ReceiveBuffers& receives = parts_.queues.receives();
  const Channel* const channel = parts_.channels.find(completion.qp_num);
  Session* const session = channel == nullptr ? nullptr : channel->session;
  if (session == nullptr || session->state != Session::State::Open) {
    if (channel == nullptr) keepForLater(completion, buffer);
    return receives.recycle(buffer);
  }
  if (completion.status != IBV_WC_SUCCESS) {
    receives.recycle(buffer);
    // Another error is the peer's fault: a message that is longer than the buffer, for example.
    if (completion.status == IBV_WC_WR_FLUSH_ERR) return;
    return parts_.sessions.closeMalformed(
        *session, std::string("a message that cannot be received: ") + ibv_wc_status_str(completion.status));
  }
  VerbsMessage message;
  // Other kinds of completions (a write that notifies) put nothing into the buffer.
  const ByteSpan bytes(buffer.bytes, completion.opcode == IBV_WC_RECV ? completion.byte_len : 0);
  const std::string_view why_bad = decodeMessage(bytes, session->channel->calls.slotCount(), message);
  if (!why_bad.empty()) {
    receives.recycle(buffer);
    return parts_.sessions.closeMalformed(*session, why_bad);
  }
  bool is_good = false;
  if (isWord(message.header.kind)) {
    is_good = takeWord(*session, message);
    receives.recycle(buffer);
  } else {
    const auto body_bytes = static_cast<uint32_t>(message.body.size());
    is_good = takeMessage(*session, message.header, receives.borrow(buffer, sizeof(wire::VerbsHeader), body_bytes));
  }
  if (!is_good) parts_.sessions.closeMalformed(*session, "a message that nobody asked for");
}

// Returns false if no honest peer sends this, as the functions below do.
bool VerbsReceiver::takeMessage(Session& session, const wire::VerbsHeader& header, RxMessage message) {
  if (header.kind == wire::VerbsKind::Request) return takeRequest(session, header, std::move(message));
  const Channel& channel = *session.channel;
  const uint32_t bytes_max = channel.own[header.slot].response_bytes_max;
  if (channel.calls.isOut(header.slot, header.sequence) && header.message_bytes > bytes_max) return false;
  finishCall(session, header, std::move(message));
  return true;
}

bool VerbsReceiver::takeWord(Session& session, const VerbsMessage& word) {
  const wire::VerbsHeader& header = word.header;
  switch (header.kind) {
    case wire::VerbsKind::Close:
      parts_.sessions.close(session, Status::Shutdown);
      return true;
    case wire::VerbsKind::RequestOffer:
      return parts_.transfers.takeRequestOffer(session, word);
    case wire::VerbsKind::ResponseOffer:
      return parts_.transfers.takeResponseOffer(session, header);
    case wire::VerbsKind::ResponsePlace:
      return parts_.transfers.takeResponsePlace(session, word);
    case wire::VerbsKind::ResponseWritten:
      return takeResponseWritten(session, header);
    case wire::VerbsKind::Request:
    case wire::VerbsKind::Response:
      return false;
  }
  return false;
}

bool VerbsReceiver::takeRequest(Session& session, const wire::VerbsHeader& header, RxMessage message) {
  ++delivered_count_;
  // An honest peer sends no request in a slot before it has taken the answer to the last one.
  if (session.channel->served[header.slot].response) return false;
  if (!session.channel->requests.begin(header.slot, header.sequence)) return false;
  message.reply_to = ReplyTo{session.id, header.sequence, header.slot, header.response_bytes_max};
  message.priority = static_cast<runtime::Priority>(header.priority);
  requests_.push_back(std::move(message));
  return true;
}

bool VerbsReceiver::takeResponseWritten(Session& session, const wire::VerbsHeader& header) {
  RxMessage response;
  if (!parts_.transfers.takeResponseWritten(session, header, response)) return false;
  finishCall(session, header, std::move(response));
  return true;
}

// An answer that nobody waits for is a late one of an abandoned call.
void VerbsReceiver::finishCall(Session& session, const wire::VerbsHeader& header, RxMessage message) {
  ++delivered_count_;
  Channel& channel = *session.channel;
  if (!channel.calls.isOut(header.slot, header.sequence)) return;
  OwnTransfer& own = channel.own[header.slot];
  // A forged answer may come before the request has left, whose bytes the caller guarantees only until now.
  if (channel.queue.hasWaiting()) channel.queue.copyUnowned();
  // The answer means that the peer has read the request.
  if (own.request != nullptr) parts_.places.drop(std::move(own.request));
  if (own.response != nullptr) parts_.places.drop(std::move(own.response));
  PendingCall* call = channel.calls.finish(header.slot, header.sequence);
  if (call != nullptr) call->complete(*call, Status::Ok, std::move(message));
}

void VerbsReceiver::takeDepartures() {
  parts_.queues.pollDepartures([this](const ibv_wc& completion) { onDeparture(completion); });
}

bool VerbsReceiver::prepareSleep() {
  return parts_.queues.arm([this](const ibv_wc& completion) { onDeparture(completion); });
}

void VerbsReceiver::onDeparture(const ibv_wc& completion) {
  Channel* const found = parts_.channels.find(completion.qp_num);
  if (found == nullptr) return;
  Channel& channel = *found;
  // The completion belongs to an earlier queue pair that had the number.
  if (channel.tag != tagOf(completion.wr_id)) return;
  read_slots_.clear();
  channel.queue.complete(positionOf(completion.wr_id), read_slots_);
  const bool is_open = channel.session != nullptr && channel.session->state == Session::State::Open;
  for (const uint16_t slot : read_slots_) {
    channel.served[slot].is_read = true;
    if (is_open && completion.status == IBV_WC_SUCCESS) parts_.transfers.noteRead(channel.session->id, slot);
  }
  if (!is_open) return;
  Session& session = *channel.session;
  if (completion.status != IBV_WC_SUCCESS) {
    return parts_.sessions.closeLater(
        session, std::string("its queue pair broke: ") + ibv_wc_status_str(completion.status),
        completion.status == IBV_WC_REM_ACCESS_ERR || completion.status == IBV_WC_REM_INV_REQ_ERR);
  }
  if (channel.queue.hasWaiting()) parts_.sender.markDirty(session);
}

}  // namespace ramcore::transport::verbs
