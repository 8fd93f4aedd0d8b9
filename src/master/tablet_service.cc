#include "master/tablet_service.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"
#include "master/tablet_messages.h"
#include "rpc/control_call.h"
#include "runtime/await.h"
#include "store/durability.h"

namespace ramcore::master {
namespace {

namespace control = wire::control;
using rpc::parseRequest;
using rpc::replyControl;
using rpc::Request;
using wire::Opcode;

constexpr int64_t kDrainPauseNs = 200 * runtime::kNanosPerMicro;

bool isSensible(const store::Tablet& tablet) {
  return tablet.id && tablet.table && tablet.epoch && tablet.range.first <= tablet.range.last;
}

}  // namespace

TabletService::~TabletService() { RC_CHECK(idle()); }

void TabletService::addTo(rpc::ServiceTable& table) {
  // The handlers are short: they change a snapshot or start a coroutine. They stay on the dispatch thread, one after
  // the other.
  const rpc::OpcodeRules rules{.roles = rpc::allow({transport::Role::Coordinator}), .dispatch_only = true};
  table.add<&TabletService::takeTablet>(Opcode::TakeTablet, *this, rules);
  table.add<&TabletService::dropTablet>(Opcode::DropTablet, *this, rules);
  table.add<&TabletService::splitTablet>(Opcode::SplitTablet, *this, rules);
  table.add<&TabletService::freezeTablet>(Opcode::FreezeTablet, *this, rules);
  table.add<&TabletService::unfreezeTablet>(Opcode::UnfreezeTablet, *this, rules);
  table.add<&TabletService::lendTablet>(Opcode::LendTablet, *this, rules);
  table.add<&TabletService::adoptTablet>(Opcode::AdoptTablet, *this, rules);
  table.add<&TabletService::pullTablet>(Opcode::PullTablet, *this, rules);
  table.add<&TabletService::recoverTablets>(Opcode::RecoverTablets, *this, rules);
  table.add<&TabletService::pullProgress>(Opcode::PullProgress, *this, rules);
}

bool TabletService::obeys(const Request& request) const { return parts_.changes.obeys(request.peerId()); }

bool TabletService::isDropped(TabletId tablet, TabletEpoch epoch) {
  SpinGuard guard(lock_);
  const auto found = dropped_.find(tablet);
  return found != dropped_.end() && found->second >= epoch;
}

void TabletService::noteDropped(TabletId tablet, TabletEpoch epoch) {
  if (RC_MUTATION("forget-what-was-dropped")) return;
  SpinGuard guard(lock_);
  TabletEpoch& known = dropped_[tablet];
  known = std::max(known, epoch);
}

runtime::Task<void> TabletService::takeTablet(Request request) {
  if (!obeys(request)) co_return request.reply(Status::RetryLater);
  control::TakeTabletRequest ask;
  if (!parseRequest(request, ask)) {
    request.reply(Status::BadRequest);
    co_return;
  }
  // The change that the coordinator relies on is stored here first; only then may this server answer for the tablet. If
  // a coordinator with an older copy of the state starts later, this server can show it that a change is missing
  // (ChangeKeeper).
  running_.fetch_add(1);
  co_await parts_.changes.keep(wire::changeOf(ask.change()));
  running_.fetch_sub(1);
  if (stop_) co_return request.reply(Status::RetryLater);
  take(std::move(request), ask);
}

void TabletService::take(Request request, const control::TakeTabletRequest& ask) {
  store::Tablet tablet = fromControl(ask.tablet());
  if (!isSensible(tablet)) return request.reply(Status::BadRequest);
  if (isDropped(tablet.id, tablet.epoch)) return request.reply(Status::StaleEpoch);
  SegmentId first_segment = parts_.log.headId();
  if (!first_segment) return request.reply(Status::RetryLater);
  const auto present = parts_.tablets.get(tablet.id);
  if (present && present->epoch > tablet.epoch) return request.reply(Status::StaleEpoch);
  if (present && present->state == store::TabletState::Normal && present->epoch == tablet.epoch) {
    first_segment = present->first_segment;  // repeated, or it was meant to arrive and is over that
  } else if (ask.created_empty()) {
    tablet.first_segment = first_segment;
    const Status added = parts_.tablets.add(tablet);
    if (added != Status::Ok) return request.reply(added);
  } else {
    if (!present) return request.reply(Status::NotFound);
    const Status taken = ask.arriving() ? parts_.target.arrive(tablet.id, tablet.epoch) : takeFetched(tablet);
    if (taken != Status::Ok) return request.reply(taken);
    first_segment = present->first_segment;
  }
  control::TakeTabletResponse answer;
  answer.mutable_log()->set_server(parts_.self.value);
  answer.mutable_log()->set_first_segment(first_segment.value);
  replyControl(std::move(request), answer);
}

/// Begins to serve a tablet whose contents are all in this server's log: it has arrived, or was recovered.
Status TabletService::takeFetched(const store::Tablet& tablet) {
  const auto present = parts_.tablets.get(tablet.id);
  if (!present) return Status::NotFound;
  const auto recovery = parts_.recovery.progress(tablet.id);
  if (recovery.ok() && recovery->epoch == tablet.epoch) return takeRecovered(tablet, *present);
  const auto pull = parts_.target.progress(tablet.id);
  if (!pull.ok() || pull->epoch != tablet.epoch || present->epoch != tablet.epoch) return Status::NotFound;
  if (pull->phase < MigrationTarget::Phase::Joined) return Status::RetryLater;
  const Status updated =
      parts_.tablets.update(tablet.id, tablet.epoch, store::TabletState::Normal, present->first_segment);
  if (updated == Status::Ok) parts_.target.settle(tablet.id);
  return updated;
}

/// A survivor holds the tablet under an older epoch.
Status TabletService::takeRecovered(const store::Tablet& tablet, const store::Tablet& present) {
  const auto recovery = parts_.recovery.progress(tablet.id);
  if (!recovery->done || recovery->status != Status::Ok) return Status::RetryLater;
  const Status updated =
      parts_.tablets.update(tablet.id, tablet.epoch, store::TabletState::Normal, present.first_segment);
  if (updated != Status::Ok) return updated;
  parts_.target.settle(tablet.id);
  parts_.recovery.forget(tablet.id, tablet.epoch);
  return Status::Ok;
}

runtime::Task<Status> TabletService::drained(runtime::Executor& executor) {
  // When a grace period that begins now is over, no thread acts on the tablets as they were.
  const runtime::GraceTicket ticket = parts_.rcu.ticket();
  while (!parts_.rcu.elapsed(ticket)) {
    if (stop_) co_return Status::RetryLater;  // the maintenance, which drives grace periods, ends too
    parts_.maintenance.wake();
    co_await runtime::sleepFor(executor, kDrainPauseNs);
  }
  co_return Status::Ok;
}

runtime::Task<void> TabletService::dropTablet(Request request) {
  if (!obeys(request)) co_return request.reply(Status::RetryLater);
  control::DropTabletRequest ask;
  if (!parseRequest(request, ask)) {
    request.reply(Status::BadRequest);
    co_return;
  }
  const TabletId id(ask.tablet());
  const TabletEpoch epoch(ask.epoch());
  if (!id || !epoch) {
    request.reply(Status::BadRequest);
    co_return;
  }
  noteDropped(id, epoch);
  parts_.recovery.cancel(id, epoch);
  if (ask.keeps_tablet()) {
    parts_.target.cancelReturn(id, epoch);
    co_return request.reply(Status::Ok);
  }
  parts_.target.cancel(id, epoch);
  const auto present = parts_.tablets.get(id);
  if (present && present->epoch > epoch && !RC_MUTATION("obey-a-late-drop")) {
    request.reply(Status::StaleEpoch);  // an old command that came late: the tablet is in a newer service
    co_return;
  }
  const bool removed = present && parts_.tablets.remove(id) == Status::Ok;
  // A repeated drop waits as well: the answer says that no thread here acts on the tablet any more.
  Status status = Status::Ok;
  if (!RC_MUTATION("drop-without-draining")) status = co_await drained(request.executor());
  if (removed) {
    running_.fetch_add(1);
    clear(*present);
  }
  request.reply(status);
}

runtime::Detached TabletService::clear(store::Tablet tablet) {
  co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
  // Parts of the range may be here again, under a newer epoch.
  parts_.results.dropRange(tablet.table, tablet.range,
                           [&](KeyHash hash) { return parts_.tablets.find(tablet.table, hash) != nullptr; });
  std::optional<KeyHash> cursor = tablet.range.first;
  while (cursor && !stop_) {
    cursor = parts_.store.purge().purgeSlice(tablet.table, tablet.range, *cursor);
    co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
  }
  parts_.maintenance.wake();
  running_.fetch_sub(1);
}

void TabletService::splitTablet(Request request) {
  if (!obeys(request)) return request.reply(Status::RetryLater);
  control::SplitTabletRequest ask;
  if (!parseRequest(request, ask)) return request.reply(Status::BadRequest);
  const store::Tablet lower = fromControl(ask.lower());
  const store::Tablet upper = fromControl(ask.upper());
  if (!isSensible(lower) || !isSensible(upper)) return request.reply(Status::BadRequest);
  const auto has = [&](const store::Tablet& tablet) {
    const auto present = parts_.tablets.get(tablet.id);
    return present && present->range == tablet.range;
  };
  if (has(lower) && has(upper)) return request.reply(Status::Ok);  // repeated
  const auto present = parts_.tablets.get(TabletId(ask.tablet()));
  if (!present) return request.reply(Status::NotFound);
  if (present->epoch > lower.epoch || present->epoch > upper.epoch) return request.reply(Status::StaleEpoch);
  // While it is handed over, its contents are in two logs.
  const bool answers = present->state == store::TabletState::Normal || present->state == store::TabletState::Frozen;
  const bool is_whole = answers && present->arriving == nullptr;
  if (!is_whole) return request.reply(Status::RetryLater);
  const Status split = parts_.tablets.split(TabletId(ask.tablet()), lower, upper);
  // The tablet does not come back as a whole: a late command that would take it again finds it dropped.
  if (split == Status::Ok) noteDropped(TabletId(ask.tablet()), std::max(lower.epoch, upper.epoch));
  request.reply(split);
}

runtime::Task<void> TabletService::freezeTablet(Request request) {
  if (!obeys(request)) co_return request.reply(Status::RetryLater);
  control::FreezeTabletRequest ask;
  if (!parseRequest(request, ask)) {
    request.reply(Status::BadRequest);
    co_return;
  }
  const TabletId id(ask.tablet());
  const auto present = parts_.tablets.get(id);
  if (!present || present->epoch.value != ask.epoch()) {
    request.reply(present ? Status::StaleEpoch : Status::NotFound);
    co_return;
  }
  const bool returns = ask.return_epoch() != 0;
  const bool is_served = returns ? present->arriving != nullptr
                                 : present->arriving == nullptr && (present->state == store::TabletState::Normal ||
                                                                    present->state == store::TabletState::Frozen);
  if (!is_served) {
    // A late copy of the command must not have a tablet answered for that is lent.
    const bool is_late = present->state == store::TabletState::Lent || returns;
    request.reply(is_late ? Status::StaleEpoch : Status::RetryLater);
    co_return;
  }
  Status status = returns
                      ? parts_.tablets.freezeArriving(id, TabletEpoch(ask.return_epoch()))
                      : parts_.tablets.update(id, present->epoch, store::TabletState::Frozen, present->first_segment);
  if (status == Status::Ok && !RC_MUTATION("freeze-without-draining")) {
    status = co_await drained(request.executor());
  }
  if (status == Status::Ok && !RC_MUTATION("freeze-before-durable")) {
    status = co_await store::Reached(parts_.log, request.executor(), present->durability, parts_.log.heads().end());
  }
  if (status != Status::Ok) co_return request.reply(status);
  control::FreezeTabletResponse answer;
  answer.set_version_ceiling(parts_.store.versionCeiling());
  replyControl(std::move(request), answer);
}

runtime::Task<void> TabletService::lendTablet(Request request) {
  if (!obeys(request)) co_return request.reply(Status::RetryLater);
  control::LendTabletRequest ask;
  if (!parseRequest(request, ask)) co_return request.reply(Status::BadRequest);
  const TabletId id(ask.tablet());
  const auto present = parts_.tablets.get(id);
  if (!present) co_return request.reply(Status::NotFound);
  const bool may_lend = present->epoch.value == ask.epoch() &&
                        (present->state == store::TabletState::Frozen || present->state == store::TabletState::Lent);
  if (!may_lend) co_return request.reply(Status::StaleEpoch);
  if (RC_MUTATION("lend-without-the-tablet")) {
    (void)parts_.tablets.remove(id);
  } else {
    std::optional<store::LentTo> lent_to;
    if (ask.owner() != 0 && ask.owner_epoch() != 0) {
      lent_to = {.owner = ServerId(ask.owner()), .epoch = TabletEpoch(ask.owner_epoch())};
    }
    const Status lent = parts_.tablets.lend(id, lent_to);
    if (lent != Status::Ok) co_return request.reply(lent);
    // One that was arriving goes back: the rest stays where it is.
    if (present->arriving != nullptr) static_cast<void>(parts_.target.interrupt(id));
  }
  Status status = Status::Ok;
  if (!RC_MUTATION("lend-without-draining")) status = co_await drained(request.executor());
  request.reply(status);
}

void TabletService::adoptTablet(Request request) {
  if (!obeys(request)) return request.reply(Status::RetryLater);
  control::AdoptTabletRequest ask;
  if (!parseRequest(request, ask) || ask.version_ceiling() == 0) return request.reply(Status::BadRequest);
  request.reply(parts_.target.adopt(TabletId(ask.tablet()), TabletEpoch(ask.epoch()), ask.version_ceiling()));
}

void TabletService::unfreezeTablet(Request request) {
  if (!obeys(request)) return request.reply(Status::RetryLater);
  control::UnfreezeTabletRequest ask;
  if (!parseRequest(request, ask) || ask.new_epoch() <= ask.epoch()) return request.reply(Status::BadRequest);
  const TabletId id(ask.tablet());
  const TabletEpoch new_epoch(ask.new_epoch());
  const auto present = parts_.tablets.get(id);
  if (!present) return request.reply(Status::NotFound);
  if (ask.goes_on_arriving()) {
    const bool may_thaw = present->epoch.value == ask.epoch() && present->arriving != nullptr;
    return request.reply(may_thaw ? parts_.tablets.thaw(id, new_epoch) : Status::StaleEpoch);
  }
  if (present->epoch == new_epoch) return request.reply(Status::Ok);  // repeated
  const bool is_served = present->state == store::TabletState::Normal || present->state == store::TabletState::Frozen;
  if (present->epoch.value != ask.epoch() || !is_served) return request.reply(Status::StaleEpoch);
  // The tablet goes on under a new epoch: requests under the old one, of clients and of the pull that was given up, are
  // answered with StaleEpoch.
  request.reply(parts_.tablets.update(id, new_epoch, store::TabletState::Normal, present->first_segment));
}

void TabletService::pullTablet(Request request) {
  if (!obeys(request)) return request.reply(Status::RetryLater);
  control::PullTabletRequest ask;
  if (!parseRequest(request, ask)) return request.reply(Status::BadRequest);
  const store::Tablet tablet = fromControl(ask.tablet());
  const rpc::PeerAddress source = sourceOf(ask);
  if (!isSensible(tablet) || source.id == 0 || source.locators.empty()) return request.reply(Status::BadRequest);
  if (isDropped(tablet.id, tablet.epoch)) return request.reply(Status::StaleEpoch);
  const auto present = parts_.tablets.get(tablet.id);
  if (present && present->epoch > tablet.epoch) return request.reply(Status::StaleEpoch);
  if (ask.returns() && present && present->state == store::TabletState::Lent) {
    return request.reply(parts_.target.start(tablet, TabletEpoch(ask.source_epoch()), source, true));
  }
  if (present && present->state != store::TabletState::Pulling) {
    // The tablet is here already, from a pull whose end the coordinator has not heard of, or by mistake.
    return request.reply(present->epoch == tablet.epoch ? Status::Ok : Status::BadRequest);
  }
  const auto recovery = parts_.recovery.progress(tablet.id);
  if (recovery.ok() && recovery->epoch >= tablet.epoch) return request.reply(Status::StaleEpoch);
  if (ask.returns()) return request.reply(Status::NotFound);
  parts_.recovery.cancel(tablet.id, tablet.epoch);
  request.reply(parts_.target.start(tablet, TabletEpoch(ask.source_epoch()), source, false));
}

Status TabletService::checkRecovery(const store::Tablet& tablet, bool is_survivor, bool& is_here) {
  if (isDropped(tablet.id, tablet.epoch)) return Status::StaleEpoch;
  const auto pull = parts_.target.progress(tablet.id);
  if (pull.ok() && pull->epoch >= tablet.epoch) return Status::StaleEpoch;
  const auto present = parts_.tablets.get(tablet.id);
  is_here = present && present->state != store::TabletState::Pulling && present->epoch >= tablet.epoch;
  if (!present || present->epoch < tablet.epoch) {
    const bool may_be_here = is_survivor || !present || present->state == store::TabletState::Pulling;
    return may_be_here ? Status::Ok : Status::BadRequest;
  }
  return present->epoch == tablet.epoch ? Status::Ok : Status::StaleEpoch;
}

void TabletService::recoverTablets(Request request) {
  if (!obeys(request)) return request.reply(Status::RetryLater);
  control::RecoverTabletsRequest ask;
  RecoveryPlan plan;
  if (!parseRequest(request, ask) || !fromControl(ask, plan)) return request.reply(Status::BadRequest);
  size_t here = 0;
  for (const RecoveryPlan::Part& part : plan.parts) {
    bool is_here = false;
    const Status status = checkRecovery(part.tablet, plan.is_survivor, is_here);
    if (status != Status::Ok) return request.reply(status);
    here += is_here ? 1 : 0;
  }
  // The command may be repeated after some or all of its tablets were taken.
  if (here == plan.parts.size()) return request.reply(Status::Ok);
  if (plan.is_survivor) return request.reply(here == 0 ? recoverOver(std::move(plan)) : Status::StaleEpoch);
  if (here != 0) return request.reply(parts_.recovery.knows(plan) ? Status::Ok : Status::StaleEpoch);
  for (const RecoveryPlan::Part& part : plan.parts) parts_.target.cancel(part.tablet.id, part.tablet.epoch);
  request.reply(parts_.recovery.start(std::move(plan)));
}

/// Begins to replay the other server's log over tablets that were being handed over to this server, or by it.
Status TabletService::recoverOver(RecoveryPlan plan) {
  bool is_quiet = true;
  bool lacks_places = false;
  for (const RecoveryPlan::Part& part : plan.parts) {
    const auto present = parts_.tablets.get(part.tablet.id);
    if (!present || present->range != part.tablet.range) return Status::NotFound;
    const bool is_handed_over =
        present->state == store::TabletState::Lent || present->state == store::TabletState::Frozen ||
        present->state == store::TabletState::Arriving ||
        (present->state == store::TabletState::Pulling && parts_.target.progress(part.tablet.id).ok());
    if (!is_handed_over) return Status::BadRequest;
    // The other server died before this one was told to lend the tablet. If this one is to hand it back, it is the
    // owner, and goes on with what has arrived.
    if (present->state == store::TabletState::Frozen && present->arriving != nullptr) {
      (void)parts_.tablets.thaw(present->id, present->return_epoch);
    } else if (present->state == store::TabletState::Frozen) {
      (void)parts_.tablets.lend(present->id, std::nullopt);
    }
    if (parts_.target.interrupt(part.tablet.id)) continue;
    is_quiet = false;
    const auto arrival = parts_.target.progress(part.tablet.id);
    lacks_places = lacks_places || (arrival.ok() && arrival->lacks_places);
  }
  if (!is_quiet) return lacks_places ? Status::TooFewReplicas : Status::RetryLater;
  return parts_.recovery.start(std::move(plan));
}

Result<store::IntakeProgress> TabletService::intakeOf(TabletId tablet, TabletEpoch epoch) const {
  const auto recovery = parts_.recovery.progress(tablet);
  if (recovery.ok() && recovery->epoch == epoch) return recovery;
  const auto pull = parts_.target.progress(tablet);
  if (!pull.ok() || pull->epoch != epoch) return Status::NotFound;
  return store::IntakeProgress(*pull);
}

void TabletService::pullProgress(Request request) {
  if (!obeys(request)) return request.reply(Status::RetryLater);
  control::PullProgressRequest ask;
  if (!parseRequest(request, ask)) return request.reply(Status::BadRequest);
  const auto progress = intakeOf(TabletId(ask.tablet()), TabletEpoch(ask.epoch()));
  if (!progress.ok()) return request.reply(progress.error());
  control::PullProgressResponse answer;
  const auto pull = parts_.target.progress(TabletId(ask.tablet()));
  if (pull.ok() && pull->epoch == progress->epoch) {
    answer.set_phase(phaseOf(pull->phase));
    answer.set_problem(static_cast<uint32_t>(pull->problem));
    answer.set_room_wanted_bytes(pull->shortage.wanted_bytes);
    answer.set_room_left_bytes(pull->shortage.left_bytes);
    if (pull->phase < MigrationTarget::Phase::Arrived) parts_.target.setRate(TabletId(ask.tablet()), ask.rate_max());
  }
  answer.set_done(progress->done);
  answer.set_objects(progress->objects);
  answer.set_bytes(progress->bytes);
  answer.set_fraction(progress->fraction);
  answer.set_status(static_cast<uint32_t>(progress->status));
  answer.set_lacks_places(progress->lacks_places);
  answer.mutable_log()->set_server(parts_.self.value);
  answer.mutable_log()->set_first_segment(progress->first_segment.value);
  replyControl(std::move(request), answer);
}

}  // namespace ramcore::master
