// The life of sessions and of their queue pairs.
#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/os/stream_io.h"
#include "transport/verbs/verbs_endpoint.h"

namespace ramcore::transport::verbs {
namespace {

// How long a queue pair has to come to its end, in order or broken, before it is destroyed as it is.
constexpr int64_t kDrainNs = 1 * runtime::kNanosPerSecond;
// Told to the peer beside the queue pair, behind the last message.
constexpr std::byte kCloseByte{'c'};
constexpr uint32_t kDeparturesAtFirst = 1024;
constexpr uint32_t kSendsPerSlot = 3;  // a call, an answer, and the word of a transfer
constexpr uint32_t kSendsBesides = 64;

}  // namespace

// ---- queues

Outcome<bool> VerbsEndpoint::makeQueues() {
  const auto failed = [this](std::string_view what) {
    return Failure{Status::IoError,
                   "RDMA device " + device_.name() + " gives no " + std::string(what) + ": " + std::strerror(errno)};
  };
  events_.reset(ibv_create_comp_channel(device_.context()));
  if (events_ == nullptr) return failed("completion channel");
  for (const int fd : {events_->fd, device_.context()->async_fd}) {
    if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) return failed("events without waiting");
  }
  auto opened = receives_.open();
  if (!opened.ok()) return opened;
  const uint32_t buffers = std::min(options_.receive_buffers_max, device_.limits().receive_buffers);
  const auto arrivals = static_cast<int>(std::min(buffers + 1, device_.limits().completions));
  arrivals_.reset(ibv_create_cq(device_.context(), arrivals, nullptr, events_.get(), 0));
  departures_size_ = std::min(kDeparturesAtFirst, device_.limits().completions);
  departures_.reset(ibv_create_cq(device_.context(), static_cast<int>(departures_size_), nullptr, events_.get(), 0));
  if (arrivals_ == nullptr || departures_ == nullptr) return failed("completion queue");
  completions_ready_.key = sleeper_.listen(events_->fd, EPOLLIN, completions_ready_);
  device_ready_.key = sleeper_.listen(device_.context()->async_fd, EPOLLIN, device_ready_);
  if (completions_ready_.key == EpollSleeper::kNoKey || device_ready_.key == EpollSleeper::kNoKey) {
    return failed("events that can be waited for");
  }
  return true;
}

// A queue pair that breaks completes all that it was given, asked for or not: there is a place for each.
bool VerbsEndpoint::reserveCompletions(uint32_t more) {
  const uint32_t wanted = departures_reserved_ + more;
  if (wanted > departures_size_) {
    const uint32_t size = std::min(std::max(wanted, 2 * departures_size_), device_.limits().completions);
    if (size < wanted || ibv_resize_cq(departures_.get(), static_cast<int>(size)) != 0) return false;
    departures_size_ = size;
  }
  departures_reserved_ = wanted;
  return true;
}

std::unique_ptr<QueuePair> VerbsEndpoint::makePair(bool is_server, uint16_t slot_count, std::string& why) {
  const QueuePair::Size size{
      .sends = std::min(kSendsPerSlot * slot_count + kSendsBesides, device_.limits().queue_pair_sends),
      .gather = TxBuffer::kChunkCountMax + 1,
      .inline_bytes = options_.inline_bytes};
  if (!reserveCompletions(size.sends)) {
    why = "RDMA device " + device_.name() + " holds no more completions; have fewer sessions";
    return nullptr;
  }
  if (auto wanted = receives_.want(receives_wanted_ + slot_count + 1u); !wanted.ok()) {
    departures_reserved_ -= size.sends;
    why = wanted.error().message;
    return nullptr;
  }
  std::array<std::byte, 4> random{};
  context_.entropy.fill(random);
  auto pair = QueuePair::make({device_, departures_.get(), arrivals_.get(), receives_.queue()}, size, !is_server,
                              loadAs<uint32_t>(random.data()));
  if (!pair.ok()) {
    departures_reserved_ -= size.sends;
    why = pair.error().message;
    return nullptr;
  }
  // As many as were reserved: it may have been given fewer.
  departures_reserved_ -= size.sends - (*pair)->size().sends;
  // From now on, and not from when it is open: many that come at once must not count on the same buffers.
  receives_wanted_ += slot_count + 1u;
  return std::move(pair).value();
}

// ---- sessions

VerbsEndpoint::~VerbsEndpoint() {
  for (ReadyFlag* flag : {&listener_, &completions_ready_, &device_ready_}) sleeper_.unlisten(flag->key);
  sessions_.forEach([this](Session& session) {
    closeSocket(session);
    if (session.channel != nullptr) draining_.push_back(std::move(session.channel));
  });
  sessions_.clear();
  for (auto& channel : draining_) {
    if (!channel->has_failed) channel->queue.pair().fail();
    giveBack(*channel);
    channel.reset();
  }
  requests_.clear();
  dying_.clear();
  if (arrival_events_ != 0) ibv_ack_cq_events(arrivals_.get(), arrival_events_);
  if (departure_events_ != 0) ibv_ack_cq_events(departures_.get(), departure_events_);
}

Session& VerbsEndpoint::addSession() {
  ++young_count_;
  return *sessions_.add([this](SessionId id) { return std::make_unique<Session>(*this, id); });
}

void VerbsEndpoint::openSession(Session& session, MessageSink& sink) {
  Greeting& greeting = *session.greeting;
  std::string address = std::move(session.peer.address);
  session.peer = greeting.peer();
  session.peer.address = std::move(address);
  session.peer.transport = limits_.name;
  session.channel = std::make_unique<Channel>(parts_, greeting.takePair(), ++last_tag_, greeting.slotCount(),
                                              greeting.peerReceiveBytes());
  session.channel->session = &session;
  channels_[session.channel->queue.pair().number()] = session.channel.get();
  greeting_pairs_.erase(session.channel->queue.pair().number());
  places_.admit(session.channel->tag);
  early_count_ -= session.early.size();
  for (std::vector<std::byte>& bytes : session.early) early_messages_.push_back({session.id, std::move(bytes)});
  session.early.clear();
  session.greeting.reset();
  session.state = Session::State::Open;
  session.is_announced = true;
  --young_count_;
  if (session.is_accepted) --accepting_count_;
  ++open_count_;
  sink.onSessionOpen(session.id);
}

void VerbsEndpoint::close(Session& session, Status reason) {
  if (session.state == Session::State::Lost) return;
  const bool was_open = session.state == Session::State::Open;
  if (was_open) {
    --open_count_;
  } else {
    --young_count_;
    if (session.is_accepted) --accepting_count_;
    if (session.greeting != nullptr && session.greeting->hasPair()) {
      departures_reserved_ -= session.greeting->pair().size().sends;
      receives_wanted_ -= session.greeting->slotCount() + 1u;
      greeting_pairs_.erase(session.greeting->pair().number());
      // Something of it may have arrived, and must not be taken for another one's.
      std::unique_ptr<QueuePair> pair = session.greeting->takePair();
      pair->fail();
      dying_.push_back({std::move(pair), arrival_count_});
    }
    early_count_ -= session.early.size();
    session.early.clear();
  }
  if (session.is_bounded) clients_.remove();
  session.state = Session::State::Lost;
  session.lost_reason = reason;
  lost_.push_back(&session);
  sleeper_.unlisten(std::exchange(session.key, EpollSleeper::kNoKey));
  session.lookup.reset();
  session.greeting.reset();
  if (!was_open) {
    session.socket.reset();
    return;
  }
  // Not only when it is their turn: whoever comes and goes would have them grow.
  if (!waiting_reads_.empty()) {
    std::erase_if(waiting_reads_, [&](const WaitingRead& waiting) { return waiting.session == session.id; });
  }
  // One after the other: a call that completes may abandon those that still wait, and they are gone then.
  while (PendingCall* call = session.channel->calls.takeAny()) call->complete(*call, Status::SessionLost, RxMessage());
  std::unique_ptr<Channel> channel = std::move(session.channel);
  channel->session = nullptr;
  // Shutdown by us: what was posted still leaves, and then the peer is told.
  const bool in_order = reason == Status::Shutdown && !session.ends_in_order;
  drain(std::move(channel), std::move(session.socket), in_order);
}

void VerbsEndpoint::closeMalformed(Session& session, std::string_view why) {
  if (session.state == Session::State::Lost) return;
  ++bad_count_;
  warnings_.warn("closing the session with " + session.peer.address + ": " + std::string(why));
  close(session, Status::SessionLost);
}

// From where calls must not complete: the session is lost in the next round.
void VerbsEndpoint::closeLater(Session& session, std::string why, bool is_bad) {
  broken_.push_back(Broken{session.id, std::move(why), is_bad});
}

void VerbsEndpoint::closeBroken() {
  for (const Broken& broken : std::exchange(broken_, {})) {
    Session* session = findOpen(broken.session);
    if (session == nullptr) continue;
    if (broken.is_bad) {
      closeMalformed(*session, broken.why);
    } else {
      context_.trace.debug("verbs: lost " + session->peer.address + ": " + broken.why);
      close(*session, Status::SessionLost);
    }
  }
}

// What had arrived from them has been taken.
void VerbsEndpoint::closeEnded(bool nothing_arrived) {
  for (const SessionId id : std::exchange(ended_, {})) {
    Session* session = findOpen(id);
    if (session == nullptr) continue;
    if (nothing_arrived || hasTakenAll(session->ended_at)) {
      close(*session, session->ends_in_order ? Status::Shutdown : Status::SessionLost);
    } else {
      ended_.push_back(id);
    }
  }
}

// Announcing may lose or close other sessions, which then stand behind in the list.
void VerbsEndpoint::reportClosed(MessageSink& sink) {
  for (size_t i = 0; i < lost_.size(); ++i) {
    Session& session = *lost_[i];
    const SessionId id = session.id;
    open_failure_ = std::move(session.open_failure);
    if (session.is_announced) sink.onSessionLost(id, session.lost_reason);
    sessions_.remove(id);
  }
  lost_.clear();
}

void VerbsEndpoint::close(SessionId id) {
  Session* session = find(id);
  if (session != nullptr) close(*session, Status::Shutdown);
}

const Peer* VerbsEndpoint::peer(SessionId id) const {
  const Session* session = findOpen(id);
  return session != nullptr ? &session->peer : nullptr;
}

// ---- the end of a queue pair

void VerbsEndpoint::drain(std::unique_ptr<Channel> channel, Descriptor socket, bool in_order) {
  // Answers that waited for a place go at once: nobody reads them from where they are.
  for (ServedTransfer& served : channel->served) served.response = TxMessage();
  channel->responses_waiting = 0;
  if (in_order) {
    channel->socket = std::move(socket);
  } else {
    channel->queue.pair().fail();
    channel->has_failed = true;
  }
  wire::VerbsHeader header{};
  header.kind = wire::VerbsKind::Close;
  const bool is_posted = channel->queue.close(header);
  channel->drain_until_ns = is_posted ? context_.clock.nowNs() + kDrainNs : 0;
  draining_.push_back(std::move(channel));
  rounds_to_timeouts_ = std::min<uint32_t>(rounds_to_timeouts_, 256);
}

// By the clock: what has not ended in order by its time ends in error, and what has not ended by then is destroyed as
// it is.
void VerbsEndpoint::endDrains(int64_t now_ns) {
  for (auto& channel : draining_) {
    if (channel->is_settled || (!channel->queue.isEmpty() && now_ns < channel->drain_until_ns)) continue;
    if (channel->socket && channel->queue.isEmpty()) {
      size_t sent = 0;
      static_cast<void>(sendSome(channel->socket.get(), ByteSpan(&kCloseByte, 1), sent));
    }
    channel->socket.reset();
    const bool had_failed = std::exchange(channel->has_failed, true);
    if (!had_failed) channel->queue.pair().fail();
    if (!had_failed && !channel->queue.isEmpty()) {
      channel->drain_until_ns = now_ns + kDrainNs;  // for what it had to come back
      continue;
    }
    channel->is_settled = true;
    channel->settled_at = arrival_count_;
  }
}

// Those of which nothing can arrive any more: what is found later under the number of their queue pair is another
// one's.
void VerbsEndpoint::reapDrained(bool nothing_arrived) {
  const auto isOver = [&](uint64_t mark) { return nothing_arrived || hasTakenAll(mark); };
  std::erase_if(dying_, [&](const DyingPair& dying) { return isOver(dying.settled_at); });
  std::erase_if(draining_, [&](std::unique_ptr<Channel>& channel) {
    if (!channel->is_settled) {
      if (channel->queue.isEmpty()) callTimeouts();
      return false;
    }
    if (!isOver(channel->settled_at)) return false;
    channels_.erase(channel->queue.pair().number());
    departures_reserved_ -= channel->queue.pair().size().sends;
    receives_wanted_ -= channel->calls.slotCount() + 1u;
    giveBack(*channel);
    return true;
  });
}

// What transfers held; the queue pair must not use it any more, or cannot: it goes first. Only the windows that are
// bound to it go before it: software devices (rxe) wait for ten seconds else.
void VerbsEndpoint::giveBack(Channel& channel) {
  places_.forget(channel.tag);
  channel.queue.destroyPair();
  for (OwnTransfer& own : channel.own) {
    if (own.request != nullptr) places_.drop(std::move(own.request));
    if (own.response != nullptr) places_.drop(std::move(own.response));
  }
  for (ServedTransfer& served : channel.served) {
    if (served.into == nullptr) continue;
    read_messages_.held_bytes.fetch_sub(served.into_bytes, std::memory_order_relaxed);
    if (served.is_read) blocks_.drop(served.into);  // else the queue has it, or had
    served.into = nullptr;
  }
}

}  // namespace ramcore::transport::verbs
