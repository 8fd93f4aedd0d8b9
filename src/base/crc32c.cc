#include "base/crc32c.h"

#include <isa-l/crc.h>

namespace ramcore {

uint32_t crc32cLong(ByteSpan bytes, uint32_t crc) {
  // ISA-L takes and returns the raw register, an int length and a non-const pointer that it only reads.
  uint32_t state = ~crc;
  while (!bytes.empty()) {
    const size_t now = bytes.size() < (size_t{1} << 30) ? bytes.size() : (size_t{1} << 30);
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    state = crc32_iscsi(data, static_cast<int>(now), state);
    bytes = bytes.subspan(now);
  }
  return ~state;
}

}  // namespace ramcore
