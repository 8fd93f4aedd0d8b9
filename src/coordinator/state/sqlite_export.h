#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "base/result.h"

namespace ramcore::coordinator {

/// What the copy of a state has in it.
struct ExportedState {
  ClusterId cluster;
  uint64_t change_number = 0;
};

/// Writes a copy of the state in `directory` (of a SqliteStateStore) to `file`, as of one moment, also while a
/// coordinator runs there. On return the copy survives a loss of power; a crash before that leaves no `file`. Blocks.
/// Any thread. Failure, with cause and remedy: NotFound (no state there), InUse (`file` exists already), Corrupt,
/// IoError.
Outcome<ExportedState> exportState(const std::string& directory, const std::string& file);

}  // namespace ramcore::coordinator
