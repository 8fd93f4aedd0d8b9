#pragma once

#include <cstdint>

namespace ramcore {

/// How durable the data of a table has to be before an answer shows it. This holds for answers of every kind: writes,
/// failed conditions, reads (also of keys that are not there), scans and multi-operations. A table is created with one
/// of these levels and keeps it for good. How many replicas there are is not a matter of the table but of the servers
/// (`--replicas`; with 0 nothing survives its server). docs/durability.md says what survives what, and how.
enum class Durability : uint8_t {
  /// An answer waits until what it shows is in the page caches of all servers that keep replicas of it. It survives the
  /// end of any processes, and the loss of all replicas but one. If power fails for all machines with replicas at about
  /// the same time, what was written last may be lost.
  Buffered = 0,
  /// An answer waits until what it shows is on the disks of all servers that keep replicas of it. Besides, it survives
  /// a power failure of all machines at once. A write also takes a flush of the slowest of these disks; writers that
  /// wait at the same time share it. Reads cost the same as with Buffered, except of what is just being written.
  Sync = 1,
};

}  // namespace ramcore
