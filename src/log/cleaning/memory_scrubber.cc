#include "log/cleaning/memory_scrubber.h"

namespace ramcore::log {

/// The segment to go on with; nullptr at the end of the pass.
Segment* MemoryScrubber::current() {
  SegmentPool& pool = log_.pool();
  for (; slot_ < pool.slotCount(); ++slot_) {
    Segment& segment = pool.slot(slot_);
    // A segment leaves the state Closed for good when the cleaner begins to give it up; until then nothing but state
    // bytes change in it.
    if (segment.state() != SegmentState::Closed) continue;
    // The id does not suffice: in a compacted segment, which has the same id, entries lie elsewhere.
    const Begun begun{slot_, segment.id(), segment.compactionCount()};
    if (begun != begun_) {
      // A segment that is not in the log yet may be given up at any time; a copy that is closed stays.
      if (!log_.members().isListed(segment) && segment.compactionCount() == 0) continue;
      begun_ = begun;
      offset_ = 0;
    }
    if (offset_ < segment.committedBytes()) return &segment;
  }
  return nullptr;
}

uint32_t MemoryScrubber::step(uint32_t bytes_max) {
  Integrity& integrity = log_.integrity();
  uint32_t seen = 0;
  while (seen < bytes_max) {
    Segment* const segment = current();
    if (segment == nullptr) {
      slot_ = 0;
      begun_ = {};
      integrity.forgetGone();
      break;
    }
    uint32_t next = 0;
    if (integrity.isSound(*segment, offset_, next)) {
      integrity.mendState(segment->refAt(offset_));
    } else {
      next = integrity.skip(*segment, offset_);
    }
    seen += next - offset_;
    offset_ = next;
  }
  log_.stats().scrubbed_bytes.fetch_add(seen, std::memory_order_relaxed);
  return seen;
}

}  // namespace ramcore::log
