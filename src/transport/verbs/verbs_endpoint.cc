#include "transport/verbs/verbs_endpoint.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "wire/frame.h"

namespace ramcore::transport::verbs {
namespace {

constexpr uint32_t kHeaderBytes = sizeof(wire::VerbsHeader);
// Of a session: messages that wait for room in its send queue.
constexpr uint32_t kWaitingPerSlot = 4;
constexpr uint32_t kWaitingBesides = 64;
// Messages of sessions that are not open yet, of an endpoint.
constexpr size_t kEarlyMax = 1024;

// A head may be longer than what anybody needs in one piece.
uint32_t headBytesOf(const TxMessage& message) {
  const uint32_t bytes = message->contiguous_bytes != 0 ? message->contiguous_bytes : message->head_bytes;
  return std::min(bytes, wire::kHeadBytesMax);
}

// About a message that stands elsewhere, or about the session.
bool isWord(wire::VerbsKind kind) { return kind != wire::VerbsKind::Request && kind != wire::VerbsKind::Response; }

}  // namespace

VerbsEndpoint::VerbsEndpoint(const VerbsOptions& options, const VerbsContext& context, const Limits& limits,
                             const Device& device, const Regions& regions, const Identity& identity)
    : options_(options),
      context_(context),
      limits_(limits),
      device_(device),
      identity_(identity),
      warnings_(context.clock, context.trace, "verbs: "),
      sleeper_(context.sleeper != nullptr ? *context.sleeper : own_sleeper_.emplace(context.clock)),
      blocks_(device),
      places_(device, usesWindows(options, device)),
      receives_(device, options.receive_buffers_max, [this] { sleeper_.wake(); }),
      parts_{heads_, blocks_, regions, scratch_, send_counts_, options.copy_below_bytes, options.entries_max},
      clients_(options.sessions_max) {
  is_ready_ = makeQueues();
}

// ---- messages out

bool VerbsEndpoint::usesWindows(const VerbsOptions& options, const Device& device) {
  using Windows = VerbsOptions::Windows;
  return device.limits().has_windows && options.windows != Windows::Nowhere &&
         (options.windows == Windows::Everywhere || !device.limits().is_software);
}

Status VerbsEndpoint::call(SessionId id, TxMessage& request, const CallOptions& options, PendingCall& call) {
  Session* session = findOpen(id);
  if (session == nullptr) return Status::SessionLost;
  Channel& channel = *session->channel;
  const uint32_t bytes = request.messageBytes();
  if (bytes > limits_.message_bytes_max) return Status::TooLarge;
  const bool is_large = bytes > channel.peer_receive_bytes - kHeaderBytes;
  // Transfers are started by the side that was connected to, and by no other: only it may reach into the other's
  // memory.
  if (is_large && session->is_accepted) return Status::TooLarge;
  if (channel.calls.isFull()) return Status::RetryLater;
  wire::VerbsHeader header{};
  header.message_bytes = bytes;
  header.head_bytes = headBytesOf(request);
  header.kind = is_large ? wire::VerbsKind::RequestOffer : wire::VerbsKind::Request;
  header.priority = static_cast<uint8_t>(options.priority);
  header.response_bytes_max = options.response_bytes_max;
  if (is_large) return offerRequest(*session, request, header, call, options);
  beginCall(channel, header, call, options);
  if (request->chunk_count != 0) request->borrowed_since_ns = context_.clock.nowNs();
  channel.queue.send(header, std::move(request));
  makeDirty(*session);
  return Status::Ok;
}

void VerbsEndpoint::beginCall(Channel& channel, wire::VerbsHeader& header, PendingCall& call,
                              const CallOptions& options) {
  channel.calls.begin(call);
  header.slot = call.slot;
  header.sequence = call.sequence;
  OwnTransfer& own = channel.own[call.slot];
  own.response_bytes = 0;
  own.response_bytes_max = options.response_bytes_max;
}

void VerbsEndpoint::abandon(SessionId id, PendingCall& call) {
  // Also of a session that is just being lost: a call that completes may abandon others.
  Session* session = find(id);
  if (session == nullptr || session->channel == nullptr || !call.in_flight) return;
  // Bytes without an owner are the caller's only until now; those that were posted are copies.
  session->channel->queue.copyUnowned();
  session->channel->calls.abandon(call);
}

void VerbsEndpoint::reply(const ReplyTo& to, TxMessage response) {
  Session* session = findOpen(to.session);
  if (session == nullptr || !session->channel->requests.finish(to.slot, to.sequence)) return;
  const uint32_t bytes = response.messageBytes();
  RC_CHECK_MSG(bytes <= limits_.message_bytes_max, "the rpc layer replaces answers that are too long");
  Channel& channel = *session->channel;
  wire::VerbsHeader header{};
  header.message_bytes = bytes;
  header.head_bytes = headBytesOf(response);
  header.sequence = to.sequence;
  header.slot = to.slot;
  header.kind = wire::VerbsKind::Response;
  if (response->chunk_count != 0) response->borrowed_since_ns = context_.clock.nowNs();
  if (bytes > channel.peer_receive_bytes - kHeaderBytes) return offerResponse(*session, header, std::move(response));
  channel.queue.send(header, std::move(response));
  makeDirty(*session);
}

void VerbsEndpoint::makeDirty(Session& session) {
  if (std::exchange(session.is_dirty, true)) return;
  dirty_.push_back(session.id);
}

// A message without a body of its own, or with a short one.
void VerbsEndpoint::sendControlPacket(Session& session, wire::VerbsHeader header, wire::VerbsKind kind, ByteSpan body) {
  header.kind = kind;
  TxMessage message(heads_.takeBuffer(static_cast<uint32_t>(body.size())));
  message.appendHead(body);
  session.channel->queue.send(header, std::move(message));
  makeDirty(session);
}

void VerbsEndpoint::flush() {
  if (dirty_.empty()) return;
  std::swap(dirty_, posting_);
  for (const SessionId id : posting_) {
    Session* session = findOpen(id);
    if (session == nullptr) continue;
    session->is_dirty = false;
    SendQueue& queue = session->channel->queue;
    // Not lost here: its calls must not complete inside flush().
    if (!queue.post()) {
      closeLater(*session, "its queue pair takes nothing, or no more memory can be registered", false);
    } else if (queue.waitingCount() > kWaitingPerSlot * session->channel->calls.slotCount() + kWaitingBesides) {
      // An honest peer has one answer a slot, and takes it before it asks again.
      closeLater(*session, "it asks and takes no answers", true);
    } else if (queue.hasWaiting() || queue.awaitsCompletion()) {
      watch(*session);
    }
  }
  posting_.clear();
}

// ---- messages in

uint32_t VerbsEndpoint::poll(MessageSink& sink, uint32_t message_max) {
  RC_DCHECK(message_max >= 1 && message_max <= limits_.burst_messages_max);
  if (--rounds_to_timeouts_ == 0) [[unlikely]]
    runDueTimeouts(sink);
  if (!broken_.empty()) [[unlikely]]
    closeBroken();
  if (!is_ready_.ok()) [[unlikely]] {
    reportClosed(sink);
    return 0;
  }
  uint32_t delivered = 0;
  while (!ready_reads_.empty() && delivered < message_max) {
    const ReadyRead ready = ready_reads_.front();
    ready_reads_.pop_front();
    delivered += deliverRead(ready) ? 1 : 0;
  }
  while (!early_messages_.empty() && delivered < message_max) {
    const uint64_t before = delivered_count_;
    const EarlyMessage early = std::move(early_messages_.front());
    early_messages_.pop_front();
    takeEarly(early);
    delivered += static_cast<uint32_t>(delivered_count_ - before);
  }
  bool is_empty = false;
  if (delivered < message_max && early_messages_.empty()) delivered += pollArrivals(message_max - delivered, is_empty);
  pollDepartures();
  if (!requests_.empty()) {
    sink.onRequests(requests_);
    requests_.clear();
  }
  if (!waiting_reads_.empty()) [[unlikely]]
    startReads();
  receives_.post();
  if (!ended_.empty()) [[unlikely]]
    closeEnded(is_empty);
  if (!draining_.empty() || !dying_.empty()) [[unlikely]]
    reapDrained(is_empty);
  if (!lost_.empty()) [[unlikely]]
    reportClosed(sink);
  had_messages_ |= delivered != 0;
  return delivered;
}

// Not more than are to be delivered, although some of what arrives is no message.
uint32_t VerbsEndpoint::pollArrivals(uint32_t message_max, bool& is_empty) {
  const uint64_t before = delivered_count_;
  if (!early_.empty()) [[unlikely]] {
    const size_t count = std::min<size_t>(early_.size(), message_max);
    const std::vector<ibv_wc> early(early_.begin(), early_.begin() + static_cast<ptrdiff_t>(count));
    early_.erase(early_.begin(), early_.begin() + static_cast<ptrdiff_t>(count));
    for (const ibv_wc& completion : early) onArrival(completion);
    return static_cast<uint32_t>(delivered_count_ - before);
  }
  std::array<ibv_wc, 64> completions;
  const int wanted = static_cast<int>(std::min<size_t>(message_max, completions.size()));
  const int count = ibv_poll_cq(arrivals_.get(), wanted, completions.data());
  RC_CHECK_MSG(count >= 0, "the RDMA device does not tell what has arrived");
  for (int i = 0; i < count; ++i) onArrival(completions[static_cast<size_t>(i)]);
  is_empty = count < wanted;
  return static_cast<uint32_t>(delivered_count_ - before);
}

// If the session begins only now: its peer sends as soon as it has said on the socket that it is ready. A copy: the
// buffer goes back, whether that word comes or not.
void VerbsEndpoint::keepForLater(const ibv_wc& completion, const ReceiveBuffer& buffer) {
  const auto found = greeting_pairs_.find(completion.qp_num);
  Session* const session = found == greeting_pairs_.end() ? nullptr : find(found->second);
  if (session == nullptr || session->state != Session::State::Greeting || completion.status != IBV_WC_SUCCESS) return;
  if (session->early.size() > session->greeting->slotCount() || early_count_ >= kEarlyMax) {
    return closeMalformed(*session, "it sends and does not say that it is ready");
  }
  session->early.emplace_back(buffer.bytes, buffer.bytes + std::min(completion.byte_len, ReceiveBuffers::kBytes));
  ++early_count_;
  if (!std::exchange(session->is_told, true)) told_.push_back(session->id);
  callTimeouts();
}

void VerbsEndpoint::takeEarly(const EarlyMessage& early) {
  Session* const session = findOpen(early.session);
  if (session == nullptr) return;
  VerbsMessage message;
  const std::string_view why_bad = decodeMessage(early.bytes, session->channel->calls.slotCount(), message);
  if (!why_bad.empty()) return closeMalformed(*session, why_bad);
  const bool is_good = isWord(message.header.kind)
                           ? takeWord(*session, message)
                           : takeMessage(*session, message.header, receives_.borrowCopy(message.body));
  if (!is_good) closeMalformed(*session, "a message that nobody asked for");
}

void VerbsEndpoint::onArrival(const ibv_wc& completion) {
  ReceiveBuffer& buffer = *reinterpret_cast<ReceiveBuffer*>(completion.wr_id);
  ++arrival_count_;
  receives_.arrived();
  const auto found = channels_.find(completion.qp_num);
  Session* const session = found == channels_.end() ? nullptr : found->second->session;
  if (session == nullptr || session->state != Session::State::Open) {
    if (found == channels_.end()) keepForLater(completion, buffer);
    return receives_.recycle(buffer);
  }
  if (completion.status != IBV_WC_SUCCESS) {
    receives_.recycle(buffer);
    // A message that was longer than the buffer, for example.
    if (completion.status == IBV_WC_WR_FLUSH_ERR) return;
    return closeMalformed(*session,
                          std::string("a message that cannot be received: ") + ibv_wc_status_str(completion.status));
  }
  VerbsMessage message;
  // Other kinds of completions (a write that notifies) put nothing into the buffer.
  const ByteSpan bytes(buffer.bytes, completion.opcode == IBV_WC_RECV ? completion.byte_len : 0);
  const std::string_view why_bad = decodeMessage(bytes, session->channel->calls.slotCount(), message);
  if (!why_bad.empty()) {
    receives_.recycle(buffer);
    return closeMalformed(*session, why_bad);
  }
  bool is_good = false;
  if (isWord(message.header.kind)) {
    is_good = takeWord(*session, message);
    receives_.recycle(buffer);
  } else {
    const auto body_bytes = static_cast<uint32_t>(message.body.size());
    is_good = takeMessage(*session, message.header, receives_.borrow(buffer, kHeaderBytes, body_bytes));
  }
  if (!is_good) closeMalformed(*session, "a message that nobody asked for");
}

// False if no honest peer sends this; as the rest.
bool VerbsEndpoint::takeMessage(Session& session, const wire::VerbsHeader& header, RxMessage message) {
  if (header.kind == wire::VerbsKind::Request) return takeRequest(session, header, std::move(message));
  const Channel& channel = *session.channel;
  const uint32_t bytes_max = channel.own[header.slot].response_bytes_max;
  if (channel.calls.isOut(header.slot, header.sequence) && header.message_bytes > bytes_max) return false;
  finishCall(session, header, std::move(message));
  return true;
}

bool VerbsEndpoint::takeWord(Session& session, const VerbsMessage& word) {
  const wire::VerbsHeader& header = word.header;
  switch (header.kind) {
    case wire::VerbsKind::Close:
      close(session, Status::Shutdown);
      return true;
    case wire::VerbsKind::RequestOffer:
      return takeRequestOffer(session, word);
    case wire::VerbsKind::ResponseOffer:
      return takeResponseOffer(session, header);
    case wire::VerbsKind::ResponsePlace:
      return takeResponsePlace(session, word);
    case wire::VerbsKind::ResponseWritten:
      return takeResponseWritten(session, header);
    case wire::VerbsKind::Request:
    case wire::VerbsKind::Response:
      return false;
  }
  return false;
}

bool VerbsEndpoint::takeRequest(Session& session, const wire::VerbsHeader& header, RxMessage message) {
  ++delivered_count_;
  // Before the answer to the one before it has been taken, it cannot come.
  if (session.channel->served[header.slot].response) return false;
  if (!session.channel->requests.begin(header.slot, header.sequence)) return false;
  message.reply_to = ReplyTo{session.id, header.sequence, header.slot, header.response_bytes_max};
  message.priority = static_cast<runtime::Priority>(header.priority);
  requests_.push_back(std::move(message));
  return true;
}

// An answer that nobody waits for is a late one of an abandoned call.
void VerbsEndpoint::finishCall(Session& session, const wire::VerbsHeader& header, RxMessage message) {
  ++delivered_count_;
  Channel& channel = *session.channel;
  if (!channel.calls.isOut(header.slot, header.sequence)) return;
  OwnTransfer& own = channel.own[header.slot];
  // A forged one may come before the request has left: its bytes are the caller's only until now.
  if (channel.queue.hasWaiting()) channel.queue.copyUnowned();
  // The answer says that it was read.
  if (own.request != nullptr) places_.drop(std::move(own.request));
  if (own.response != nullptr) places_.drop(std::move(own.response));
  PendingCall* call = channel.calls.finish(header.slot, header.sequence);
  if (call != nullptr) call->complete(*call, Status::Ok, std::move(message));
}

void VerbsEndpoint::pollDepartures() {
  std::array<ibv_wc, 64> completions;
  const int count = ibv_poll_cq(departures_.get(), static_cast<int>(completions.size()), completions.data());
  RC_CHECK_MSG(count >= 0, "the RDMA device does not tell what was sent");
  for (int i = 0; i < count; ++i) onDeparture(completions[static_cast<size_t>(i)]);
}

void VerbsEndpoint::onDeparture(const ibv_wc& completion) {
  const auto found = channels_.find(completion.qp_num);
  if (found == channels_.end()) return;
  Channel& channel = *found->second;
  // Of an earlier queue pair that had the number.
  if (channel.tag != tagOf(completion.wr_id)) return;
  read_slots_.clear();
  channel.queue.complete(positionOf(completion.wr_id), read_slots_);
  const bool is_open = channel.session != nullptr && channel.session->state == Session::State::Open;
  for (const uint16_t slot : read_slots_) {
    channel.served[slot].is_read = true;
    if (is_open && completion.status == IBV_WC_SUCCESS) ready_reads_.push_back(ReadyRead{channel.session->id, slot});
  }
  if (!is_open) return;
  Session& session = *channel.session;
  if (completion.status != IBV_WC_SUCCESS) {
    return closeLater(session, std::string("its queue pair broke: ") + ibv_wc_status_str(completion.status),
                      completion.status == IBV_WC_REM_ACCESS_ERR || completion.status == IBV_WC_REM_INV_REQ_ERR);
  }
  if (channel.queue.hasWaiting()) makeDirty(session);
}

// ---- sleep

bool VerbsEndpoint::prepareSleep() {
  if (!is_ready_.ok()) return lost_.empty();
  flush();
  if (!lost_.empty() || !broken_.empty() || !ended_.empty() || !ready_reads_.empty() || are_timeouts_due_ ||
      !dirty_.empty() || !early_.empty() || !early_messages_.empty()) {
    return false;
  }
  if (!arrivals_armed_) arrivals_armed_ = ibv_req_notify_cq(arrivals_.get(), 0) == 0;
  if (!departures_armed_) departures_armed_ = ibv_req_notify_cq(departures_.get(), 0) == 0;
  // What came before the queues were armed is told by nobody.
  std::array<ibv_wc, 16> completions;
  const int arrived = ibv_poll_cq(arrivals_.get(), static_cast<int>(completions.size()), completions.data());
  if (arrived > 0) early_.insert(early_.end(), completions.begin(), completions.begin() + arrived);
  const int departed = ibv_poll_cq(departures_.get(), static_cast<int>(completions.size()), completions.data());
  for (int i = 0; i < departed; ++i) onDeparture(completions[static_cast<size_t>(i)]);
  if (arrived != 0 || departed != 0) return false;
  if (hasDeadlines()) sleeper_.wakeBy(nextDeadlineNs());
  is_asleep_ = true;
  return true;
}

void VerbsEndpoint::awake() {
  if (!std::exchange(is_asleep_, false)) return;
  // What ended the sleep may be a deadline, or memory that came back. If it is a descriptor, the sleeper has told.
  if (hasDeadlines() || completions_ready_.is_ready) callTimeouts();
}

}  // namespace ramcore::transport::verbs
