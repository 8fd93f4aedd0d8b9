#include "master/replication/segment_source.h"

#include <algorithm>
#include <array>

#include "log/format/entry_view.h"

namespace ramcore::master {

void SegmentSource::move(const log::Segment& segment) {
  segment_ = &segment;
  cutter_.emplace(cluster_, self_, segment);
}

uint32_t SegmentSource::chunkEnd(uint32_t from, uint32_t committed) const {
  if (committed - from <= kWriteBytesMax) return committed;
  std::array<ByteSpan, log::Segment::kExtentsMax> pieces;
  const size_t count = segment_->spans(from, committed, pieces);
  uint32_t end = from;
  for (size_t i = 0; i < count; ++i) {
    for (const std::byte* at = pieces[i].data(); at < pieces[i].data() + pieces[i].size();) {
      const uint32_t bytes = log::EntryView(at).alignedBytes();
      if (end > from && end - from + bytes > kWriteBytesMax) return end;
      end += bytes;
      at += bytes;
    }
  }
  return end;
}

std::optional<uint32_t> SegmentSource::findDamage(uint32_t from, uint32_t at, uint32_t committed) {
  while (at < committed && at - from <= kWriteBytesMax) {
    log::EntryView entry;
    if (log::decodeEntry(segment_->restOfExtent(at), entry) != log::DecodeError::None) return at;
    at += entry.alignedBytes();
    verified_bytes_ = std::max(verified_bytes_, at);
  }
  return std::nullopt;
}

}  // namespace ramcore::master
