#include "store/maintenance.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"

namespace ramcore::store {
namespace {

constexpr uint32_t kCleanBytesPerSlice = 64 * 1024;  // 30-60 us of small entries
// Bounds of the bytes that the dispatch thread copies at a time. The lower one, so that the changes between requests
// and copying cost little against both. The upper one, so that no request waits much longer for copying than for a
// batch of other requests: 128 KiB of small entries take 100 us.
constexpr uint32_t kRoundBytesMin = 4 * 1024;
constexpr uint32_t kRoundBytesMax = 256 * 1024;
constexpr size_t kDeferredPerSlice = 256;
// A slice reaps one in kReapShare of the removed keys that wait, within the bounds below. So the queue has as many keys
// as come in about kReapShare slices.
constexpr size_t kReapShare = 16;
constexpr size_t kReapedPerSliceMin = 64;
constexpr size_t kReapedPerSliceMax = 1024;
// The pause before the next slice if there is nothing to compute but something to wait for, as while readers or pins
// hold memory back.
constexpr int64_t kWaitNs = 1 * runtime::kNanosPerMilli;

}  // namespace

Maintenance::Maintenance(runtime::Executor& executor, const Parts& parts, std::span<runtime::Executor* const> others,
                         const SoleProcessor& sole)
    : Job([](runtime::Job& job) { static_cast<Maintenance&>(job).slice(); }),
      executor_(executor),
      parts_(parts),
      again_(*this),
      sole_(sole) {
  const size_t count = std::min<size_t>(parts.cleaner.workersMax() - 1, others.size());
  for (uint32_t i = 0; i < count; ++i) helpers_.push_back(std::make_unique<Helper>(*this, *others[i], i + 1));
  if (sole.dispatch != nullptr) dispatch_ = std::make_unique<Helper>(*this, *sole.dispatch, parts.cleaner.workersMax());
}

Maintenance::~Maintenance() { RC_CHECK(!isScheduled()); }

bool Maintenance::isScheduled() const {
  // Reap waiters before the slices: a waiter may be about to wake one.
  if (std::ranges::any_of(reaps_, [](const Reap& reap) { return reap.state.load() != ReapState::Idle; })) return true;
  // Slices before the helpers: only a slice calls helpers, and one that begins after stop() calls none.
  if (scheduled_.load()) return true;
  const bool helps = (dispatch_ != nullptr && dispatch_->scheduled.load()) ||
                     std::ranges::any_of(helpers_, [](const auto& helper) { return helper->scheduled.load(); });
  // Helpers before the wake: a helper posts the wake before it is unscheduled.
  if (helps || wake_.posted.load() || scheduled_.load()) return true;  // a wake may have queued a slice
  // Reap waiters once more: a slice may have armed them since.
  return std::ranges::any_of(reaps_, [](const Reap& reap) { return reap.state.load() != ReapState::Idle; });
}

void Maintenance::wake() {
  woken_.store(true, std::memory_order_seq_cst);
  if (scheduled_.exchange(true, std::memory_order_seq_cst)) return;
  executor_.post(*this, urgency());
}

// Background work gets the time that others leave, and a small share in any case. When memory runs short, writers wait
// for it, so it gets their priority.
runtime::Priority Maintenance::urgency() const {
  return parts_.cleaner.isUrgent() ? runtime::Priority::Client : runtime::Priority::Background;
}

void Maintenance::stop() { stop_.store(true); }

void Maintenance::slice() {
  if (stop_.load()) {
    cancelReaps();
    scheduled_.store(false);
    return;
  }
  const bool was_woken = woken_.exchange(false, std::memory_order_seq_cst);
  using Progress = log::Cleaner::Progress;
  const bool cleans = parts_.cleaner.isBusy() || parts_.cleaner.isNeeded();
  const Progress progress = cleans ? clean() : Progress::Idle;
  noteCleaning();
  parts_.rcu.reclaim(kDeferredPerSlice);
  const size_t waiting = parts_.log.reclaim(static_cast<uint64_t>(executor_.clock().nowNs()));
  parts_.log.maintain();
  const bool are_more_to_reap = reap();
  if (parts_.index.memoryIsDue()) parts_.index.maintainMemory();
  // maintainMemory() does one step in a slice. The next step does not wait for a mutation, which may never come.
  if (progress == Progress::Worked || are_more_to_reap || parts_.index.memoryIsDue()) {
    executor_.post(*this, urgency());
    return;
  }
  // Memory is short but a pass would gain nothing: look again soon, as long as there are mutations that may change it.
  const bool nothing_to_gain = cleans && progress == Progress::Idle && was_woken;
  if (progress == Progress::Waiting || waiting > 0 || nothing_to_gain || parts_.rcu.pending() || lacksReapWaiter()) {
    executor_.arm(again_, executor_.clock().nowNs() + kWaitNs);
    return;
  }
  if (stop_.load()) {
    executor_.post(*this, urgency());  // one more slice, which cancels the reap waiters
    return;
  }
  scheduled_.store(false, std::memory_order_seq_cst);
  // A wake() between the work and the store above has found a slice scheduled and posted none: it is posted here.
  if (woken_.load(std::memory_order_seq_cst) && !scheduled_.exchange(true, std::memory_order_seq_cst)) {
    executor_.post(*this, urgency());
  }
}

/// @return true if there may be keys for the next slice
bool Maintenance::reap() {
  if (RC_MUTATION("keep-removed-keys")) return false;
  const size_t count_max =
      std::clamp(parts_.store.tombstones().size() / kReapShare, kReapedPerSliceMin, kReapedPerSliceMax);
  const TombstoneQueue::Reaped reaped = parts_.store.tombstones().reap(count_max);
  const bool are_durable = awaitReapable(reaps_[0], reaped.waits_for.durable);
  const bool are_flushed = awaitReapable(reaps_[1], reaped.waits_for.flushed);
  return reaped.count >= count_max || are_durable || are_flushed;
}

/// @return true if the log is as durable as the position requires by now, so no waiter is needed
bool Maintenance::awaitReapable(Reap& reap, LogPosition position) {
  if (!position.segment || reap.state.load() != ReapState::Idle || log_has_ended_) return false;
  reap.state.store(ReapState::Waiting);
  const bool is_noted = reap.level == Durability::Sync ? parts_.log.durability().notifyFlushed(position, reap)
                                                       : parts_.log.durability().notifyDurable(position, reap);
  if (!is_noted) reap.state.store(ReapState::Idle);
  return !is_noted;
}

void Maintenance::onReapable(Reap& reap, Status status) {
  if (status != Status::Ok) reap.owner.log_has_ended_ = true;
  reap.state.store(ReapState::Waking);
  reap.owner.wake();
  reap.state.store(ReapState::Idle);  // last: from here on this may be destroyed, unless a slice is due
}

/// True if removed keys are left and no waiter will wake this for them: the waiter is still in use after the last wake,
/// or another thread was reaping.
bool Maintenance::lacksReapWaiter() const {
  return !log_has_ended_ && std::ranges::any_of(reaps_, [&](const Reap& reap) { return reap.isDue(parts_.store); });
}

void Maintenance::cancelReaps() {
  for (Reap& reap : reaps_) {
    if (parts_.log.durability().cancelNotification(reap)) reap.state.store(ReapState::Idle);
  }
}

log::Cleaner::Progress Maintenance::clean() {
  if (dispatch_ != nullptr && !parts_.cleaner.isBusy()) has_one_processor_ = sole_.is_so();
  // While the dispatch thread copies, this thread does not. The helper there wakes it when it stops.
  if (dispatch_ != nullptr && dispatch_->scheduled.load()) return log::Cleaner::Progress::Waiting;
  const log::Cleaner::Progress progress = parts_.cleaner.step(kCleanBytesPerSlice);
  callHelpers();
  return progress;
}

// Posts the helpers that are wanted. A helper that is posted already is left alone, even if its next slice is its last.
void Maintenance::callHelpers() {
  if (has_one_processor_) {
    if (isWanted(*dispatch_)) call(*dispatch_);
    return;
  }
  for (const auto& helper : helpers_) {
    if (!isWanted(*helper)) break;
    call(*helper);
  }
}

void Maintenance::call(Helper& helper) {
  if (helper.scheduled.exchange(true)) return;
  parts_.log.stats().cleaners.fetch_add(1, std::memory_order_relaxed);
  helper.executor.post(helper, priorityOf(helper));
}

bool Maintenance::isWanted(const Helper& helper) const {
  if (stop_.load()) return false;
  return &helper == dispatch_.get() ? parts_.cleaner.canShare() : helper.worker < parts_.cleaner.workersWanted();
}

// With this priority the dispatch thread takes requests before each slice, and has one slice in each of its rounds.
runtime::Priority Maintenance::priorityOf(const Helper& helper) const {
  return &helper == dispatch_.get() ? runtime::Priority::Background : urgency();
}

void Maintenance::helpersSlice(Helper& helper) {
  const auto bytesMax = [&] {
    return &helper == dispatch_.get() ? parts_.cleaner.copyingDue(kRoundBytesMin, kRoundBytesMax) : kCleanBytesPerSlice;
  };
  if (isWanted(helper) && parts_.cleaner.help(helper.worker, bytesMax())) {
    helper.executor.post(helper, priorityOf(helper));
    return;
  }
  parts_.log.stats().cleaners.fetch_sub(1, std::memory_order_relaxed);
  if (!wake_.posted.exchange(true)) executor_.post(wake_, urgency());
  helper.scheduled.store(false);  // last: from here on this may be destroyed
}

/// On the first worker's executor. Runs the slice for which a timer is armed. If none is, a slice is queued already, or
/// there is nothing to do.
void Maintenance::onHelperStopped() {
  const bool is_waiting = again_.isArmed();
  again_.cancel();
  wake_.posted.store(false);  // from here on this may be destroyed, unless a slice is due
  if (is_waiting) slice();
}

void Maintenance::noteCleaning() {
  if (parts_.cleaner.isBusy() == is_counted_) return;
  is_counted_ = !is_counted_;
  parts_.log.stats().cleaners.fetch_add(is_counted_ ? 1 : -1u, std::memory_order_relaxed);
}

}  // namespace ramcore::store
