#pragma once

#include <cstdint>

namespace ramcore {

/// What an answer about a table waits for. Chosen when the table is created, for good.
enum class Durability : uint8_t {
  /// Until what it shows is in the page caches of all servers that keep copies. Survives the end of any processes, and
  /// the loss of all copies but one. Power that fails for all machines with copies at about the same time may take what
  /// was written last.
  Buffered = 0,
  /// Until it is on their disks. Survives a power failure of all machines at once. A write costs a flush of the slowest
  /// of the disks more, which writers that wait at the same time share; reads cost no more, except of what is being
  /// written.
  Sync = 1,
};

}  // namespace ramcore
