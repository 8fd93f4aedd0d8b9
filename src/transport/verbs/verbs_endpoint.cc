#include "transport/verbs/verbs_endpoint.h"

#include <algorithm>
#include <utility>

#include "wire/frame.h"

namespace ramcore::transport::verbs {
namespace {

// An idle round takes some tens of nanoseconds: the clock is read every 50 us or so.
constexpr uint32_t kRoundsPerLook = 2048;
// The same while a session begins or ends, or borrowed bytes wait.
constexpr uint32_t kRoundsPerLookWhileDue = 128;
constexpr int64_t kIdleTimeoutsNs = 5 * runtime::kNanosPerMilli;
constexpr int64_t kBusyTimeoutsNs = 50 * runtime::kNanosPerMilli;
constexpr int64_t kDueTimeoutsNs = 1 * runtime::kNanosPerMilli;

// A head may be longer than the part that the receiver needs in one piece.
uint32_t headBytesOf(const TxMessage& message) {
  const uint32_t bytes = message->contiguous_bytes != 0 ? message->contiguous_bytes : message->head_bytes;
  return std::min(bytes, wire::kHeadBytesMax);
}

}  // namespace

VerbsEndpoint::VerbsEndpoint(const VerbsOptions& options, const VerbsContext& context, const Limits& limits,
                             const Device& device, const Regions& regions, const Identity& identity)
    : options_(options),
      context_(context),
      limits_(limits),
      warnings_(context.clock, context.trace, "verbs: "),
      sleeper_(context.sleeper != nullptr ? *context.sleeper : own_sleeper_.emplace(context.clock)),
      rounds_(sleeper_),
      memory_(device, usesWindows(options, device)),
      queues_(options_, context_, device, sleeper_, rounds_, warnings_),
      channels_({.heads = memory_.heads,
                 .blocks = memory_.blocks,
                 .regions = regions,
                 .scratch = scratch_,
                 .counts = send_counts_,
                 .copy_below_bytes = options.copy_below_bytes,
                 .entries_max = options.entries_max},
                context.clock, memory_, queues_, rounds_),
      sessions_({.owner = *this,
                 .options = options_,
                 .context = context_,
                 .sleeper = sleeper_,
                 .warnings = warnings_,
                 .queues = queues_,
                 .channels = channels_,
                 .early = early_,
                 .waiting_reads = waiting_reads_}),
      watch_(options_, sessions_, rounds_),
      sender_(memory_.heads, sessions_, watch_),
      transfers_({.options = options_,
                  .context = context_,
                  .memory = memory_,
                  .counts = send_counts_,
                  .receives = queues_.receives(),
                  .sessions = sessions_,
                  .sender = sender_,
                  .watch = watch_,
                  .waiting = waiting_reads_,
                  .rounds = rounds_}),
      acceptor_(options_, identity, sleeper_, rounds_, queues_, sessions_),
      greeter_({.options = options_,
                .context = context_,
                .limits = limits_,
                .identity = identity,
                .locators = acceptor_.locators(),
                .queues = queues_,
                .channels = channels_,
                .sessions = sessions_}),
      connector_(sleeper_, rounds_, queues_, sessions_, greeter_),
      sockets_(sessions_, connector_, greeter_, rounds_),
      receiver_({.places = memory_.places,
                 .queues = queues_,
                 .channels = channels_,
                 .sessions = sessions_,
                 .early = early_,
                 .sockets = sockets_,
                 .sender = sender_,
                 .transfers = transfers_}) {}

bool VerbsEndpoint::usesWindows(const VerbsOptions& options, const Device& device) {
  using Windows = VerbsOptions::Windows;
  return device.limits().has_windows && options.windows != Windows::Nowhere &&
         (options.windows == Windows::Everywhere || !device.limits().is_software);
}

// ---- sessions

void VerbsEndpoint::close(SessionId id) {
  Session* session = sessions_.find(id);
  if (session != nullptr) sessions_.close(*session, Status::Shutdown);
}

const Peer* VerbsEndpoint::peer(SessionId id) const {
  const Session* session = sessions_.findOpen(id);
  return session != nullptr ? &session->peer : nullptr;
}

void Session::onReady(uint32_t events) { endpoint.onReady(*this, events); }

// ---- calls

Status VerbsEndpoint::call(SessionId id, TxMessage& request, const CallOptions& options, PendingCall& call) {
  Session* session = sessions_.findOpen(id);
  if (session == nullptr) return Status::SessionLost;
  Channel& channel = *session->channel;
  const uint32_t bytes = request.messageBytes();
  if (bytes > limits_.message_bytes_max) return Status::TooLarge;
  const bool is_large = channel.needsTransfer(bytes);
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
  if (is_large) return transfers_.offerRequest(*session, request, header, call, options);
  channel.beginCall(header, call, options);
  if (request->chunk_count != 0) request->borrowed_since_ns = context_.clock.nowNs();
  sender_.send(*session, header, std::move(request));
  return Status::Ok;
}

void VerbsEndpoint::abandon(SessionId id, PendingCall& call) {
  // The session need not be open: while one is being closed, a call that completes may abandon others.
  Session* session = sessions_.find(id);
  if (session == nullptr || session->channel == nullptr || !call.in_flight) return;
  // The caller guarantees bytes without an owner only until now; those that were posted are copies.
  session->channel->queue.copyUnowned();
  session->channel->calls.abandon(call);
}

void VerbsEndpoint::reply(const ReplyTo& to, TxMessage response) {
  Session* session = sessions_.findOpen(to.session);
  if (session == nullptr || !session->channel->requests.finish(to.slot, to.sequence)) return;
  const uint32_t bytes = response.messageBytes();
  RC_CHECK_MSG(bytes <= limits_.message_bytes_max, "the rpc layer replaces answers that are too long");
  wire::VerbsHeader header{};
  header.message_bytes = bytes;
  header.head_bytes = headBytesOf(response);
  header.sequence = to.sequence;
  header.slot = to.slot;
  header.kind = wire::VerbsKind::Response;
  if (response->chunk_count != 0) response->borrowed_since_ns = context_.clock.nowNs();
  if (session->channel->needsTransfer(bytes)) return transfers_.offerResponse(*session, header, std::move(response));
  sender_.send(*session, header, std::move(response));
}

// ---- rounds

uint32_t VerbsEndpoint::poll(MessageSink& sink, uint32_t message_max) {
  RC_DCHECK(message_max >= 1 && message_max <= limits_.burst_messages_max);
  if (rounds_.isOver()) [[unlikely]]
    runDueTimeouts(sink);
  if (sessions_.hasFailed()) [[unlikely]]
    sessions_.closeFailed();
  if (!ready().ok()) [[unlikely]] {
    sessions_.report(sink, open_failure_);
    return 0;
  }
  bool is_empty = false;
  const uint32_t delivered = receiver_.takeArrivals(message_max, is_empty);
  receiver_.takeDepartures();
  receiver_.handOver(sink);
  if (!waiting_reads_.empty()) [[unlikely]]
    transfers_.startReads();
  queues_.receives().post();
  if (sessions_.hasEnded()) [[unlikely]]
    sessions_.closeEnded(is_empty);
  if (channels_.hasEnding()) [[unlikely]]
    channels_.reap(is_empty);
  if (sessions_.hasClosed()) [[unlikely]]
    sessions_.report(sink, open_failure_);
  had_messages_ |= delivered != 0;
  return delivered;
}

void VerbsEndpoint::runDueTimeouts(MessageSink& sink) {
  const bool is_due = hasDeadlines();
  const bool was_busy = std::exchange(had_messages_, false);
  TimeoutRounds::Pace pace{.rounds = kRoundsPerLook, .pause_ns = was_busy ? kBusyTimeoutsNs : kIdleTimeoutsNs};
  if (is_due) pace = {.rounds = kRoundsPerLookWhileDue, .pause_ns = kDueTimeoutsNs};
  if (sessions_.admission().pendingCount() != 0) pace.pause_ns = 0;
  const int64_t now_ns = context_.clock.nowNs();
  if (!rounds_.runsNow(now_ns, pace)) return;
  queues_.takeCompletionEvents();
  takeDeviceEvents();
  acceptor_.acceptReady(greeter_, now_ns);
  sockets_.readNoted(sink);
  connector_.lookForNames();
  sessions_.checkPending(now_ns);
  watch_.check(now_ns);
  channels_.endDrains(now_ns);
}

void VerbsEndpoint::takeDeviceEvents() {
  for (VerbsQueues::BrokenPair& broken : queues_.takeDeviceEvents()) {
    const Channel* const channel = channels_.find(broken.number);
    if (channel == nullptr || channel->session == nullptr) continue;
    sessions_.closeLater(*channel->session, std::move(broken.why), broken.is_malformed);
  }
}

bool VerbsEndpoint::hasDeadlines() const {
  return sessions_.admission().pendingCount() != 0 || !watch_.empty() || channels_.hasEnding() ||
         !waiting_reads_.empty() || acceptor_.isPaused();
}

// ---- sleep

bool VerbsEndpoint::hasWork() const {
  return sessions_.hasClosed() || sessions_.hasFailed() || sessions_.hasEnded() || transfers_.hasReads() ||
         rounds_.isCalled() || sender_.hasDirty() || queues_.hasKept() || !early_.empty();
}

bool VerbsEndpoint::prepareSleep() {
  if (!ready().ok()) return !sessions_.hasClosed();
  flush();
  if (hasWork() || !receiver_.prepareSleep()) return false;
  if (hasDeadlines()) sleeper_.wakeBy(nextDeadlineNs());
  is_asleep_ = true;
  return true;
}

void VerbsEndpoint::awake() {
  if (!std::exchange(is_asleep_, false)) return;
  // The sleep may have ended at a deadline, or because memory came back. If a descriptor ended it, the sleeper has told
  // the descriptor's listener.
  if (hasDeadlines() || queues_.areCompletionsTold()) rounds_.call();
}

int64_t VerbsEndpoint::nextDeadlineNs() const {
  const int64_t soon_ns = context_.clock.nowNs() + kDueTimeoutsNs;
  const int64_t next_ns =
      std::min({watch_.nextNs(), acceptor_.nextNs(), sessions_.nextPendingNs(soon_ns), channels_.nextNs(soon_ns)});
  return waiting_reads_.empty() ? next_ns : std::min(next_ns, soon_ns);
}

}  // namespace ramcore::transport::verbs
