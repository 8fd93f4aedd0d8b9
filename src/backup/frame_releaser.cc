#include "backup/frame_releaser.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mutation.h"

namespace ramcore::backup {

FrameReleaser::FrameReleaser(FrameTable& frames, FreeFrames& free_frames, WriteOrder& order, FrameFlushes& flushes)
    : frames_(frames), free_frames_(free_frames), order_(order), flushes_(flushes) {}

void FrameReleaser::release(uint32_t index) {
  StorageFrame& frame = frames_[index];
  ++frame.generation;
  frame.older = kNoFrame;
  if (frame.pins != 0) {
    frame.state = FrameState::Leaving;
    return;
  }
  makeFree(index);
}

// Frees a frame. The certificate that closes a replica is removed only after its open certificates are durably gone.
// Otherwise the replica might come back as open.
void FrameReleaser::makeFree(uint32_t index) {
  StorageFrame& frame = frames_[index];
  const bool is_closed = frame.certified && frame.certificate.closed;
  if (is_closed && !flushes_.isCondemned() && !order_.isClosed()) {
    scrub(index);
    for (const OpenClear& one : open_clears_) {
      const bool is_same = one.master == frame.master && one.segment == frame.segment;
      if (is_same) frame.scrub_stamp = std::max(frame.scrub_stamp, one.stamp);
    }
    if (!flushes_.isFlushed(frame.scrub_stamp)) {
      frame.state = FrameState::Leaving;
      scrubbing_.push_back(index);
      flushes_.want(frame.scrub_stamp);
      return;
    }
  }
  putFree(index);
}

// Removes the open certificates of a closed frame.
void FrameReleaser::scrub(uint32_t index) {
  StorageFrame& frame = frames_[index];
  for (uint32_t slot = 0; slot < FrameFile::kSlotCount; ++slot) {
    if ((frame.open_slots & (1U << slot)) == 0) continue;
    const FrameWrite zeros{
        .kind = FrameWrite::Kind::ClearSlot, .frame = index, .generation = frame.generation, .slot = slot};
    if (!order_.clear(zeros)) return;
    frame.slot_stamps[slot] = 0;
    frame.scrub_stamp = order_.lastStamp();
    open_clears_.push_back({frame.master, frame.segment, order_.lastStamp()});
  }
  frame.open_slots = 0;
}

// Scrubs closed frames ahead of need, as soon as the certificates that close them are flushed: then most can be freed
// at once.
void FrameReleaser::scrubClosed() {
  std::erase_if(closing_, [this](uint32_t index) {
    const StorageFrame& frame = frames_[index];
    const bool is_its = frame.state == FrameState::Own && frame.certified && frame.certificate.closed;
    if (is_its && !flushes_.isFlushed(frame.stamp)) return false;
    if (is_its && !order_.isClosed()) scrub(index);
    return true;
  });
}

void FrameReleaser::putScrubbedFree() {
  std::erase_if(scrubbing_, [this](uint32_t index) {
    if (!flushes_.isCondemned()) {
      // The disk has refused zeros that were queued, so they are written again.
      if (frames_[index].open_slots != 0 && !order_.isClosed()) {
        scrub(index);
        flushes_.wantNext(frames_[index].scrub_stamp);
      }
      if (!flushes_.isFlushed(frames_[index].scrub_stamp) || frames_[index].open_slots != 0) return false;
    }
    putFree(index);
    return true;
  });
}

void FrameReleaser::putFree(uint32_t index) {
  // The frame is cleared so that its replica is not found again after a restart. If that fails or is lost, the replica
  // is found, and freed again.
  const uint32_t generation = frames_[index].generation;
  if (!flushes_.isCondemned() && !order_.isClosed()) {
    order_.clear({.kind = FrameWrite::Kind::ClearFrame, .frame = index, .generation = generation});
    const StorageFrame& frame = frames_[index];
    const bool is_open = frame.certified && !frame.certificate.closed;
    if (is_open) open_clears_.push_back({frame.master, frame.segment, order_.lastStamp()});
  }
  const bool of_reserve = frames_[index].of_reserve;
  frames_[index] = StorageFrame();
  frames_[index].generation = generation;
  free_frames_.put(index, of_reserve);
}

void FrameReleaser::unpin(uint32_t index) {
  StorageFrame& frame = frames_[index];
  RC_CHECK(frame.pins != 0);
  if (--frame.pins == 0 && frame.state == FrameState::Leaving) makeFree(index);
}

void FrameReleaser::free(ServerId master, SegmentId segment) {
  const uint32_t frame = frames_.find(master, segment);
  if (frame == kNoFrame) return;
  frames_.unlink(master, segment);
  releaseAll(frame);
}

// Releases a frame and all that it was to replace, the oldest first: open certificates of these have to go before one
// that closes the replica.
void FrameReleaser::releaseAll(uint32_t frame) {
  std::vector<uint32_t> frames;
  for (; frame != kNoFrame; frame = frames_[frame].older) {
    std::erase(replacing_, frame);
    frames.push_back(frame);
  }
  while (!frames.empty()) {
    release(frames.back());
    frames.pop_back();
  }
}

// Nobody recovers the master any more, so it does not matter whether a closed replica comes back as open.
void FrameReleaser::freeAll(ServerId master) {
  for (const SegmentId segment : frames_.segments(master)) {
    for (uint32_t frame = frames_.find(master, segment); frame != kNoFrame; frame = frames_[frame].older) {
      frames_[frame].open_slots = 0;
      frames_[frame].scrub_stamp = 0;
    }
    free(master, segment);
  }
}

void FrameReleaser::freeFormer(ServerId master, SegmentId segment) {
  const uint32_t first = frames_.find(master, segment);
  if (first == kNoFrame) return;
  if (frames_[first].state == FrameState::Former) return free(master, segment);
  // Frames of this life stand in front of frames of former lives.
  uint32_t last_own = first;
  while (frames_[last_own].older != kNoFrame && frames_[frames_[last_own].older].state == FrameState::Own) {
    last_own = frames_[last_own].older;
  }
  uint32_t frame = std::exchange(frames_[last_own].older, kNoFrame);
  std::erase(replacing_, last_own);
  while (frame != kNoFrame) {
    const uint32_t older = frames_[frame].older;
    release(frame);
    frame = older;
  }
}

void FrameReleaser::onFlushed(Status status) {
  if (status == Status::Ok) {
    std::erase_if(open_clears_, [this](const OpenClear& one) { return flushes_.isFlushed(one.stamp); });
    freeReplaced();
    scrubClosed();
  }
  putScrubbedFree();
}

// Frees the frames that were replaced. One goes when a certificate of the frame that replaces it is flushed: before
// that a power failure could leave neither.
void FrameReleaser::freeReplaced() {
  std::vector<uint32_t> replaced;
  for (const uint32_t frame : replacing_) {
    const bool too_early = RC_MUTATION("reuse-before-flush") && frames_[frame].certified;
    if (hasFlushedCertificate(frames_[frame]) || too_early) replaced.push_back(frame);
  }
  for (const uint32_t first : replaced) {
    const uint32_t older = std::exchange(frames_[first].older, kNoFrame);
    std::erase(replacing_, first);
    releaseAll(older);
  }
}

bool FrameReleaser::hasFlushedCertificate(const StorageFrame& frame) const {
  return std::any_of(frame.slot_stamps.begin(), frame.slot_stamps.end(),
                     [this](uint64_t stamp) { return stamp != 0 && flushes_.isFlushed(stamp); });
}

}  // namespace ramcore::backup
