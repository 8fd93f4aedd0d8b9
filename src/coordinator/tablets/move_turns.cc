#include "coordinator/tablets/move_turns.h"

#include "base/check.h"

namespace ramcore::coordinator {

void MoveTurns::enter(MigrationId id, ServerId source, ServerId destination, bool has_begun) {
  RC_CHECK(moves_.emplace(id, Move{source, destination, has_begun}).second);
}

MoveTurns::Before MoveTurns::before(MigrationId id) const {
  const Move& move = moves_.at(id);
  Before before;
  for (const auto& [other_id, other] : moves_) {
    if (other_id == id || (!other.has_begun && other_id > id)) continue;
    if (other.source == move.source) ++before.at_source;
    if (other.destination == move.destination) ++before.at_destination;
  }
  return before;
}

bool MoveTurns::take(MigrationId id) {
  Move& move = moves_.at(id);
  if (move.has_begun) return true;
  const Before others = before(id);
  move.has_begun = others.at_source < kLentMax && others.at_destination < kArrivingMax;
  return move.has_begun;
}

std::string MoveTurns::whatFor(MigrationId id) const {
  const Move& move = moves_.at(id);
  const Before others = before(id);
  const bool at_destination = others.at_destination >= kArrivingMax;
  const unsigned count = at_destination ? others.at_destination : others.at_source;
  const ServerId server = at_destination ? move.destination : move.source;
  return "its turn: " + std::to_string(count) + " other tablets " + (at_destination ? "go to" : "leave") + " server " +
         std::to_string(server.value) + " before it, " + std::to_string(at_destination ? kArrivingMax : kLentMax) +
         " at a time";
}

}  // namespace ramcore::coordinator
