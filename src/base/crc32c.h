#pragma once

#include <nmmintrin.h>

#include "base/bytes.h"

namespace ramcore {

/// CRC32C (Castagnoli) of `bytes`, continuing from `crc` (0 to start): crc32c(b, crc32c(a)) is that of a followed by b.
///
/// Short inputs use the SSE4.2 instruction inline (13 GB/s at 100 B); from kCrcLongBytes on ISA-L is used, which
/// interleaves three streams. Any thread; never reads beyond `bytes`.
inline constexpr size_t kCrcLongBytes = 1024;
uint32_t crc32cLong(ByteSpan bytes, uint32_t crc);

inline uint32_t crc32c(ByteSpan bytes, uint32_t crc = 0) {
  if (bytes.size() >= kCrcLongBytes) return crc32cLong(bytes, crc);
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  uint64_t state = static_cast<uint32_t>(~crc);
  for (; left >= 8; left -= 8, at += 8) state = _mm_crc32_u64(state, loadAs<uint64_t>(at));
  auto narrow = static_cast<uint32_t>(state);
  if (left & 4) {
    narrow = _mm_crc32_u32(narrow, loadAs<uint32_t>(at));
    at += 4;
  }
  if (left & 2) {
    narrow = _mm_crc32_u16(narrow, loadAs<uint16_t>(at));
    at += 2;
  }
  if (left & 1) narrow = _mm_crc32_u8(narrow, static_cast<uint8_t>(*at));
  return ~narrow;
}

/// CRC32C of the 8 or 2 bytes of one word, continuing from `crc`.
inline uint32_t crc32cOf(uint64_t word, uint32_t crc = 0) { return ~static_cast<uint32_t>(_mm_crc32_u64(~crc, word)); }
inline uint32_t crc32cOf(uint16_t word, uint32_t crc = 0) { return ~_mm_crc32_u16(~crc, word); }

}  // namespace ramcore
