#pragma once

#include "backup/frame_store.h"
#include "master/backup_gauge.h"

namespace ramcore::tools {

/// Tells a master how full the backup is that shares its process. The store outlives it. Thread: any.
class FrameGauge final : public master::BackupGauge {
 public:
  explicit FrameGauge(const backup::FrameStore& store) : stats_(store.stats()) {}
  uint64_t framesTotal() const override { return stats_.frames_total.load(std::memory_order_relaxed); }
  uint64_t framesFree() const override { return stats_.frames_free.load(std::memory_order_relaxed); }
  uint64_t framesKept() const override { return stats_.frames_kept.load(std::memory_order_relaxed); }
  bool hasFailed() const override { return stats_.condemned.load(std::memory_order_relaxed); }

 private:
  const backup::StoreStats& stats_;
};

}  // namespace ramcore::tools
