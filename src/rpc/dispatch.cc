#include "rpc/dispatch.h"

#include <immintrin.h>

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"
#include "rpc/spin_gauge.h"

namespace ramcore::rpc {
namespace {

// Bounds the answers that are on their way and the memory of records kept for the next requests.
constexpr size_t kFreeRecordsMax = 4096;
constexpr size_t kFiresPerRoundMax = 64;
// Rounds between two looks at the clock while nothing is found: 20 ns each time would double the cost of an idle round.
constexpr uint32_t kIdleRoundsPerClockRead = 16;
// Yielding costs 0.3 us, for which a request that comes meanwhile waits: about 2 us of idle rounds between two.
constexpr uint32_t kIdleRoundsPerYield = 64;
// Rounds between two looks at the endpoints' counts while the thread never sleeps.
constexpr uint32_t kRoundsPerPublication = 1024;

void bump(std::atomic<uint64_t>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

bool goesBefore(const RequestRecord& a, const RequestRecord& b) {
  return a.message.priority != b.message.priority ? a.message.priority < b.message.priority : a.opcode < b.opcode;
}

// Urgent ones first, and equal opcodes side by side so that a batch handler gets them together. Stable: what one
// session sent in order stays in order within an opcode. Insertion sort: batches are short, mostly in order, and
// nothing is allocated.
void arrange(std::span<RequestRecord*> records) {
  for (size_t i = 1; i < records.size(); ++i) {
    RequestRecord* record = records[i];
    size_t at = i;
    for (; at > 0 && goesBefore(*record, *records[at - 1]); --at) records[at] = records[at - 1];
    records[at] = record;
  }
}

// Between two rounds, after `idle_rounds` that found nothing. False: it has been long enough.
bool spin(SpinGauge& gauge, runtime::Clock& clock, SpinGauge::Wait wait, uint32_t idle_rounds) {
  const bool is_crowded = gauge.isCrowded();
  // A pause takes as long as a round, for which a request would wait: not while the next one is due any moment.
  if (!is_crowded && idle_rounds % kIdleRoundsPerClockRead != 0) {
    if (idle_rounds > kIdleRoundsPerYield) _mm_pause();
    return true;
  }
  const int64_t now_ns = clock.nowNs();
  if (!gauge.goesOn(wait, now_ns)) return false;
  if (is_crowded || idle_rounds % kIdleRoundsPerYield == 0) gauge.offerCore(now_ns);
  return true;
}

}  // namespace

// ---- Request

Request::~Request() { RC_CHECK_MSG(record_ == nullptr, "a request was dropped without an answer"); }

void Request::reply(transport::TxMessage response) {
  RequestRecord* record = std::exchange(record_, nullptr);
  RC_CHECK(record != nullptr);
  record->dispatch->finish(record, std::move(response));
}

void Request::reply(Status status, uint32_t retry_after_us) {
  replyWith(wire::ResponseHeader{.status = status, .retry_after_us = retry_after_us});
}

bool Request::isSessionOpen() const { return !record_->session_ends->hasEnded(record_->message.reply_to.session); }

// ---- Dispatch

Dispatch::Dispatch(runtime::Clock& clock, Trace& trace, transport::Sleeper& sleeper, const DispatchOptions& options)
    : clock_(clock), trace_(trace), sleeper_(sleeper), options_(options) {
  for (size_t opcode = 0; opcode < stats_.size(); ++opcode) {
    if (wire::name(static_cast<wire::Opcode>(opcode)) != "Unknown") stats_[opcode] = std::make_unique<OpcodeStats>();
  }
}

Dispatch::~Dispatch() {
  RC_CHECK_MSG(records_in_service_ == 0, "the dispatch was destroyed while handlers were running");
  while (free_records_ != nullptr) {
    RequestRecord* record = free_records_;
    free_records_ = record->next_free;
    delete record;
  }
}

void Dispatch::addEndpoint(transport::Endpoint& endpoint) {
  endpoints_.push_back(&endpoint);
  bursts_.push_back(std::min(options_.burst_messages_max, endpoint.limits().burst_messages_max));
  endpoint_counts_.push_back(std::make_unique<EndpointCounts>());
  session_ends_.push_back(std::make_unique<SessionEnds>());
  open_sessions_.push_back(std::make_unique<OpenSessions>());
}
void Dispatch::setWorkers(std::vector<runtime::Executor*> workers) { workers_ = std::move(workers); }

void Dispatch::post(runtime::Job& job, runtime::Priority priority) {
  if (isCurrent()) {
    queues_.push(job, priority);
    return;
  }
  inboxes_[static_cast<size_t>(priority)].push(job);
  // The inbox push and this load are sequentially consistent, as are the store of asleep_ and the look at the inboxes
  // in prepareSleep: one of the two sides sees the other.
  if (asleep_.load(std::memory_order_seq_cst)) sleeper_.wake();
}

bool Dispatch::isCurrent() const {
  return running_thread_.load(std::memory_order_relaxed) == std::this_thread::get_id();
}

void Dispatch::arm(runtime::Timer& timer, int64_t deadline_ns) { timers_.arm(timer, deadline_ns); }

bool Dispatch::step(bool reads_clock) {
  running_thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  if (!started_) {
    started_ = true;
    if (hooks_.on_start != nullptr) hooks_.on_start(hooks_.context);
  }
  bool found = false;
  found_requests_ = false;
  for (size_t i = 0; i < endpoints_.size(); ++i) {
    polling_ = endpoints_[i];
    polling_ends_ = session_ends_[i].get();
    polling_open_ = open_sessions_[i].get();
    found |= polling_->poll(*this, bursts_[i]) != 0;
  }
  polling_ = nullptr;
  if ((reads_clock || found_requests_) && timers_.earliestNs() != runtime::kNever) {
    const int64_t now_ns = found_requests_ ? handling_ns_ : clock_.nowNs();
    found |= timers_.fireDue(now_ns, kFiresPerRoundMax) != 0;
  }
  found |= runJobs() != 0;
  for (transport::Endpoint* endpoint : endpoints_) endpoint->flush();
  countAnswered();
  if (++rounds_ % kRoundsPerPublication == 0) publishCounts();
  if (hooks_.after_round != nullptr) hooks_.after_round(hooks_.context);
  running_thread_.store(std::thread::id{}, std::memory_order_relaxed);
  return found;
}

uint32_t Dispatch::runJobs() {
  for (size_t i = 0; i < inboxes_.size(); ++i) queues_.takeInbox(inboxes_[i], static_cast<runtime::Priority>(i));
  uint32_t count = 0;
  // Background work does not come between a request and its answer more than once: it may post itself again.
  runtime::Priority priority{};
  while (count < options_.jobs_per_round_max &&
         (priority != runtime::Priority::Background || RC_MUTATION("background-without-a-pause"))) {
    runtime::Job* job = queues_.pop(priority);
    if (job == nullptr) break;
    job->run(*job);
    ++count;
  }
  return count;
}

uint64_t Dispatch::requestCount() const {
  uint64_t count = 0;
  for (const auto& stats : stats_) count += stats != nullptr ? stats->requests.load(std::memory_order_relaxed) : 0;
  return count;
}

void Dispatch::publishCounts() {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  for (size_t i = 0; i < endpoints_.size(); ++i) {
    const transport::Endpoint& endpoint = *endpoints_[i];
    EndpointCounts& counts = *endpoint_counts_[i];
    counts.sessions.store(endpoint.sessionCount(), kRelaxed);
    counts.bad_sessions.store(endpoint.badSessionCount(), kRelaxed);
    const transport::BorrowedCounts borrowing = endpoint.borrowedCounts();
    counts.messages_copied_out.store(borrowing.messages_copied_out, kRelaxed);
    counts.sessions_dropped.store(borrowing.sessions_dropped, kRelaxed);
    const transport::SendCounts sent = endpoint.sendCounts();
    counts.payload_bytes.store(sent.payload_bytes, kRelaxed);
    counts.gathered_bytes.store(sent.gathered_bytes, kRelaxed);
    counts.chunks_gathered.store(sent.chunks_gathered, kRelaxed);
    counts.long_chunks_copied.store(sent.long_chunks_copied, kRelaxed);
    const transport::PacketCounts packets = endpoint.packetCounts();
    counts.packets_sent.store(packets.sent, kRelaxed);
    counts.packets_resent.store(packets.resent, kRelaxed);
    counts.packet_copies.store(packets.copies, kRelaxed);
    counts.packets_unproven.store(packets.unproven, kRelaxed);
    counts.registered_bytes.store(endpoint.registeredBytes(), kRelaxed);
  }
}

bool Dispatch::inboxesEmpty() const {
  return std::all_of(inboxes_.begin(), inboxes_.end(), [](const runtime::JobInbox& inbox) { return inbox.empty(); });
}

bool Dispatch::prepareSleep() {
  asleep_.store(true, std::memory_order_seq_cst);
  bool quiet = queues_.empty() && inboxesEmpty() && !stopping();
  for (transport::Endpoint* endpoint : endpoints_) quiet = quiet && endpoint->prepareSleep();
  if (!quiet) {
    asleep_.store(false, std::memory_order_relaxed);
    for (transport::Endpoint* endpoint : endpoints_) endpoint->awake();
    return false;
  }
  publishCounts();
  if (hooks_.before_sleep != nullptr) hooks_.before_sleep(hooks_.context);
  return true;
}

void Dispatch::awake() {
  bump(wakeups_);
  asleep_.store(false, std::memory_order_relaxed);
  for (transport::Endpoint* endpoint : endpoints_) endpoint->awake();
  if (hooks_.after_sleep != nullptr) hooks_.after_sleep(hooks_.context);
}

void Dispatch::run() {
  SpinGauge gauge(clock_, options_.spin_ns_max);
  uint32_t idle_rounds = 0;
  while (!stopping()) {
    const bool found = step(idle_rounds % kIdleRoundsPerClockRead == 0);
    if (options_.poll_always) {
      if (found) continue;
      ++idle_rounds;
      _mm_pause();
      continue;
    }
    if (found) {
      gauge.found();
      idle_rounds = 0;
    }
    // Who does not spin has nothing to find in another round: going to sleep is the look that follows, and cheaper than
    // a round, which asks every socket of late.
    const auto wait = records_in_service_ != 0 ? SpinGauge::Wait::Answers : SpinGauge::Wait::Requests;
    if (gauge.expectsSoon(wait) && (found || spin(gauge, clock_, wait, ++idle_rounds))) continue;
    idle_rounds = 0;
    if (prepareSleep()) {
      gauge.sleeps(wait);
      sleeper_.sleep(earliestNs());
      awake();
    }
  }
  finished();
}

void Dispatch::finished() {
  if (started_ && hooks_.on_stop != nullptr) hooks_.on_stop(hooks_.context);
  started_ = false;
}

void Dispatch::stop() {
  stop_.store(true, std::memory_order_seq_cst);
  sleeper_.wake();
}

// ---- requests

void Dispatch::onRequests(std::span<transport::RxMessage> requests) {
  found_requests_ = true;
  const int64_t now_ns = clock_.nowNs();
  handling_ns_ = now_ns;
  constexpr size_t kBatchMax = 64;
  std::array<RequestRecord*, kBatchMax> batch;
  while (!requests.empty()) {
    const auto now = requests.first(std::min(requests.size(), kBatchMax));
    requests = requests.subspan(now.size());
    size_t count = 0;
    for (transport::RxMessage& message : now) {
      RequestRecord* record = admit(message);
      if (record == nullptr) continue;
      record->arrival_ns = now_ns;
      batch[count++] = record;
    }
    arrange(std::span(batch).first(count));
    execute(std::span(batch).first(count));
  }
}

RequestRecord* Dispatch::admit(transport::RxMessage& message) {
  wire::RequestHeader header;
  if (!wire::decode(message.head(), header) || header.reserved16 != 0 || header.reserved32 != 0) {
    bump(bad_requests_);
    polling_->close(message.reply_to.session);
    return nullptr;
  }
  const ServiceTable::Entry* entry = services_.find(static_cast<uint16_t>(header.opcode));
  const transport::Peer* peer = polling_->peer(message.reply_to.session);
  if (peer == nullptr) return nullptr;  // the session ended in this very round
  const uint32_t role = RC_MUTATION("let-any-role-ask") ? ~0U : 1U << static_cast<uint32_t>(peer->role);
  if (entry == nullptr || (entry->rules.roles & role) == 0 || message.head().size() < entry->rules.request_bytes_min) {
    refuseBad(message, Status::BadRequest);
    return nullptr;
  }
  const bool is_meant = header.target.value == own_id_.load(std::memory_order_relaxed);
  if (!entry->rules.any_target && !is_meant && !RC_MUTATION("answer-for-a-former-server")) {
    refuseBad(message, Status::WrongServerId);
    return nullptr;
  }
  if (refusing_) {
    refuse(message, Status::RetryLater);
    return nullptr;
  }
  RequestRecord* record = takeRecord();
  record->endpoint = polling_;
  record->session_ends = polling_ends_;
  record->executor = this;
  record->message = std::move(message);
  // What is urgent is for the cluster's own processes to say.
  const bool is_user = peer->role == transport::Role::Client || peer->role == transport::Role::Admin;
  if (is_user && !RC_MUTATION("let-users-be-urgent")) {
    record->message.priority = std::max(record->message.priority, runtime::Priority::Client);
  }
  record->opcode = header.opcode;
  record->peer_role = peer->role;
  record->peer_id = peer->id;
  return record;
}

void Dispatch::refuse(transport::RxMessage& message, Status status) {
  transport::TxMessage response = polling_->allocate(sizeof(wire::ResponseHeader));
  response.appendHead(wire::ResponseHeader{.status = status});
  polling_->reply(message.reply_to, std::move(response));
}

void Dispatch::refuseBad(transport::RxMessage& message, Status status) {
  bump(bad_requests_);
  refuse(message, status);
}

bool Dispatch::runsInline(const RequestRecord& record, const ServiceTable::Entry& entry) const {
  if (workers_.empty() || options_.hand_off == HandOff::Inline || entry.rules.dispatch_only) return true;
  const Weight weight = entry.rules.weigh != nullptr ? entry.rules.weigh(record.message.head()) : entry.rules.weight;
  return weight == Weight::Short && options_.hand_off == HandOff::Auto;
}

void Dispatch::execute(std::span<RequestRecord*> records) {
  while (!records.empty()) {
    const wire::Opcode opcode = records.front()->opcode;
    const ServiceTable::Entry& entry = *services_.find(static_cast<uint16_t>(opcode));
    size_t group = 0;
    while (group < records.size() && records[group]->opcode == opcode && runsInline(*records[group], entry)) ++group;
    if (group == 0) {
      handOver(*records.front());
      records = records.subspan(1);
      continue;
    }
    executeInline(records.first(group), entry);
    records = records.subspan(group);
  }
}

void Dispatch::executeInline(std::span<RequestRecord*> group, const ServiceTable::Entry& entry) {
  if (entry.handle_batch == nullptr || group.size() == 1) {
    for (RequestRecord* record : group) {
      countAnswered();
      record->started_ns = handling_ns_;
      entry.handle(entry.service, Request(record));
    }
    return;
  }
  constexpr size_t kBatchMax = 16;
  while (!group.empty()) {
    const auto now = group.first(std::min(group.size(), kBatchMax));
    group = group.subspan(now.size());
    countAnswered();
    // Raw storage: a Request has no empty state that could be assigned later.
    alignas(Request) std::byte storage[kBatchMax * sizeof(Request)];
    auto* requests = reinterpret_cast<Request*>(storage);
    for (size_t i = 0; i < now.size(); ++i) {
      now[i]->started_ns = handling_ns_;
      new (&requests[i]) Request(now[i]);
    }
    entry.handle_batch(entry.service, std::span(requests, now.size()));
    for (size_t i = 0; i < now.size(); ++i) requests[i].~Request();
  }
}

void Dispatch::handToWorker(Request request) { handOver(*request.release()); }

void Dispatch::handOver(RequestRecord& record) {
  runtime::Executor& worker = hasWorkers() ? *workers_[next_worker_++ % workers_.size()] : *this;
  record.executor = &worker;
  record.run = &Dispatch::runOnWorker;
  worker.post(record, record.message.priority);
}

void Dispatch::runOnWorker(runtime::Job& job) {
  auto& record = static_cast<RequestRecord&>(job);
  // Nobody was promised anything, and nobody would hear the answer: not even a mutation has to happen.
  if (record.session_ends->hasEnded(record.message.reply_to.session)) {
    record.run = &Dispatch::dropOrphan;
    return record.dispatch->post(record, record.message.priority);
  }
  record.started_ns = record.dispatch->clock_.nowNs();
  const ServiceTable::Entry& entry = *record.dispatch->services_.find(static_cast<uint16_t>(record.opcode));
  entry.handle(entry.service, Request(&record));
}

void Dispatch::finish(RequestRecord* record, transport::TxMessage response) {
  record->response = std::move(response);
  if (isCurrent()) {
    sendFromInbox(*record);
    return;
  }
  record->run = &Dispatch::sendFromInbox;
  post(*record, record->message.priority);
}

void Dispatch::dropOrphan(runtime::Job& job) {
  auto& record = static_cast<RequestRecord&>(job);
  bump(record.dispatch->orphaned_requests_);
  record.dispatch->returnRecord(&record);
}

void Dispatch::sendFromInbox(runtime::Job& job) {
  auto& record = static_cast<RequestRecord&>(job);
  Dispatch& self = *record.dispatch;
  const transport::ReplyTo to = record.message.reply_to;
  if (!record.response || record.response.messageBytes() > record.responseBytesMax()) {
    record.response = record.endpoint->allocate(sizeof(wire::ResponseHeader));
    record.response.appendHead(wire::ResponseHeader{.status = Status::TooLarge});
  }
  if (self.answered_count_ == kAnsweredMax) self.countAnswered();
  self.answered_[self.answered_count_++] = {
      .opcode = record.opcode,
      .is_ok = loadAs<wire::ResponseHeader>(record.response->head).status == Status::Ok,
      .arrival_ns = record.arrival_ns,
      .started_ns = record.started_ns};
  record.endpoint->reply(to, std::move(record.response));
  self.returnRecord(&record);
}

void Dispatch::countAnswered() {
  if (answered_count_ == 0) return;
  handling_ns_ = clock_.nowNs();
  for (const Answered& answered : std::span(answered_).first(answered_count_)) {
    OpcodeStats& stats = *stats_[static_cast<size_t>(answered.opcode)];
    bump(stats.requests);
    if (!answered.is_ok) bump(stats.failures);
    stats.queue_ns.record(static_cast<uint64_t>(std::max<int64_t>(0, answered.started_ns - answered.arrival_ns)));
    stats.service_ns.record(static_cast<uint64_t>(std::max<int64_t>(0, handling_ns_ - answered.started_ns)));
  }
  answered_count_ = 0;
}

RequestRecord* Dispatch::takeRecord() {
  ++records_in_service_;
  RequestRecord* record = free_records_;
  if (record != nullptr) {
    free_records_ = record->next_free;
  } else {
    record = new RequestRecord(&Dispatch::runOnWorker);  // amortised: records are kept for the next requests
    record->dispatch = this;
  }
  record->earlier = newest_in_service_;
  record->later = nullptr;
  (newest_in_service_ != nullptr ? newest_in_service_->later : oldest_in_service_) = record;
  newest_in_service_ = record;
  return record;
}

void Dispatch::returnRecord(RequestRecord* record) {
  --records_in_service_;
  (record->earlier != nullptr ? record->earlier->later : oldest_in_service_) = record->later;
  (record->later != nullptr ? record->later->earlier : newest_in_service_) = record->earlier;
  record->message = {};
  if (records_in_service_ > kFreeRecordsMax) {
    delete record;
    return;
  }
  record->next_free = free_records_;
  free_records_ = record;
}

std::vector<RequestInService> Dispatch::requestsInService() {
  const int64_t now_ns = clock_.nowNs();
  std::vector<RequestInService> requests;
  for (const RequestRecord* at = oldest_in_service_; at != nullptr; at = at->later) {
    requests.push_back({at->opcode, at->peer_role, at->peer_id, now_ns - at->arrival_ns});
  }
  return requests;
}

void Dispatch::onSessionOpen(transport::SessionId session) {
  polling_open_->opened(session);
  if (observer_ != nullptr) observer_->onSessionOpen(*polling_, session);
}

void Dispatch::onSessionLost(transport::SessionId session, Status reason) {
  polling_ends_->note(session);
  polling_open_->lost(session);
  if (observer_ != nullptr) observer_->onSessionLost(*polling_, session, reason);
}

}  // namespace ramcore::rpc
