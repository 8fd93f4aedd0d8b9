#pragma once

#include <optional>
#include <vector>

#include "backup/frame_flushes.h"
#include "backup/frame_releaser.h"
#include "backup/frame_table.h"
#include "backup/store_stats.h"
#include "backup/write_order.h"
#include "runtime/task.h"

namespace ramcore::backup {

/// Finds out whether replicas that nobody has asked for are still what they were.
/// Thread: the store's executor; checkAgain() visits another one for reading.
class ReplicaChecker {
 public:
  /// A replica that was closed in this life, and all of which is on the disk, as far as is known.
  struct Settled {
    uint32_t frame = 0;
    uint32_t generation = 0;
    uint64_t stamp = 0;
    uint32_t slot = 0;  ///< where its certificate is
    log::Certificate certificate;
  };

  /// All outlive this object.
  /// @param executor  the store's
  ReplicaChecker(FrameFile& file, FrameTable& frames, const WriteOrder& order, const FrameFlushes& flushes,
                 FrameReleaser& releaser, StoreStats& stats, runtime::Executor& executor);
  ReplicaChecker(const ReplicaChecker&) = delete;
  ReplicaChecker& operator=(const ReplicaChecker&) = delete;

  /// The first one in storage frame `from` or in a later one.
  std::optional<Settled> nextSettled(uint32_t from) const;
  /// Reads the replica and its certificate again, from the disk where the system allows it, and verifies them. Corrupt,
  /// IoError: it is not what it was, also when it is read once more. Then it is not shown any more, and its storage
  /// frame is used again only when its master replaces or frees the replica. NotFound: it has gone or changed
  /// meanwhile.
  /// @param reader  executor that reads and verifies, in slices of 1 MiB, at low priority
  /// @param bytes   what is read goes here; outlives the task
  runtime::Task<Status> checkAgain(Settled settled, runtime::Executor& reader, std::vector<std::byte>& bytes);
  /// True if nothing is being read.
  bool isIdle() const { return waiting_ == 0; }

 private:
  runtime::Task<Status> readAgain(Settled settled, runtime::Executor& reader, std::vector<std::byte>& bytes);

  FrameFile& file_;
  FrameTable& frames_;
  const WriteOrder& order_;
  const FrameFlushes& flushes_;
  FrameReleaser& releaser_;
  StoreStats& stats_;
  runtime::Executor& executor_;
  uint32_t waiting_ = 0;  // calls of checkAgain() that read
};

}  // namespace ramcore::backup
