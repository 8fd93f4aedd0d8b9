// Which frames are free, and how they become free again. The reasons for the order of the steps stand at FrameStore.

#include <algorithm>
#include <utility>
#include <vector>

#include "backup/frame_store.h"
#include "base/check.h"
#include "base/mutation.h"

namespace ramcore::backup {
namespace {

// Of the one thread that writes the counter.
void add(std::atomic<uint64_t>& counter, int64_t by) {
  counter.store(counter.load(std::memory_order_relaxed) + static_cast<uint64_t>(by), std::memory_order_relaxed);
}

}  // namespace

// Free frames that a replica with these flags has to leave to others. Heads of the reserve that exist count towards
// their share, so that they do not take that of the survivors as well; survivors do not: in the end all is survivors.
uint32_t FrameStore::framesKeptFrom(uint8_t flags) const {
  const uint32_t for_heads = head_frames_ - std::min(head_frames_, reserve_heads_);
  if ((flags & wire::WriteReplica::kHead) == 0) return for_heads;
  if ((flags & wire::WriteReplica::kReserve) == 0) return for_heads + survivor_frames_;
  return for_heads > 0 ? 0 : survivor_frames_;
}

uint32_t FrameStore::take(uint8_t flags) {
  if (free_.empty() || (free_.size() <= framesKeptFrom(flags) && !RC_MUTATION("take-places-of-others")))
    return kNoFrame;
  const uint32_t frame = free_.back();
  free_.pop_back();
  add(stats_.frames_free, -1);
  if ((flags & wire::WriteReplica::kReserve) != 0) {
    frames_[frame].of_reserve = true;
    ++reserve_heads_;
  }
  return frame;
}

// Makes it an empty replica of the write's epoch. Its place among the segment's frames stays.
void FrameStore::reset(uint32_t index, const ReplicaWrite& write) {
  Frame& frame = frames_[index];
  Frame fresh;
  fresh.state = frame.state;
  fresh.master = write.master;
  fresh.segment = write.segment;
  fresh.replica_epoch = write.replica_epoch;
  fresh.generation = frame.generation + 1;
  fresh.older = frame.older;
  fresh.of_reserve = frame.of_reserve;
  frame = fresh;
}

void FrameStore::release(uint32_t index) {
  Frame& frame = frames_[index];
  ++frame.generation;
  frame.older = kNoFrame;
  if (frame.pins != 0) {
    frame.state = FrameState::Leaving;
    return;
  }
  makeFree(index);
}

// What is closed is gone only after its open certificates are, or it might come back as open.
void FrameStore::makeFree(uint32_t index) {
  Frame& frame = frames_[index];
  const bool is_closed = frame.certified && frame.certificate.closed;
  if (is_closed && !isCondemned() && !closed_) {
    scrub(index);
    for (const OpenClear& one : open_clears_) {
      const bool is_same = one.master == frame.master && one.segment == frame.segment;
      if (is_same) frame.scrub_stamp = std::max(frame.scrub_stamp, one.stamp);
    }
    if (frame.scrub_stamp > flushed_stamp_) {
      frame.state = FrameState::Leaving;
      scrubbing_.push_back(index);
      wanted_stamp_ = std::max(wanted_stamp_, frame.scrub_stamp);
      if (!flushing_) startFlush();
      return;
    }
  }
  putFree(index);
}

// Of a closed frame: leaves only what closes it.
void FrameStore::scrub(uint32_t index) {
  Frame& frame = frames_[index];
  for (uint32_t slot = 0; slot < FrameFile::kSlotCount; ++slot) {
    if ((frame.open_slots & (1U << slot)) == 0) continue;
    const FrameWrite zeros{
        .kind = FrameWrite::Kind::ClearSlot, .frame = index, .generation = frame.generation, .slot = slot};
    if (!clear(zeros)) return;
    frame.slot_stamps[slot] = 0;
    frame.scrub_stamp = write_stamp_;
    open_clears_.push_back({frame.master, frame.segment, write_stamp_});
  }
  frame.open_slots = 0;
}

// Ahead of need, as soon as the certificates that close them are flushed: then most can be freed at once.
void FrameStore::scrubClosed() {
  std::erase_if(closing_, [this](uint32_t index) {
    const Frame& frame = frames_[index];
    const bool is_its = frame.state == FrameState::Own && frame.certified && frame.certificate.closed;
    if (is_its && frame.stamp > flushed_stamp_) return false;
    if (is_its && !closed_) scrub(index);
    return true;
  });
}

void FrameStore::putScrubbedFree() {
  std::erase_if(scrubbing_, [this](uint32_t index) {
    if (!isCondemned()) {
      // The disk has refused zeros that were queued.
      if (frames_[index].open_slots != 0 && !closed_) {
        scrub(index);
        wanted_stamp_ = std::max(wanted_stamp_, frames_[index].scrub_stamp);
      }
      if (frames_[index].scrub_stamp > flushed_stamp_ || frames_[index].open_slots != 0) return false;
    }
    putFree(index);
    return true;
  });
}

void FrameStore::putFree(uint32_t index) {
  // So that it is not found again after a restart. If this fails or is lost, it is, and goes again.
  const uint32_t generation = frames_[index].generation;
  if (!isCondemned() && !closed_) {
    clear({.kind = FrameWrite::Kind::ClearFrame, .frame = index, .generation = generation});
    const Frame& frame = frames_[index];
    const bool is_open = frame.certified && !frame.certificate.closed;
    if (is_open) open_clears_.push_back({frame.master, frame.segment, write_stamp_});
  }
  if (frames_[index].of_reserve) --reserve_heads_;
  frames_[index] = Frame();
  frames_[index].generation = generation;
  free_.push_back(index);
  add(stats_.frames_free, 1);
}

void FrameStore::unpin(uint32_t index) {
  Frame& frame = frames_[index];
  RC_CHECK(frame.pins != 0);
  if (--frame.pins == 0 && frame.state == FrameState::Leaving) makeFree(index);
}

void FrameStore::unlink(ServerId master, SegmentId segment) {
  const auto segments = index_.find(master);
  segments->second.erase(segment);
  if (segments->second.empty()) index_.erase(segments);
}

void FrameStore::free(ServerId master, SegmentId segment) {
  const uint32_t frame = find(master, segment);
  if (frame == kNoFrame) return;
  unlink(master, segment);
  releaseAll(frame);
}

// A frame and all that it was to replace, the oldest first: of those some are open, and what is closed waits for that.
void FrameStore::releaseAll(uint32_t frame) {
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

// Nobody recovers the master any more: it does not matter as what a frame comes back.
void FrameStore::freeAll(ServerId master) {
  for (const SegmentId segment : segments(master)) {
    for (uint32_t frame = find(master, segment); frame != kNoFrame; frame = frames_[frame].older) {
      frames_[frame].open_slots = 0;
      frames_[frame].scrub_stamp = 0;
    }
    free(master, segment);
  }
}

void FrameStore::freeFormer(ServerId master, SegmentId segment) {
  const uint32_t first = find(master, segment);
  if (first == kNoFrame) return;
  if (frames_[first].state == FrameState::Former) return free(master, segment);
  // Those of this life stand in front of those of former ones.
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

// What a frame replaces goes when the frame's own certificate is flushed.
void FrameStore::freeReplaced() {
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

}  // namespace ramcore::backup
