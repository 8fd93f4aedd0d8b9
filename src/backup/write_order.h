#pragma once

#include <coroutine>

#include "backup/frame_writer.h"

namespace ramcore::backup {

/// The order of the writes to the frame file. Every write has a stamp; higher ones come later. Writes up to doneStamp()
/// are in the page cache.
///
/// A write is carried out at once, or queued for the disk's thread (FrameWriter), and has its stamp from then on. The
/// stamps, and what asks whether a write is done, are inline because each write comes here.
/// Thread: the store's executor.
class WriteOrder {
 public:
  class DoneWait;

  /// @param owner  is told of queued writes that are over, and tells noteDone()
  /// @param file, executor, disk, thread  as FrameWriter takes them
  WriteOrder(FrameFile& file, FrameWriter::Owner& owner, runtime::Executor& executor, runtime::Executor& disk,
             WriteThread thread);
  WriteOrder(const WriteOrder&) = delete;
  WriteOrder& operator=(const WriteOrder&) = delete;

  FrameWriter& writer() { return writer_; }
  const FrameWriter& writer() const { return writer_; }
  /// From now on nothing is written any more but what is queued, and the superblock behind it.
  void close() { closed_ = true; }
  bool isClosed() const { return closed_; }

  /// Stamp of the write that came last.
  uint64_t lastStamp() const { return last_stamp_; }
  uint64_t doneStamp() const { return done_stamp_; }
  /// Gives the next write its stamp.
  uint64_t drawStamp() { return ++last_stamp_; }
  /// Notes that all writes that have stamps are done. Called after a write that was carried out at once, with nothing
  /// queued before it.
  void noteAllDone() { done_stamp_ = last_stamp_; }
  /// Gives a stamp to a write that was done without the writer, with nothing queued before it (checked).
  uint64_t stampDone();
  /// Writes zeros, at once or behind what is queued, under a stamp of their own: lastStamp() on return.
  /// @return whether the zeros are written, or will be unless the disk refuses them
  bool clear(const FrameWrite& write);

  /// The queued writes up to this stamp are over. Wakes the coroutines that wait for them.
  void noteDone(uint64_t stamp);
  /// Awaitable: suspends the coroutine until the write with this stamp is over. It resumes on the executor.
  DoneWait waitUntilDone(uint64_t stamp);

 private:
  void addWaiting(DoneWait& wait);

  runtime::Executor& executor_;
  FrameWriter writer_;
  bool closed_ = false;
  uint64_t last_stamp_ = 0;
  uint64_t done_stamp_ = 0;
  DoneWait* first_wait_ = nullptr;  // in a list ordered by stamps: a write wakes the coroutines that wait for it
  DoneWait* last_wait_ = nullptr;
};

/// What WriteOrder::waitUntilDone() returns.
class WriteOrder::DoneWait : private runtime::Job {
 public:
  bool await_ready() const noexcept { return order_.done_stamp_ >= stamp_; }
  void await_suspend(std::coroutine_handle<> waiting) {
    handle_ = waiting;
    order_.addWaiting(*this);
  }
  void await_resume() const noexcept {}

 private:
  friend class WriteOrder;
  DoneWait(WriteOrder& order, uint64_t stamp)
      : Job([](runtime::Job& job) { static_cast<DoneWait&>(job).handle_.resume(); }), order_(order), stamp_(stamp) {}

  WriteOrder& order_;
  const uint64_t stamp_;
  std::coroutine_handle<> handle_;
  DoneWait* later_ = nullptr;
};

inline WriteOrder::DoneWait WriteOrder::waitUntilDone(uint64_t stamp) { return {*this, stamp}; }

}  // namespace ramcore::backup
