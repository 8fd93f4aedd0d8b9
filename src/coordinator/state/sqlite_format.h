#pragma once

// What stands where in the coordinator's SQLite file: for the code that opens it, and the code that copies it.
#include <cstdint>
#include <string>

namespace ramcore::coordinator {

// "RCco": tells our files from other SQLite files.
inline constexpr int kApplicationId = 0x5243636f;
inline constexpr const char* kFileName = "coordinator.sqlite";
inline constexpr const char* kLockName = "coordinator.lock";

// Keys of the store itself. The coordinator's own keys never begin with '!'. Their values are text, numbers in decimal.
inline constexpr const char* kClusterKey = "!cluster";
inline constexpr const char* kClusterNameKey = "!cluster-name";
inline constexpr const char* kFormatKey = "!format";
inline constexpr const char* kLeadershipKey = "!leader";
inline constexpr const char* kChangesKey = "!changes";

/// Returns false unless the text is a number in decimal with at most 19 digits.
inline bool parseNumber(const std::string& text, uint64_t& value) {
  if (text.empty() || text.size() > 19) return false;
  value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return true;
}

}  // namespace ramcore::coordinator
