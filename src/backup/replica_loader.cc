#include "backup/replica_loader.h"

#include <optional>

namespace ramcore::backup {

ReplicaLoader::ReplicaLoader(FrameFile& file, FrameTable& frames, WriteOrder& order, const FrameFlushes& flushes,
                             FrameReleaser& releaser, StoreStats& stats, runtime::Executor& executor)
    : file_(file),
      frames_(frames),
      order_(order),
      flushes_(flushes),
      releaser_(releaser),
      stats_(stats),
      executor_(executor) {}

bool ReplicaLoader::canBeLoaded(const StorageFrame& frame) const {
  if (!frame.certified || frame.invalid) return false;
  return frame.state == FrameState::Former || !flushes_.isCondemned() || flushes_.isFlushed(frame.stamp);
}

runtime::Task<Result<log::Certificate>> ReplicaLoader::load(ServerId master, SegmentId segment,
                                                            runtime::Executor& reader, std::vector<std::byte>& bytes) {
  ++waiting_;
  std::optional<log::Certificate> best;
  std::optional<log::Certificate> lost;
  std::vector<std::byte> other;
  // Notes a replica that this process may have offered to a recovery, and that is not whole any more.
  const auto noteLost = [&lost](const StorageFrame& frame) {
    if (!frame.certified || (frame.state == FrameState::Former && !frame.was_whole)) return;
    if (!lost || frame.certificate.isNewerThan(*lost)) lost = frame.certificate;
  };
  uint32_t index = frames_.find(master, segment);
  while (index != kNoFrame) {
    const StorageFrame& frame = frames_[index];
    // The newest certificate of a frame may not verify. Then an older one of it is read, so a frame that comes later
    // may be better. Only frames whose newest certificate is not newer than the best one are skipped.
    if (!canBeLoaded(frame) || (best && !frame.certificate.isNewerThan(*best))) {
      if (!canBeLoaded(frame)) noteLost(frame);
      index = frame.older;
      continue;
    }
    releaser_.pin(index);
    const uint32_t generation = frame.generation;
    Result<log::Certificate> read = co_await readWhole(index, reader, best ? other : bytes);
    // Bytes that were changed on their way from the disk are right the second time, and no reason to give up a replica.
    if (!read.ok() && frame.generation == generation) {
      read = co_await readWhole(index, reader, best ? other : bytes);
    }
    const bool still_there = frame.generation == generation;
    const uint32_t older = still_there ? frame.older : kNoFrame;
    if (still_there && !read.ok()) {
      frames_[index].invalid = true;
      noteLost(frames_[index]);
      StoreStats::add(stats_.corrupt_frames, 1);
    }
    releaser_.unpin(index);
    if (!still_there) best.reset();
    if (still_there && read.ok()) frames_[index].was_whole = true;
    if (still_there && read.ok() && (!best || read->isNewerThan(*best))) {
      if (best) bytes.swap(other);
      best = *read;
    }
    index = older;
  }
  --waiting_;
  // The open replica that was found is only the beginning of the newer one that was lost here. A recovery that has
  // chosen the newer one has to read it on another server.
  if (!best || (!best->closed && lost && lost->isNewerThan(*best))) co_return Status::NotFound;
  co_return *best;
}

// Reads and verifies on `reader`. The frame is pinned.
runtime::Task<Result<log::Certificate>> ReplicaLoader::readWhole(uint32_t index, runtime::Executor& reader,
                                                                 std::vector<std::byte>& bytes) {
  log::Certificate certificate = frames_[index].certificate;
  const bool former = frames_[index].state == FrameState::Former;
  const uint32_t generation = frames_[index].generation;
  // All writes that were accepted before count, because their answers may still come: a recovery that reads less would
  // take back what the master acknowledges.
  co_await order_.waitUntilDone(frames_[index].stamp);
  const StorageFrame& frame = frames_[index];
  if (frame.generation == generation && frame.has_failed) {
    if (!frame.certified) co_return Status::Corrupt;
    certificate = frame.certificate;
  }
  co_await runtime::resumeOn(reader, runtime::Priority::Waited);
  Status status = Status::Ok;
  log::Certificate found = certificate;
  if (former) {
    const Result<log::Certificate> newest =
        file_.readNewestVerified(index, certificate.cluster, certificate.master, certificate.segment, bytes);
    status = newest.status();
    if (newest.ok()) found = *newest;
  } else {
    status = file_.readVerified(index, certificate, bytes);
  }
  co_await runtime::resumeOn(executor_, runtime::Priority::Waited);
  if (status != Status::Ok) co_return status;
  co_return found;
}

}  // namespace ramcore::backup
