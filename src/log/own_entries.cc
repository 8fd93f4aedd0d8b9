#include "log/own_entries.h"

#include <array>

#include "base/check.h"
#include "log/format/entry_view.h"

namespace ramcore::log {

void OwnEntries::writeHeader(Segment& segment) const {
  const SegmentHeaderPayload header{identity_.cluster, identity_.server, segment.id(), kSegmentFormat, 0};
  const std::array<ByteSpan, 1> pieces{bytesOf(header)};
  write(segment, EntryType::SegmentHeader, pieces);
}

void OwnEntries::write(Segment& segment, EntryType type, std::span<const ByteSpan> payload) const {
  EntryInput input;
  input.type = type;
  input.payload = payload;
  Segment::Cursor cursor = segment.cursor();
  EntryRef ref;
  RC_CHECK_MSG(segment.place(cursor, input.alignedBytes(), ref), "a segment has room for its own entries");
  writeEntry(memory_.at(ref), input, false, {});
  segment.adopt(cursor);
  segment.commit(cursor.offset);
}

void OwnEntries::copy(const Segment& original, Segment& copy) const {
  uint32_t offset = 0;
  while (offset < original.committedBytes()) {
    const EntryView entry(memory_.at(original.refAt(offset)));
    const bool is_own = entry.type() == EntryType::SegmentHeader || entry.type() == EntryType::LogDigest ||
                        entry.type() == EntryType::SafeVersion;
    if (!is_own) break;
    Segment::Cursor cursor = copy.cursor();
    EntryRef ref;
    RC_CHECK_MSG(copy.place(cursor, entry.alignedBytes(), ref), "a segment has room for its own entries");
    copyEntry(memory_.at(ref), entry);
    copy.adopt(cursor);
    offset += entry.alignedBytes();
  }
}

}  // namespace ramcore::log
