#pragma once

#include <cstdint>
#include <cstdlib>

namespace ramcore::soak {

/// A number from the environment.
inline uint64_t asked(const char* variable, uint64_t otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

}  // namespace ramcore::soak
