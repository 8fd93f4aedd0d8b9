#pragma once

#include <span>
#include <vector>

#include "backup/frame_flushes.h"
#include "backup/frame_releaser.h"
#include "backup/frame_table.h"
#include "backup/free_frames.h"
#include "backup/store_stats.h"
#include "backup/write_order.h"
#include "runtime/task.h"
#include "wire/replica_messages.h"

namespace ramcore::backup {

/// One write of a replica, as wire::WriteReplica describes it. Borrows the bytes until FrameStore::written() says that
/// the write is over.
struct ReplicaWrite {
  ServerId master;
  SegmentId segment;
  uint64_t replica_epoch = 0;
  uint32_t offset_bytes = 0;
  uint32_t data_bytes = 0;  ///< length of first_data and more_data together
  uint8_t flags = 0;        ///< wire::WriteReplica::Flags
  log::CertificateBytes certificate{};
  ByteSpan first_data;
  std::span<const ByteSpan> more_data;
};

/// Gets writes of replicas into storage frames: chooses the storage frame and the slot of the certificate, writes what
/// is new, and keeps track of what the storage frame holds, also when a write could not be done.
/// Thread: the store's executor.
class ReplicaWriter {
 public:
  /// The outcome of a write, and the state of the storage frame after it.
  struct Written {
    Status status = Status::Ok;
    uint32_t length_bytes = 0;
    uint32_t flushed_bytes = 0;
    // The following fields are for written() and flushed().
    uint64_t replica_epoch = 0;
    uint32_t certified_bytes = 0;  // under a certificate of that epoch
    uint32_t frame = 0;
    uint32_t generation = 0;
    uint64_t stamp = 0;
    bool is_queued = false;  // when the write was taken, it was not in the page cache yet
  };

  /// All outlive this object.
  /// @param frame_bytes  payload of one storage frame
  ReplicaWriter(uint32_t frame_bytes, FrameTable& frames, FreeFrames& free_frames, WriteOrder& order,
                FrameFlushes& flushes, FrameReleaser& releaser, StoreStats& stats);
  ReplicaWriter(const ReplicaWriter&) = delete;
  ReplicaWriter& operator=(const ReplicaWriter&) = delete;

  /// These three are as in FrameStore.
  /// @param cluster  the cluster that certificates have to be of
  Written write(const ReplicaWrite& write, ClusterId cluster);
  runtime::Task<Status> written(Written written);
  runtime::Task<Status> flushed(Written& written);
  /// The disk has refused a queued write: restores what was known of its storage frame before, unless the frame is used
  /// again by now.
  void onFailed(const FrameWrite& write, const FrameMark& mark);
  /// True if no written() waits.
  bool isIdle() const { return waiting_ == 0; }

 private:
  Result<uint32_t> frameFor(const ReplicaWrite& write, const log::Certificate* certificate);
  Status checkBounds(const ReplicaWrite& write, const log::Certificate* certificate, const StorageFrame* present) const;
  void reset(uint32_t frame, const ReplicaWrite& write);
  Status carryOut(uint32_t frame, const ReplicaWrite& write, const log::Certificate* certificate);
  void planData(const StorageFrame& frame, const ReplicaWrite& write, FrameWrite& plan);
  void planCertificate(StorageFrame& frame, const ReplicaWrite& write, FrameWrite& plan);
  void noteData(StorageFrame& frame, const FrameWrite& plan);
  void noteCertificate(uint32_t frame, const FrameWrite& plan, const log::Certificate& certificate);
  static void undo(StorageFrame& frame, const FrameMark& mark);
  uint32_t slotToWrite(const StorageFrame& frame) const;

  const uint32_t frame_bytes_;
  FrameTable& frames_;
  FreeFrames& free_frames_;
  WriteOrder& order_;
  FrameFlushes& flushes_;
  FrameReleaser& releaser_;
  StoreStats& stats_;
  std::vector<ByteSpan> pieces_;  // pieces of the write that is being planned
  uint32_t waiting_ = 0;          // coroutines that wait for a write
};

}  // namespace ramcore::backup
