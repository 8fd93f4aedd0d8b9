#pragma once

#include <functional>
#include <string>

#include "coordinator/tablets/parts.h"

namespace ramcore::coordinator {

/// How a step ended that can be given up.
struct StepOutcome {
  bool stopped = false;  ///< the coordinator stops
  bool succeeded = false;
  std::string reason;           ///< why not, unless it succeeded
  bool lacks_room = false;      ///< it did not because the destination has no room
  SegmentId segment;            ///< awaitPrepared(): where the destination's log begins to hold the contents
  Version version_ceiling = 0;  ///< freezeSource(): no version of the tablet is above it
};

/// For people: why the contents are not all in the new owner's log yet, if something keeps them from it.
/// @param source  that they come from
std::string whatIsMissing(const PullResult& pull, ServerId source);

/// What a move asks of its two servers (docs/migration.md). Each call but lend() and take() is repeated until it
/// succeeds, fails for good, or must end; nothing is stored here.
/// Thread: one executor. `move` outlives the call.
class MigrationCalls {
 public:
  /// Asked before each attempt: true to end, and why in the outcome.
  using MustEnd = std::function<bool(StepOutcome&)>;

  explicit MigrationCalls(const Parts& parts) : parts_(parts) {}

  // Until the hand-over.

  /// The destination forgets what a former ownership has left there, and begins to get ready.
  /// @param returns  the tablet is handed back to it: what is there is kept
  runtime::Task<StepOutcome> startPull(const Migration& move, const MustEnd& must_end, bool returns = false);
  runtime::Task<StepOutcome> awaitPrepared(const Migration& move, const MustEnd& must_end);
  runtime::Task<StepOutcome> freezeSource(const Migration& move, const MustEnd& must_end, bool returns = false);
  /// The destination takes over the results of calls, and will give no version up to the ceiling.
  runtime::Task<StepOutcome> adopt(const Migration& move, Version version_ceiling, const MustEnd& must_end);

  // For a return, while the tablet arrives.

  /// All of these for a move that is taken back.
  /// @param back  Migration::reversed()
  runtime::Task<StepOutcome> prepareReturn(const Migration& back, const MustEnd& must_end);
  /// The tablet goes on arriving where it was to come back from. False if the coordinator stops.
  runtime::Task<bool> giveUpReturn(const Migration& back);

  // From the hand-over on: one attempt each. False: not yet, or the server is dead; then the recovery goes on.

  /// True: the source does not answer any more.
  runtime::Task<bool> lend(const Migration& move);
  /// True: the destination answers for the tablet, and fetches its contents.
  runtime::Task<bool> take(const Migration& move);

  // The ends of a move. False if the coordinator stops.

  /// Has the destination serve the tablet as one that has arrived.
  runtime::Task<bool> settleAtDestination(const Migration& move);
  /// What the source has lent takes memory until it is told to drop it.
  /// @param awaits_lease  if it is dead, its lease is waited for
  runtime::Task<bool> dropAtSource(const Migration& move, bool awaits_lease);
  /// Has the source go on under a new epoch.
  runtime::Task<bool> resumeSource(const Migration& move, TabletEpoch new_epoch);
  runtime::Task<bool> forgetAtDestination(const Migration& move);

 private:
  const Parts& parts_;
};

}  // namespace ramcore::coordinator
