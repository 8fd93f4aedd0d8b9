#include "client/cluster_client.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mutation.h"

namespace ramcore::client {

using runtime::Task;

namespace {

// A coordinator that does not answer for so long is asked by the next question.
constexpr int64_t kInquiryNs = 2 * runtime::kNanosPerSecond;
// Answers that are older say nothing about how often to ask now.
constexpr int64_t kPaceMemoryNs = 1 * runtime::kNanosPerSecond;
// The pause is at least so many times what the answer took, up to kPauseNsMax.
constexpr int64_t kPausesPerAnswer = 10;
// With a clock that is a few percent slow, the look whether it is time, and the way: half a second.
constexpr int64_t kPauseNsMax = 450 * runtime::kNanosPerMilli;

}  // namespace

ClusterClient::ClusterClient(rpc::Caller& caller, runtime::Entropy& entropy, std::vector<rpc::PeerAddress> coordinators,
                             const ClusterClientOptions& options)
    : caller_(caller),
      options_(options),
      pacer_(caller.dispatch()),
      random_(entropy.next()),
      coordinator_(caller, pacer_, std::move(coordinators), options.retry, random_.stream("coordinator")),
      lease_(coordinator_, pacer_, entropy, options.renew_by_timer) {}

ClusterClient::~ClusterClient() { RC_CHECK_MSG(isIdle(), "a client was destroyed before its calls had ended"); }

// ---- tables

Task<Result<TableId>> ClusterClient::createTable(std::string name, uint32_t tablet_count, int64_t deadline_ns,
                                                 Durability durability) {
  Running running(*this);
  co_await pacer_.enter();
  co_return co_await coordinator_.createTable(std::move(name), tablet_count, deadline_ns, durability);
}

Task<Status> ClusterClient::dropTable(std::string name, int64_t deadline_ns) {
  Running running(*this);
  co_await pacer_.enter();
  const auto map = co_await coordinator_.tabletsOf(std::move(name), deadline_ns);
  if (!map) co_return map.error();
  const Status status = co_await coordinator_.dropTable(map->table, deadline_ns);
  if (status == Status::Ok) tablets_.forget(map->table);
  co_return status;
}

Task<Result<std::vector<TableInfo>>> ClusterClient::listTables(int64_t deadline_ns) {
  Running running(*this);
  co_await pacer_.enter();
  co_return co_await coordinator_.listTables(deadline_ns);
}

Task<Result<TableId>> ClusterClient::openTable(std::string name, int64_t deadline_ns) {
  Running running(*this);
  co_await pacer_.enter();
  const auto map = co_await coordinator_.tabletsOf(std::move(name), deadline_ns);
  if (!map) co_return map.error();
  tablets_.replace(*map);
  co_return map->table;
}

// ---- where tablets are

ClusterClient::Refresh& ClusterClient::refreshOf(TableId table) {
  std::unique_ptr<Refresh>& entry = refreshes_[table];
  if (entry == nullptr) entry = std::make_unique<Refresh>(pacer_.executor(), paceOfQuestions());
  return *entry;
}

Task<Status> ClusterClient::refresh(TableId table, int64_t since_ns, int64_t deadline_ns) {
  Refresh& refresh = refreshOf(table);
  while (refresh.is_running) {
    const Status status = co_await refresh.done.wait(deadline_ns);
    if (status != Status::Ok) co_return status;
  }
  if (refresh.started_ns >= since_ns) co_return refresh.outcome;

  refresh.is_running = true;
  if (pacer_.nowNs() < refresh.allowed_ns) {
    [[maybe_unused]] const Status woken = co_await pacer_.pauseUntil(std::min(refresh.allowed_ns, deadline_ns));
    if (pacer_.nowNs() < refresh.allowed_ns) {
      refresh.is_running = false;
      refresh.done.notifyAll();
      co_return pacer_.stopped() ? Status::Shutdown : Status::DeadlineExceeded;
    }
  }
  refresh.started_ns = pacer_.nowNs();
  if (refresh.asked_ns < refresh.started_ns - kPaceMemoryNs) refresh.pace = Backoff(paceOfQuestions());
  refresh.asked_ns = refresh.started_ns;
  ++stats_.refreshes;
  const auto map = co_await coordinator_.tabletsOf(table, deadline_ns);
  bool has_changed = true;
  if (map) {
    has_changed = tablets_.replace(*map);
  } else if (map.status() == Status::NoSuchTable) {
    tablets_.forget(table);
  }
  notePace(refresh, has_changed);
  refresh.outcome = map.status();
  // What failed because this caller's time was over says nothing to the others.
  if (!map && map.status() != Status::NoSuchTable) refresh.started_ns = INT64_MIN;
  refresh.is_running = false;
  refresh.done.notifyAll();
  co_return map.status();
}

// While a dead server is recovered thousands of clients ask. Each asks the less often the longer nothing changes, and
// the longer the coordinator takes to answer: together they leave it most of its time.
void ClusterClient::notePace(Refresh& refresh, bool has_changed) {
  if (has_changed) refresh.pace = Backoff(paceOfQuestions());
  const int64_t now_ns = pacer_.nowNs();
  const int64_t took_ns = now_ns - refresh.started_ns;
  const int64_t pause_ns = has_changed ? 0 : refresh.pace.nextNs(0, random_);
  refresh.allowed_ns = std::max(addNs(refresh.started_ns, options_.refresh_ns_min),
                                now_ns + std::max(pause_ns, std::min(kPausesPerAnswer * took_ns, kPauseNsMax)));
}

bool ClusterClient::isElsewhere(TableId table, KeyHash hash, const Place& place) {
  const TabletCache::Entry* entry = tablets_.find(table, hash);
  if (entry == nullptr || entry->owner != place.owner || entry->epoch != place.epoch) return true;
  inquire(table);
  return false;
}

void ClusterClient::inquire(TableId table) {
  Refresh& refresh = refreshOf(table);
  if (refresh.is_inquiring || refresh.is_running || pacer_.stopped()) return;
  if (pacer_.nowNs() < refresh.allowed_ns) return;
  refresh.is_inquiring = true;
  inquireOnce(table).detach();
}

Task<void> ClusterClient::inquireOnce(TableId table) {
  Running running(*this);
  // Whoever looks for calls that wait for long does not expect others to begin meanwhile.
  co_await runtime::resumeOn(pacer_.executor());
  const int64_t now_ns = pacer_.nowNs();
  [[maybe_unused]] const Status status = co_await refresh(table, now_ns, addNs(now_ns, kInquiryNs));
  refreshOf(table).is_inquiring = false;
}

void ClusterClient::noteUnanswered(TabletCache::Owner& owner, Status status) {
  stats_.abandoned += status == Status::RetryLater ? 1 : 0;
  if (status != Status::DeadlineExceeded || RC_MUTATION("trust-the-cache-after-a-deadline")) return;
  owner.is_doubtful = true;
}

bool ClusterClient::Attempt::isHopeless(void* attempt) {
  auto& self = *static_cast<Attempt*>(attempt);
  return self.client.isElsewhere(self.table, self.hash, self.place);
}

rpc::CallSettings ClusterClient::Attempt::settings(int64_t deadline_ns) {
  const bool is_doubted = place.owner->is_doubtful;
  if (is_doubted) client.inquire(table);
  return {.deadline_ns = deadline_ns, .is_hopeless = &Attempt::isHopeless, .context = this, .is_doubted = is_doubted};
}

Task<Result<ClusterClient::Place>> ClusterClient::locate(TableId table, KeyHash hash, bool is_stale, int64_t since_ns,
                                                         int64_t deadline_ns) {
  const TabletCache::Entry* entry = tablets_.find(table, hash);
  if (is_stale || entry == nullptr || entry->owner == nullptr) {
    const Status status = co_await refresh(table, since_ns, deadline_ns);
    if (status != Status::Ok) co_return status;
    entry = tablets_.find(table, hash);
    if (entry == nullptr || entry->owner == nullptr) co_return Status::RetryLater;
  }
  co_return Place{.owner = entry->owner, .epoch = entry->epoch};
}

// ---- single objects

Task<PointResult> ClusterClient::read(TableId table, ByteSpan key, int64_t deadline_ns) {
  return execute({.kind = wire::Opcode::Read, .table = table, .key = key}, deadline_ns);
}

Task<PointResult> ClusterClient::write(TableId table, ByteSpan key, ByteSpan value, Condition condition,
                                       int64_t deadline_ns) {
  return execute({.kind = wire::Opcode::Write,
                  .table = table,
                  .key = key,
                  .value = value,
                  .condition = static_cast<wire::Condition>(condition.kind()),
                  .condition_version = condition.version()},
                 deadline_ns);
}

Task<PointResult> ClusterClient::remove(TableId table, ByteSpan key, Condition condition, int64_t deadline_ns) {
  return execute({.kind = wire::Opcode::Remove,
                  .table = table,
                  .key = key,
                  .condition = static_cast<wire::Condition>(condition.kind()),
                  .condition_version = condition.version()},
                 deadline_ns);
}

Task<PointResult> ClusterClient::increment(TableId table, ByteSpan key, int64_t delta, Condition condition,
                                           int64_t deadline_ns) {
  return execute({.kind = wire::Opcode::Increment,
                  .table = table,
                  .key = key,
                  .delta = delta,
                  .condition = static_cast<wire::Condition>(condition.kind()),
                  .condition_version = condition.version()},
                 deadline_ns);
}

Task<PointResult> ClusterClient::execute(PointRequest request, int64_t deadline_ns) {
  return continueFrom(request, CallProgress(), deadline_ns);
}

Task<Status> ClusterClient::prepareTicket(CallProgress& progress, int64_t deadline_ns) {
  for (;;) {
    const Status status = co_await lease_.open(deadline_ns);
    if (status != Status::Ok) co_return status;
    if (lease_.isCurrent(progress.ticket)) co_return Status::Ok;
    if (progress.may_have_happened || lease_.hasRoom()) break;
    const Status waited = co_await lease_.awaitRoom(1, deadline_ns);
    if (waited != Status::Ok) co_return waited;
  }
  // Under another identity the call would be a new one: only if it cannot have happened before and will not any more.
  // That is so when every attempt was refused, and only because an answered request is never delivered again
  // (transport.h): else a copy of a refused attempt could be carried out next to the new call.
  if (progress.may_have_happened && !RC_MUTATION("new-identity-after-a-lapse")) co_return Status::OutcomeUnknown;
  progress.ticket = lease_.begin();
  co_return Status::Ok;
}

Task<bool> ClusterClient::pauseBeforeNext(Backoff& backoff, const CallProgress& progress, int64_t deadline_ns) {
  // The first time that the tablet is elsewhere the question to the coordinator is pause enough.
  const bool at_once = progress.is_stale && backoff.attempts() == 0;
  const int64_t pause_ns = backoff.nextNs(progress.retry_after_us, random_);
  const int64_t resume_ns = addNs(pacer_.nowNs(), at_once ? 0 : pause_ns);
  if (resume_ns >= deadline_ns || pacer_.stopped()) co_return false;
  if (!at_once) {
    [[maybe_unused]] const Status woken = co_await pacer_.pauseUntil(resume_ns);
  }
  co_return !pacer_.stopped();
}

void ClusterClient::settle(PointResult& result, CallProgress& progress, bool is_mutation) {
  result.status = finalStatus(progress.last, is_mutation, progress.may_have_happened);
  if (result.status != Status::Ok) {
    result.message = {};
    result.value_bytes = 0;
  }
  if (result.status == Status::OutcomeUnknown) ++stats_.outcomes_unknown;
  if (is_mutation) lease_.finish(progress.ticket);
}

Task<PointResult> ClusterClient::continueFrom(PointRequest request, CallProgress progress, int64_t deadline_ns) {
  Running running(*this);
  co_await pacer_.enter();
  PointResult result;
  const Status limits = checkLimits(request.key.size(), request.value.size());
  if (limits != Status::Ok) {
    result.status = limits;
    co_return result;
  }
  const KeyHash hash = hashKey(request.table, request.key);
  Backoff backoff(options_.retry);
  int64_t since_ns = pacer_.nowNs();
  [[maybe_unused]] const TabletCache::Owner* tried = nullptr;
  for (;;) {
    if (pacer_.stopped()) {
      progress.last = Status::Shutdown;
      break;
    }
    // What was Ok beside the call itself is not noted in `last`: there it would be the answer to the call.
    if (request.isMutation()) {
      const Status prepared = co_await prepareTicket(progress, deadline_ns);
      if (prepared != Status::Ok) {
        progress.last = besideTheCall(prepared);
        break;
      }
    }
    const auto place = co_await locate(request.table, hash, progress.is_stale, since_ns, deadline_ns);
    // What was asked meanwhile may have taken the lease's time.
    const bool is_leased = !request.isMutation() || lease_.isCurrent(progress.ticket);
    if (place && is_leased) {
      progress.is_stale = false;
      since_ns = pacer_.nowNs();
      ++stats_.attempts;
      if (RC_MUTATION("new-identity-at-the-new-owner") && request.isMutation() && progress.may_have_happened &&
          tried != nullptr && tried != place->owner && lease_.hasRoom()) {
        progress.ticket = lease_.begin();
      }
      tried = place->owner;
      const wire::CallIdentity identity =
          request.isMutation() ? lease_.identityOf(progress.ticket) : wire::CallIdentity{};
      transport::TxMessage message =
          encodePoint(caller_, request, ServerId(place->owner->address.id), place->epoch, identity);
      Attempt attempt{.client = *this, .table = request.table, .hash = hash, .place = *place};
      rpc::CallResult answer = co_await caller_.call(pacer_.executor(), place->owner->address, std::move(message),
                                                     attempt.settings(deadline_ns));
      progress.last = answer.status;
      progress.retry_after_us = 0;
      if (answer.response.head().empty()) {
        progress.may_have_happened |= answer.may_have_happened;
        noteUnanswered(*place->owner, answer.status);
      } else {
        result = decodePoint(request.kind, std::move(answer.response));
        progress.last = result.status;
        progress.retry_after_us = result.retry_after_us;
        progress.may_have_happened |= result.isUncertain();
      }
    } else if (!place) {
      progress.last = besideTheCall(place.error());
      progress.is_stale = true;  // nothing is known, or the tablet is not available: ask again
      since_ns = pacer_.nowNs();
      if (reactionTo(progress.last) != Reaction::Wait) break;
    } else {
      progress.last = RC_MUTATION("answer-what-was-never-sent") ? Status::Ok : Status::LeaseExpired;
    }
    const Reaction reaction = is_leased ? reactionTo(progress.last) : Reaction::Relapse;
    if (reaction == Reaction::Finish) break;
    if (reaction == Reaction::Relapse) lease_.lapse(progress.ticket);
    // An owner that puts calls off for long may not be the owner any more, and be unable to learn it.
    if (reaction == Reaction::Refresh || backoff.attempts() >= kAttemptsPerQuestion) progress.is_stale = true;
    const bool again = co_await pauseBeforeNext(backoff, progress, deadline_ns);
    if (!again) break;
  }
  settle(result, progress, request.isMutation());
  co_return result;
}

// ---- enumeration

Task<Status> ClusterClient::scanNext(ScanCursor& cursor, std::vector<Object>& objects, int64_t deadline_ns) {
  Running running(*this);
  co_await pacer_.enter();
  objects.clear();
  if (cursor.is_end) co_return Status::Ok;
  Backoff backoff(options_.retry);
  CallProgress progress;
  int64_t since_ns = pacer_.nowNs();
  for (;;) {
    const auto place = co_await locate(cursor.table, cursor.next, progress.is_stale, since_ns, deadline_ns);
    if (place) {
      progress.is_stale = false;
      since_ns = pacer_.nowNs();
      ++stats_.attempts;
      transport::TxMessage message = encodeScan(caller_, ServerId(place->owner->address.id), cursor.table, place->epoch,
                                                cursor.next, cursor.batch_bytes);
      Attempt attempt{.client = *this, .table = cursor.table, .hash = cursor.next, .place = *place};
      const rpc::CallResult answer = co_await caller_.call(pacer_.executor(), place->owner->address, std::move(message),
                                                           attempt.settings(deadline_ns));
      if (answer.response.head().empty()) noteUnanswered(*place->owner, answer.status);
      progress.last = answer.status;
      progress.retry_after_us = answer.retryAfterUs();
      if (answer.status == Status::Ok) {
        ScanAnswer decoded;
        if (!decodeScan(answer.response, cursor.table, cursor.next, objects, decoded)) {
          objects.clear();
          co_return Status::Corrupt;
        }
        cursor.next = decoded.next_cursor;
        cursor.is_end = decoded.is_end;
        co_return Status::Ok;
      }
      const Reaction reaction = reactionTo(progress.last);
      if (reaction == Reaction::Finish) break;
      // An owner that puts calls off for long may not be the owner any more, and be unable to learn it.
      if (reaction == Reaction::Refresh || backoff.attempts() >= kAttemptsPerQuestion) progress.is_stale = true;
    } else {
      progress.last = besideTheCall(place.error());
      progress.is_stale = true;
      since_ns = pacer_.nowNs();
      if (reactionTo(progress.last) != Reaction::Wait) break;
    }
    const bool again = co_await pauseBeforeNext(backoff, progress, deadline_ns);
    if (!again) break;
  }
  co_return pacer_.stopped() ? Status::Shutdown : finalStatus(progress.last, false, false);
}

Task<void> ClusterClient::close(int64_t deadline_ns) {
  Running running(*this);
  co_await pacer_.enter();
  co_await lease_.close(deadline_ns);
}

}  // namespace ramcore::client
