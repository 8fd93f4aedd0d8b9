#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace ramcore::wire {

/// A fixed struct of the wire that says itself whether an honest peer can have sent it: its reserved fields are zero,
/// and its enumerators are known. The reader checks what depends on more than the struct (bytes behind it, limits).
/// decode(), cursors and rpc::Request read no other structs.
template <typename T>
concept Message = Fixed<T> && requires(const T& message) {
  { message.isValid() } -> std::same_as<bool>;
};

/// Whether all bytes of a reserved field are zero.
template <size_t count>
constexpr bool isZero(const uint8_t (&bytes)[count]) {
  uint8_t any = 0;
  for (const uint8_t byte : bytes) any |= byte;
  return any == 0;
}

/// Reads a message at the start of `bytes`. Returns false if there are too few bytes, or it is not valid.
template <Message T>
[[nodiscard]] inline bool decode(ByteSpan bytes, T& out) {
  if (bytes.size() < sizeof(T)) return false;
  out = loadAs<T>(bytes.data());
  return out.isValid();
}

}  // namespace ramcore::wire
