#include "sim/workload/values.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/hash.h"
#include "sim/workload/prng.h"

namespace ramcore::sim {
namespace {

uint64_t loadLittleEndian(std::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes.size() && i < 8; ++i) {
    number |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return number;
}

void storeLittleEndian(uint64_t number, char* to, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) to[i] = static_cast<char>(number >> (8 * i));
}

}  // namespace

std::string keyBytes(HistoryKey key) {
  char text[40];
  std::snprintf(text, sizeof text, "key-%020llu", static_cast<unsigned long long>(key));
  // Lengths differ, so that entries of many sizes share segments.
  return text + std::string(key % 7 * 5, '.');
}

std::optional<HistoryKey> keyOfBytes(std::string_view bytes) {
  if (bytes.size() < 24 || bytes.substr(0, 4) != "key-") return std::nullopt;
  HistoryKey key = 0;
  for (const char digit : bytes.substr(4, 20)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    key = key * 10 + static_cast<HistoryKey>(digit - '0');
  }
  return keyBytes(key) == bytes ? std::optional(key) : std::nullopt;
}

std::string uniqueValueBytes(uint64_t id, uint32_t value_bytes) {
  if (value_bytes < 9) std::abort();
  std::string value(value_bytes, '\0');
  Prng filler(id);
  uint64_t word = id;
  for (size_t at = 0; at < value.size(); at += 8) {
    storeLittleEndian(word, value.data() + at, std::min<size_t>(8, value.size() - at));
    word = filler.next();
  }
  return value;
}

std::string integerBytes(uint64_t number) {
  std::string bytes(8, '\0');
  storeLittleEndian(number, bytes.data(), 8);
  return bytes;
}

ObservedValue observe(std::string_view value) {
  if (value.size() == 8) return {loadLittleEndian(value), true};
  return {fingerprint(asBytes(value), value.size()), false};
}

}  // namespace ramcore::sim
