#include "log/memory/segment.h"

#include <algorithm>

#include "base/check.h"
#include "log/format/entry_view.h"

namespace ramcore::log {

size_t Segment::spans(uint32_t from, uint32_t to, std::span<ByteSpan> pieces) const {
  RC_CHECK(from <= to && to <= committedBytes());
  size_t count = 0;
  for (uint32_t i = 0; i < extent_count_ && from < to; ++i) {
    const uint32_t begin = extents_[i].stream_begin.load(std::memory_order_relaxed);
    const uint32_t next =
        i + 1 < extent_count_ ? extents_[i + 1].stream_begin.load(std::memory_order_relaxed) : kSegmentBytesMax;
    // An extent that was not entered yet begins at kSegmentBytesMax, behind every offset.
    const uint32_t end = std::min(to, next);
    if (from >= end) continue;
    RC_CHECK(count < pieces.size());
    pieces[count++] = ByteSpan(memory_->at(extents_[i].begin) + (from - begin), end - from);
    from = end;
  }
  RC_CHECK(from == to);
  return count;
}

void Segment::copyOut(uint32_t from, uint32_t to, std::byte* dest) const {
  std::array<ByteSpan, kExtentsMax> pieces;
  const size_t count = spans(from, to, pieces);
  for (size_t i = 0; i < count; ++i) {
    const std::byte* at = pieces[i].data();
    const std::byte* const end = at + pieces[i].size();
    while (at < end) {
      // Entry by entry, around the state byte, which others may be writing.
      const uint32_t bytes = EntryView(at).alignedBytes();
      dest[0] = at[0];
      dest[1] = std::byte{0};
      std::memcpy(dest + 2, at + 2, bytes - 2);
      at += bytes;
      dest += bytes;
    }
    RC_CHECK(at == end);
  }
}

uint32_t Segment::offsetOf(EntryRef ref) const {
  for (uint32_t i = 0; i < extent_count_; ++i) {
    const uint64_t delta = ref.offsetBytes() - extents_[i].begin;  // wraps for what lies before
    if (delta < extents_[i].bytes) {
      return extents_[i].stream_begin.load(std::memory_order_relaxed) + static_cast<uint32_t>(delta);
    }
  }
  RC_CHECK_MSG(false, "the entry is not in this segment");
  return 0;
}

EntryRef Segment::refAt(uint32_t offset) const {
  for (uint32_t i = extent_count_; i-- > 0;) {
    const uint32_t begin = extents_[i].stream_begin.load(std::memory_order_relaxed);
    if (begin <= offset) return EntryRef::fromOffset(extents_[i].begin + (offset - begin));
  }
  RC_CHECK(false);
  return {};
}

ByteSpan Segment::restOfExtent(uint32_t offset) const {
  uint32_t end = committedBytes();
  RC_CHECK(offset < end);
  for (uint32_t i = extent_count_; i-- > 0;) {
    const uint32_t begin = extents_[i].stream_begin.load(std::memory_order_relaxed);
    if (begin <= offset) return {memory_->at(extents_[i].begin) + (offset - begin), end - offset};
    end = std::min(end, begin);
  }
  RC_CHECK(false);
  return {};
}

/// The extent behind that of `cursor` in which the next entry finds room; that of `cursor` if there is none.
uint32_t Segment::nextExtent(const Cursor& cursor, uint32_t aligned_bytes) {
  for (uint32_t extent = cursor.extent + 1; extent < extent_count_; ++extent) {
    extents_[extent].tried_begin = cursor.offset;
    if (aligned_bytes <= extents_[extent].bytes) return extent;
  }
  return cursor.extent;
}

uint64_t Segment::certainRoomBytes(uint32_t entry_bytes_max) const {
  uint64_t room = 0;
  for (uint32_t i = cursor_.extent; i < extent_count_; ++i) {
    const uint64_t left = extents_[i].bytes - (i == cursor_.extent ? cursor_.extent_used : 0);
    room += left > entry_bytes_max ? left - entry_bytes_max : 0;
  }
  const uint64_t capacity_left = capacity_bytes_ - cursor_.offset;
  return std::min(room, capacity_left > entry_bytes_max ? capacity_left - entry_bytes_max : 0);
}

void Segment::rewind(const Cursor& cursor) {
  RC_CHECK(cursor.offset >= committedBytes() && cursor.offset <= cursor_.offset);
  for (uint32_t i = cursor.extent + 1; i <= cursor_.extent; ++i) {
    extents_[i].stream_begin.store(kSegmentBytesMax, std::memory_order_relaxed);
  }
  cursor_ = cursor;
}

}  // namespace ramcore::log
