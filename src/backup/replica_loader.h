#pragma once

#include <vector>

#include "backup/frame_flushes.h"
#include "backup/frame_releaser.h"
#include "backup/frame_table.h"
#include "backup/store_stats.h"
#include "backup/write_order.h"
#include "runtime/task.h"

namespace ramcore::backup {

/// Reads and verifies the newest whole replica of a segment.
/// Thread: the store's executor; load() visits others for reading.
class ReplicaLoader {
 public:
  /// All outlive this object.
  /// @param executor  the store's
  ReplicaLoader(FrameFile& file, FrameTable& frames, WriteOrder& order, const FrameFlushes& flushes,
                FrameReleaser& releaser, StoreStats& stats, runtime::Executor& executor);
  ReplicaLoader(const ReplicaLoader&) = delete;
  ReplicaLoader& operator=(const ReplicaLoader&) = delete;

  /// As in FrameStore.
  runtime::Task<Result<log::Certificate>> load(ServerId master, SegmentId segment, runtime::Executor& reader,
                                               std::vector<std::byte>& bytes);
  /// True if nothing is being read.
  bool isIdle() const { return waiting_ == 0; }

 private:
  bool canBeLoaded(const StorageFrame& frame) const;
  runtime::Task<Result<log::Certificate>> readWhole(uint32_t frame, runtime::Executor& reader,
                                                    std::vector<std::byte>& bytes);

  FrameFile& file_;
  FrameTable& frames_;
  WriteOrder& order_;
  const FrameFlushes& flushes_;
  FrameReleaser& releaser_;
  StoreStats& stats_;
  runtime::Executor& executor_;
  uint32_t waiting_ = 0;  // calls of load() that have not ended
};

}  // namespace ramcore::backup
