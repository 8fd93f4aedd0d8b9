#pragma once

#include <atomic>
#include <bit>
#include <string_view>

#include "base/check.h"
#include "base/crc32c.h"
#include "log/format/segment_format.h"

namespace ramcore::log {

/// What a copy keeps of an entry that names a segment or carries a result.
struct Keep {
  bool name = true;
  bool result = true;
};

/// One entry where it lies. Borrows the bytes. The lengths in its header are trusted: a view is made either of an entry
/// that our own log wrote, or by `decodeEntry`, which checked them.
class EntryView {
 public:
  EntryView() = default;
  explicit EntryView(const std::byte* at) : at_(at) {}

  explicit operator bool() const { return at_ != nullptr; }
  const std::byte* address() const { return at_; }

  EntryType type() const { return static_cast<EntryType>(flags() & kTypeMask); }
  uint8_t flags() const { return static_cast<uint8_t>(at_[0]); }
  bool hasExpiry() const { return (flags() & kHasExpiry) != 0; }
  bool namesSegment() const { return (flags() & kNamesSegment) != 0; }
  bool carriesResult() const { return (flags() & kCarriesResult) != 0; }
  bool groupContinues() const { return (flags() & kGroupContinues) != 0; }
  EntryState state() const {
    auto& byte = const_cast<uint8_t&>(reinterpret_cast<const uint8_t&>(at_[1]));
    return static_cast<EntryState>(std::atomic_ref<uint8_t>(byte).load(std::memory_order_acquire));
  }
  /// For an object that carries a result: the result is not needed any more. True also if one bit of the state has
  /// flipped.
  bool isAcknowledged() const { return isAcknowledgedState(static_cast<uint8_t>(state())); }
  static bool isAcknowledgedState(uint8_t state) {
    return std::popcount(static_cast<uint8_t>(state ^ static_cast<uint8_t>(EntryState::Acknowledged))) <= 1;
  }
  uint32_t keyBytes() const { return loadAs<uint16_t>(at_ + offsetof(EntryHeader, key_bytes)); }
  uint32_t payloadBytes() const {
    const std::byte* from = at_ + offsetof(EntryHeader, payload_bytes);
    return loadAs<uint16_t>(from) | static_cast<uint32_t>(from[2]) << 16;
  }
  TableId table() const { return TableId(loadAs<uint32_t>(at_ + offsetof(EntryHeader, table))); }
  uint32_t crc() const { return loadAs<uint32_t>(at_ + offsetof(EntryHeader, crc)); }
  Version version() const {
    // The byte before the version belongs to the checksum; shifting it out is cheaper than a 7-byte copy.
    return loadAs<uint64_t>(at_ + offsetof(EntryHeader, version) - 1) >> 8;
  }
  /// The segment in which the entry lay that died by this one; only if namesSegment().
  SegmentId namedSegment() const {
    return SegmentId(loadAs<uint32_t>(at_ + kEntryHeaderBytes) |
                     uint64_t{static_cast<uint8_t>(at_[kEntryHeaderBytes + 4])} << 32);
  }
  /// Only if carriesResult().
  CarriedResult carriedResult() const {
    const std::byte* const at = at_ + keyOffset() - kCarriedResultBytes;
    const uint64_t sequence = loadAs<uint32_t>(at + 8) | uint64_t{loadAs<uint16_t>(at + 12)} << 32;
    return {.client = ClientId(loadAs<uint64_t>(at)),
            .sequence = Sequence(sequence),
            .acknowledged = Sequence(sequence - loadAs<uint32_t>(at + 14)),
            .opcode = static_cast<uint8_t>(at[18])};
  }
  ByteSpan key() const { return {at_ + keyOffset(), keyBytes()}; }
  ByteSpan payload() const { return {at_ + keyOffset() + keyBytes(), payloadBytes()}; }
  /// Seconds since 1970 at which the object is absent; only if hasExpiry().
  uint32_t expiry() const { return loadAs<uint32_t>(at_ + keyOffset() + keyBytes() + payloadBytes()); }

  /// Header to expiry, without the zeros behind.
  uint32_t bytes() const {
    return entryBytes(keyBytes(), payloadBytes(), hasExpiry(), namesSegment(), carriesResult());
  }
  /// Distance to the next entry.
  uint32_t alignedBytes() const { return static_cast<uint32_t>(alignUp(bytes(), kEntryAlignment)); }

  /// The alignedBytes() of a copy: see copyEntry().
  uint32_t copyBytes(Keep keep) const {
    return alignedEntryBytes(keyBytes(), payloadBytes(), hasExpiry(), keep.name && namesSegment(),
                             keep.result && carriesResult());
  }
  /// The part of alignedBytes() that the carried result takes.
  uint32_t resultBytes() const {
    return carriesResult() ? alignedBytes() - copyBytes({.name = true, .result = false}) : 0;
  }

  /// The payload as a structure of fixed form. The caller knows from the type (and from decodeEntry, if the bytes are
  /// foreign) that it is there.
  template <Fixed T>
  T payloadAs() const {
    RC_DCHECK(payloadBytes() >= sizeof(T));
    return loadAs<T>(payload().data());
  }

  /// Computes the checksum that the header ought to have. Cost: 12 ns for a 150-byte entry.
  uint32_t computeCrc() const {
    // The type and the bytes between state and checksum are put together in registers: in memory they would have to be
    // stored before they could be loaded as words.
    constexpr uint32_t kFirst = offsetof(EntryHeader, state) + 1;
    const uint64_t first = loadAs<uint64_t>(at_ + kFirst) << 8 | static_cast<uint8_t>(at_[0]);
    const uint32_t crc = crc32cOf(loadAs<uint16_t>(at_ + kFirst + 7), crc32cOf(first));
    constexpr uint32_t kRest = offsetof(EntryHeader, version);
    static_assert(kFirst + 9 == offsetof(EntryHeader, crc));
    return crc32c(ByteSpan(at_ + kRest, bytes() - kRest), crc);
  }
  bool verify() const { return computeCrc() == crc(); }

  /// Continues the checksum over all headers of a segment, which its certificates carry; the state byte counts as zero.
  uint32_t chainHeader(uint32_t crc) const {
    std::byte header[kEntryHeaderBytes];
    header[0] = at_[0];
    header[1] = std::byte{0};
    std::memcpy(header + 2, at_ + 2, kEntryHeaderBytes - 2);
    return crc32c(ByteSpan(header, sizeof(header)), crc);
  }

 private:
  // Computed without a branch, because readers call this to compare keys, and which entries name a segment or carry a
  // result cannot be predicted.
  uint32_t keyOffset() const {
    return kEntryHeaderBytes + (flags() / kNamesSegment & 1U) * kNamedSegmentBytes +
           (flags() / kCarriesResult & 1U) * kCarriedResultBytes;
  }

  const std::byte* at_ = nullptr;
};

/// Why bytes are not an entry.
enum class DecodeError : uint8_t {
  None,
  Truncated,   ///< fewer bytes than a header, or than the header announces
  BadType,     ///< type or flags unknown
  BadLength,   ///< lengths that this type cannot have
  BadPadding,  ///< no zeros between this entry and the next
  BadChecksum,
};
std::string_view name(DecodeError error);

/// Checks that `bytes` begins with an entry: bounds, type, the form of its payload, padding and checksum.
///
/// @param bytes  untrusted; may be longer than the entry. Any alignment.
/// @param view   set on success; borrows `bytes`.
/// Any thread. Reads nothing outside `bytes`.
DecodeError decodeEntry(ByteSpan bytes, EntryView& view);

}  // namespace ramcore::log
