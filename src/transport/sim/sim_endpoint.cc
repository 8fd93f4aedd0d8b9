#include "transport/sim/sim_endpoint.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mutation.h"
#include "transport/session/open_failure.h"
#include "wire/frame.h"

namespace ramcore::transport {
SimEndpoint::SimEndpoint(SimSessions& network, runtime::Random random, runtime::SimClock& clock, const Limits& limits,
                         std::string node, const Identity& identity, std::function<void()> wake)
    : network_(network),
      clock_(clock),
      limits_(limits),
      node_(std::move(node)),
      identity_(identity),
      wake_(std::move(wake)),
      random_(random),
      sender_(network, *this, wake_) {}

SimEndpoint::~SimEndpoint() {
  RC_CHECK(!polling_);
  network_.unbind(*this);
  for (const SimFrame& frame : inbox_) {
    if (frame.kind == SimFrameKind::Hello) network_.sendControl(frame.connection, 1, SimFrameKind::Lost);
  }
  sessions_.forEach([this](const Session& session) {
    network_.sendControl(session.connection, session.end, SimFrameKind::Lost);
    network_.detach(session.connection, session.end);
  });
}

// ---- Sessions

SimEndpoint::Session& SimEndpoint::addSession() {
  return *sessions_.add([this](SessionId id) {
    auto session = std::make_unique<Session>(*this);
    session->id = id;
    return session;
  });
}

void SimEndpoint::setSlots(Session& session, uint16_t slot_count) {
  session.slots.resize(slot_count);
  session.served.resize(slot_count);
  for (uint16_t slot = slot_count; slot-- > 0;) session.free_slots.push_back(slot);
}

std::unique_ptr<SimEndpoint::Session> SimEndpoint::removeSession(SessionId id) {
  std::unique_ptr<Session> session = sessions_.remove(id);
  session->cancel();
  if (session->state == State::Open) --open_count_;
  network_.detach(session->connection, session->end);
  return session;
}

Outcome<Locator> SimEndpoint::listen(const Locator& where) { return network_.bind(where, *this); }

SessionId SimEndpoint::connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) {
  Session& session = addSession();
  session.connection = network_.openConnection(node_, *this, session.id, where.host);
  session.end = 0;
  session.expected_id = expected_id;
  session.peer.address = where.toString();
  network_.scheduler().at(session, clock_.simTimeOf(deadline_ns));
  network_.send(network_.makeFrame({.kind = SimFrameKind::Hello,
                                    .from_end = 0,
                                    .connection = session.connection,
                                    .expected_id = expected_id,
                                    .identity = identity_,
                                    .slot = limits_.slots_per_session}));
  return session.id;
}

void SimEndpoint::openSession(Session& session, const Identity& peer, const std::string& peer_node) {
  session.cancel();
  session.state = State::Open;
  ++open_count_;
  session.peer.role = peer.role;
  session.peer.id = peer.id;
  session.peer.transport = limits_.name;
  if (session.peer.address.empty()) session.peer.address = "sim://" + peer_node;
}

const Peer* SimEndpoint::peer(SessionId id) const {
  const Session* session = find(id);
  return session != nullptr && session->state == State::Open ? &session->peer : nullptr;
}

void SimEndpoint::completeAll(Session& session, Status status) {
  ending_.push_back(&session);
  for (Slot& slot : session.slots) {
    PendingCall* call = std::exchange(slot.call, nullptr);
    if (call == nullptr) continue;
    call->in_flight = false;
    call->complete(*call, status, RxMessage());
  }
  std::erase(ending_, &session);
}

std::optional<SimSender::Owner::Way> SimEndpoint::wayOf(SessionId id) const {
  const Session* session = find(id);
  if (session == nullptr) return std::nullopt;
  return Way{.connection = session->connection, .end = session->end};
}

void SimEndpoint::close(SessionId id) {
  if (find(id) == nullptr) return;
  network_.sendControl(find(id)->connection, find(id)->end, SimFrameKind::Close);
  const std::unique_ptr<Session> session = removeSession(id);
  closed_.push_back(id);
  if (wake_) wake_();
  completeAll(*session, Status::SessionLost);
}

// ---- Calls and answers

TxMessage SimEndpoint::allocate(uint32_t head_bytes) { return TxMessage(network_.buffers().takeBuffer(head_bytes)); }

Status SimEndpoint::call(SessionId id, TxMessage& request, const CallOptions& options, PendingCall& call) {
  RC_CHECK_MSG(!call.in_flight, "a call was started that is in flight");
  Session* session = find(id);
  if (session == nullptr || session->state != State::Open) return Status::SessionLost;
  if (request.messageBytes() > limits_.message_bytes_max || request->contiguous_bytes > wire::kHeadBytesMax) {
    return Status::TooLarge;
  }
  if (session->free_slots.empty()) return Status::RetryLater;
  const uint16_t slot_index = session->free_slots.back();
  session->free_slots.pop_back();
  Slot& slot = session->slots[slot_index];
  RC_CHECK(!slot.is_taken && slot.call == nullptr);
  slot.call = &call;
  slot.is_taken = true;
  slot.is_lost = false;
  ++slot.sequence;
  call.slot = slot_index;
  call.sequence = slot.sequence;
  call.in_flight = true;

  SimSending& sending = sender_.queue(std::move(request));
  sending.kind = SimFrameKind::Request;
  sending.session = id;
  sending.slot = slot_index;
  sending.sequence = slot.sequence;
  sending.priority = options.priority;
  sending.response_bytes_max = options.response_bytes_max;
  return Status::Ok;
}

void SimEndpoint::reply(const ReplyTo& to, TxMessage response) {
  if (find(to.session) == nullptr) return;
  SimSending& sending = sender_.queue(std::move(response));
  sending.kind = SimFrameKind::Response;
  sending.session = to.session;
  sending.slot = to.slot;
  sending.sequence = to.sequence;
}

void SimEndpoint::abandon(SessionId id, PendingCall& call) {
  if (!call.in_flight) return;
  call.in_flight = false;
  Session* session = find(id);
  if (session == nullptr) {
    for (Session* ending : ending_) {
      if (ending->id == id) releaseCall(*ending, call);
    }
    return;
  }
  releaseCall(*session, call);
  sender_.keepUnowned(id, call);
  if (session->slots[call.slot].is_lost) freeSlot(*session, call.slot);
}

void SimEndpoint::releaseCall(Session& session, const PendingCall& call) {
  Slot& slot = session.slots[call.slot];
  RC_CHECK(slot.call == &call && slot.sequence == call.sequence);
  slot.call = nullptr;
}

void SimEndpoint::freeSlot(Session& session, uint16_t slot_index) {
  Slot& slot = session.slots[slot_index];
  RC_CHECK(slot.is_taken && slot.call == nullptr);
  slot.is_taken = false;
  session.free_slots.push_back(slot_index);
}

// ---- Events outside of the process

void SimEndpoint::deliver(SimFrameList frame, SessionId session) {
  frame.front().session = session;
  inbox_.splice(inbox_.end(), frame);
  if (wake_) wake_();
}

void SimEndpoint::onConnectDeadline(SessionId session) {
  deliver(network_.makeFrame({.kind = SimFrameKind::Expired}), session);
}

void SimEndpoint::onMessageLost(SessionId id, uint16_t slot_index, uint32_t sequence) {
  Session* session = find(id);
  if (session == nullptr) return;
  Slot& slot = session->slots[slot_index];
  if (!slot.is_taken || slot.sequence != sequence) return;
  slot.is_lost = true;
  if (slot.call == nullptr) {
    freeSlot(*session, slot_index);
  } else {
    network_.watchLost(session->connection, session->end, slot_index, sequence);
  }
}

bool SimEndpoint::stillWaitsForLost(SessionId id, uint16_t slot_index, uint32_t sequence) const {
  const Session* session = find(id);
  if (session == nullptr) return false;
  const Slot& slot = session->slots[slot_index];
  return slot.is_taken && slot.is_lost && slot.sequence == sequence;
}

// ---- Polling

uint32_t SimEndpoint::poll(MessageSink& sink, uint32_t message_max) {
  RC_CHECK_MSG(!polling_, "poll was called from inside poll");
  RC_CHECK(message_max >= 1 && message_max <= limits_.burst_messages_max);
  polling_ = true;
  delivered_ = 0;
  sender_.releaseSent();
  sender_.copyOutOverdue();
  tellClosed(sink);
  while (delivered_ < message_max && !inbox_.empty()) {
    SimFrameList one;
    one.splice(one.end(), inbox_, inbox_.begin());
    process(sink, std::move(one));
  }
  handOver(sink);
  tellClosed(sink);
  polling_ = false;
  return delivered_;
}

void SimEndpoint::tellClosed(MessageSink& sink) {
  if (closed_.empty()) return;
  std::vector<SessionId> closed;
  closed.swap(closed_);
  for (const SessionId session : closed) sink.onSessionLost(session, Status::Shutdown);
}

void SimEndpoint::process(MessageSink& sink, SimFrameList one) {
  const SimFrame& frame = one.front();
  switch (frame.kind) {
    case SimFrameKind::Hello:
      processHello(sink, frame);
      break;
    case SimFrameKind::Welcome:
      processWelcome(sink, frame);
      break;
    case SimFrameKind::Refusal:
      closeSession(sink, frame.session, frame.status);
      break;
    case SimFrameKind::Request:
      processRequest(std::move(one));
      break;
    case SimFrameKind::Response:
      processResponse(std::move(one));
      break;
    case SimFrameKind::Close:
      closeSession(sink, frame.session, Status::Shutdown);
      break;
    case SimFrameKind::Lost:
      closeSession(sink, frame.session, Status::SessionLost);
      break;
    case SimFrameKind::Expired: {
      const Session* session = find(frame.session);
      if (session != nullptr && session->state == State::Connecting) {
        network_.sendControl(session->connection, session->end, SimFrameKind::Close);
        closeSession(sink, frame.session, Status::Unreachable);
      }
      break;
    }
    case SimFrameKind::GiveUp:
      break;
  }
}

Status SimEndpoint::judge(const Identity& other) const {
  if (other.cluster_name != identity_.cluster_name || other.secret != identity_.secret) return Status::Refused;
  const bool both_know = other.cluster != 0 && identity_.cluster != 0;
  const bool is_other = both_know && other.cluster != identity_.cluster;
  return is_other && !RC_MUTATION("obey-another-cluster") ? Status::WrongCluster : Status::Ok;
}

void SimEndpoint::processHello(MessageSink& sink, const SimFrame& hello) {
  Status verdict = judge(hello.identity);
  if (verdict == Status::Ok && hello.expected_id != 0 && hello.expected_id != identity_.id) {
    const bool may_become = identity_.id == 0 && identity_.role == Role::Server;
    verdict = may_become ? Status::RetryLater : Status::WrongServerId;
  }
  if (verdict != Status::Ok) {
    network_.send(network_.makeFrame(
        {.kind = SimFrameKind::Refusal, .from_end = 1, .connection = hello.connection, .status = verdict}));
    return;
  }
  Session& session = addSession();
  session.connection = hello.connection;
  session.end = 1;
  const SessionId id = session.id;
  if (!network_.acceptConnection(hello.connection, *this, id)) {
    removeSession(id);
    return;
  }
  const uint16_t slot_count = std::min(hello.slot, limits_.slots_per_session);
  setSlots(session, slot_count);
  openSession(session, hello.identity, network_.nodeOf(hello.connection, 0));
  network_.send(network_.makeFrame({.kind = SimFrameKind::Welcome,
                                    .from_end = 1,
                                    .connection = hello.connection,
                                    .identity = identity_,
                                    .slot = slot_count}));
  handOver(sink);
  sink.onSessionOpen(id);
}

void SimEndpoint::processWelcome(MessageSink& sink, const SimFrame& welcome) {
  Session* session = find(welcome.session);
  if (session == nullptr || session->state != State::Connecting) return;
  setSlots(*session, welcome.slot);
  openSession(*session, welcome.identity, network_.nodeOf(session->connection, 1));
  handOver(sink);
  sink.onSessionOpen(welcome.session);
}

void SimEndpoint::processRequest(SimFrameList one) {
  const SimFrame& frame = one.front();
  Session* session = find(frame.session);
  if (session == nullptr || session->state != State::Open) {
    if (frame.is_copy) suppress();
    return;
  }
  if (frame.sequence <= session->served[frame.slot]) return suppress();
  session->served[frame.slot] = frame.sequence;
  const ReplyTo reply_to{.session = frame.session,
                         .sequence = frame.sequence,
                         .slot = frame.slot,
                         .response_bytes_max = frame.response_bytes_max};
  const runtime::Priority priority = frame.priority;
  RxMessage message = network_.borrow(std::move(one), random_);
  message.reply_to = reply_to;
  message.priority = priority;
  batch_.push_back(std::move(message));
  ++delivered_;
}

void SimEndpoint::processResponse(SimFrameList one) {
  const SimFrame& frame = one.front();
  Session* session = find(frame.session);
  if (session == nullptr || session->state != State::Open) return;
  const uint16_t slot_index = frame.slot;
  Slot& slot = session->slots[slot_index];
  // The call was answered before. A request has one answer, so this is a copy of that.
  if (!slot.is_taken || slot.sequence != frame.sequence) return suppress();
  PendingCall* call = std::exchange(slot.call, nullptr);
  freeSlot(*session, slot_index);
  if (call == nullptr) return;
  ++delivered_;
  call->in_flight = false;
  call->complete(*call, Status::Ok, network_.borrow(std::move(one), random_));
}

void SimEndpoint::closeSession(MessageSink& sink, SessionId id, Status reason) {
  if (find(id) == nullptr) return;
  handOver(sink);
  if (find(id) == nullptr) return;  // the sink has closed it
  const std::unique_ptr<Session> session = removeSession(id);
  if (session->state == State::Connecting && reason != Status::Refused && reason != Status::WrongServerId &&
      reason != Status::WrongCluster && reason != Status::RetryLater) {
    reason = Status::Unreachable;
  }
  completeAll(*session, Status::SessionLost);
  open_failure_ = openFailureOf(reason, std::string(name(reason)));
  sink.onSessionLost(id, reason);
}

void SimEndpoint::handOver(MessageSink& sink) {
  if (batch_.empty()) return;
  std::vector<RxMessage> batch;
  batch.swap(batch_);
  sink.onRequests(batch);
}

}  // namespace ramcore::transport
