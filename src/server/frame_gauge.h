#pragma once

#include "backup/frame_file.h"
#include "backup/frame_store.h"
#include "master/replication/backup_gauge.h"

namespace ramcore::server {

/// Tells a master how full the backup is that shares its process. The store outlives it. Thread: any.
class FrameGauge final : public master::BackupGauge {
 public:
  /// @param bytes_needed  with less, a restart of all servers may not bring everything back
  FrameGauge(const backup::FrameStore& store, uint64_t bytes_needed)
      : stats_(store.stats()), frame_bytes_(store.frameBytes()), bytes_needed_(bytes_needed) {}
  uint64_t framesTotal() const override { return stats_.frames_total.load(std::memory_order_relaxed); }
  uint64_t framesFree() const override { return stats_.frames_free.load(std::memory_order_relaxed); }
  uint64_t framesKept() const override { return stats_.frames_kept.load(std::memory_order_relaxed); }
  uint64_t storageBytes() const override { return backup::FrameFile::fileBytes(framesTotal(), frame_bytes_); }
  uint64_t storageBytesNeeded() const override { return bytes_needed_; }
  bool hasFailed() const override { return stats_.condemned.load(std::memory_order_relaxed); }

 private:
  const backup::StoreStats& stats_;
  const uint32_t frame_bytes_;
  const uint64_t bytes_needed_;
};

}  // namespace ramcore::server
