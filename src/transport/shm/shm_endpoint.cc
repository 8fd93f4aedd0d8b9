#include "transport/shm/shm_endpoint.h"

#include <sys/epoll.h>

#include <algorithm>

#include "wire/frame.h"

namespace ramcore::transport::shm {
namespace {

constexpr std::string_view kImpossiblePosition = "its position in the ring cannot be true";

// A head may be longer than what anybody needs in one piece.
uint32_t headBytesOf(const TxMessage& message) {
  const uint32_t bytes = message->contiguous_bytes != 0 ? message->contiguous_bytes : message->head_bytes;
  return std::min(bytes, wire::kHeadBytesMax);
}

wire::FrameHeader requestHeader(const TxMessage& request, const CallOptions& options, const PendingCall& call) {
  wire::FrameHeader header{};
  header.message_bytes = request.messageBytes();
  header.head_bytes = headBytesOf(request);
  header.sequence = call.sequence;
  header.slot = call.slot;
  header.kind = wire::FrameKind::Request;
  header.priority = static_cast<uint8_t>(options.priority);
  header.response_bytes_max = options.response_bytes_max;
  return header;
}

wire::FrameHeader responseHeader(const TxMessage& response, const ReplyTo& to) {
  wire::FrameHeader header{};
  header.message_bytes = response.messageBytes();
  header.head_bytes = headBytesOf(response);
  header.sequence = to.sequence;
  header.slot = to.slot;
  header.kind = wire::FrameKind::Response;
  return header;
}

}  // namespace

Channel::Channel(SharedMemory&& shared, bool is_server, MessagePool& pool, uint16_t slot_count)
    : memory(std::move(shared)),
      reader(is_server ? RingReader(memory.control().to_server, memory.ringToServer(), memory.ringBytes())
                       : RingReader(memory.control().to_client, memory.ringToClient(), memory.ringBytes()),
             pool, slot_count),
      writer(is_server ? RingWriter(memory.control().to_client, memory.ringToClient(), memory.ringBytes())
                       : RingWriter(memory.control().to_server, memory.ringToServer(), memory.ringBytes())),
      own_wakefulness(is_server ? memory.control().server_wakefulness : memory.control().client_wakefulness),
      peer_wakefulness(is_server ? memory.control().client_wakefulness : memory.control().server_wakefulness),
      calls(slot_count),
      requests(slot_count) {}

ShmEndpoint::ShmEndpoint(const ShmOptions& options, const ShmContext& context, const Identity& identity)
    : options_(options),
      context_(context),
      limits_(limitsOf(options)),
      identity_(identity),
      warnings_(context.clock, context.trace, "shm: "),
      sleeper_(context.sleeper != nullptr ? *context.sleeper : own_sleeper_.emplace(context.clock)),
      clients_(options.sessions_max) {}

ShmEndpoint::~ShmEndpoint() {
  sleeper_.unlisten(listener_.key);
  for (const auto& session : sessions_) {
    if (session != nullptr) closeSocket(*session);
  }
}

// ---- sessions

Session* ShmEndpoint::find(SessionId id) const {
  if (id.index >= sessions_.size()) return nullptr;
  Session* session = sessions_[id.index].get();
  return session != nullptr && session->id == id ? session : nullptr;
}

Session* ShmEndpoint::findOpen(SessionId id) const {
  Session* session = find(id);
  return session != nullptr && session->state == Session::State::Open ? session : nullptr;
}

Session& ShmEndpoint::addSession(Descriptor socket) {
  uint32_t index = static_cast<uint32_t>(sessions_.size());
  if (!free_indices_.empty()) {
    index = free_indices_.back();
    free_indices_.pop_back();
  } else {
    sessions_.emplace_back();
    generations_.push_back(0);
  }
  sessions_[index] = std::make_unique<Session>(*this, SessionId{index, ++generations_[index]});
  Session& session = *sessions_[index];
  session.socket = std::move(socket);
  ++greeting_count_;
  if (session.socket) session.key = sleeper_.listen(session.socket.get(), EPOLLIN | EPOLLRDHUP, session);
  return session;
}

SessionId ShmEndpoint::connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) {
  // A server lists its paths to everybody, also to those who cannot use them: no word about that, and none to the
  // server. A coordinator's was named by somebody.
  const bool is_listed = expected_id != 0;
  Outcome<Descriptor> socket = is_listed && belongsToAnotherUser(where.path)
                                   ? Failure{Status::Refused, "it is another user's"}
                                   : connectTo(where.path);
  Session& session = addSession(socket.ok() ? std::move(socket).value() : Descriptor());
  session.is_announced = true;
  if (!socket.ok()) {
    const std::string& why = socket.error().message;
    context_.trace.debug("shm: " + where.toString() + " cannot be used: " + why);
    session.open_failure = {.kind = OpenFailure::Kind::Unreachable, .text = why};
    close(session, Status::Unreachable);
    return session.id;
  }
  std::string who;
  if (!peerIsSameUser(session.socket.get(), who)) {
    warnings_.warn(where.toString() + " belongs to " + who + ", not to us; refused");
    session.open_failure = {.kind = OpenFailure::Kind::Refused,
                            .text = "it belongs to " + who + ", and shm is for one user; use tcp"};
    close(session, Status::Refused);
    return session.id;
  }
  session.peer.address = where.toString();
  session.greeting = makeGreeting(HandshakeSide::Initiator, expected_id, deadline_ns);
  session.greeting->start(session.socket.get());
  return session.id;
}

std::unique_ptr<Greeting> ShmEndpoint::makeGreeting(HandshakeSide side, uint64_t expected_id, int64_t deadline_ns) {
  HandshakeOptions handshake;
  handshake.side = side;
  handshake.identity = identity_;
  handshake.expected_id = expected_id;
  handshake.slot_count = options_.slots_per_session;
  handshake.peer_is_local = true;
  if (side == HandshakeSide::Acceptor) {
    handshake.locators = locators_;
    handshake.has_room_for_client = [this] { return clients_.hasRoom(); };
  }
  return std::make_unique<Greeting>(std::move(handshake), options_.ring_bytes, deadline_ns, context_.entropy);
}

void ShmEndpoint::openSession(Session& session, MessageSink& sink) {
  Greeting& greeting = *session.greeting;
  const std::string address = std::move(session.peer.address);
  session.peer = greeting.peer();
  session.peer.address = address;
  session.peer.transport = limits_.name;
  session.is_bounded = greeting.isServer() && ClientShare::isOf(session.peer.role);
  if (session.is_bounded) clients_.add();
  session.channel =
      std::make_unique<Channel>(greeting.takeMemory(), greeting.isServer(), messages_, greeting.slotCount());
  session.greeting.reset();
  session.state = Session::State::Open;
  session.is_announced = true;
  --greeting_count_;
  ++open_count_;
  rings_.add(session);
  sink.onSessionOpen(session.id);
}

void ShmEndpoint::close(Session& session, Status reason) {
  if (session.state == Session::State::Lost) return;
  --(session.state == Session::State::Open ? open_count_ : greeting_count_);
  if (session.is_bounded) clients_.remove();
  session.state = Session::State::Lost;
  session.lost_reason = reason;
  lost_.push_back(&session);
  closeSocket(session);
  if (session.channel == nullptr) return;
  while (PendingCall* call = session.channel->calls.takeAny()) call->complete(*call, Status::SessionLost, RxMessage());
}

void ShmEndpoint::closeMalformed(Session& session, std::string_view why) {
  if (session.state == Session::State::Lost) return;
  ++bad_count_;
  warnings_.warn("closing the session with " + session.peer.address + ": " + std::string(why));
  close(session, Status::SessionLost);
}

void ShmEndpoint::closeBroken() {
  for (const Broken& broken : std::exchange(broken_, {})) {
    if (Session* session = findOpen(broken.session)) closeMalformed(*session, broken.why);
  }
}

// Announcing may lose or close other sessions, which then stand behind in the list.
void ShmEndpoint::reportClosed(MessageSink& sink) {
  for (size_t i = 0; i < lost_.size(); ++i) {
    Session& session = *lost_[i];
    const SessionId id = session.id;
    open_failure_ = std::move(session.open_failure);
    if (session.is_announced) sink.onSessionLost(id, session.lost_reason);
    rings_.remove(session);
    sessions_[id.index].reset();
    free_indices_.push_back(id.index);
  }
  lost_.clear();
}

void ShmEndpoint::close(SessionId id) {
  Session* session = find(id);
  if (session == nullptr || session->state == Session::State::Lost) return;
  if (session->state == Session::State::Open) {
    wire::FrameHeader header{};
    header.kind = wire::FrameKind::Close;
    session->channel->writer.tryFinish(header);
    session->channel->wakePeer(session->socket.get());
  }
  close(*session, Status::Shutdown);
}

const Peer* ShmEndpoint::peer(SessionId id) const {
  const Session* session = findOpen(id);
  return session != nullptr ? &session->peer : nullptr;
}

// ---- messages out

Status ShmEndpoint::call(SessionId id, TxMessage& request, const CallOptions& options, PendingCall& call) {
  Session* session = findOpen(id);
  if (session == nullptr) return Status::SessionLost;
  Channel& channel = *session->channel;
  if (request.messageBytes() > limits_.message_bytes_max) return Status::TooLarge;
  if (channel.calls.isFull()) return Status::RetryLater;
  channel.calls.begin(call);
  const wire::FrameHeader header = requestHeader(request, options, call);
  send(*session, header, std::move(request));
  return Status::Ok;
}

void ShmEndpoint::abandon(SessionId id, PendingCall& call) {
  // Also of a session that is just being lost: a call that completes may abandon others.
  Session* session = find(id);
  if (session == nullptr || session->channel == nullptr) return;
  session->channel->calls.abandon(call);
  // Bytes without an owner are the caller's only until now, and the request may still wait for room.
  if (session->channel->writer.isBlocked()) (void)session->channel->writer.copyOutQueue(UINT64_MAX, runtime::kNever);
}

void ShmEndpoint::reply(const ReplyTo& to, TxMessage response) {
  Session* session = findOpen(to.session);
  if (session == nullptr || !session->channel->requests.finish(to.slot, to.sequence)) return;
  RC_CHECK_MSG(response.messageBytes() <= limits_.message_bytes_max,
               "the rpc layer replaces answers that are too long");
  send(*session, responseHeader(response, to), std::move(response));
}

void ShmEndpoint::send(Session& session, const wire::FrameHeader& header, TxMessage message) {
  FrameWriter& writer = session.channel->writer;
  if (message->chunk_count != 0) message->borrowed_since_ns = context_.clock.nowNs();
  // The session is not lost here: its calls must not complete inside call().
  if (!writer.send(header, std::move(message))) closeMalformedLater(session, kImpossiblePosition);
  if (!session.is_dirty) {
    session.is_dirty = true;
    dirty_.push_back(session.id);
  }
  if (!writer.isBlocked()) return;
  session.is_copied_out = false;
  if (!session.is_blocked) {
    session.is_blocked = true;
    session.peer_position = writer.peerPosition();
    session.sending.begin(context_.clock.nowNs(), session.peer_position);
    blocked_.push_back(session.id);
    rounds_to_timeouts_ = 1;
  }
}

void ShmEndpoint::flush() {
  for (const SessionId id : dirty_) {
    Session* session = findOpen(id);
    if (session == nullptr) continue;
    session->is_dirty = false;
    publish(*session);
  }
  dirty_.clear();
  home_.leave();
}

void ShmEndpoint::publish(Session& session) {
  session.channel->writer.publish();
  session.channel->wakePeer(session.socket.get());
  session.channel->writer.prepareNext();
}

void ShmEndpoint::pumpBlocked() {
  size_t kept = 0;
  queued_bytes_ = 0;
  for (size_t i = 0; i < blocked_.size(); ++i) {
    Session* session = findOpen(blocked_[i]);
    if (session == nullptr) continue;
    FrameWriter& writer = session->channel->writer;
    if (!writer.pump()) {
      closeMalformedLater(*session, kImpossiblePosition);
      continue;
    }
    if (writer.peerPosition() != session->peer_position) {
      session->peer_position = writer.peerPosition();
      session->sending.note(context_.clock.nowNs(), session->peer_position);
      publish(*session);
    }
    queued_bytes_ += writer.queuedBytes();
    session->is_blocked = writer.isBlocked();
    if (session->is_blocked) blocked_[kept++] = blocked_[i];
  }
  blocked_.resize(kept);
}

// ---- messages in

uint32_t ShmEndpoint::poll(MessageSink& sink, uint32_t message_max) {
  RC_DCHECK(message_max >= 1 && message_max <= limits_.burst_messages_max);
  home_.enter();
  if (--rounds_to_timeouts_ == 0) [[unlikely]]
    runDueTimeouts(sink);
  if (!broken_.empty()) [[unlikely]]
    closeBroken();
  const uint32_t delivered = rings_.poll(*this, message_max);
  if (!requests_.empty()) {
    sink.onRequests(requests_);
    requests_.clear();
  }
  if (!blocked_.empty()) [[unlikely]]
    pumpBlocked();
  if (!lost_.empty()) [[unlikely]]
    reportClosed(sink);
  had_messages_ |= delivered != 0;
  return delivered;
}

uint32_t ShmEndpoint::pollSession(Session& session, uint32_t message_max) {
  if (session.state != Session::State::Open) return 0;
  FrameReader& reader = session.channel->reader;
  if (!reader.refresh()) {
    closeMalformed(session, kImpossiblePosition);
    return 0;
  }
  uint32_t delivered = 0;
  session.has_unread = false;
  for (bool is_going_on = true; is_going_on && session.state == Session::State::Open;) {
    if (delivered == message_max) {
      session.has_unread = true;
      break;
    }
    switch (reader.step(roomBytes(session))) {
      case FrameStep::Message:
        ++delivered;
        deliver(session, reader.header(), reader.takeMessage());
        break;
      case FrameStep::Close:
        close(session, Status::Shutdown);
        break;
      case FrameStep::Bad:
        closeMalformed(session, "a frame header that makes no sense");
        break;
      case FrameStep::NoRoom:
        // Looked at again in every round, so that the thread stays awake.
        session.has_unread = true;
        is_short_of_memory_ = true;
        is_going_on = false;
        break;
      case FrameStep::Nothing:
        is_going_on = false;
        break;
    }
  }
  if (session.state != Session::State::Open) return delivered;
  if (reader.hasPart()) [[unlikely]]
    noteReception(session);
  if (reader.giveBack()) session.channel->wakePeer(session.socket.get());
  if (session.peer_has_ended && !session.has_unread) closeEnded(session);
  return delivered;
}

void ShmEndpoint::closeEnded(Session& session) {
  if (session.channel->reader.hasPart()) return closeMalformed(session, "it ended in the middle of a message");
  close(session, Status::SessionLost);
}

// Only clients have to wait: what the cluster's own processes say may be what frees memory.
uint64_t ShmEndpoint::roomBytes(const Session& session) const {
  if (!session.is_bounded) return UINT64_MAX;
  const uint64_t held_bytes = messages_.borrowedBytes() + queued_bytes_;
  return held_bytes < options_.held_bytes_max ? options_.held_bytes_max - held_bytes : 0;
}

void ShmEndpoint::noteReception(Session& session) {
  if (session.reception.is_going_on) return;
  const FrameReader& reader = session.channel->reader;
  session.reception.is_going_on = true;
  session.reception.message_count = reader.messageCount();
  session.reception.progress.begin(context_.clock.nowNs(), reader.receivedBytes());
  receiving_.push_back(session.id);
}

void ShmEndpoint::deliver(Session& session, const wire::FrameHeader& header, RxMessage message) {
  if (header.kind == wire::FrameKind::Response) {
    // An answer that nobody waits for is a late one of an abandoned call.
    PendingCall* call = session.channel->calls.finish(header.slot, header.sequence);
    if (call != nullptr) call->complete(*call, Status::Ok, std::move(message));
    return;
  }
  if (!session.channel->requests.begin(header.slot, header.sequence)) {
    closeMalformed(session, "two requests at once in one slot");
    return;
  }
  message.reply_to = ReplyTo{session.id, header.sequence, header.slot, header.response_bytes_max};
  message.priority = static_cast<runtime::Priority>(header.priority);
  requests_.push_back(std::move(message));
}

// ---- sleep

bool ShmEndpoint::prepareSleep() {
  if (!lost_.empty() || !broken_.empty() || are_timeouts_due_) return false;
  flush();
  if (!rings_.prepareSleep()) return false;
  if (hasDeadlines()) sleeper_.wakeBy(nextDeadlineNs());
  is_asleep_ = true;
  return true;
}

void ShmEndpoint::awake() {
  if (!std::exchange(is_asleep_, false)) return;
  rings_.awake();
  // What ended the sleep may be a deadline. If it is a socket, the sleeper has told.
  if (hasDeadlines()) callTimeouts();
}

}  // namespace ramcore::transport::shm
