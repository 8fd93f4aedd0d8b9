#include "rpc/request_runner.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"
#include "rpc/dispatch.h"

namespace ramcore::rpc {
namespace {

bool goesBefore(const RequestRecord& a, const RequestRecord& b) {
  return a.message.priority != b.message.priority ? a.message.priority < b.message.priority : a.opcode < b.opcode;
}

// Puts urgent requests first, and equal opcodes side by side so that a batch handler gets them together. Stable:
// requests of one session stay in order within an opcode. Insertion sort, because batches are short and mostly in
// order, and nothing is allocated.
void arrange(std::span<RequestRecord*> records) {
  for (size_t i = 1; i < records.size(); ++i) {
    RequestRecord* record = records[i];
    size_t at = i;
    for (; at > 0 && goesBefore(*record, *records[at - 1]); --at) records[at] = records[at - 1];
    records[at] = record;
  }
}

}  // namespace

// ---- Request

Request::~Request() { RC_CHECK_MSG(record_ == nullptr, "a request was dropped without an answer"); }

void Request::reply(transport::TxMessage response) {
  RequestRecord* record = std::exchange(record_, nullptr);
  RC_CHECK(record != nullptr);
  record->dispatch->requests_.finish(record, std::move(response));
}

void Request::reply(Status status, uint32_t retry_after_us) {
  replyWith(wire::ResponseHeader{.status = status, .retry_after_us = retry_after_us});
}

bool Request::isSessionOpen() const { return !record_->session_ends->hasEnded(record_->message.reply_to.session); }

// ---- RequestRunner

RequestRunner::RequestRunner(Dispatch& dispatch, runtime::Clock& clock, HandOff hand_off)
    : dispatch_(dispatch),
      clock_(clock),
      hand_off_(hand_off),
      records_(dispatch, &RequestRunner::runOnWorker),
      answers_(clock) {}

void RequestRunner::take(PolledEndpoint& from, std::span<transport::RxMessage> requests) {
  const int64_t now_ns = clock_.nowNs();
  answers_.begin(now_ns);
  constexpr size_t kBatchMax = 64;
  std::array<RequestRecord*, kBatchMax> batch;
  while (!requests.empty()) {
    const auto now = requests.first(std::min(requests.size(), kBatchMax));
    requests = requests.subspan(now.size());
    size_t count = 0;
    for (transport::RxMessage& message : now) {
      RequestRecord* record = admit(from, message);
      if (record == nullptr) continue;
      record->arrival_ns = now_ns;
      batch[count++] = record;
    }
    arrange(std::span(batch).first(count));
    execute(std::span(batch).first(count));
  }
}

RequestRecord* RequestRunner::admit(PolledEndpoint& from, transport::RxMessage& message) {
  wire::RequestHeader header;
  if (!wire::decode(message.head(), header)) {
    bump(bad_requests_);
    from.endpoint().close(message.reply_to.session);
    return nullptr;
  }
  const ServiceTable::Entry* entry = services_.find(static_cast<uint16_t>(header.opcode));
  const transport::Peer* peer = from.endpoint().peer(message.reply_to.session);
  if (peer == nullptr) return nullptr;  // the session ended in this very round
  const uint32_t role = RC_MUTATION("let-any-role-ask") ? ~0U : 1U << static_cast<uint32_t>(peer->role);
  if (entry == nullptr || (entry->rules.roles & role) == 0 || message.head().size() < entry->rules.request_bytes_min) {
    refuseBad(from, message, Status::BadRequest);
    return nullptr;
  }
  const bool is_meant = header.target.value == own_id_.load(std::memory_order_relaxed);
  if (!entry->rules.any_target && !is_meant && !RC_MUTATION("answer-for-a-former-server")) {
    refuseBad(from, message, Status::WrongServerId);
    return nullptr;
  }
  if (refusing_) {
    refuse(from, message, Status::RetryLater);
    return nullptr;
  }
  RequestRecord* record = records_.take();
  record->endpoint = &from.endpoint();
  record->session_ends = &from.ends();
  record->executor = &dispatch_;
  record->message = std::move(message);
  // Only processes of the cluster may send urgent requests.
  const bool is_user = peer->role == transport::Role::Client || peer->role == transport::Role::Admin;
  if (is_user && !RC_MUTATION("let-users-be-urgent")) {
    record->message.priority = std::max(record->message.priority, runtime::Priority::Client);
  }
  record->opcode = header.opcode;
  record->peer_role = peer->role;
  record->peer_id = peer->id;
  return record;
}

void RequestRunner::refuse(PolledEndpoint& from, transport::RxMessage& message, Status status) {
  transport::TxMessage response = from.endpoint().allocate(sizeof(wire::ResponseHeader));
  response.appendHead(wire::ResponseHeader{.status = status});
  from.endpoint().reply(message.reply_to, std::move(response));
}

void RequestRunner::refuseBad(PolledEndpoint& from, transport::RxMessage& message, Status status) {
  bump(bad_requests_);
  refuse(from, message, status);
}

bool RequestRunner::runsInline(const RequestRecord& record, const ServiceTable::Entry& entry) const {
  if (workers_.empty() || hand_off_ == HandOff::Inline || entry.rules.dispatch_only) return true;
  const Weight weight = entry.rules.weigh != nullptr ? entry.rules.weigh(record.message.head()) : entry.rules.weight;
  return weight == Weight::Short && hand_off_ == HandOff::Auto;
}

void RequestRunner::execute(std::span<RequestRecord*> records) {
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

void RequestRunner::executeInline(std::span<RequestRecord*> group, const ServiceTable::Entry& entry) {
  if (entry.handle_batch == nullptr || group.size() == 1) {
    for (RequestRecord* record : group) {
      answers_.count();
      record->started_ns = answers_.handlingNs();
      entry.handle(entry.service, Request(record));
    }
    return;
  }
  constexpr size_t kBatchMax = 16;
  while (!group.empty()) {
    const auto now = group.first(std::min(group.size(), kBatchMax));
    group = group.subspan(now.size());
    answers_.count();
    // Raw storage: a Request has no empty state that could be assigned later.
    alignas(Request) std::byte storage[kBatchMax * sizeof(Request)];
    auto* requests = reinterpret_cast<Request*>(storage);
    for (size_t i = 0; i < now.size(); ++i) {
      now[i]->started_ns = answers_.handlingNs();
      new (&requests[i]) Request(now[i]);
    }
    entry.handle_batch(entry.service, std::span(requests, now.size()));
    for (size_t i = 0; i < now.size(); ++i) requests[i].~Request();
  }
}

void RequestRunner::handOver(RequestRecord& record) {
  runtime::Executor& worker = !workers_.empty() ? *workers_[next_worker_++ % workers_.size()] : dispatch_;
  record.executor = &worker;
  record.run = &RequestRunner::runOnWorker;
  worker.post(record, record.message.priority);
}

void RequestRunner::runOnWorker(runtime::Job& job) {
  auto& record = static_cast<RequestRecord&>(job);
  // The session has ended, so the answer could not be delivered. The request is dropped before it starts, even if it is
  // a mutation: nothing was promised.
  if (record.session_ends->hasEnded(record.message.reply_to.session)) {
    record.run = &RequestRunner::dropOrphan;
    return record.dispatch->post(record, record.message.priority);
  }
  RequestRunner& runner = record.dispatch->requests_;
  record.started_ns = runner.clock_.nowNs();
  const ServiceTable::Entry& entry = *runner.services_.find(static_cast<uint16_t>(record.opcode));
  entry.handle(entry.service, Request(&record));
}

void RequestRunner::finish(RequestRecord* record, transport::TxMessage response) {
  record->response = std::move(response);
  if (dispatch_.isCurrent()) {
    sendFromInbox(*record);
    return;
  }
  record->run = &RequestRunner::sendFromInbox;
  dispatch_.post(*record, record->message.priority);
}

void RequestRunner::dropOrphan(runtime::Job& job) {
  auto& record = static_cast<RequestRecord&>(job);
  RequestRunner& runner = record.dispatch->requests_;
  bump(runner.orphaned_requests_);
  runner.records_.giveBack(&record);
}

void RequestRunner::sendFromInbox(runtime::Job& job) {
  auto& record = static_cast<RequestRecord&>(job);
  RequestRunner& self = record.dispatch->requests_;
  const transport::ReplyTo to = record.message.reply_to;
  if (!record.response || record.response.messageBytes() > record.responseBytesMax()) {
    record.response = record.endpoint->allocate(sizeof(wire::ResponseHeader));
    record.response.appendHead(wire::ResponseHeader{.status = Status::TooLarge});
  }
  self.answers_.note(record);
  record.endpoint->reply(to, std::move(record.response));
  self.records_.giveBack(&record);
}

}  // namespace ramcore::rpc
