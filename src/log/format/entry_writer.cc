#include "log/format/entry_writer.h"

#include "base/check.h"

namespace ramcore::log {

uint32_t EntryInput::payloadBytes() const {
  uint64_t bytes = 0;
  for (const ByteSpan& piece : payload) bytes += piece.size();
  RC_CHECK_MSG(bytes <= kPayloadBytesMax, "services refuse oversized values at the door");
  return static_cast<uint32_t>(bytes);
}

uint32_t EntryInput::alignedBytes() const {
  return alignedEntryBytes(static_cast<uint32_t>(key.size()), payloadBytes(), expiry_s != 0, names(),
                           result != nullptr);
}

uint32_t EntryInput::resultBytes() const {
  if (result == nullptr) return 0;
  return alignedBytes() - alignedEntryBytes(static_cast<uint32_t>(key.size()), payloadBytes(), expiry_s != 0, names());
}

void writeEntry(std::byte* to, const EntryInput& input, bool group_continues, SegmentId named) {
  RC_CHECK(input.key.size() <= kKeyBytesMax && input.version <= kVersionMax);
  const uint32_t payload_bytes = input.payloadBytes();
  const bool has_expiry = input.expiry_s != 0;

  to[0] = static_cast<std::byte>(static_cast<uint8_t>(input.type) | (has_expiry ? kHasExpiry : 0) |
                                 (input.names() ? kNamesSegment : 0) | (input.result != nullptr ? kCarriesResult : 0) |
                                 (group_continues ? kGroupContinues : 0));
  to[1] = std::byte{0};
  storeAs(to + offsetof(EntryHeader, key_bytes), static_cast<uint16_t>(input.key.size()));
  std::memcpy(to + offsetof(EntryHeader, payload_bytes), &payload_bytes, 3);
  storeAs(to + offsetof(EntryHeader, table), input.table.value);
  std::memcpy(to + offsetof(EntryHeader, version), &input.version, 7);

  std::byte* at = to + kEntryHeaderBytes;
  const auto put = [&at](const void* from, size_t bytes) {
    if (bytes != 0) std::memcpy(at, from, bytes);
    at += bytes;
  };
  if (input.names()) put(&named, kNamedSegmentBytes);
  if (input.result != nullptr) {
    const CarriedResult& result = *input.result;
    RC_DCHECK(CarriedResult::canCarry(result.client, result.sequence, result.acknowledged));
    const uint64_t ahead = result.sequence.value - result.acknowledged.value;
    put(&result.client.value, 8);
    put(&result.sequence.value, 6);
    put(&ahead, 4);
    put(&result.opcode, 1);
  }
  put(input.key.data(), input.key.size());
  for (const ByteSpan& piece : input.payload) put(piece.data(), piece.size());
  if (has_expiry) put(&input.expiry_s, kExpiryBytes);

  const auto written = static_cast<uint64_t>(at - to);
  std::memset(at, 0, alignUp(written, kEntryAlignment) - written);
  storeAs(to + offsetof(EntryHeader, crc), EntryView(to).computeCrc());
}

void copyEntry(std::byte* to, const EntryView& entry, Keep keep) {
  const std::byte* from = entry.address();
  const bool names = keep.name && entry.namesSegment();
  const bool carries = keep.result && entry.carriesResult();
  const auto flags = static_cast<uint8_t>((entry.flags() & ~(kNamesSegment | kCarriesResult | kGroupContinues)) |
                                          (names ? kNamesSegment : 0) | (carries ? kCarriesResult : 0));
  if (flags == entry.flags()) {  // its checksum goes on protecting it
    to[0] = from[0];
    to[1] = std::byte{0};  // a death may be changing that of `from`
    std::memcpy(to + 2, from + 2, entry.alignedBytes() - 2);
    return;
  }
  RC_CHECK_MSG(entry.verify(), "the log's memory was overwritten");
  to[0] = static_cast<std::byte>(flags);
  to[1] = std::byte{0};
  std::memcpy(to + 2, from + 2, kEntryHeaderBytes - 2);
  from += kEntryHeaderBytes;
  std::byte* at = to + kEntryHeaderBytes;
  const auto part = [&](bool has, bool keeps, uint32_t bytes) {
    if (keeps) {
      std::memcpy(at, from, bytes);
      at += bytes;
    }
    if (has) from += bytes;
  };
  part(entry.namesSegment(), names, kNamedSegmentBytes);
  part(entry.carriesResult(), carries, kCarriedResultBytes);
  const auto rest = static_cast<size_t>(entry.address() + entry.bytes() - from);
  std::memcpy(at, from, rest);
  at += rest;
  const auto written = static_cast<uint64_t>(at - to);
  std::memset(at, 0, alignUp(written, kEntryAlignment) - written);
  storeAs(to + offsetof(EntryHeader, crc), EntryView(to).computeCrc());
}

void writeTombstoneBefore(std::byte* to, const EntryView& successor) {
  RC_DCHECK(successor.namesSegment() && successor.version() > 0);
  EntryInput tombstone;
  tombstone.type = EntryType::Tombstone;
  tombstone.table = successor.table();
  tombstone.version = successor.version() - 1;
  tombstone.key = successor.key();
  tombstone.dead = EntryRef::fromOffset(EntryRef::kFirstBytes);  // any entry; which segment is named is passed below
  writeEntry(to, tombstone, false, successor.namedSegment());
}

}  // namespace ramcore::log
