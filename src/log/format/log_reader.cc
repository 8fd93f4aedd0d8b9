#include "log/format/log_reader.h"

namespace ramcore::log {

std::string_view name(WalkEnd end) {
  switch (end) {
    case WalkEnd::Clean:
      return "clean";
    case WalkEnd::BadEntry:
      return "bad entry";
    case WalkEnd::IncompleteGroup:
      return "incomplete group";
    case WalkEnd::GroupTooLong:
      return "group too long";
  }
  return "unknown";
}

std::span<const EntryView> SegmentReader::nextGroup() {
  if (end_ != WalkEnd::Clean) return {};
  uint32_t at = offset_;
  uint32_t crc = headers_crc_;
  for (size_t count = 0; count < group_.size();) {
    if (at == bytes_.size()) {
      if (count > 0) end_ = WalkEnd::IncompleteGroup;
      return {};
    }
    EntryView& entry = group_[count];
    error_ = decodeEntry(bytes_.subspan(at), entry);
    if (error_ != DecodeError::None) {
      end_ = WalkEnd::BadEntry;
      return {};
    }
    ++count;
    at += entry.alignedBytes();
    crc = entry.chainHeader(crc);
    if (entry.groupContinues()) continue;
    offset_ = at;
    headers_crc_ = crc;
    entry_count_ += static_cast<uint32_t>(count);
    return {group_.data(), count};
  }
  end_ = WalkEnd::GroupTooLong;
  return {};
}

Status readPreamble(ByteSpan bytes, SegmentPreamble& preamble) {
  SegmentReader reader(bytes);
  const auto first = reader.nextGroup();
  if (first.empty() || first[0].type() != EntryType::SegmentHeader) return Status::Corrupt;
  preamble.header = first[0].payloadAs<SegmentHeaderPayload>();
  if (preamble.header.format != kSegmentFormat || preamble.header.reserved != 0) return Status::WrongFormat;
  const auto second = reader.nextGroup();
  preamble.has_digest = !second.empty() && second[0].type() == EntryType::LogDigest;
  if (preamble.has_digest) {
    preamble.digest.payload = second[0].payloadAs<LogDigestPayload>();
    preamble.digest.ids = second[0].payload().subspan(sizeof(LogDigestPayload));
  }
  return Status::Ok;
}

}  // namespace ramcore::log
