#include "runtime/storage.h"

#include <algorithm>

namespace ramcore::runtime {

bool Storage::isValidName(std::string_view name) {
  constexpr size_t kNameBytesMax = 100;
  return !name.empty() && name.size() <= kNameBytesMax && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

}  // namespace ramcore::runtime
