#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace ramcore {

static_assert(std::endian::native == std::endian::little, "formats are little-endian and read in place");

using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;

inline ByteSpan asBytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
inline std::string_view asText(ByteSpan bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Reads a trivially copyable value from unaligned bytes. The caller has checked that there are sizeof(T) of them.
template <typename T>
  requires std::is_trivially_copyable_v<T>
inline T loadAs(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// Writes a trivially copyable value to unaligned bytes.
template <typename T>
  requires std::is_trivially_copyable_v<T>
inline void storeAs(std::byte* to, const T& value) {
  std::memcpy(to, &value, sizeof(T));
}

/// `bytes` rounded up to a multiple of `alignment`, a power of two.
constexpr uint64_t alignUp(uint64_t bytes, uint64_t alignment) { return (bytes + alignment - 1) & ~(alignment - 1); }
constexpr bool isAligned(uint64_t value, uint64_t alignment) { return (value & (alignment - 1)) == 0; }

/// A struct whose bytes are its value: may be sent, stored and compared byte by byte. No hidden padding.
template <typename T>
concept Fixed = std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>;

template <Fixed T>
inline ByteSpan bytesOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace ramcore
