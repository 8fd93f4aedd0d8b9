#include "log/format/entry_view.h"

namespace ramcore::log {

namespace {

bool isDigestForm(const EntryView& view) {
  if (view.payloadBytes() < sizeof(LogDigestPayload)) return false;
  const auto digest = view.payloadAs<LogDigestPayload>();
  const uint64_t ids_bytes = view.payloadBytes() - sizeof(LogDigestPayload);
  return digest.reserved == 0 && ids_bytes == uint64_t{digest.count} * sizeof(SegmentId);
}

bool isCarriedForm(const CarriedResult& result) {
  // If the stored distance is greater than the sequence, `acknowledged` has wrapped around.
  return result.client && result.acknowledged < result.sequence;
}

bool isKilling(EntryType type) { return type == EntryType::Object || type == EntryType::Tombstone; }

/// Whether lengths and fixed parts are such that users of this type may read the payload without checking it again.
bool hasFormOfType(const EntryView& view) {
  const bool keyed = view.keyBytes() > 0;
  if (view.namesSegment() && !view.namedSegment()) return false;
  if (view.carriesResult() && !isCarriedForm(view.carriedResult())) return false;
  switch (view.type()) {
    case EntryType::Object:
      return keyed;
    case EntryType::Tombstone:
      return keyed && !view.hasExpiry() && view.namesSegment() && view.payloadBytes() == 0;
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
  if ((flags & kCarriesResult) != 0 && static_cast<EntryType>(type) != EntryType::Object) return false;
  if ((flags & kNamesSegment) != 0) return isKilling(static_cast<EntryType>(type));
  return type >= static_cast<uint8_t>(EntryType::Object) && type <= static_cast<uint8_t>(EntryType::ResultRecord);
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
  const uint32_t entry_bytes = entry.bytes();
  const uint64_t aligned_bytes = alignUp(uint64_t{entry_bytes}, kEntryAlignment);
  if (aligned_bytes > bytes.size()) return DecodeError::Truncated;
  if (!hasFormOfType(entry)) return DecodeError::BadLength;
  if (aligned_bytes != entry_bytes) {
    // The zeros are the upper bytes of the last word.
    const auto last = loadAs<uint64_t>(bytes.data() + aligned_bytes - kEntryAlignment);
    if (last >> (entry_bytes % kEntryAlignment * 8) != 0) return DecodeError::BadPadding;
  }
  if (!entry.verify()) return DecodeError::BadChecksum;
  view = entry;
  return DecodeError::None;
}

}  // namespace ramcore::log
