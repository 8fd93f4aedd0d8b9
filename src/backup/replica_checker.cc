#include "backup/replica_checker.h"

#include <algorithm>

namespace ramcore::backup {
namespace {

// Other work on the reader's thread waits for one slice at most.
constexpr uint32_t kSliceBytes = 1u << 20;

}  // namespace

ReplicaChecker::ReplicaChecker(FrameFile& file, FrameTable& frames, const WriteOrder& order,
                               const FrameFlushes& flushes, FrameReleaser& releaser, StoreStats& stats,
                               runtime::Executor& executor)
    : file_(file),
      frames_(frames),
      order_(order),
      flushes_(flushes),
      releaser_(releaser),
      stats_(stats),
      executor_(executor) {}

std::optional<ReplicaChecker::Settled> ReplicaChecker::nextSettled(uint32_t from) const {
  for (uint32_t i = from; i < frames_.size() && !order_.isClosed(); ++i) {
    const StorageFrame& frame = frames_[i];
    const bool is_closed = frame.state == FrameState::Own && frame.certified && frame.certificate.closed;
    if (!is_closed || frame.invalid || frame.has_failed || !flushes_.isFlushed(frame.stamp)) continue;
    const auto newest = std::max_element(frame.slot_stamps.begin(), frame.slot_stamps.end());
    return Settled{.frame = i,
                   .generation = frame.generation,
                   .stamp = frame.stamp,
                   .slot = static_cast<uint32_t>(newest - frame.slot_stamps.begin()),
                   .certificate = frame.certificate};
  }
  return std::nullopt;
}

runtime::Task<Status> ReplicaChecker::checkAgain(Settled settled, runtime::Executor& reader,
                                                 std::vector<std::byte>& bytes) {
  const auto isStillThere = [this, &settled] {
    const StorageFrame& frame = frames_[settled.frame];
    return frame.generation == settled.generation && frame.stamp == settled.stamp;
  };
  if (!isStillThere()) co_return Status::NotFound;
  ++waiting_;
  releaser_.pin(settled.frame);
  Status status = co_await readAgain(settled, reader, bytes);
  // Bytes that were changed on their way from the disk are right the second time, and no reason to give up a replica.
  if (status != Status::Ok && isStillThere()) {
    status = co_await readAgain(settled, reader, bytes);
  }
  if (!isStillThere()) {
    status = Status::NotFound;
  } else if (status != Status::Ok) {
    frames_[settled.frame].invalid = true;
    stats_.corrupt_frames.fetch_add(1, std::memory_order_relaxed);
  }
  releaser_.unpin(settled.frame);
  --waiting_;
  co_return status;
}

// Reads and verifies on `reader`. The frame is pinned.
runtime::Task<Status> ReplicaChecker::readAgain(Settled settled, runtime::Executor& reader,
                                                std::vector<std::byte>& bytes) {
  const log::Certificate& certificate = settled.certificate;
  co_await runtime::resumeOn(reader, runtime::Priority::Background);
  // Nobody writes to this slot while the certificate in it is the newest.
  const Result<log::Certificate> stored = file_.readCertificateFromDisk(settled.frame, settled.slot);
  Status status = stored.status();
  if (stored.ok() && *stored != certificate) status = Status::Corrupt;
  bytes.resize(certificate.length_bytes);
  for (uint32_t at = 0; at < certificate.length_bytes && status == Status::Ok; at += kSliceBytes) {
    co_await runtime::resumeOn(reader, runtime::Priority::Background);
    const uint32_t slice = std::min(kSliceBytes, certificate.length_bytes - at);
    status = file_.readDataFromDisk(settled.frame, at, MutableByteSpan(bytes).subspan(at, slice));
    stats_.checked_bytes.fetch_add(slice, std::memory_order_relaxed);
  }
  if (status == Status::Ok && !log::verifyCertificate(certificate, bytes)) status = Status::Corrupt;
  co_await runtime::resumeOn(executor_, runtime::Priority::Background);
  co_return status;
}

}  // namespace ramcore::backup
