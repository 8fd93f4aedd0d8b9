#include "backup/replica_writer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mutation.h"

namespace ramcore::backup {
namespace {

using Write = wire::WriteReplica;

// Checks the certificate of a write and puts it into `out`. A write without one has to carry zeros: Ok, and nothing in
// `out`.
Status takeCertificate(const ReplicaWrite& write, ClusterId cluster, std::optional<log::Certificate>& out) {
  const ByteSpan bytes = bytesOf(write.certificate);
  if ((write.flags & Write::kCertified) == 0) {
    const bool zero = std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
    return zero ? Status::Ok : Status::BadRequest;
  }
  log::Certificate certificate;
  if (log::decodeCertificate(bytes, certificate) != Status::Ok || certificate.cluster != cluster ||
      certificate.master != write.master || certificate.segment != write.segment ||
      certificate.replica_epoch != write.replica_epoch || certificate.length_bytes == 0) {
    return Status::BadRequest;
  }
  out = certificate;
  return Status::Ok;
}

}  // namespace

ReplicaWriter::ReplicaWriter(uint32_t frame_bytes, FrameTable& frames, FreeFrames& free_frames, WriteOrder& order,
                             FrameFlushes& flushes, FrameReleaser& releaser, StoreStats& stats)
    : frame_bytes_(frame_bytes),
      frames_(frames),
      free_frames_(free_frames),
      order_(order),
      flushes_(flushes),
      releaser_(releaser),
      stats_(stats) {}

ReplicaWriter::Written ReplicaWriter::write(const ReplicaWrite& write, ClusterId cluster) {
  Written result;
  const auto refuse = [&result](Status status) {
    result.status = status;
    return result;
  };
  if (flushes_.isCondemned()) return refuse(Status::IoError);
  // The bytes that wait for the disk are bounded. The sender keeps what is refused, and tries again as long as it has
  // patience.
  if (order_.isClosed() || !order_.writer().hasRoom(write.data_bytes)) return refuse(Status::RetryLater);
  std::optional<log::Certificate> certificate;
  const Status taken = takeCertificate(write, cluster, certificate);
  if (taken != Status::Ok) return refuse(taken);
  if (!write.master || !write.segment || (write.flags & ~Write::kFlagsAll) != 0 ||
      ((write.flags & Write::kOpen) != 0 && write.offset_bytes != 0) ||
      (write.flags & (Write::kHead | Write::kReserve)) == Write::kReserve) {
    return refuse(Status::BadRequest);
  }
  const Result<uint32_t> chosen = frameFor(write, certificate ? &*certificate : nullptr);
  if (!chosen.ok()) return refuse(chosen.error());
  StorageFrame& frame = frames_[*chosen];
  const bool certifies = certificate && (!frame.certified || certificate->isNewerThan(frame.certificate));
  const Status status = carryOut(*chosen, write, certifies ? &*certificate : nullptr);
  if (RC_MUTATION("reuse-before-flush")) releaser_.freeReplaced();
  return {.status = status,
          .length_bytes = frame.length_bytes,
          .flushed_bytes = frame.flushed_bytes,
          .replica_epoch = frame.replica_epoch,
          .certified_bytes = frame.certifiedBytes(),
          .frame = *chosen,
          .generation = frame.generation,
          .stamp = frame.stamp,
          .is_queued = frame.stamp > order_.doneStamp()};
}

// Gives the frame that a write goes to, and takes a free one if it needs to. If the write is refused, nothing has
// changed.
Result<uint32_t> ReplicaWriter::frameFor(const ReplicaWrite& write, const log::Certificate* certificate) {
  const bool opens = (write.flags & Write::kOpen) != 0;
  const uint32_t present = frames_.find(write.master, write.segment);
  const bool own = present != kNoFrame && frames_[present].state == FrameState::Own;
  if (!own && !opens) return Status::NotFound;
  const bool is_stale = present != kNoFrame && write.replica_epoch < frames_[present].replica_epoch;
  // A write that is late must not change the replica of a later epoch, which the master counts on.
  if (is_stale && !RC_MUTATION("take-writes-of-an-older-epoch")) return Status::StaleEpoch;
  const bool replaces = opens && own && write.replica_epoch != frames_[present].replica_epoch;
  if (own && frames_[present].has_failed && !replaces) return Status::IoError;
  if (own && write.replica_epoch == frames_[present].replica_epoch) {
    const Status checked = checkBounds(write, certificate, &frames_[present]);
    if (checked != Status::Ok) return checked;
    return present;
  }
  if (own && !opens) {
    // The replica that is here gets the newer epoch. That takes a certificate for all its bytes, and for those that
    // come with the write.
    StorageFrame& frame = frames_[present];
    const Status checked = checkBounds(write, certificate, &frame);
    if (checked != Status::Ok) return checked;
    const bool all = certificate != nullptr && certificate->length_bytes >= frame.length_bytes;
    if (!all || (frame.certified && frame.certificate.closed && !certificate->closed)) return Status::BadRequest;
    frame.replica_epoch = write.replica_epoch;
    return present;
  }
  const Status checked = checkBounds(write, certificate, nullptr);
  if (checked != Status::Ok) return checked;
  if (own && !frames_[present].certified && frames_[present].pins == 0) {
    reset(present, write);
    return present;
  }
  const std::optional<uint32_t> taken = free_frames_.take(write.flags);
  if (!taken) {
    StoreStats::add(stats_.refused_full, 1);
    return Status::NoSpace;
  }
  StorageFrame& frame = frames_[*taken];
  frame.of_reserve = (write.flags & Write::kReserve) != 0;
  frame.state = FrameState::Own;
  frame.older = present;
  reset(*taken, write);
  frames_.link(write.master, write.segment, *taken);
  if (present != kNoFrame) releaser_.noteReplacing(*taken);
  return *taken;
}

// Whether a write fits behind what is in the frame, and its certificate to both. `present` is nullptr for a new one.
Status ReplicaWriter::checkBounds(const ReplicaWrite& write, const log::Certificate* certificate,
                                  const StorageFrame* present) const {
  const uint32_t before = present != nullptr ? present->length_bytes : 0;
  const uint64_t end = uint64_t{write.offset_bytes} + write.data_bytes;
  const bool is_gap = write.offset_bytes > before && !RC_MUTATION("write-behind-a-gap");
  if (is_gap || end > frame_bytes_) return Status::BadRequest;
  const uint64_t after = std::max<uint64_t>(before, end);
  const bool is_closed = present != nullptr && present->certified && present->certificate.closed;
  if (is_closed && after > before) return Status::BadRequest;
  if (certificate == nullptr) return Status::Ok;
  if (certificate->length_bytes > after || (write.data_bytes > 0 && certificate->length_bytes != end) ||
      (certificate->closed && certificate->length_bytes != after)) {
    return Status::BadRequest;
  }
  return Status::Ok;
}

// Makes the frame an empty replica of the write's epoch. Its place among the segment's frames stays.
void ReplicaWriter::reset(uint32_t index, const ReplicaWrite& write) {
  StorageFrame& frame = frames_[index];
  StorageFrame fresh;
  fresh.state = frame.state;
  fresh.master = write.master;
  fresh.segment = write.segment;
  fresh.replica_epoch = write.replica_epoch;
  fresh.generation = frame.generation + 1;
  fresh.older = frame.older;
  fresh.of_reserve = frame.of_reserve;
  frame = fresh;
}

// Writes what the frame does not have yet, here or on the disk's thread.
Status ReplicaWriter::carryOut(uint32_t index, const ReplicaWrite& write, const log::Certificate* certificate) {
  StorageFrame& frame = frames_[index];
  FrameWrite plan{.frame = index, .generation = frame.generation};
  planData(frame, write, plan);
  if (certificate != nullptr) planCertificate(frame, write, plan);
  if (plan.data_bytes == 0 && !plan.certifies) return Status::Ok;
  FrameWriter& writer = order_.writer();
  const bool now = writer.writesNow();
  if (now) {
    const Status status = writer.writeNow(plan);
    if (status != Status::Ok) return status;
  }
  FrameMark mark{.first_stamp = order_.lastStamp() + 1,
                 .stamp_before = frame.stamp,
                 .length_bytes = frame.length_bytes,
                 .open_slots = frame.open_slots,
                 .certified = frame.certified,
                 .certificate = frame.certificate};
  if (plan.data_bytes != 0) noteData(frame, plan);
  if (plan.certifies) noteCertificate(index, plan, *certificate);
  if (now) {
    order_.noteAllDone();
  } else {
    mark.stamp = order_.lastStamp();
    writer.queue(plan, mark);
  }
  return Status::Ok;
}

// Bytes below the length are there already. They are not written again, because they may be being read.
void ReplicaWriter::planData(const StorageFrame& frame, const ReplicaWrite& write, FrameWrite& plan) {
  pieces_.clear();
  const uint32_t end = write.offset_bytes + write.data_bytes;
  if (write.data_bytes == 0 || end <= frame.length_bytes) return;
  size_t skip = frame.length_bytes - write.offset_bytes;
  size_t left = end - frame.length_bytes;
  const auto add = [&](ByteSpan piece) {
    const size_t skipped = std::min(skip, piece.size());
    skip -= skipped;
    if (skipped == piece.size()) return;
    pieces_.push_back(piece.subspan(skipped));
    RC_CHECK(pieces_.back().size() <= left);
    left -= pieces_.back().size();
  };
  add(write.first_data);
  for (const ByteSpan& piece : write.more_data) add(piece);
  RC_CHECK_MSG(left == 0, "the pieces of a write are as long as it says");
  plan.offset_bytes = frame.length_bytes;
  plan.data_bytes = end - frame.length_bytes;
  plan.pieces = pieces_;
}

void ReplicaWriter::noteData(StorageFrame& frame, const FrameWrite& plan) {
  StoreStats::add(stats_.bytes_written, plan.data_bytes);
  frame.length_bytes = plan.offset_bytes + plan.data_bytes;
  frame.stamp = order_.drawStamp();
}

void ReplicaWriter::planCertificate(StorageFrame& frame, const ReplicaWrite& write, FrameWrite& plan) {
  plan.certifies = true;
  plan.is_first_certificate = !frame.certified;
  plan.slot = frame.certified ? slotToWrite(frame) : 0;
  plan.certificate = write.certificate;
  frame.slot_stamps[plan.slot] = 0;  // even if the write fails
}

void ReplicaWriter::noteCertificate(uint32_t index, const FrameWrite& plan, const log::Certificate& certificate) {
  StorageFrame& frame = frames_[index];
  frame.stamp = order_.drawStamp();
  frame.slot_stamps[plan.slot] = frame.stamp;
  const auto bit = static_cast<uint8_t>(1U << plan.slot);
  frame.open_slots = static_cast<uint8_t>(certificate.closed ? frame.open_slots & ~bit : frame.open_slots | bit);
  if (certificate.closed && frame.open_slots != 0 && !RC_MUTATION("leave-the-open-certificate")) {
    releaser_.noteClosing(index);
  }
  frame.certificate = certificate;
  frame.certified = true;
  flushes_.noteUnflushed(index);
}

void ReplicaWriter::onFailed(const FrameWrite& write, const FrameMark& mark) {
  StorageFrame& frame = frames_[write.frame];
  if (frame.generation != write.generation) return;
  // A slot that was not cleared still has its certificate, and is cleared again before the frame is used again. (A
  // frame that was not cleared when it came free is found again after a restart, and goes again.)
  if (write.kind == FrameWrite::Kind::ClearSlot) frame.open_slots |= static_cast<uint8_t>(1U << write.slot);
  if (write.kind == FrameWrite::Kind::Replica && !frame.has_failed) undo(frame, mark);
}

// Nothing counts of this write and of those queued behind it, which fail as well. A slot that one of them was to
// overwrite may still have its former certificate.
void ReplicaWriter::undo(StorageFrame& frame, const FrameMark& mark) {
  frame.has_failed = true;
  frame.failed_stamp = mark.first_stamp;
  frame.stamp = mark.stamp_before;
  frame.length_bytes = mark.length_bytes;
  frame.open_slots |= mark.open_slots;
  frame.certified = mark.certified;
  frame.certificate = mark.certificate;
  for (uint32_t slot = 0; slot < FrameFile::kSlotCount; ++slot) {
    if (frame.slot_stamps[slot] >= mark.first_stamp) frame.slot_stamps[slot] = 0;
  }
}

runtime::Task<Status> ReplicaWriter::written(Written written) {
  if (!written.is_queued) co_return Status::Ok;
  ++waiting_;
  co_await order_.waitUntilDone(written.stamp);
  --waiting_;
  const StorageFrame& frame = frames_[written.frame];
  if (frame.generation != written.generation) co_return Status::NotFound;
  const bool has_failed = frame.has_failed && frame.failed_stamp <= written.stamp;
  // If a flush has failed meanwhile, what it did not cover is never read again.
  const bool is_lost = flushes_.isCondemned() && !flushes_.isFlushed(written.stamp);
  co_return has_failed || is_lost ? Status::IoError : Status::Ok;
}

runtime::Task<Status> ReplicaWriter::flushed(Written& written) {
  const Status there = co_await this->written(written);
  if (there != Status::Ok) co_return there;
  const Status status = co_await flushes_.flushedUpTo(written.stamp);
  if (status != Status::Ok) co_return status;
  written.flushed_bytes = written.certified_bytes;
  const StorageFrame& frame = frames_[written.frame];
  if (frame.generation == written.generation && frame.flushed_epoch == written.replica_epoch) {
    written.flushed_bytes = std::max(written.flushed_bytes, frame.flushed_bytes);
    written.length_bytes = std::max(written.length_bytes, written.flushed_bytes);
  }
  co_return status;
}

// The slot for the next certificate: not that of the newest flushed certificate, nor that of the newest one that is
// being flushed; of the others the oldest. A power failure may tear the slot that is written. Then the certificate that
// a reader needs is in another one.
uint32_t ReplicaWriter::slotToWrite(const StorageFrame& frame) const {
  if (RC_MUTATION("one-certificate-slot")) return 0;
  uint32_t flushed = kNoFrame;
  uint32_t flushing = kNoFrame;
  const auto newer = [&frame](uint32_t slot, uint32_t than) {
    return than == kNoFrame || frame.slot_stamps[slot] > frame.slot_stamps[than];
  };
  for (uint32_t slot = 0; slot < FrameFile::kSlotCount; ++slot) {
    const uint64_t stamp = frame.slot_stamps[slot];
    if (stamp == 0) continue;
    if (flushes_.isFlushed(stamp)) {
      if (newer(slot, flushed)) flushed = slot;
    } else if (flushes_.isBeingFlushed(stamp) && newer(slot, flushing)) {
      flushing = slot;
    }
  }
  uint32_t chosen = kNoFrame;
  for (uint32_t slot = 0; slot < FrameFile::kSlotCount; ++slot) {
    if (slot == flushed || slot == flushing) continue;
    if (chosen == kNoFrame || frame.slot_stamps[slot] < frame.slot_stamps[chosen]) chosen = slot;
  }
  return chosen;
}

}  // namespace ramcore::backup
