#include "tools/support/display.h"

#include <array>
#include <cstdio>

namespace ramcore::tools {
namespace {
constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
}  // namespace

std::string formatBytes(uint64_t bytes) {
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  std::array<char, 32> text{};
  const bool is_whole = value == static_cast<double>(static_cast<uint64_t>(value));
  std::snprintf(text.data(), text.size(), is_whole ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text.data();
}

std::string formatSize(uint64_t bytes) {
  size_t unit = 0;
  for (; bytes != 0 && bytes % 1024 == 0 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return std::to_string(bytes) + (unit == 0 ? "" : kUnits[unit]);
}

std::string formatServer(ServerId id) { return id ? std::to_string(id.value) : "none"; }

std::string_view stateOf(const client::TabletInfo& tablet) {
  if (!tablet.is_available) return "unavailable";
  return tablet.is_moving ? "moving" : "normal";
}

}  // namespace ramcore::tools
