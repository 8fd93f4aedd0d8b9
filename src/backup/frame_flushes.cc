#include "backup/frame_flushes.h"

#include "base/mutation.h"

namespace ramcore::backup {

FrameFlushes::FrameFlushes(FrameFile& file, FrameTable& frames, const WriteOrder& order, StoreStats& stats,
                           runtime::Executor& executor, Owner& owner)
    : file_(file),
      frames_(frames),
      order_(order),
      stats_(stats),
      owner_(owner),
      flush_job_(*this, executor),
      flush_over_(executor) {}

runtime::Task<Status> FrameFlushes::flushedUpTo(uint64_t stamp) {
  ++waiting_;
  Status status = Status::Ok;
  while (flushed_stamp_ < stamp) {
    if (isCondemned()) {
      status = Status::IoError;
      break;
    }
    want(stamp);
    [[maybe_unused]] const Status over = co_await flush_over_.wait();
  }
  --waiting_;
  co_return status;
}

void FrameFlushes::start() {
  flushing_ = true;
  // What the flush covers is fixed before it begins: it may or may not take along what is written meanwhile.
  flushing_stamp_ = order_.lastStamp();
  covered_.clear();
  for (const uint32_t index : unflushed_) {
    StorageFrame& frame = frames_[index];
    frame.in_next_flush = false;
    covered_.push_back({index, frame.generation, frame.replica_epoch, frame.certifiedBytes()});
  }
  unflushed_.clear();
  // A flush covers only writes that are done; some may still wait for the disk's thread.
  flush_waits_ = order_.doneStamp() < flushing_stamp_;
  if (!flush_waits_) file_.flush(flush_job_);
}

void FrameFlushes::onDone() {
  if (flush_waits_ && order_.doneStamp() >= flushing_stamp_) {
    flush_waits_ = false;
    file_.flush(flush_job_);
  }
}

void FrameFlushes::onFlushed() {
  flushing_ = false;
  StoreStats::add(stats_.flushes, 1);
  const Status status = flush_job_.status;
  if (status == Status::Ok) {
    flushed_stamp_ = flushing_stamp_;
    noteFlushed();
  } else {
    // A failed flush is not tried again: after it the kernel takes the pages for written, and the next flush would
    // succeed without them.
    stats_.condemned = !RC_MUTATION("believe-the-next-flush");
  }
  owner_.onFlushed(status);
  if (status == Status::Ok && wanted_stamp_ > flushed_stamp_ && !flushing_) start();
  flush_over_.notifyAll();
}

// Notes what the flush that has just succeeded covered. A frame that was used again since has nothing of it.
void FrameFlushes::noteFlushed() {
  for (const Covered& covered : covered_) {
    StorageFrame& frame = frames_[covered.frame];
    if (frame.generation != covered.generation || frame.replica_epoch != covered.replica_epoch) continue;
    if (frame.has_failed) continue;
    frame.flushed_bytes = covered.bytes;
    frame.flushed_epoch = covered.replica_epoch;
  }
}

}  // namespace ramcore::backup
