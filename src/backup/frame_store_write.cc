// Writes: which frame they go to, what of them is new, and what is known of the frame when they are done, or could not
// be.

#include <algorithm>
#include <utility>

#include "backup/frame_store.h"
#include "base/check.h"
#include "base/mutation.h"

namespace ramcore::backup {
namespace {

using Write = wire::WriteReplica;

// Of the one thread that writes the counter.
void add(std::atomic<uint64_t>& counter, int64_t by) {
  counter.store(counter.load(std::memory_order_relaxed) + static_cast<uint64_t>(by), std::memory_order_relaxed);
}

// Certificates as the request has to carry them; Ok and nothing in `out` for a write without one.
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

uint32_t FrameStore::find(ServerId master, SegmentId segment) const {
  const auto segments = index_.find(master);
  if (segments == index_.end()) return kNoFrame;
  const auto found = segments->second.find(segment);
  return found == segments->second.end() ? kNoFrame : found->second;
}

FrameStore::Written FrameStore::write(const ReplicaWrite& write) {
  RC_CHECK(begun_);
  Written result;
  const auto refuse = [&result](Status status) {
    result.status = status;
    return result;
  };
  if (isCondemned()) return refuse(Status::IoError);
  // What waits is bounded: whoever sends it keeps it, and tries again as long as it has patience.
  if (closed_ || !writer_.hasRoom(write.data_bytes)) return refuse(Status::RetryLater);
  std::optional<log::Certificate> certificate;
  const Status taken = takeCertificate(write, cluster_, certificate);
  if (taken != Status::Ok) return refuse(taken);
  if (!write.master || !write.segment || (write.flags & ~Write::kFlagsAll) != 0 ||
      ((write.flags & Write::kOpen) != 0 && write.offset_bytes != 0) ||
      (write.flags & (Write::kHead | Write::kReserve)) == Write::kReserve) {
    return refuse(Status::BadRequest);
  }
  const Result<uint32_t> chosen = frameFor(write, certificate ? &*certificate : nullptr);
  if (!chosen.ok()) return refuse(chosen.error());
  Frame& frame = frames_[*chosen];
  const bool certifies = certificate && (!frame.certified || certificate->isNewerThan(frame.certificate));
  const Status status = carryOut(*chosen, write, certifies ? &*certificate : nullptr);
  if (RC_MUTATION("reuse-before-flush")) freeReplaced();
  return {.status = status,
          .length_bytes = frame.length_bytes,
          .flushed_bytes = frame.flushed_bytes,
          .replica_epoch = frame.replica_epoch,
          .certified_bytes = certifiedBytes(frame),
          .frame = *chosen,
          .generation = frame.generation,
          .stamp = frame.stamp,
          .is_queued = frame.stamp > done_stamp_};
}

// Which frame a write goes to; takes one if it needs to. Nothing has changed if it is refused.
Result<uint32_t> FrameStore::frameFor(const ReplicaWrite& write, const log::Certificate* certificate) {
  const bool opens = (write.flags & Write::kOpen) != 0;
  const uint32_t present = find(write.master, write.segment);
  const bool own = present != kNoFrame && frames_[present].state == FrameState::Own;
  if (!own && !opens) return Status::NotFound;
  const bool is_stale = present != kNoFrame && write.replica_epoch < frames_[present].replica_epoch;
  if (is_stale && !RC_MUTATION("take-writes-of-an-older-epoch")) return Status::StaleEpoch;
  const bool replaces = opens && own && write.replica_epoch != frames_[present].replica_epoch;
  if (own && frames_[present].has_failed && !replaces) return Status::IoError;
  if (own && write.replica_epoch == frames_[present].replica_epoch) {
    const Status checked = checkBounds(write, certificate, &frames_[present]);
    if (checked != Status::Ok) return checked;
    return present;
  }
  if (own && !opens) {
    // The replica that is here is one of the newer epoch from now on: under a certificate for all its bytes, and
    // those that come with it.
    Frame& frame = frames_[present];
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
  const uint32_t frame = take(write.flags);
  if (frame == kNoFrame) {
    add(stats_.refused_full, 1);
    return Status::NoSpace;
  }
  frames_[frame].state = FrameState::Own;
  frames_[frame].older = present;
  reset(frame, write);
  index_[write.master][write.segment] = frame;
  if (present != kNoFrame) replacing_.push_back(frame);
  return frame;
}

// Whether a write fits behind what is in the frame, and its certificate to both. `present` is nullptr for a new one.
Status FrameStore::checkBounds(const ReplicaWrite& write, const log::Certificate* certificate,
                               const Frame* present) const {
  const uint32_t before = present != nullptr ? present->length_bytes : 0;
  const uint64_t end = uint64_t{write.offset_bytes} + write.data_bytes;
  const bool is_gap = write.offset_bytes > before && !RC_MUTATION("write-behind-a-gap");
  if (is_gap || end > file_->frameBytes()) return Status::BadRequest;
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

// Writes what the frame does not have yet, here or on the disk's thread.
Status FrameStore::carryOut(uint32_t index, const ReplicaWrite& write, const log::Certificate* certificate) {
  Frame& frame = frames_[index];
  FrameWrite plan{.frame = index, .generation = frame.generation};
  planData(frame, write, plan);
  if (certificate != nullptr) planCertificate(frame, write, plan);
  if (plan.data_bytes == 0 && !plan.certifies) return Status::Ok;
  const bool now = writer_.writesNow();
  if (now) {
    const Status status = writer_.writeNow(plan);
    if (status != Status::Ok) return status;
  }
  FrameMark mark{.first_stamp = write_stamp_ + 1,
                 .stamp_before = frame.stamp,
                 .length_bytes = frame.length_bytes,
                 .open_slots = frame.open_slots,
                 .certified = frame.certified,
                 .certificate = frame.certificate};
  if (plan.data_bytes != 0) noteData(frame, plan);
  if (plan.certifies) noteCertificate(index, plan, *certificate);
  if (now) {
    done_stamp_ = write_stamp_;
  } else {
    mark.stamp = write_stamp_;
    writer_.queue(plan, mark);
  }
  return Status::Ok;
}

// What is below the length is there already, and is not written again: a reader may be at it.
void FrameStore::planData(const Frame& frame, const ReplicaWrite& write, FrameWrite& plan) {
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

void FrameStore::noteData(Frame& frame, const FrameWrite& plan) {
  add(stats_.bytes_written, plan.data_bytes);
  frame.length_bytes = plan.offset_bytes + plan.data_bytes;
  frame.stamp = ++write_stamp_;
}

void FrameStore::planCertificate(Frame& frame, const ReplicaWrite& write, FrameWrite& plan) {
  plan.certifies = true;
  plan.is_first_certificate = !frame.certified;
  plan.slot = frame.certified ? slotToWrite(frame) : 0;
  plan.certificate = write.certificate;
  frame.slot_stamps[plan.slot] = 0;  // whatever becomes of it
}

void FrameStore::noteCertificate(uint32_t index, const FrameWrite& plan, const log::Certificate& certificate) {
  Frame& frame = frames_[index];
  frame.stamp = ++write_stamp_;
  frame.slot_stamps[plan.slot] = frame.stamp;
  const auto bit = static_cast<uint8_t>(1U << plan.slot);
  frame.open_slots = static_cast<uint8_t>(certificate.closed ? frame.open_slots & ~bit : frame.open_slots | bit);
  if (certificate.closed && frame.open_slots != 0 && !RC_MUTATION("leave-the-open-certificate")) {
    closing_.push_back(index);
  }
  frame.certificate = certificate;
  frame.certified = true;
  noteUnflushed(index);
}

// Whether the zeros are written, or will be unless the disk refuses them.
bool FrameStore::clear(const FrameWrite& write) {
  if (writer_.writesNow()) {
    if (writer_.writeNow(write) != Status::Ok) return false;
    done_stamp_ = ++write_stamp_;
    return true;
  }
  const uint64_t stamp = ++write_stamp_;
  writer_.queue(write, {.first_stamp = stamp, .stamp = stamp, .certificate = {}});
  return true;
}

void FrameStore::onWritten(const FrameWrite& write, const FrameMark& mark, Status status) {
  Frame& frame = frames_[write.frame];
  if (status != Status::Ok && frame.generation == write.generation) {
    // What was not cleared is still there, and is cleared again before the frame is another's. (A frame that was not
    // cleared when it came free is found again after a restart, and goes again.)
    if (write.kind == FrameWrite::Kind::ClearSlot) frame.open_slots |= static_cast<uint8_t>(1U << write.slot);
    if (write.kind == FrameWrite::Kind::Replica && !frame.has_failed) undo(frame, mark);
  }
  noteDone(mark.stamp);
  if (flush_waits_ && done_stamp_ >= flushing_stamp_) {
    flush_waits_ = false;
    file_->flush(flush_job_);
  }
}

void FrameStore::noteDone(uint64_t stamp) {
  done_stamp_ = stamp;
  while (first_wait_ != nullptr && first_wait_->stamp <= done_stamp_) {
    DoneWait& wait = *first_wait_;
    first_wait_ = wait.later;
    if (first_wait_ == nullptr) last_wait_ = nullptr;
    executor_.post(wait, runtime::Priority::Waited);
  }
}

// Mostly it waits for the newest write.
void FrameStore::addWaiting(DoneWait& wait) {
  if (last_wait_ == nullptr || last_wait_->stamp <= wait.stamp) {
    (last_wait_ == nullptr ? first_wait_ : last_wait_->later) = &wait;
    last_wait_ = &wait;
    return;
  }
  DoneWait** place = &first_wait_;
  while ((*place)->stamp <= wait.stamp) place = &(*place)->later;
  wait.later = *place;
  *place = &wait;
}

// Of this write and of those behind it, which fail as well, nothing counts. A slot that one of them was to overwrite
// may still have what it had.
void FrameStore::undo(Frame& frame, const FrameMark& mark) {
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

runtime::Task<Status> FrameStore::written(Written written) {
  if (!written.is_queued) co_return Status::Ok;
  ++waiting_;
  co_await DoneWait(*this, written.stamp);
  --waiting_;
  const Frame& frame = frames_[written.frame];
  if (frame.generation != written.generation) co_return Status::NotFound;
  const bool has_failed = frame.has_failed && frame.failed_stamp <= written.stamp;
  // A flush has failed meanwhile: nothing is read of this one any more.
  const bool is_lost = isCondemned() && written.stamp > flushed_stamp_;
  co_return has_failed || is_lost ? Status::IoError : Status::Ok;
}

// Not the newest flushed one and not the newest that is being flushed; of the others the oldest.
uint32_t FrameStore::slotToWrite(const Frame& frame) const {
  if (RC_MUTATION("one-certificate-slot")) return 0;
  uint32_t flushed = kNoFrame;
  uint32_t flushing = kNoFrame;
  const auto newer = [&frame](uint32_t slot, uint32_t than) {
    return than == kNoFrame || frame.slot_stamps[slot] > frame.slot_stamps[than];
  };
  for (uint32_t slot = 0; slot < FrameFile::kSlotCount; ++slot) {
    const uint64_t stamp = frame.slot_stamps[slot];
    if (stamp == 0) continue;
    if (stamp <= flushed_stamp_) {
      if (newer(slot, flushed)) flushed = slot;
    } else if (flushing_ && stamp <= flushing_stamp_ && newer(slot, flushing)) {
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

bool FrameStore::hasFlushedCertificate(const Frame& frame) const {
  return std::any_of(frame.slot_stamps.begin(), frame.slot_stamps.end(),
                     [this](uint64_t stamp) { return stamp != 0 && stamp <= flushed_stamp_; });
}

}  // namespace ramcore::backup
