#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace ramcore {

/// The names of an enumeration's values, as the source writes them, so that each stands there once. Made when the
/// source is compiled. Values beyond kCount, and those that no enumerator has, have no name.
/// @tparam Enum   scoped, with values from 0 on
/// @tparam kCount  up to 256: each value costs compile time
template <typename Enum, size_t kCount>
class EnumNames {
 public:
  /// The name of a value, or `unnamed` if it has none.
  static constexpr std::string_view of(Enum value, std::string_view unnamed) {
    const auto index = static_cast<uint64_t>(value);
    return index < kCount && !kNames[index].empty() ? kNames[index] : unnamed;
  }

 private:
  static_assert(kCount <= 256);

  // Clang ends the text with "value = ramcore::Status::Ok]" if there is such an enumerator, else with
  // "value = (ramcore::Status)7]".
  template <Enum value>
  static constexpr std::string_view nameOf() {
    std::string_view text = __PRETTY_FUNCTION__;
    text = text.substr(text.rfind("value = ") + 8);
    if (text.starts_with('(')) return {};
    text.remove_suffix(1);
    return text.substr(text.rfind(':') + 1);
  }
  template <size_t... values>
  static constexpr std::array<std::string_view, kCount> all(std::index_sequence<values...>) {
    return {nameOf<static_cast<Enum>(values)>()...};
  }

  static constexpr std::array<std::string_view, kCount> kNames = all(std::make_index_sequence<kCount>());
};

}  // namespace ramcore
