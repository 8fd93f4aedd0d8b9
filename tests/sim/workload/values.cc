#include "sim/workload/values.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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
  std::string value = integerBytes(id);
  value.reserve(value_bytes);
  Prng filler(id);
  while (value.size() < value_bytes) {
    const std::string more = integerBytes(filler.next());
    value.append(more, 0, std::min<size_t>(8, value_bytes - value.size()));
  }
  return value;
}

std::string integerBytes(uint64_t number) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(number >> (8 * i));
  return bytes;
}

ObservedValue observe(std::string_view value) {
  if (value.size() == 8) return {loadLittleEndian(value), true};
  uint64_t hash = 0x2545f4914f6cdd1d ^ value.size();
  for (size_t i = 0; i < value.size(); i += 8) {
    hash = Prng(hash ^ loadLittleEndian(value.substr(i, 8))).next();
  }
  return {hash, false};
}

}  // namespace ramcore::sim
