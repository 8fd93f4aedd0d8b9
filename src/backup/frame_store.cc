#include "backup/frame_store.h"

#include <utility>

#include "runtime/await.h"

namespace ramcore::backup {

FrameStore::FrameStore(std::unique_ptr<FrameFile> file, runtime::Executor& executor, runtime::Executor& disk,
                       WriteThread thread)
    : file_(std::move(file)),
      executor_(executor),
      disk_(disk),
      frames_(file_->frameCount()),
      free_frames_(file_->frameCount(), stats_),
      order_(*file_, *this, executor, disk, thread),
      flushes_(*file_, frames_, order_, stats_, executor, *this),
      releaser_(frames_, free_frames_, order_, flushes_),
      replica_writer_(file_->frameBytes(), frames_, free_frames_, order_, flushes_, releaser_, stats_),
      loader_(*file_, frames_, order_, flushes_, releaser_, stats_, executor),
      checker_(*file_, frames_, order_, flushes_, releaser_, stats_, executor) {
  if (file_->superblock()) cluster_ = file_->superblock()->cluster;
  stats_.frames_total = file_->frameCount();
}

FrameStore::~FrameStore() { RC_CHECK_MSG(idle(), "the frames were closed while they were written, flushed or read"); }

Outcome<std::unique_ptr<FrameStore>> FrameStore::open(runtime::Storage& storage, const FrameFileOptions& options,
                                                      runtime::Executor& executor, runtime::Executor& disk,
                                                      WriteThread thread) {
  auto file = FrameFile::open(storage, options);
  if (!file.ok()) return std::move(file).error();
  std::unique_ptr<FrameStore> store(new FrameStore(std::move(file).value(), executor, disk, thread));
  const Status scanned = store->scan();
  if (scanned != Status::Ok) return Failure{scanned, "cannot read the frame file of the data directory"};
  return store;
}

Status FrameStore::scan() {
  const Status read = frames_.readHeaders(*file_);
  if (read != Status::Ok) return read;
  for (uint32_t i = frames_.size(); i-- > 0;) {
    if (frames_[i].state == FrameState::Free) free_frames_.put(i, false);
  }
  return Status::Ok;
}

ServerId FrameStore::formerServer() const {
  return file_->superblock() && !begun_ ? file_->superblock()->server : ServerId();
}

runtime::Task<Status> FrameStore::begin(ServerId server, ClusterId cluster) {
  RC_CHECK(!begun_);
  if (cluster_ && cluster_ != cluster) co_return Status::WrongCluster;
  // Once the new superblock is written, nothing tells any more that power was lost before.
  if (file_->mayHaveLost()) {
    Status marked = co_await onDisk([this] { return frames_.writeMarks(*file_); });
    if (marked == Status::Ok) marked = co_await flushes_.flushedUpTo(order_.stampDone());
    if (marked != Status::Ok) co_return marked;
  }
  // A first copy has to be whole before there is a second one, see FrameFile::open.
  for (bool again = true; again;) {
    const Status written = co_await onDisk([&] { return file_->writeSuperblock(server, cluster, false); });
    if (written != Status::Ok) co_return written;
    again = !file_->hasBothSuperblocks();
    const Status flushed = co_await flushes_.flushedUpTo(order_.stampDone());
    if (flushed != Status::Ok) co_return flushed;
  }
  cluster_ = cluster;
  begun_ = true;
  co_return Status::Ok;
}

// Does work on the disk's executor. Called at the beginning and at the end, when nobody else touches the file or the
// frames.
runtime::Task<Status> FrameStore::onDisk(std::function<Status()> work) {
  ++waiting_;
  co_await runtime::resumeOn(disk_, runtime::Priority::Waited);
  const Status status = work();
  co_await runtime::resumeOn(executor_, runtime::Priority::Waited);
  --waiting_;
  co_return status;
}

runtime::Task<Status> FrameStore::close() {
  RC_CHECK(begun_ && !order_.isClosed());
  order_.close();
  const Status flushed = co_await flushes_.flushedUpTo(order_.lastStamp());
  if (flushed != Status::Ok) co_return flushed;
  const Status written =
      co_await onDisk([this] { return file_->writeSuperblock(file_->superblock()->server, cluster_, true); });
  if (written != Status::Ok) co_return written;
  co_return co_await flushes_.flushedUpTo(order_.stampDone());
}

void FrameStore::onWritten(const FrameWrite& write, const FrameMark& mark, Status status) {
  if (status != Status::Ok) replica_writer_.onFailed(write, mark);
  order_.noteDone(mark.stamp);
  flushes_.onDone();
}

bool FrameStore::idle() const {
  return waiting_ == 0 && order_.writer().isIdle() && flushes_.isIdle() && replica_writer_.isIdle() &&
         loader_.isIdle() && checker_.isIdle();
}

}  // namespace ramcore::backup
