#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/ids.h"
#include "coordinator/state/memory_state_store.h"
#include "coordinator/state/records.h"
#include "master/master.h"

namespace ramcore::sim {

/// The steps of a move, as docs/migration.md has them: those that the coordinator stores, and between them those of the
/// new owner.
enum class MoveStep : uint8_t {
  Preparing,
  Freezing,
  HandedOver,  ///< Arriving is stored, and the new owner does not answer yet
  FirstPull,   ///< it answers, and nothing has come in the order of hashes
  Half,        ///< a part has
  Closing,     ///< everything has come, and the side log is being closed on its replicas, or joins the log
  Joined,      ///< it has joined, and the list of logs still has two
  Dropping,    ///< Arrived is stored: the former owner is told to drop it
  GivingUp,
  AskedBack,  ///< Arriving is stored, and the former owner gets ready to take the tablet back
  Returning,  ///< it owns the tablet again, and fetches what was changed
};
inline constexpr size_t kMoveStepCount = 11;
std::string_view name(MoveStep step);
/// Whether a move gets there only if it is cancelled while the contents arrive.
constexpr bool isOfReturn(MoveStep step) { return step == MoveStep::AskedBack || step == MoveStep::Returning; }
/// Whether a move can be taken back at this step.
constexpr bool canBeTakenBack(MoveStep step) { return step == MoveStep::FirstPull || step == MoveStep::Half; }

/// Who dies.
enum class MoveVictims : uint8_t {
  Source,
  Destination,
  Both,
  Coordinator,
  SourceAndCoordinator,
  DestinationAndCoordinator,
  Backup,   ///< a server that has no part in the move
  Stopped,  ///< the source, in order
  Objects,  ///< nobody: bits flip in the memory of the source or of the destination
};
inline constexpr size_t kMoveVictimsCount = 9;
std::string_view name(MoveVictims victims);

/// The step that a move is at; nothing if it is over. Between two events of the simulation.
/// @param destination  nullptr: it is down
std::optional<MoveStep> stepOfMove(const coordinator::MemoryDisk& disk, coordinator::MigrationId move, TabletId tablet,
                                   const master::Master* destination);

/// Whether a move has ended because the former owner has the tablet again.
bool wasTakenBack(const coordinator::MemoryDisk& disk, coordinator::MigrationId move);

}  // namespace ramcore::sim
