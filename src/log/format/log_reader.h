#pragma once

#include <array>
#include <span>
#include <string_view>

#include "base/status.h"
#include "log/format/entry_view.h"

namespace ramcore::log {

/// Why a walk over a segment's bytes ended.
enum class WalkEnd : uint8_t {
  Clean,            ///< all bytes were whole groups
  BadEntry,         ///< error() says what is wrong with the bytes at offset() or behind in the same group
  IncompleteGroup,  ///< the bytes end inside a group
  GroupTooLong,     ///< more than kGroupEntriesMax entries claim to belong together
};
std::string_view name(WalkEnd end);

/// Walks over the bytes of a replica, or any other bytes that claim to be a segment: checks bounds, form and checksum
/// of every entry before showing it, and shows only whole groups. Ends at the first thing that is wrong.
///
/// The state bytes are not looked at. Borrows the bytes. One thread at a time.
class SegmentReader {
 public:
  /// @param bytes  from the segment's start to its (claimed) committed length. Untrusted.
  explicit SegmentReader(ByteSpan bytes) : bytes_(bytes) {}

  /// The next group, borrowed until the next call; empty at the end.
  std::span<const EntryView> nextGroup();

  /// Bytes of whole, valid groups so far.
  uint32_t offset() const { return offset_; }
  /// Entries shown so far.
  uint32_t entryCount() const { return entry_count_; }
  /// Checksum over the headers of all entries shown so far, as certificates carry it.
  uint32_t headersCrc() const { return headers_crc_; }
  /// Valid once nextGroup() returned nothing.
  WalkEnd end() const { return end_; }
  DecodeError error() const { return error_; }

 private:
  ByteSpan bytes_;
  uint32_t offset_ = 0;
  uint32_t entry_count_ = 0;
  uint32_t headers_crc_ = 0;
  WalkEnd end_ = WalkEnd::Clean;
  DecodeError error_ = DecodeError::None;
  std::array<EntryView, kGroupEntriesMax> group_;
};

/// The digest of a head, read from untrusted bytes.
struct DigestView {
  LogDigestPayload payload;
  ByteSpan ids;  ///< payload.count SegmentIds, unaligned

  SegmentId at(uint32_t index) const { return loadAs<SegmentId>(ids.data() + index * sizeof(SegmentId)); }
};

/// What a segment says about itself in its first entries.
struct SegmentPreamble {
  SegmentHeaderPayload header;
  bool has_digest = false;
  DigestView digest;
};

/// Reads header and digest. Corrupt: the first entries are not valid; WrongFormat: another kSegmentFormat.
/// @param bytes  untrusted; borrowed by the digest
Status readPreamble(ByteSpan bytes, SegmentPreamble& preamble);

}  // namespace ramcore::log
