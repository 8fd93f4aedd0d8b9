#include "transport/tcp/tcp_endpoint.h"

#include <sys/epoll.h>

#include <algorithm>

namespace ramcore::transport::tcp {

TcpEndpoint::TcpEndpoint(const TcpOptions& options, const TcpContext& context, const Limits& limits,
                         const Identity& identity, std::shared_ptr<ListeningList> listening)
    : options_(options),
      context_(context),
      limits_(limits),
      rounds_(context.sleeper),
      sessions_(*this, options_, context_, hot_, rounds_),
      writer_(options_, context_, sessions_, hot_, rounds_),
      reader_(options_, context_, sessions_, hot_, rounds_, memory_),
      greeter_({.options = options_,
                .context = context_,
                .limits = limits_,
                .identity = identity,
                .listening = *listening,
                .sessions = sessions_,
                .hot = hot_,
                .writer = writer_,
                .memory = memory_}),
      acceptor_(options_, context_, identity, std::move(listening), sessions_, greeter_),
      connector_(options_, context_, sessions_, greeter_) {}

// ---- sessions

void TcpEndpoint::close(SessionId id) {
  TcpSession* session = sessions_.find(id);
  if (session == nullptr || session->state == TcpSession::State::Lost) return;
  if (session->state == TcpSession::State::Open) TcpWriter::sayClose(*session);
  sessions_.close(*session, Status::Shutdown);
}

const Peer* TcpEndpoint::peer(SessionId id) const {
  const TcpSession* session = sessions_.findOpen(id);
  return session != nullptr ? &session->peer : nullptr;
}

bool TcpEndpoint::hasVanished(SessionId id) const {
  const TcpSession* session = sessions_.findOpen(id);
  return session != nullptr && hasPeerVanished(session->socket.fd());
}

// ---- calls

Status TcpEndpoint::call(SessionId id, TxMessage& request, const CallOptions& options, PendingCall& call) {
  TcpSession* session = sessions_.findOpen(id);
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
  writer_.send(*session, header, std::move(request));
  hot_.add(*session);  // for the answer
  return Status::Ok;
}

void TcpEndpoint::abandon(SessionId id, PendingCall& call) {
  // The session need not be open: while one is being closed, a call that completes may abandon others.
  TcpSession* session = sessions_.find(id);
  if (session == nullptr || !session->channel || !call.in_flight) return;
  session->channel->queue.copyUnowned(call.slot, call.sequence);
  session->channel->calls.abandon(call);
}

void TcpEndpoint::reply(const ReplyTo& to, TxMessage response) {
  TcpSession* session = sessions_.findOpen(to.session);
  if (session == nullptr || !session->channel->requests.finish(to.slot, to.sequence)) return;
  RC_CHECK_MSG(response.messageBytes() <= limits_.message_bytes_max,
               "the rpc layer replaces answers that are too long");
  wire::FrameHeader header{};
  header.kind = wire::FrameKind::Response;
  header.slot = to.slot;
  header.sequence = to.sequence;
  writer_.send(*session, header, std::move(response));
}

// ---- rounds

uint32_t TcpEndpoint::poll(MessageSink& sink, uint32_t message_max) {
  RC_DCHECK(message_max >= 1 && message_max <= limits_.burst_messages_max);
  if (rounds_.isDue()) askSleeper();
  if (sessions_.hasFailed()) [[unlikely]]
    sessions_.closeFailed();
  uint32_t delivered = 0;
  if (!hot_.empty()) {
    delivered = hot_.readAll(message_max, [&](TcpSession& session, uint32_t count_max) -> uint32_t {
      if (session.state == TcpSession::State::Open) return reader_.read(session, count_max);
      if (session.state == TcpSession::State::Greeting) greeter_.step(session, sink);
      return 0;
    });
  }
  reader_.handOver(sink);
  if (sessions_.hasClosed()) [[unlikely]]
    sessions_.report(sink, open_failure_);
  return delivered;
}

void TcpEndpoint::askSleeper() {
  rounds_.noteAsked(context_.sleeper.poll() == 0 && hot_.empty());
  acceptor_.acceptAll();
  if (hasDeadlines()) {
    const int64_t now_ns = context_.clock.nowNs();
    sessions_.checkPending(now_ns, [this](const TcpSessions::Pointer& session) { connector_.attempt(session); });
    writer_.checkBlocked(now_ns);
  }
  if (reader_.hasReceptions() || memory_.is_short) {
    const int64_t now_ns = context_.clock.nowNs();
    reader_.checkReceptions(now_ns);
    if (std::exchange(memory_.is_short, false)) evictStalled(now_ns);
  }
  rounds_.planNext(hasDeadlines(), !hot_.empty());
}

// Closes the session without progress that holds most. The sessions that make progress will free memory themselves.
void TcpEndpoint::evictStalled(int64_t now_ns) {
  LargestHolder<TcpSession> largest;
  writer_.considerStalled(largest, now_ns);
  reader_.considerStalled(largest, now_ns);
  TcpSession* const worst = largest.session();
  if (worst == nullptr) return;
  sessions_.warnings().warn("closing the session with " + worst->peer.address +
                            ": memory for messages is used up, and " + std::to_string(largest.bytes()) +
                            " bytes of it wait for this peer");
  sessions_.closeLater(*worst, "it makes no progress and memory is short");
}

void TcpSession::onReady(uint32_t events) {
  if (endpoint != nullptr) endpoint->onReady(*this, events);
}

void TcpEndpoint::onReady(TcpSession& session, uint32_t events) {
  session.is_drained = false;
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) session.has_ended = true;
  if (session.is_write_armed && (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) writer_.unblock(session);
  if (!session.isReadPaused(options_.unsent_bytes_max)) hot_.add(session);
}

// ---- sleep

bool TcpEndpoint::hasTimeouts() const {
  return hasDeadlines() || reader_.hasReceptions() || memory_.is_short || acceptor_.isReady();
}

bool TcpEndpoint::hasWork() const {
  return !hot_.empty() || sessions_.hasClosed() || sessions_.hasFailed() || writer_.hasUnflushed() || acceptor_.isDue();
}

bool TcpEndpoint::prepareSleep() {
  flush();
  // Sessions that are not kept had nothing at their last look. If something has come since, or comes now, the sleep
  // ends at once, because it begins with a look.
  hot_.keepIf([this](const TcpSession& session) { return session.mustRead(options_.unsent_bytes_max); });
  if (hasWork()) return false;
  context_.sleeper.wakeBy(nextDeadlineNs());
  return true;
}

void TcpEndpoint::awake() {
  rounds_.awake(!hot_.empty());
  if (hasTimeouts()) rounds_.askSoon();
}

int64_t TcpEndpoint::nextDeadlineNs() const {
  return std::min({acceptor_.nextNs(), sessions_.nextPendingNs(), writer_.nextBlockedNs(), reader_.nextReceptionNs()});
}

}  // namespace ramcore::transport::tcp
