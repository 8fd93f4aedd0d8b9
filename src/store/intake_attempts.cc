#include "store/intake_attempts.h"

#include <algorithm>

namespace ramcore::store {

IntakeAttempts::Claim IntakeAttempts::claim(const std::shared_ptr<IntakeAttempt>& attempt, bool refuses_when_stopping) {
  Claim claim;
  SpinGuard guard(lock_);
  if (refuses_when_stopping && stopping_) {
    claim.status = Status::Shutdown;
    return claim;
  }
  for (const IntakeAttempt::Part& part : attempt->parts) {
    const auto known = known_.find(part.tablet.id);
    if (known == known_.end()) continue;
    const TabletEpoch epoch = known->second.part->tablet.epoch;
    if (epoch > part.tablet.epoch) {
      claim.status = Status::StaleEpoch;
      claim.same = nullptr;  // an earlier part may have set it
      return claim;
    }
    if (epoch == part.tablet.epoch) claim.same = known->second.attempt;
  }
  if (claim.same != nullptr) return claim;
  for (IntakeAttempt::Part& part : attempt->parts) {
    Known& known = known_[part.tablet.id];
    if (known.attempt != nullptr) {
      giveUp(known);
      claim.former = known.attempt;
    }
    known = {attempt, &part};
  }
  running_.fetch_add(1);
  return claim;
}

runtime::Task<void> IntakeAttempts::awaitEnd(const IntakeAttempt& former, IntakeAttempt& attempt,
                                             runtime::Executor& background) {
  while (!former.done.load(std::memory_order_acquire)) {
    attempt.lacks_places.store(former.lacks_places.load(std::memory_order_relaxed), std::memory_order_relaxed);
    co_await runtime::sleepFor(background, TabletIntake::kPauseNs);
  }
  attempt.lacks_places.store(false, std::memory_order_relaxed);
}

void IntakeAttempts::end(IntakeAttempt& attempt, Status status, const std::string& what) {
  attempt.status.store(status);
  if (status == Status::Ok) {
    attempt.fraction.store(1);
  } else {
    trace_.warning(what + " failed: " + std::string(name(status)));
  }
  attempt.done.store(true, std::memory_order_release);
  running_.fetch_sub(1);
}

std::shared_ptr<IntakeAttempt> IntakeAttempts::find(TabletId tablet) const {
  SpinGuard guard(lock_);
  const auto known = known_.find(tablet);
  return known == known_.end() ? nullptr : known->second.attempt;
}

Result<IntakeProgress> IntakeAttempts::progress(TabletId tablet) const {
  SpinGuard guard(lock_);
  const auto known = known_.find(tablet);
  if (known == known_.end()) return Status::NotFound;
  const IntakeAttempt& attempt = *known->second.attempt;
  const IntakeAttempt::Part& part = *known->second.part;
  IntakeProgress progress;
  progress.epoch = part.tablet.epoch;
  progress.done = attempt.done.load(std::memory_order_acquire);
  progress.status = attempt.status.load();
  progress.objects = part.objects.load();
  progress.bytes = part.bytes.load();
  progress.fraction = attempt.fraction.load();
  progress.first_segment = attempt.first_segment.load();
  progress.lacks_places = attempt.lacks_places.load() || progress.status == Status::TooFewReplicas;
  return progress;
}

void IntakeAttempts::giveUp(Known& known) {
  known.part->cancelled.store(true);
  const bool all =
      std::ranges::all_of(known.attempt->parts, [](const IntakeAttempt::Part& part) { return part.cancelled.load(); });
  if (all) known.attempt->ended.store(true);
}

void IntakeAttempts::cancel(TabletId tablet, TabletEpoch epoch) {
  SpinGuard guard(lock_);
  const auto known = known_.find(tablet);
  if (known == known_.end() || known->second.part->tablet.epoch > epoch) return;
  giveUp(known->second);
  known_.erase(known);
}

void IntakeAttempts::stop() {
  SpinGuard guard(lock_);
  stopping_ = true;
  for (auto& [id, known] : known_) known.attempt->ended.store(true);
}

}  // namespace ramcore::store
