#include "coordinator/tablets/migration_calls.h"

#include <algorithm>

#include "base/mutation.h"
#include "coordinator/tablets/server_steps.h"
#include "runtime/growing_pause.h"

namespace ramcore::coordinator {
namespace {

constexpr int64_t kProgressPauseNs = 10 * runtime::kNanosPerMilli;
constexpr int64_t kProgressPauseNsMax = 100 * runtime::kNanosPerMilli;
// So long no client can write to the tablet at the longest, if the destination does not get on.
constexpr int64_t kAdoptNsMax = 15 * runtime::kNanosPerSecond;
// The first pause where clients wait.
constexpr int64_t kHandOverPauseNs = 1 * runtime::kNanosPerMilli;

std::string shortageText(const PullResult& pull) {
  if (pull.room_wanted_bytes == 0)
    return "the destination's memory has no room just now; remove objects there, or wait";
  return "the destination has no room: the tablet may take " + std::to_string(pull.room_wanted_bytes) +
         " bytes more than is held for it, and " + std::to_string(pull.room_left_bytes) +
         " are left; remove objects there, or choose another server";
}

std::string text(const char* what, Status status) { return std::string(what) + ": " + std::string(name(status)); }

}  // namespace

std::string whatIsMissing(const PullResult& pull, ServerId source) {
  const std::string from = std::to_string(source.value);
  if (pull.lacks_places) return "no storage frames for replicas of what has come; see 'ramcore status'";
  if (pull.phase != PullPhase::Arriving || pull.problem == Status::Ok) return "";
  if (pull.problem == Status::Corrupt)
    return "server " + from + " has lost objects; overwrite them, or restore them there";
  return "contents of server " + from + " do not come: " + std::string(name(pull.problem));
}

// ---- until the hand-over

runtime::Task<StepOutcome> MigrationCalls::startPull(const Migration& move, const MustEnd& must_end, bool returns) {
  Backoff backoff(parts_.journal);
  StepOutcome outcome;
  bool cleared = returns;
  while (!must_end(outcome)) {
    Status status = Status::Ok;
    if (!cleared) {
      // Entries that a former ownership or a pull that was given up left there must not be taken for this pull's.
      const TabletEpoch former(move.destination_epoch.value - 1);
      status = co_await parts_.masters.dropTablet(move.destination, move.tablet, former);
      cleared = isDropped(status);
      if (cleared) status = Status::Ok;
    }
    if (status == Status::Ok) {
      Tablet tablet = *parts_.map.findTablet(move.tablet);
      tablet.owner = move.destination;
      tablet.epoch = move.destination_epoch;
      status = co_await parts_.masters.pullTablet(move.destination, std::move(tablet), move.source_epoch, move.source,
                                                  returns);
      outcome.succeeded = status == Status::Ok;
      if (outcome.succeeded) break;
    }
    if (!mayPass(status)) {
      outcome.reason = text("the destination does not take the tablet", status);
      break;
    }
    (void)co_await backoff.pause();
  }
  co_return outcome;
}

runtime::Task<StepOutcome> MigrationCalls::awaitPrepared(const Migration& move, const MustEnd& must_end) {
  StepOutcome outcome;
  runtime::GrowingPause pause(kProgressPauseNs, kProgressPauseNsMax);
  while (!must_end(outcome)) {
    const PullResult pull = co_await parts_.masters.pullProgress(move.destination, move.tablet, move.destination_epoch);
    if (pull.status == Status::Ok && pull.pull_status != Status::Ok) {
      outcome.lacks_room = pull.pull_status == Status::NoSpace;
      outcome.reason =
          outcome.lacks_room
              ? shortageText(pull)
              : text("the destination does not get ready, or the source does not say how large the tablet is",
                     pull.pull_status);
      break;
    }
    outcome.succeeded = pull.status == Status::Ok && pull.phase >= PullPhase::Prepared;
    outcome.segment = pull.log.first_segment;
    if (outcome.succeeded) break;
    if (!mayPass(pull.status) && pull.status != Status::Ok) {
      outcome.reason = text("the destination has lost the tablet", pull.status);
      break;
    }
    (void)co_await parts_.journal.sleepFor(pause.nextNs());
  }
  co_return outcome;
}

runtime::Task<StepOutcome> MigrationCalls::freezeSource(const Migration& move, const MustEnd& must_end, bool returns) {
  const TabletEpoch return_epoch = returns ? move.destination_epoch : TabletEpoch();
  Backoff backoff(parts_.journal);
  StepOutcome outcome;
  while (!must_end(outcome)) {
    const FreezeResult frozen =
        co_await parts_.masters.freezeTablet(move.source, move.tablet, move.source_epoch, return_epoch);
    outcome.version_ceiling = frozen.version_ceiling;
    outcome.succeeded = frozen.status == Status::Ok && frozen.version_ceiling != 0;
    if (outcome.succeeded) break;
    if (!mayPass(frozen.status)) {
      outcome.reason = text("the source does not freeze the tablet", frozen.status);
      break;
    }
    (void)co_await backoff.pause();
  }
  co_return outcome;
}

// Nobody can write to the tablet meanwhile, so the pauses are short.
runtime::Task<StepOutcome> MigrationCalls::adopt(const Migration& move, Version version_ceiling,
                                                 const MustEnd& must_end) {
  runtime::GrowingPause pause(kHandOverPauseNs, kProgressPauseNsMax);
  StepOutcome outcome;
  const int64_t give_up_ns = parts_.journal.nowNs() + kAdoptNsMax;
  while (!must_end(outcome)) {
    Status adopted =
        co_await parts_.masters.adoptTablet(move.destination, move.tablet, move.destination_epoch, version_ceiling);
    outcome.succeeded = adopted == Status::Ok;
    if (outcome.succeeded) break;
    const bool is_late = parts_.journal.nowNs() >= give_up_ns;
    // Any other status may be that of a pull that has failed, or of a call that did not get through.
    if (adopted != Status::RetryLater || is_late) {
      const PullResult pull =
          co_await parts_.masters.pullProgress(move.destination, move.tablet, move.destination_epoch);
      const bool has_failed = pull.status == Status::Ok && pull.pull_status != Status::Ok;
      if (has_failed) adopted = pull.pull_status;
      if (has_failed || is_late || !mayPass(adopted)) {
        outcome.lacks_room = has_failed && adopted == Status::NoSpace;
        outcome.reason = outcome.lacks_room ? shortageText(pull)
                                            : text("the destination does not take over the results of calls", adopted);
        break;
      }
    }
    (void)co_await parts_.journal.sleepFor(pause.nextNs());
  }
  co_return outcome;
}

// ---- of a return

runtime::Task<StepOutcome> MigrationCalls::prepareReturn(const Migration& back, const MustEnd& must_end) {
  StepOutcome outcome = co_await startPull(back, must_end, true);
  if (outcome.succeeded) outcome = co_await awaitPrepared(back, must_end);
  if (outcome.succeeded) outcome = co_await freezeSource(back, must_end, true);
  if (outcome.succeeded) outcome = co_await adopt(back, outcome.version_ceiling, must_end);
  co_return outcome;
}

// Clients wait, so the one that is frozen comes first.
runtime::Task<bool> MigrationCalls::giveUpReturn(const Migration& back) {
  Backoff backoff(parts_.journal);
  bool is_thawed = false;
  bool is_forgotten = false;
  while (!is_thawed || !is_forgotten) {
    is_thawed = is_thawed || !parts_.membership.isAlive(back.source);
    if (!is_thawed) {
      is_thawed = !mayPass(
          co_await parts_.masters.thawTablet(back.source, back.tablet, back.source_epoch, back.destination_epoch));
    }
    is_forgotten = is_forgotten || !parts_.membership.isAlive(back.destination);
    if (!is_forgotten) {
      is_forgotten =
          !mayPass(co_await parts_.masters.giveUpIntake(back.destination, back.tablet, back.destination_epoch));
    }
    if (is_thawed && is_forgotten) break;
    const bool awake = co_await backoff.pause();
    if (!awake) co_return false;
  }
  co_return true;
}

// ---- from the hand-over on

runtime::Task<bool> MigrationCalls::lend(const Migration& move) {
  if (RC_MUTATION("take-before-the-source-has-lent")) co_return true;
  if (!parts_.membership.isAlive(move.source)) co_return false;
  const Status lent = co_await parts_.masters.lendTablet(move.source, move.tablet, move.source_epoch, move.destination,
                                                         move.destination_epoch);
  co_return lent == Status::Ok;
}

runtime::Task<bool> MigrationCalls::take(const Migration& move) {
  const Tablet tablet = *parts_.map.findTablet(move.tablet);
  const bool is_ours = tablet.state == TabletState::Moving && parts_.membership.isAlive(move.destination);
  if (!is_ours) co_return false;
  const TakeResult taken = co_await parts_.masters.takeArriving(move.destination, tablet);
  co_return taken.status == Status::Ok;
}

runtime::Task<bool> MigrationCalls::settleAtDestination(const Migration& move) {
  Backoff backoff(parts_.journal);
  while (parts_.membership.isAlive(move.destination)) {
    const Tablet tablet = *parts_.map.findTablet(move.tablet);
    const TakeResult taken = co_await parts_.masters.takeTablet(move.destination, tablet, false);
    if (taken.status == Status::Ok) break;
    const bool awake = co_await backoff.pause();
    if (!awake) co_return false;
  }
  co_return true;
}

runtime::Task<bool> MigrationCalls::dropAtSource(const Migration& move, bool awaits_lease) {
  Backoff backoff(parts_.journal);
  // It may be getting ready for a return that a coordinator before this one has begun, and all has arrived since.
  const TabletEpoch epoch = std::max(move.source_epoch, move.return_epoch);
  while (awaits_lease ? !parts_.membership.leaseIsOver(move.source) : parts_.membership.isAlive(move.source)) {
    if (parts_.membership.isAlive(move.source)) {
      const Status dropped = co_await parts_.masters.dropTablet(move.source, move.tablet, epoch);
      if (isDropped(dropped)) break;
    }
    const bool awake = co_await backoff.pause();
    if (!awake) co_return false;
  }
  co_return true;
}

// ---- of a move that is given up

runtime::Task<bool> MigrationCalls::resumeSource(const Migration& move, TabletEpoch new_epoch) {
  Backoff backoff(parts_.journal);
  while (parts_.membership.isAlive(move.source)) {
    const Status resumed =
        co_await parts_.masters.unfreezeTablet(move.source, move.tablet, move.source_epoch, new_epoch);
    if (resumed == Status::Ok) break;
    if (!mayPass(resumed)) {
      parts_.trace.error("server " + std::to_string(move.source.value) + " does not go on with tablet " +
                         std::to_string(move.tablet.value) + ": " + std::string(name(resumed)));
      break;
    }
    const bool awake = co_await backoff.pause();
    if (!awake) co_return false;
  }
  co_return true;
}

runtime::Task<bool> MigrationCalls::forgetAtDestination(const Migration& move) {
  // The destination keeps in memory what it has fetched until it is told to drop it. After the end is stored, nobody
  // would tell it.
  Backoff backoff(parts_.journal);
  while (parts_.membership.isAlive(move.destination)) {
    const Status dropped = co_await parts_.masters.dropTablet(move.destination, move.tablet, move.destination_epoch);
    if (isDropped(dropped)) break;
    if (!mayPass(dropped)) {
      parts_.trace.error("server " + std::to_string(move.destination.value) + " does not forget tablet " +
                         std::to_string(move.tablet.value) + ": " + std::string(name(dropped)));
      break;
    }
    const bool awake = co_await backoff.pause();
    if (!awake) co_return false;
  }
  co_return true;
}

}  // namespace ramcore::coordinator
