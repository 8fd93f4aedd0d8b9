#include "log/private_segments.h"

#include "base/check.h"

namespace ramcore::log {

Segment* PrivateSegments::open(SegmentKind kind, uint32_t entry_bytes_max, CopiesAwaited copies) {
  if (!parts_.pool.mayHaveRoom(kind)) return nullptr;
  Segment* const segment = parts_.pool.allocate(kind, parts_.heads.takeId(), entry_bytes_max);
  if (segment == nullptr) return nullptr;
  segment->replication().copies_awaited = copies;
  parts_.own_entries.writeHeader(*segment);
  segment->setBegun(parts_.stats.appended_bytes.load(std::memory_order_relaxed));
  parts_.replicator.open(*segment);
  return segment;
}

void PrivateSegments::close(Segment& segment) {
  RC_CHECK(segment.state() == SegmentState::Open && segment.committedBytes() == segment.cursor().offset);
  parts_.settling.setUnsettled(segment, SegmentState::Closing);
  parts_.settling.seal(segment);
  parts_.pool.trim(segment);
  parts_.replicator.close(segment);
}

void PrivateSegments::drop(Segment& segment) {
  const SegmentId id = segment.id();
  {
    LogGuard guard(parts_.lock);
    RC_CHECK(!segment.isListed());
    parts_.members.unlink(segment);
  }
  parts_.replicator.free(id);
}

Segment* PrivateSegments::openAnchor() {
  if (!parts_.pool.mayHaveRoom(SegmentKind::Side)) return nullptr;
  Segment* const anchor = parts_.pool.allocate(SegmentKind::Side, parts_.heads.takeId());
  if (anchor != nullptr) parts_.pool.trim(*anchor);
  return anchor;
}

void PrivateSegments::dropAnchor(Segment& anchor) {
  LogGuard guard(parts_.lock);
  parts_.members.unlink(anchor);
}

}  // namespace ramcore::log
