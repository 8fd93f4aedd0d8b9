#include "transport/tcp/tcp_endpoint.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace ramcore::transport::tcp {
namespace {

// More sessions than this are not read without asking the sleeper: a look that finds nothing is a system call.
constexpr size_t kHotSessionsMax = 64;
// A session cools down after so many looks that found nothing. One that was made while others had messages counts as
// many: it took time from them.
constexpr uint32_t kMissesMax = 512;
constexpr uint32_t kMissWeightBusy = 16;
// Rounds between two questions to the sleeper, each a system call. While no session is hot a round costs next to
// nothing, so that the first message of a quiet session waits less than a microsecond longer.
constexpr uint32_t kRoundsCold = 8;
// ... unless the thread spins for another endpoint and nothing happens here for a while: then the question would be
// most of what its rounds cost.
constexpr uint32_t kRoundsColdMax = 64;
constexpr uint32_t kRoundsHot = 128;

}  // namespace

const uint32_t TcpEndpoint::kReadEvents = EPOLLIN | EPOLLRDHUP;

TcpEndpoint::TcpEndpoint(const TcpOptions& options, const TcpContext& context, const Limits& limits,
                         const Identity& identity, std::shared_ptr<ListeningList> listening)
    : options_(options),
      context_(context),
      limits_(limits),
      identity_(identity),
      listening_(std::move(listening)),
      io_(context.sleeper.ioContext()),
      shared_block_(blocks_),
      clients_(options.sessions_max),
      spare_(openSpare()),
      warnings_(context.clock, context.trace, "tcp: ") {}

TcpEndpoint::~TcpEndpoint() {
  for (const auto& listener : listeners_) {
    context_.sleeper.unlisten(listener->key);
    listening_->remove(listener->locator);
  }
  for (const SessionPointer& session : sessions_) {
    if (session != nullptr) letGo(*session);
  }
}

// ---- sessions

TcpSession* TcpEndpoint::find(SessionId id) const {
  if (id.index >= sessions_.size()) return nullptr;
  TcpSession* session = sessions_[id.index].get();
  return session != nullptr && session->id == id ? session : nullptr;
}

TcpSession* TcpEndpoint::findOpen(SessionId id) const {
  TcpSession* session = find(id);
  return session != nullptr && session->state == TcpSession::State::Open ? session : nullptr;
}

TcpEndpoint::SessionPointer TcpEndpoint::addSession() {
  auto index = static_cast<uint32_t>(sessions_.size());
  if (!free_indices_.empty()) {
    index = free_indices_.back();
    free_indices_.pop_back();
  } else {
    sessions_.emplace_back();
    generations_.push_back(0);
  }
  sessions_[index] = std::make_shared<TcpSession>(*this, SessionId{index, ++generations_[index]});
  young_.push_back(sessions_[index]->id);
  ++session_count_;
  rounds_to_sleeper_ = 1;
  return sessions_[index];
}

void TcpEndpoint::close(TcpSession& session, Status reason) {
  if (session.state == TcpSession::State::Lost) return;
  --session_count_;
  if (session.state == TcpSession::State::Open) {
    --open_count_;
    if (session.is_bounded) clients_.remove();
  } else if (session.is_accepted) {
    --accepting_count_;
  }
  session.state = TcpSession::State::Lost;
  session.lost_reason = reason;
  lost_.push_back(&session);
  if (session.resolver) session.resolver->cancel();
  closeSocket(session);
  if (!session.channel) return;
  unsent_bytes_ -= session.channel->queue.unsentBytes();
  session.channel->queue.clear();
  while (PendingCall* call = session.channel->calls.takeAny()) call->complete(*call, Status::SessionLost, RxMessage());
}

void TcpEndpoint::closeMalformed(TcpSession& session, std::string_view why) {
  if (session.state == TcpSession::State::Lost) return;
  ++bad_count_;
  warnings_.warn("closing the session with " + session.peer.address + ": " + std::string(why));
  close(session, Status::SessionLost);
}

// From where calls must not complete: the session is lost in the next round.
void TcpEndpoint::closeLater(TcpSession& session, std::string why, bool is_bad) {
  broken_.push_back(Broken{session.id, std::move(why), is_bad});
}

void TcpEndpoint::closeBroken() {
  for (const Broken& broken : std::exchange(broken_, {})) {
    TcpSession* session = findOpen(broken.session);
    if (session == nullptr) continue;
    if (broken.is_bad) {
      closeMalformed(*session, broken.why);
    } else {
      context_.trace.debug("tcp: lost " + session->peer.address + ": " + broken.why);
      close(*session, Status::SessionLost);
    }
  }
}

// Announcing may lose other sessions, which then stand behind in the list.
void TcpEndpoint::reportClosed(MessageSink& sink) {
  for (size_t i = 0; i < lost_.size(); ++i) {
    const SessionId id = lost_[i]->id;
    open_failure_ = std::move(lost_[i]->open_failure);
    if (lost_[i]->is_announced) sink.onSessionLost(id, lost_[i]->lost_reason);
    std::erase(hot_, lost_[i]);
    letGo(*lost_[i]);
    sessions_[id.index].reset();
    free_indices_.push_back(id.index);
  }
  lost_.clear();
}

// Handlers may keep the session alive for longer, but nothing in it that belongs to us.
void TcpEndpoint::letGo(TcpSession& session) {
  session.endpoint = nullptr;
  session.channel.reset();
  session.handshake.reset();
  closeSocket(session);
}

void TcpEndpoint::close(SessionId id) {
  TcpSession* session = find(id);
  if (session == nullptr || session->state == TcpSession::State::Lost) return;
  if (session->state == TcpSession::State::Open) sayClose(*session);
  close(*session, Status::Shutdown);
}

const Peer* TcpEndpoint::peer(SessionId id) const {
  const TcpSession* session = findOpen(id);
  return session != nullptr ? &session->peer : nullptr;
}

bool TcpEndpoint::hasVanished(SessionId id) const {
  const TcpSession* session = findOpen(id);
  return session != nullptr && hasPeerVanished(session->socket.fd());
}

// ---- calls

Status TcpEndpoint::call(SessionId id, TxMessage& request, const CallOptions& options, PendingCall& call) {
  TcpSession* session = findOpen(id);
  if (session == nullptr) return Status::SessionLost;
  if (request.messageBytes() > limits_.message_bytes_max) return Status::TooLarge;
  if (session->channel->calls.isFull()) return Status::RetryLater;
  session->channel->calls.begin(call);
  wire::FrameHeader header{};
  header.kind = wire::FrameKind::Request;
  header.slot = call.slot;
  header.sequence = call.sequence;
  header.priority = static_cast<uint8_t>(options.priority);
  header.response_bytes_max = options.response_bytes_max;
  send(*session, header, std::move(request));
  makeHot(*session);  // for the answer
  return Status::Ok;
}

void TcpEndpoint::abandon(SessionId id, PendingCall& call) {
  // Also of a session that is just being lost: a call that completes may abandon others.
  TcpSession* session = find(id);
  if (session == nullptr || !session->channel || !call.in_flight) return;
  session->channel->queue.copyUnowned(call.slot, call.sequence);
  session->channel->calls.abandon(call);
}

void TcpEndpoint::reply(const ReplyTo& to, TxMessage response) {
  TcpSession* session = findOpen(to.session);
  if (session == nullptr || !session->channel->requests.finish(to.slot, to.sequence)) return;
  RC_CHECK_MSG(response.messageBytes() <= limits_.message_bytes_max,
               "the rpc layer replaces answers that are too long");
  wire::FrameHeader header{};
  header.kind = wire::FrameKind::Response;
  header.slot = to.slot;
  header.sequence = to.sequence;
  send(*session, header, std::move(response));
}

// ---- reading

uint32_t TcpEndpoint::poll(MessageSink& sink, uint32_t message_max) {
  RC_DCHECK(message_max >= 1 && message_max <= limits_.burst_messages_max);
  if (--rounds_to_sleeper_ == 0) askSleeper();
  if (!broken_.empty()) [[unlikely]]
    closeBroken();
  const uint32_t delivered = hot_.empty() ? 0 : readHot(sink, message_max);
  if (!requests_.empty()) {
    sink.onRequests(requests_);
    requests_.clear();
  }
  if (!lost_.empty()) [[unlikely]]
    reportClosed(sink);
  return delivered;
}

void TcpEndpoint::askSleeper() {
  const bool was_idle = context_.sleeper.poll() == 0 && hot_.empty();
  cold_rounds_ = was_idle ? std::min(cold_rounds_ * 2, kRoundsColdMax) : kRoundsCold;
  for (const auto& listener : listeners_) {
    if (listener->is_ready) acceptAll(*listener);
  }
  if (hasDeadlines()) {
    const int64_t now_ns = context_.clock.nowNs();
    checkDeadlines(now_ns);
    checkBlocked(now_ns);
  }
  if (!receiving_.empty() || is_short_of_memory_) {
    const int64_t now_ns = context_.clock.nowNs();
    checkReceiving(now_ns);
    if (std::exchange(is_short_of_memory_, false)) evictStalled(now_ns);
  }
  rounds_to_sleeper_ = hasDeadlines() ? 1 : hot_.empty() ? cold_rounds_ : kRoundsHot;
}

uint32_t TcpEndpoint::readHot(MessageSink& sink, uint32_t message_max) {
  uint32_t delivered = 0;
  // Sessions that become hot on the way are looked at in the next round.
  const size_t count = hot_.size();
  size_t at = first_hot_ < count ? first_hot_ : 0;
  for (size_t i = 0; i < count && delivered < message_max; ++i) {
    TcpSession& session = *hot_[at];
    at = at + 1 == count ? 0 : at + 1;
    if (session.state == TcpSession::State::Greeting) {
      stepGreeting(session, sink);
    } else if (session.state == TcpSession::State::Open) {
      delivered += readSession(session, message_max - delivered);
    }
  }
  first_hot_ = at;  // when the limit ended this round, the next one begins with the others
  miss_weight_ = delivered != 0 ? kMissWeightBusy : 1;
  settleHot();
  return delivered;
}

void TcpEndpoint::settleHot() {
  const uint32_t misses_max = hot_.size() > kHotSessionsMax ? 0 : kMissesMax;
  size_t kept = 0;
  for (TcpSession* session : hot_) {
    // One that has cooled down had nothing at its last look: the sleeper tells of what comes.
    session->is_hot = session->state != TcpSession::State::Lost && session->misses <= misses_max;
    if (session->is_hot) hot_[kept++] = session;
  }
  hot_.resize(kept);
}

void TcpEndpoint::makeHot(TcpSession& session) {
  session.misses = 0;
  if (session.is_hot || (session.state != TcpSession::State::Open && session.state != TcpSession::State::Greeting)) {
    return;
  }
  session.is_hot = true;
  hot_.push_back(&session);
}

// Only for answers: who calls goes on reading, or two sides with much to send would wait for each other.
bool TcpEndpoint::isReadPaused(const TcpSession& session) const {
  return session.channel && session.channel->queue.unsentAnswerBytes() > options_.unsent_bytes_max;
}

// There may be something that no change of the socket will tell of.
bool TcpEndpoint::mustRead(const TcpSession& session) const {
  return session.state != TcpSession::State::Lost && (!session.is_drained || session.has_unread) &&
         !isReadPaused(session);
}

void TcpSession::onReady(uint32_t events) {
  if (endpoint != nullptr) endpoint->onReady(*this, events);
}

void TcpEndpoint::onReady(TcpSession& session, uint32_t events) {
  session.is_drained = false;
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) session.has_ended = true;
  if (session.is_write_armed && (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) unblock(session);
  if (!isReadPaused(session)) makeHot(session);
}

uint32_t TcpEndpoint::readSession(TcpSession& session, uint32_t message_max) {
  if (isReadPaused(session)) return 0;
  if (!session.has_unread) {
    // It is looked at again in every round, and keeps the thread awake.
    if (mustWaitForMemory(session)) return 0;
    if (!readSocket(session)) {
      session.misses += miss_weight_;
      return 0;
    }
  }
  session.misses = 0;
  const uint32_t delivered = deliver(session, message_max);
  if (session.state == TcpSession::State::Open && !session.has_unread) noteReception(session);
  return delivered;
}

// True if something came.
bool TcpEndpoint::readSocket(TcpSession& session) {
  FrameReader& reader = session.channel->reader;
  const MutableByteSpan room = reader.room();
  Error error;
  const size_t bytes = session.socket.readSome(room, error);
  reader.received(static_cast<uint32_t>(bytes));
  if (!error) {
    // Less than there is room for is all there was; what comes later is told. Only the end may be told already.
    session.is_drained = bytes < room.size() && !session.has_ended;
    return true;
  }
  if (error == asio::error::would_block || error == asio::error::try_again) {
    session.is_drained = true;
    return false;
  }
  if (error == asio::error::interrupted) return false;
  if (error == asio::error::eof && reader.hasPart()) {
    closeMalformed(session, "it ended in the middle of a message");
    return false;
  }
  context_.trace.debug("tcp: lost " + session.peer.address + ": " + error.message());
  close(session, Status::SessionLost);
  return false;
}

uint32_t TcpEndpoint::deliver(TcpSession& session, uint32_t message_max) {
  uint32_t delivered = 0;
  session.has_unread = true;
  while (session.state == TcpSession::State::Open && delivered < message_max) {
    switch (session.channel->reader.step()) {
      case FrameStep::Message:
        ++delivered;
        deliverMessage(session);
        break;
      case FrameStep::Close:
        close(session, Status::Shutdown);
        break;
      case FrameStep::Bad:
        closeMalformed(session, "a frame header that makes no sense");
        break;
      case FrameStep::Nothing:
        session.has_unread = false;
        return delivered;
    }
  }
  return delivered;
}

void TcpEndpoint::deliverMessage(TcpSession& session) {
  const wire::FrameHeader header = session.channel->reader.header();
  RxMessage message = session.channel->reader.takeMessage();
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

bool TcpEndpoint::hasTimeouts() const {
  return hasDeadlines() || !receiving_.empty() || is_short_of_memory_ ||
         std::any_of(listeners_.begin(), listeners_.end(), [](const auto& listener) { return listener->is_ready; });
}

bool TcpEndpoint::hasWork() const {
  return !hot_.empty() || !lost_.empty() || !broken_.empty() || !dirty_.empty() ||
         std::any_of(listeners_.begin(), listeners_.end(), [](const auto& listener) { return listener->isDue(); });
}

bool TcpEndpoint::prepareSleep() {
  flush();
  // The others had nothing at their last look. What has come since, or comes now, ends the sleep at once: the sleep
  // itself is the look that follows.
  size_t kept = 0;
  for (TcpSession* session : hot_) {
    session->is_hot = mustRead(*session);
    if (session->is_hot) hot_[kept++] = session;
  }
  hot_.resize(kept);
  if (hasWork()) return false;
  context_.sleeper.wakeBy(nextDeadlineNs());
  return true;
}

// What woke the thread was told with the sleep: the sleeper is not asked once more at once. If there was no sleep,
// because somebody else had something to do, the rounds until it is asked count on: that may be so for long.
void TcpEndpoint::awake() {
  const uint64_t looks = context_.sleeper.lookCount();
  if (std::exchange(looks_seen_, looks) != looks) {
    cold_rounds_ = 1;
    rounds_to_sleeper_ = hot_.empty() ? kRoundsCold : kRoundsHot;
  } else if (hot_.empty()) {
    rounds_to_sleeper_ = std::min(rounds_to_sleeper_, std::max(cold_rounds_, kRoundsCold));
  }
  if (hasTimeouts()) rounds_to_sleeper_ = 1;
}

int64_t TcpEndpoint::nextDeadlineNs() const {
  int64_t next_ns = runtime::kNever;
  for (const auto& listener : listeners_) next_ns = std::min(next_ns, listener->pause.untilNs());
  for (const SessionId id : young_) {
    const TcpSession* session = find(id);
    if (session == nullptr) continue;
    next_ns = std::min(next_ns, session->deadline_ns);
    if (session->state == TcpSession::State::Connecting) next_ns = std::min(next_ns, session->attempt_again_ns);
  }
  for (const SessionId id : blocked_) {
    const TcpSession* session = findOpen(id);
    if (session == nullptr) continue;
    next_ns = std::min(next_ns, session->is_copied_out ? session->sending.sinceNs() + options_.stall_close_ns
                                                       : session->first_since_ns + options_.stall_copy_ns);
    const int64_t borrowed_ns = session->channel->queue.oldestBorrowedNs();
    if (borrowed_ns != runtime::kNever) next_ns = std::min(next_ns, borrowed_ns + options_.borrowed_ns_max);
  }
  for (const SessionId id : receiving_) {
    const TcpSession* session = findOpen(id);
    if (session == nullptr) continue;
    next_ns = std::min(next_ns, session->reception.progress.sinceNs() + options_.stall_close_ns);
  }
  return next_ns;
}

}  // namespace ramcore::transport::tcp
