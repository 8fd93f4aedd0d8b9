#pragma once

#include <cstdint>
#include <string>

#include "runtime/executor.h"
#include "runtime/task.h"
#include "tools/support/process.h"

namespace ramcore::rcmigrate {

inline constexpr const char* kProgram = "rcmigrate";

/// What rcmigrate ends with, besides tools::ExitCode.
enum ExitCode : int {
  kExitNotNow = 4,     ///< a tablet is in transition, or a server is silent: it may work later
  kExitNoRoom = 5,     ///< the servers that are to get tablets have not the room
  kExitCancelled = 6,  ///< somebody has cancelled the moves
};

/// Writes to stdout at once.
void say(const std::string& text);
/// For ClusterSession::await().
runtime::Task<void> pause(runtime::Executor& executor, int64_t duration_ns);

}  // namespace ramcore::rcmigrate
