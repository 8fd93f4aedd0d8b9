#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "backup/frame_table.h"
#include "backup/store_stats.h"
#include "backup/write_order.h"
#include "runtime/await.h"
#include "runtime/task.h"

namespace ramcore::backup {

/// The flushes of the frame file, and which writes they have covered. One flush is under way at a time; flushes that
/// are asked for meanwhile share the next one.
///
/// A flush covers the writes whose stamps were drawn before it began. It begins at the disk when these writes are done.
/// A flush that failed condemns the file. Functions that each write calls are inline.
/// Thread: the store's executor.
class FrameFlushes {
 public:
  class Owner {
   public:
    /// A flush is over, and isFlushed() and isCondemned() tell of it already. Coroutines that wait for it are woken
    /// after this.
    virtual void onFlushed(Status status) = 0;

   protected:
    ~Owner() = default;
  };

  /// All outlive this object.
  /// @param executor  the store's
  FrameFlushes(FrameFile& file, FrameTable& frames, const WriteOrder& order, StoreStats& stats,
               runtime::Executor& executor, Owner& owner);
  FrameFlushes(const FrameFlushes&) = delete;
  FrameFlushes& operator=(const FrameFlushes&) = delete;

  /// Waits until all writes up to this stamp survive a loss of power. IoError: a flush has failed.
  runtime::Task<Status> flushedUpTo(uint64_t stamp);
  /// Has these writes flushed soon, without waiting for it.
  void want(uint64_t stamp) {
    wantNext(stamp);
    if (!flushing_) start();
  }
  /// As want(), inside Owner::onFlushed: the next flush begins when that returns.
  void wantNext(uint64_t stamp) { wanted_stamp_ = std::max(wanted_stamp_, stamp); }
  /// The storage frame has a new certificate, so the next flush changes its flushed_bytes.
  void noteUnflushed(uint32_t frame) {
    if (std::exchange(frames_[frame].in_next_flush, true)) return;
    unflushed_.push_back(frame);
  }
  /// WriteOrder::doneStamp() has grown by queued writes: a flush that waits for them begins.
  void onDone();

  bool isFlushed(uint64_t stamp) const { return stamp <= flushed_stamp_; }
  /// Whether a flush is under way that covers the write. Also true then for what was flushed before.
  bool isBeingFlushed(uint64_t stamp) const { return flushing_ && stamp <= flushing_stamp_; }
  bool isCondemned() const { return stats_.condemned.load(std::memory_order_relaxed); }
  /// True if no flush is under way and nothing waits for one.
  bool isIdle() const { return !flushing_ && waiting_ == 0; }

 private:
  struct FlushJob : runtime::Flush {
    FlushJob(FrameFlushes& flushes, runtime::Executor& executor)
        : Flush([](runtime::Job& job) { static_cast<FlushJob&>(job).flushes.onFlushed(); }, executor,
                runtime::Priority::Waited),
          flushes(flushes) {}
    FrameFlushes& flushes;
  };
  /// What one storage frame has under a certificate, as of the beginning of a flush.
  struct Covered {
    uint32_t frame = 0;
    uint32_t generation = 0;
    uint64_t replica_epoch = 0;
    uint32_t bytes = 0;
  };

  void start();
  void onFlushed();
  void noteFlushed();

  FrameFile& file_;
  FrameTable& frames_;
  const WriteOrder& order_;
  StoreStats& stats_;
  Owner& owner_;
  uint64_t flushed_stamp_ = 0;
  uint64_t flushing_stamp_ = 0;
  uint64_t wanted_stamp_ = 0;
  bool flushing_ = false;
  bool flush_waits_ = false;         // the flush under way waits for writes that it is to cover
  std::vector<uint32_t> unflushed_;  // storage frames with certificates that are newer than the last flush that began
  std::vector<Covered> covered_;     // what the flush under way covers
  uint32_t waiting_ = 0;             // coroutines that wait for a flush
  FlushJob flush_job_;
  runtime::Signal flush_over_;
};

}  // namespace ramcore::backup
