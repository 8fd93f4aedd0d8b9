#include "log/entry_view.h"

#include <algorithm>

namespace ramcore::log {

namespace {

bool isDigestForm(const EntryView& view) {
  if (view.payloadBytes() < sizeof(LogDigestPayload)) return false;
  const auto digest = view.payloadAs<LogDigestPayload>();
  const uint64_t ids_bytes = view.payloadBytes() - sizeof(LogDigestPayload);
  return digest.reserved == 0 && ids_bytes == uint64_t{digest.count} * sizeof(SegmentId);
}

/// Whether lengths and fixed parts are such that users of this type may read the payload without looking again.
bool hasFormOfType(const EntryView& view) {
  const bool keyed = view.keyBytes() > 0;
  switch (view.type()) {
    case EntryType::Object:
      return keyed;
    case EntryType::Tombstone:
      return keyed && !view.hasExpiry() && view.payloadBytes() == sizeof(TombstonePayload);
    case EntryType::SegmentHeader:
      return !keyed && !view.hasExpiry() && view.payloadBytes() == sizeof(SegmentHeaderPayload);
    case EntryType::LogDigest:
      return !keyed && !view.hasExpiry() && isDigestForm(view);
    case EntryType::SafeVersion:
      return !keyed && !view.hasExpiry() && view.payloadBytes() == sizeof(SafeVersionPayload);
    case EntryType::ResultRecord:
      return !keyed && !view.hasExpiry() && view.payloadBytes() >= sizeof(ResultRecordPayload);
  }
  return false;
}

bool isKnownType(uint8_t flags) {
  const uint8_t type = flags & kTypeMask;
  return (flags & kReservedFlag) == 0 && type >= static_cast<uint8_t>(EntryType::Object) &&
         type <= static_cast<uint8_t>(EntryType::ResultRecord);
}

}  // namespace

std::string_view name(DecodeError error) {
  switch (error) {
    case DecodeError::None:
      return "none";
    case DecodeError::Truncated:
      return "truncated";
    case DecodeError::BadType:
      return "bad type";
    case DecodeError::BadLength:
      return "bad length";
    case DecodeError::BadPadding:
      return "bad padding";
    case DecodeError::BadChecksum:
      return "bad checksum";
  }
  return "unknown";
}

DecodeError decodeEntry(ByteSpan bytes, EntryView& view) {
  if (bytes.size() < kEntryHeaderBytes) return DecodeError::Truncated;
  const EntryView entry(bytes.data());
  if (!isKnownType(entry.flags())) return DecodeError::BadType;
  if (entry.alignedBytes() > bytes.size()) return DecodeError::Truncated;
  if (!hasFormOfType(entry)) return DecodeError::BadLength;
  const ByteSpan padding = bytes.subspan(entry.bytes(), entry.alignedBytes() - entry.bytes());
  if (!std::all_of(padding.begin(), padding.end(), [](std::byte b) { return b == std::byte{0}; })) {
    return DecodeError::BadPadding;
  }
  if (!entry.verify()) return DecodeError::BadChecksum;
  view = entry;
  return DecodeError::None;
}

}  // namespace ramcore::log
