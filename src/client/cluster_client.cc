#include "client/cluster_client.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mutation.h"
#include "client/multi_run.h"

namespace ramcore::client {

using runtime::Task;

ClusterClient::ClusterClient(rpc::Caller& caller, runtime::Entropy& entropy, std::vector<rpc::PeerAddress> coordinators,
                             const ClusterClientOptions& options)
    : caller_(caller),
      options_(options),
      pacer_(caller.dispatch()),
      random_(entropy.next()),
      coordinator_(caller, pacer_, std::move(coordinators), options.retry, random_.stream("coordinator")),
      lease_(coordinator_, pacer_, entropy, options.renew_by_timer),
      finder_(coordinator_, pacer_, random_,
              {.first_pause_ns = options.refresh_ns_min, .longest_pause_ns = options.retry.longest_ns}) {}

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
  if (status == Status::Ok) finder_.cache().forget(map->table);
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
  finder_.cache().replace(*map);
  co_return map->table;
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
  // Under another identity the call would be a new one. That is right only if no attempt has happened or will happen,
  // that is, if every attempt was refused. It relies on transports, which never deliver an answered request again
  // (transport.h): otherwise a copy of a refused attempt could be carried out next to the new call.
  if (progress.may_have_happened && !RC_MUTATION("new-identity-after-a-lapse")) co_return Status::OutcomeUnknown;
  progress.ticket = lease_.begin();
  co_return Status::Ok;
}

Task<bool> ClusterClient::pauseBeforeNext(Backoff& backoff, const CallProgress& progress, int64_t deadline_ns) {
  // The first time that the tablet is elsewhere the question to the coordinator is pause enough.
  const bool at_once = (progress.is_stale || progress.is_moved) && backoff.attempts() == 0;
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

void ClusterClient::noteElsewhere(TableId table, PointResult& result, CallProgress& progress) {
  progress.is_moved = result.moved && finder_.cache().noteMoved(table, *result.moved, progress.tried);
  progress.is_stale = !progress.is_moved;
  result.moved.reset();
}

transport::TxMessage ClusterClient::encodeAttempt(const PointRequest& request, CallProgress& progress,
                                                  const TabletFinder::Place& place,
                                                  [[maybe_unused]] const TabletCache::Owner* tried) {
  if (RC_MUTATION("new-identity-at-the-new-owner") && request.isMutation() && progress.may_have_happened &&
      tried != nullptr && tried != place.owner && lease_.hasRoom()) {
    progress.ticket = lease_.begin();
  }
  const wire::CallIdentity identity = request.isMutation() ? lease_.identityOf(progress.ticket) : wire::CallIdentity{};
  progress.tried = place.epoch;
  return encodePoint(caller_, request, ServerId(place.owner->address.id), place.epoch, identity);
}

void ClusterClient::noteAnswer(rpc::CallResult answer, wire::Opcode kind, TabletCache::Owner& owner,
                               CallProgress& progress, PointResult& result) {
  progress.last = answer.status;
  progress.retry_after_us = 0;
  if (answer.response.head().empty()) {
    progress.may_have_happened |= answer.may_have_happened;
    finder_.noteUnanswered(owner, answer.status);
    return;
  }
  result = decodePoint(kind, std::move(answer.response));
  progress.last = result.status;
  progress.retry_after_us = result.retry_after_us;
  progress.may_have_happened |= result.isUncertain();
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
  const TabletCache::Owner* tried = nullptr;
  for (;;) {
    if (pacer_.stopped()) {
      progress.last = Status::Shutdown;
      break;
    }
    // An Ok of what precedes the call is not noted in `last`, where it would be the answer to the call.
    if (request.isMutation()) {
      const Status prepared = co_await prepareTicket(progress, deadline_ns);
      if (prepared != Status::Ok) {
        progress.last = besideTheCall(prepared);
        break;
      }
    }
    const auto place = co_await finder_.locate(request.table, hash, progress.is_stale, since_ns, deadline_ns);
    // The question to the coordinator may have taken so long that the lease has run out.
    const bool is_leased = !request.isMutation() || lease_.isCurrent(progress.ticket);
    if (place && is_leased) {
      progress.is_stale = false;
      progress.is_moved = false;
      since_ns = pacer_.nowNs();
      ++stats_.attempts;
      transport::TxMessage message = encodeAttempt(request, progress, *place, tried);
      tried = place->owner;
      TabletFinder::Attempt attempt{.finder = finder_, .table = request.table, .hash = hash, .place = *place};
      rpc::CallResult answer = co_await caller_.call(pacer_.executor(), place->owner->address, std::move(message),
                                                     attempt.settings(deadline_ns));
      noteAnswer(std::move(answer), request.kind, *place->owner, progress, result);
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
    if (reaction == Reaction::Refresh) noteElsewhere(request.table, result, progress);
    // If the next attempt asks anyway, its question is to begin after this attempt and the pause, so none begins here.
    if (!progress.is_stale && backoff.attempts() >= kAttemptsPerQuestion) finder_.inquire(request.table);
    const bool again = co_await pauseBeforeNext(backoff, progress, deadline_ns);
    if (!again) break;
  }
  settle(result, progress, request.isMutation());
  co_return result;
}

// ---- several objects

Task<void> ClusterClient::multiRead(std::span<ReadItem> items, int64_t deadline_ns) {
  Running running(*this);
  co_await pacer_.enter();
  MultiRun<ReadItem> operation(*this, items, deadline_ns);
  co_await operation.run();
}

Task<void> ClusterClient::multiMutate(std::span<MutateItem> items, int64_t deadline_ns) {
  Running running(*this);
  co_await pacer_.enter();
  // Each item is a call of its own to the masters, and the number of unfinished calls is limited.
  constexpr size_t kAtOnce = CallTracker::kWindowMax / 4;
  for (size_t first = 0; first < items.size(); first += kAtOnce) {
    const std::span<MutateItem> some = items.subspan(first, std::min(kAtOnce, items.size() - first));
    MultiRun<MutateItem> operation(*this, some, deadline_ns);
    if (first == 0 || pacer_.nowNs() < deadline_ns) {
      co_await operation.run();
    } else {
      operation.refuse(Status::DeadlineExceeded);
    }
  }
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
    const auto place = co_await finder_.locate(cursor.table, cursor.next, progress.is_stale, since_ns, deadline_ns);
    if (place) {
      progress.is_stale = false;
      since_ns = pacer_.nowNs();
      ++stats_.attempts;
      transport::TxMessage message = encodeScan(caller_, ServerId(place->owner->address.id), cursor.table, place->epoch,
                                                cursor.next, cursor.batch_bytes);
      TabletFinder::Attempt attempt{.finder = finder_, .table = cursor.table, .hash = cursor.next, .place = *place};
      const rpc::CallResult answer = co_await caller_.call(pacer_.executor(), place->owner->address, std::move(message),
                                                           attempt.settings(deadline_ns));
      if (answer.response.head().empty()) finder_.noteUnanswered(*place->owner, answer.status);
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
      if (reaction == Reaction::Refresh) progress.is_stale = true;
      if (!progress.is_stale && backoff.attempts() >= kAttemptsPerQuestion) finder_.inquire(cursor.table);
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
