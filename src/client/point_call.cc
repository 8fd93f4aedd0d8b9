#include "client/point_call.h"

#include "base/hash.h"

namespace ramcore::client {

bool PointCall::start(const PointRequest& request, int64_t timeout_ns, int64_t deadline_ns, void* owner) {
  request_ = request;
  owner_ = owner;
  timeout_ns_ = timeout_ns;
  deadline_ns_ = deadline_ns;
  const Status limits = checkLimits(request.key.size(), request.value.size());
  if (limits != Status::Ok) {
    result.status = limits;
    return true;
  }
  // Checked here, because the driver looks at the clock only every 10 us or so: an answer may come before.
  if (timeout_ns <= 0) [[unlikely]] {
    result.status = Status::DeadlineExceeded;
    return true;
  }
  if (sendFirst()) return false;
  starting_ = true;
  goOn();
  starting_ = false;
  return over_while_starting_;
}

bool PointCall::sendFirst() {
  const TabletCache::Entry* entry = client_.tablets().find(request_.table, hashKey(request_.table, request_.key));
  if (entry == nullptr || entry->owner == nullptr || client_.pacer().stopped()) return false;
  wire::CallIdentity identity{};
  if (request_.isMutation()) {
    ClientLease& lease = client_.lease();
    const int64_t now_ns = client_.pacer().nowNs();
    if (!lease.isUsable(now_ns) || !lease.hasRoom()) return false;
    lease.tend(now_ns);
    progress_.ticket = lease.begin();
    identity = lease.identityOf(progress_.ticket);
  }
  OutgoingCall::request =
      encodePoint(client_.caller(), request_, ServerId(entry->owner->address.id), entry->epoch, identity);
  settings.deadline_ns = deadline_ns_;
  place_ = {.owner = entry->owner, .epoch = entry->epoch};
  progress_.tried = entry->epoch;
  settings.is_doubted = entry->owner->is_doubtful;
  if (settings.is_doubted) [[unlikely]]
    client_.finder().inquire(request_.table);
  connection_ = &client_.connectionTo(*entry->owner);
  connection_->start(*this);
  return true;
}

void PointCall::attempted(OutgoingCall& call) {
  auto& self = static_cast<PointCall&>(call);
  self.connection_ = nullptr;
  if (call.status == Status::Ok) [[likely]] {
    self.result = decodePoint(self.request_.kind, std::move(call.response));
    self.progress_.last = self.result.status;
    self.progress_.retry_after_us = self.result.retry_after_us;
    self.progress_.may_have_happened = self.result.isUncertain();
  } else {
    self.progress_.last = call.status;
    self.progress_.may_have_happened = call.was_sent;
    self.client_.finder().noteUnanswered(*self.place_.owner, call.status);
  }
  const Reaction reaction = reactionTo(self.progress_.last);
  if (reaction == Reaction::Finish) [[likely]] {
    self.client_.settle(self.result, self.progress_, self.request_.isMutation());
    self.done_(self);
    return;
  }
  if (reaction == Reaction::Refresh) self.client_.noteElsewhere(self.request_.table, self.result, self.progress_);
  if (reaction == Reaction::Relapse) self.client_.lease().lapse(self.progress_.ticket);
  self.goOn();
}

bool PointCall::isHopeless(void* call) {
  const auto& self = *static_cast<PointCall*>(call);
  const TableId table = self.request_.table;
  return self.client_.finder().isElsewhere(table, hashKey(table, self.request_.key), self.place_);
}

void PointCall::goOn() {
  if (deadline_ns_ == runtime::kNever) deadline_ns_ = addNs(client_.pacer().nowNs(), timeout_ns_);
  continueSlowly().detach();
}

runtime::Task<void> PointCall::continueSlowly() {
  result = co_await client_.continueFrom(request_, progress_, deadline_ns_);
  if (starting_) {
    over_while_starting_ = true;
    co_return;
  }
  // The caller may end this object, whose members the frame does not touch any more.
  done_(*this);
}

void PointCall::expire(int64_t now_ns, int64_t deadline_ns) {
  if (deadline_ns_ == runtime::kNever) deadline_ns_ = deadline_ns;
  // Attempts of the coroutine end by their own deadline.
  if (connection_ != nullptr && now_ns >= deadline_ns_) connection_->cancel(*this, Status::DeadlineExceeded);
}

}  // namespace ramcore::client
