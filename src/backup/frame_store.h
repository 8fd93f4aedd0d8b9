#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backup/frame_file.h"
#include "backup/frame_flushes.h"
#include "backup/frame_releaser.h"
#include "backup/frame_table.h"
#include "backup/free_frames.h"
#include "backup/replica_checker.h"
#include "backup/replica_loader.h"
#include "backup/replica_writer.h"
#include "backup/store_stats.h"
#include "backup/write_order.h"
#include "base/check.h"
#include "runtime/task.h"

namespace ramcore::backup {

/// The replicas of one server, in the storage frames of one file.
///
/// What survives what: the death of a process loses nothing that was answered, because it is in the page cache. A loss
/// of power loses what no flush covered, sector by sector, in any combination. Why that is harmless:
///
/// - Nothing in a slot is believed by itself. A certificate counts only if the storage frame's bytes, including the
///   segment header that names master and segment, are those that it was cut for. So if a storage frame is used again,
///   whichever mixture of new and old slots and of new and old bytes is on the disk, at most one segment verifies. If
///   it is the former segment, that one was free: nobody asks for it, or the storage frame that replaced it had been
///   flushed before. If it is neither, nothing of the new segment had been answered as flushed, because the flush
///   covers bytes, slot 0 and the zeros in the others alike.
/// - A storage frame only grows: bytes below a certified length are written again only with what they were.
/// - A certificate overwrites neither the newest one that is flushed, nor the newest one that the flush under way
///   covers (which will be the newest flushed one when that flush is over). So there are three slots: for those two,
///   and for what comes meanwhile. With two slots, a certificate that was not flushed could tear the only one that had
///   been promised.
/// - One flush is under way at a time; flushes that are asked for meanwhile share the next one.
///
/// A storage frame is taken over in place only while it has no certificate. Otherwise the replacement gets a storage
/// frame of its own. The older one, which a recovery would still find, is given up when a certificate of the new one is
/// flushed.
///
/// So after a loss of power a replica is at least what was flushed of it: its segment, its epoch, and that it is
/// closed. Two more rules:
///
/// - A replica of a former life that is not closed may be shorter than what had been answered, if the machine has lost
///   power since. A mark beside it notes that durably before this life begins, and mayBeShort() says so. A closed
///   replica is whole, because its certificate covers all there is of it.
/// - What was closed never comes back as open. The earlier, open certificates of a replica are removed, flushed, before
///   the one that closes it is removed, also those in storage frames that were replaced. Otherwise a loss of power
///   after the replica was freed could leave one of them alone.
///
/// A write is carried out at once, or queued for the disk's thread (WriteOrder). The store treats a write as done when
/// it is accepted, because all that comes later for the storage frame, its use by another replica included, is done
/// later. Three things must not be ahead of the file, and wait for what was accepted before: the answers of written(),
/// load(), and flushes. A queued write that failed is undone, and the storage frame takes no more of this replica.
///
/// A flush that failed condemns the file: nothing is written any more, and only replicas that were flushed as they are
/// can still be loaded. A replica that has lost its tail must not be shown as if that were all of it.
///
/// The state stands in the parts, one class for each question. The store puts them together, begins and closes the
/// file. No part has a lock: all belong to the store's executor.
/// Thread: the given executor; load() visits others for reading. Storage frames that are being read are not used again.
class FrameStore final : private FrameWriter::Owner, private FrameFlushes::Owner {
 public:
  /// Opens the file and reads the slots of all storage frames; blocks for that long. Failure: as FrameFile::open.
  /// @param storage, executor, disk  outlive the store.
  /// @param disk    the executor that may wait for the disk in writes
  /// @param thread  which of the two executors writes
  static Outcome<std::unique_ptr<FrameStore>> open(runtime::Storage& storage, const FrameFileOptions& options,
                                                   runtime::Executor& executor, runtime::Executor& disk,
                                                   WriteThread thread = WriteThread::Auto);
  FrameStore(const FrameStore&) = delete;
  FrameStore& operator=(const FrameStore&) = delete;
  /// idle() is true (checked).
  ~FrameStore();

  /// The server that used the storage last; none if the storage is new.
  ServerId formerServer() const;
  /// None if the storage is new.
  ClusterId cluster() const { return cluster_; }
  /// Makes the storage that of this incarnation, durably, before anything is written. WrongCluster: it holds replicas
  /// of another cluster. IoError. Once.
  runtime::Task<Status> begin(ServerId server, ClusterId cluster);
  bool hasBegun() const { return begun_; }
  /// Refuses all writes from now on, flushes everything, and notes that nothing was left that could be lost. Once,
  /// after begin(). IoError: that is not noted, and the next life trusts less of the file.
  runtime::Task<Status> close();

  using Written = ReplicaWriter::Written;
  /// Takes one write: bytes and certificate are in the page cache when isWritten() is true. BadRequest, StaleEpoch (a
  /// newer epoch is here), NotFound (no Open in this life), NoSpace, IoError, RetryLater (too much waits for the disk).
  Written write(const ReplicaWrite& write) {
    RC_CHECK(begun_);
    return replica_writer_.write(write, cluster_);
  }
  /// True if nothing is to be waited for, and the write may be answered.
  bool isWritten(const Written& written) const { return written.stamp <= order_.doneStamp(); }
  /// Waits until isWritten(). IoError: it could not be written. NotFound: the replica was freed or replaced meanwhile.
  runtime::Task<Status> written(Written written) { return replica_writer_.written(written); }
  /// Waits until the write survives a loss of power, or returns what written() returns. Sets written.flushed_bytes to
  /// the bytes that then survive one, with a certificate of the write's epoch. They include what came later than the
  /// write, but before the flush began.
  runtime::Task<Status> flushed(Written& written) { return replica_writer_.flushed(written); }
  /// Frees the segment's storage frames, which can then be used again. Ok also if there are none.
  void free(ServerId master, SegmentId segment) { releaser_.free(master, segment); }
  void freeAll(ServerId master) { releaser_.freeAll(master); }
  /// Frees only those of the segment's storage frames that are of former lives.
  void freeFormer(ServerId master, SegmentId segment) { releaser_.freeFormer(master, segment); }

  /// Masters that have storage frames here, ascending.
  std::vector<ServerId> masters() const { return frames_.masters(); }
  /// Segments of a master with storage frames here, ascending; verified or not.
  std::vector<SegmentId> segments(ServerId master) const { return frames_.segments(master); }
  /// The segments among these that have storage frames of former lives.
  std::vector<SegmentId> formerSegments(ServerId master) const { return frames_.formerSegments(master); }

  /// Reads the newest whole replica of the segment into `bytes`, and verifies it. A replica that was written in this
  /// life counts only with its newest certificate, that is, with all of it. If reading fails twice, the storage frame
  /// is not shown any more. NotFound: there is no whole replica.
  /// @param reader  executor that reads and verifies; its thread blocks for that long.
  runtime::Task<Result<log::Certificate>> load(ServerId master, SegmentId segment, runtime::Executor& reader,
                                               std::vector<std::byte>& bytes) {
    return loader_.load(master, segment, reader, bytes);
  }
  /// Whether a replica, as load() found it, may have lost its end: when its machine lost power, or by rot.
  bool mayBeShort(const log::Certificate& loaded) const { return frames_.mayBeShort(loaded); }
  /// Number of storage frames of former lives for whose replicas mayBeShort() is true unless they turn out to be
  /// closed.
  uint32_t doubtfulCount() const { return frames_.doubtfulCount(); }
  /// Reads closed replicas again.
  ReplicaChecker& checker() { return checker_; }

  bool isCondemned() const { return flushes_.isCondemned(); }
  /// True if nothing is being written, flushed or read.
  bool idle() const;
  const FrameWriter& writer() const { return order_.writer(); }
  const StoreStats& stats() const { return stats_; }
  uint32_t frameBytes() const { return file_->frameBytes(); }

 private:
  FrameStore(std::unique_ptr<FrameFile> file, runtime::Executor& executor, runtime::Executor& disk, WriteThread thread);
  Status scan();
  runtime::Task<Status> onDisk(std::function<Status()> work);
  void onWritten(const FrameWrite& write, const FrameMark& mark, Status status) override;
  void onFlushed(Status status) override { releaser_.onFlushed(status); }

  const std::unique_ptr<FrameFile> file_;
  runtime::Executor& executor_;
  runtime::Executor& disk_;
  ClusterId cluster_;
  bool begun_ = false;
  uint32_t waiting_ = 0;  // calls of onDisk() that have not ended
  StoreStats stats_;
  FrameTable frames_;
  FreeFrames free_frames_;
  WriteOrder order_;
  FrameFlushes flushes_;
  FrameReleaser releaser_;
  ReplicaWriter replica_writer_;
  ReplicaLoader loader_;
  ReplicaChecker checker_;
};

}  // namespace ramcore::backup
