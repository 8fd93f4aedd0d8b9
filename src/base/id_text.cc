#include "base/id_text.h"

#include <array>
#include <cinttypes>
#include <cstdio>

namespace ramcore {

std::string hexText(uint64_t value) {
  std::array<char, 20> text{};
  std::snprintf(text.data(), text.size(), "0x%016" PRIx64, value);
  return text.data();
}

}  // namespace ramcore
