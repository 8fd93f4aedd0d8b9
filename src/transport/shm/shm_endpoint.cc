#include "transport/shm/shm_endpoint.h"

#include <algorithm>
#include <utility>

#include "wire/frame.h"

namespace ramcore::transport::shm {
namespace {

// An idle round takes about 10 ns: the clock is read every 50 us or so.
constexpr uint32_t kRoundsPerLook = 4096;
// While a handshake is going on its next step is looked for this often, and so is room that messages wait for.
constexpr uint32_t kRoundsPerLookInGreeting = 256;
constexpr uint32_t kRoundsPerLookWhileBlocked = 256;
// How often the sockets are asked while the thread spins: with nothing else to do, and while messages flow. The second
// bounds how long a busy server lets a new client or the news of a death wait.
constexpr int64_t kIdleTimeoutsNs = 5 * runtime::kNanosPerMilli;
constexpr int64_t kBusyTimeoutsNs = 50 * runtime::kNanosPerMilli;
// The same while messages wait for room: their bytes may be borrowed, and have to go back to their owners in time.
constexpr int64_t kBlockedTimeoutsNs = 1 * runtime::kNanosPerMilli;

// A head may be longer than the part that the receiver needs in one piece.
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

Limits ShmEndpoint::limitsOf(const ShmOptions& options) {
  Limits limits;
  limits.name = "shm";
  limits.message_bytes_max = wire::kMessageBytesMax;
  limits.gather_count_max = TxBuffer::kChunkCountMax;
  limits.burst_messages_max = 64;
  limits.slots_per_session = options.slots_per_session;
  limits.zero_copy_bytes_min = options.zero_copy_bytes_min;
  return limits;
}

ShmEndpoint::ShmEndpoint(const ShmOptions& options, const ShmContext& context, const Identity& identity)
    : options_(options),
      context_(context),
      limits_(limitsOf(options)),
      sleeper_(context.sleeper != nullptr ? *context.sleeper : own_sleeper_.emplace(context.clock)),
      rounds_(sleeper_),
      sessions_(*this, options_, context_, sleeper_, rings_),
      writer_(options_, context_, sessions_, rounds_),
      reader_(options_, context_, sessions_, writer_, messages_),
      acceptor_(options_, sleeper_, sessions_, rounds_),
      greeter_({.options = options_,
                .context = context_,
                .limits = limits_,
                .identity = identity,
                .locators = acceptor_.locators(),
                .sessions = sessions_,
                .messages = messages_}),
      sockets_(sessions_, greeter_, rounds_) {}

// ---- sessions

void ShmEndpoint::close(SessionId id) {
  Session* session = sessions_.find(id);
  if (session == nullptr || session->state == Session::State::Lost) return;
  if (session->state == Session::State::Open) {
    wire::FrameHeader header{};
    header.kind = wire::FrameKind::Close;
    session->channel->writer.tryFinish(header);
    session->channel->wakePeer(session->socket.get());
  }
  sessions_.close(*session, Status::Shutdown);
}

const Peer* ShmEndpoint::peer(SessionId id) const {
  const Session* session = sessions_.findOpen(id);
  return session != nullptr ? &session->peer : nullptr;
}

void Session::onReady(uint32_t events) { endpoint.onReady(*this, events); }

// ---- calls

Status ShmEndpoint::call(SessionId id, TxMessage& request, const CallOptions& options, PendingCall& call) {
  Session* session = sessions_.findOpen(id);
  if (session == nullptr) return Status::SessionLost;
  Channel& channel = *session->channel;
  if (request.messageBytes() > limits_.message_bytes_max) return Status::TooLarge;
  if (channel.calls.isFull()) return Status::RetryLater;
  channel.calls.begin(call);
  const wire::FrameHeader header = requestHeader(request, options, call);
  writer_.send(*session, header, std::move(request));
  return Status::Ok;
}

void ShmEndpoint::abandon(SessionId id, PendingCall& call) {
  // The session need not be open: while one is being closed, a call that completes may abandon others.
  Session* session = sessions_.find(id);
  if (session == nullptr || session->channel == nullptr) return;
  session->channel->calls.abandon(call);
  // The caller guarantees bytes without an owner only until now, and the request may still wait for room.
  if (session->channel->writer.isBlocked()) (void)session->channel->writer.copyOutQueue(UINT64_MAX, runtime::kNever);
}

void ShmEndpoint::reply(const ReplyTo& to, TxMessage response) {
  Session* session = sessions_.findOpen(to.session);
  if (session == nullptr || !session->channel->requests.finish(to.slot, to.sequence)) return;
  RC_CHECK_MSG(response.messageBytes() <= limits_.message_bytes_max,
               "the rpc layer replaces answers that are too long");
  writer_.send(*session, responseHeader(response, to), std::move(response));
}

void ShmEndpoint::flush() {
  writer_.flush();
  home_.leave();
}

// ---- rounds

uint32_t ShmEndpoint::poll(MessageSink& sink, uint32_t message_max) {
  RC_DCHECK(message_max >= 1 && message_max <= limits_.burst_messages_max);
  home_.enter();
  if (rounds_.isOver()) [[unlikely]]
    runDueTimeouts(sink);
  if (sessions_.hasFailed()) [[unlikely]]
    sessions_.closeFailed();
  const uint32_t delivered = rings_.poll(reader_, message_max);
  reader_.handOver(sink);
  if (writer_.hasBlocked()) [[unlikely]]
    writer_.pumpBlocked();
  if (sessions_.hasClosed()) [[unlikely]]
    sessions_.report(sink, open_failure_);
  had_messages_ |= delivered != 0;
  return delivered;
}

void ShmEndpoint::runDueTimeouts(MessageSink& sink) {
  const bool is_greeting = sessions_.admission().pendingCount() != 0;
  const bool was_busy = std::exchange(had_messages_, false);
  TimeoutRounds::Pace pace{.rounds = kRoundsPerLook, .pause_ns = was_busy ? kBusyTimeoutsNs : kIdleTimeoutsNs};
  if (writer_.hasBlocked()) pace = {.rounds = kRoundsPerLookWhileBlocked, .pause_ns = kBlockedTimeoutsNs};
  if (is_greeting) pace = {.rounds = kRoundsPerLookInGreeting, .pause_ns = 0};
  const int64_t now_ns = context_.clock.nowNs();
  if (!rounds_.runsNow(now_ns, pace)) return;
  acceptor_.acceptReady(greeter_, now_ns);
  sockets_.readReady(sink);
  sessions_.checkPending(now_ns);
  writer_.checkBlocked(now_ns);
  reader_.checkReceptions(now_ns);
  if (reader_.takeShortness()) evictStalled(now_ns);
}

// Closes the session without progress that holds most. The sessions that make progress will free memory themselves.
void ShmEndpoint::evictStalled(int64_t now_ns) {
  LargestHolder<Session> largest;
  writer_.considerStalled(largest, now_ns);
  reader_.considerStalled(largest, now_ns);
  if (largest.session() == nullptr) return;
  sessions_.closeMalformedLater(*largest.session(), "memory for messages is used up, and it makes no progress");
}

// ---- sleep

bool ShmEndpoint::prepareSleep() {
  if (sessions_.hasClosed() || sessions_.hasFailed() || rounds_.isCalled()) return false;
  flush();
  if (!rings_.prepareSleep()) return false;
  if (hasDeadlines()) sleeper_.wakeBy(nextDeadlineNs());
  is_asleep_ = true;
  return true;
}

void ShmEndpoint::awake() {
  if (!std::exchange(is_asleep_, false)) return;
  rings_.awake();
  // The sleep may have ended at a deadline. If a socket ended it, the sleeper has told the socket's listener.
  if (hasDeadlines()) rounds_.call();
}

int64_t ShmEndpoint::nextDeadlineNs() const {
  return std::min({acceptor_.nextNs(), sessions_.nextPendingNs(), writer_.nextBlockedNs(), reader_.nextReceptionNs()});
}

}  // namespace ramcore::transport::shm
