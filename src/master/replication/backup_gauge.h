#pragma once

#include <cstdint>

namespace ramcore::master {

/// How full the backup is that shares the process with a master. The two do not know each other: the layer server,
/// which puts them together, implements this interface. The master uses it for the status of its server, and to judge
/// how full other backups are. On the dispatch executor.
class BackupGauge {
 public:
  virtual ~BackupGauge() = default;
  /// Storage frames for replicas of other servers' segments.
  virtual uint64_t framesTotal() const = 0;
  virtual uint64_t framesFree() const = 0;
  /// Storage frames that replicas of ordinary log heads may not take: they are kept for small heads and survivors.
  virtual uint64_t framesKept() const = 0;
  /// Bytes of the file with all storage frames.
  virtual uint64_t storageBytes() const = 0;
  /// What storageBytes() should be for the memory and the replicas of a server like this one.
  virtual uint64_t storageBytesNeeded() const = 0;
  /// A flush has failed: no replicas are kept there any more.
  virtual bool hasFailed() const = 0;
};

}  // namespace ramcore::master
