#include "transport/datagram/mac_address.h"

#include <charconv>
#include <system_error>

namespace ramcore::transport::datagram {

std::string MacAddress::toString() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    if (!text.empty()) text += ':';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::optional<MacAddress> MacAddress::parse(std::string_view text) {
  MacAddress address;
  if (text.size() != 17) return std::nullopt;
  for (size_t i = 0; i < address.bytes.size(); ++i) {
    const char* const at = text.data() + 3 * i;
    if (i != 0 && at[-1] != ':') return std::nullopt;
    const auto [end, error] = std::from_chars(at, at + 2, address.bytes[i], 16);
    if (error != std::errc() || end != at + 2) return std::nullopt;
  }
  return address;
}

}  // namespace ramcore::transport::datagram
