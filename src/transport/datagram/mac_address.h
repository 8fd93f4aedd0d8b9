#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ramcore::transport::datagram {

/// The address of an Ethernet port.
struct MacAddress {
  std::array<uint8_t, 6> bytes{};

  auto operator<=>(const MacAddress&) const = default;
  bool isBroadcast() const { return *this == broadcast(); }
  /// "02:00:00:00:00:01".
  std::string toString() const;
  /// Six pairs of hexadecimal digits with colons between them.
  static std::optional<MacAddress> parse(std::string_view text);
  static MacAddress broadcast() { return {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}; }
};

}  // namespace ramcore::transport::datagram
