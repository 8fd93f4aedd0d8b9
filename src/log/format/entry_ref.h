#pragma once

#include <compare>
#include <cstdint>

#include "base/check.h"

namespace ramcore::log {

/// Where an entry lies in LogMemory: a 40-bit offset in units of 8 bytes, so 8 TB. 0 is "none"; the first 64 bytes of
/// the memory never hold an entry. A value: copying it pins nothing. It is good as long as the memory behind it is:
/// inside the read section in which it was found, or while a pin that was taken in that section is held (see
/// README.md).
class EntryRef {
 public:
  static constexpr int kBits = 40;
  static constexpr uint64_t kUnitBytes = 8;
  static constexpr uint64_t kFirstBytes = 64;  ///< bytes at the start of the memory that are never part of an entry
  static constexpr uint64_t kMemoryBytesMax = (uint64_t{1} << kBits) * kUnitBytes;

  constexpr EntryRef() = default;
  /// @param offset_bytes  from the base of LogMemory; a multiple of 8, at least kFirstBytes, below kMemoryBytesMax.
  static constexpr EntryRef fromOffset(uint64_t offset_bytes) {
    RC_DCHECK(offset_bytes % kUnitBytes == 0 && offset_bytes >= kFirstBytes && offset_bytes < kMemoryBytesMax);
    return EntryRef(offset_bytes / kUnitBytes);
  }
  /// The inverse of `bits()`, for index slots. Only the low 40 bits are looked at.
  static constexpr EntryRef fromBits(uint64_t bits) { return EntryRef(bits & ((uint64_t{1} << kBits) - 1)); }

  constexpr uint64_t bits() const { return bits_; }
  constexpr uint64_t offsetBytes() const { return bits_ * kUnitBytes; }
  constexpr explicit operator bool() const { return bits_ != 0; }
  constexpr auto operator<=>(const EntryRef&) const = default;

 private:
  constexpr explicit EntryRef(uint64_t bits) : bits_(bits) {}
  uint64_t bits_ = 0;
};

}  // namespace ramcore::log
