#pragma once

#include <cstdint>

namespace ramcore::master {

/// How full the backup is that shares the process with a master. The two do not know each other; whoever puts the
/// process together implements this for the status that the master gives of its server. On the dispatch executor.
class BackupGauge {
 public:
  virtual ~BackupGauge() = default;
  /// Places for replicas of other servers' segments.
  virtual uint64_t framesTotal() const = 0;
  virtual uint64_t framesFree() const = 0;
  /// Those that copies of heads may not take: kept for small heads and survivors.
  virtual uint64_t framesKept() const = 0;
  /// Of all places together, and what that should be for the memory and the replicas of a server like this one.
  virtual uint64_t storageBytes() const = 0;
  virtual uint64_t storageBytesNeeded() const = 0;
  /// A flush has failed: nothing is kept there any more.
  virtual bool hasFailed() const = 0;
};

}  // namespace ramcore::master
