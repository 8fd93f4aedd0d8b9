#pragma once

#include <string>

#include "base/bytes.h"

namespace ramcore::wire {

/// The bytes as hexadecimal digits, without the blanks that golden texts have between fields.
inline std::string hexOf(ByteSpan bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[static_cast<uint8_t>(byte) >> 4];
    text += kDigits[static_cast<uint8_t>(byte) & 15];
  }
  return text;
}

inline std::string withoutBlanks(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ') out += c;
  }
  return out;
}

}  // namespace ramcore::wire

/// The bytes of a fixed struct on the wire, field by field.
#define EXPECT_WIRE(value, golden) \
  EXPECT_EQ(::ramcore::wire::hexOf(::ramcore::bytesOf(value)), ::ramcore::wire::withoutBlanks(golden))
