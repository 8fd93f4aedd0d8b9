#pragma once

#include <map>
#include <string>

#include "base/ids.h"
#include "coordinator/state/records.h"

namespace ramcore::coordinator {

/// Which moves may begin: of each server at most kArrivingMax tablets arrive, and kLentMax leave, at a time. More at
/// once would share the same processors and devices, and each would take longer, with its contents in two logs. Moves
/// wait in the order in which they were asked for: one that waits has its place at both of its servers before any that
/// came later, so none waits for ever.
/// Cost: take() looks at all moves that are not over.
/// Thread: one executor.
class MoveTurns {
 public:
  static constexpr unsigned kArrivingMax = 4;
  static constexpr unsigned kLentMax = 4;

  /// @param id          not here yet
  /// @param has_begun   it had its turn before the coordinator started
  void enter(MigrationId id, ServerId source, ServerId destination, bool has_begun);
  /// The move is over.
  void leave(MigrationId id) { moves_.erase(id); }
  /// True if it is the turn of a move, which begins by that, or has begun.
  bool take(MigrationId id);
  /// For people: what a move waits for.
  std::string whatFor(MigrationId id) const;

 private:
  struct Move {
    ServerId source;
    ServerId destination;
    bool has_begun = false;
  };
  /// How many others come before a move at each of its servers.
  struct Before {
    unsigned at_source = 0;
    unsigned at_destination = 0;
  };
  Before before(MigrationId id) const;

  std::map<MigrationId, Move> moves_;
};

}  // namespace ramcore::coordinator
