#include "log/integrity/freed_marking.h"

#include <cstring>

#include "log/format/entry_view.h"

namespace ramcore::log {
namespace {

/// The bytes up to the next entry; 0: `bytes` do not begin with an entry.
uint32_t bytesOfEntry(ByteSpan bytes) {
  EntryView entry;
  const DecodeError error = decodeEntry(bytes, entry);
  if (error == DecodeError::None) return entry.alignedBytes();
  // The checksum does not cover the zeros, but it covers the lengths that say where they are.
  const EntryView padded(bytes.data());
  return error == DecodeError::BadPadding && padded.verify() ? padded.alignedBytes() : 0;
}

}  // namespace

uint32_t markSegmentFreed(const Segment& segment, const LogMemory& memory, uint32_t offset, uint32_t bytes_max,
                          uint64_t& entries_marked) {
  const uint32_t end = segment.committedBytes();
  uint32_t seen_bytes = 0;
  while (offset < end && seen_bytes < bytes_max) {
    const ByteSpan rest = segment.restOfExtent(offset);
    std::byte* const begin = memory.at(segment.refAt(offset));
    uint32_t at = 0;
    while (at < rest.size() && seen_bytes + at < bytes_max) {
      const uint32_t bytes = bytesOfEntry(rest.subspan(at));
      if (bytes == 0) {
        std::memset(begin + at, 0, rest.size() - at);
        at = static_cast<uint32_t>(rest.size());
        break;
      }
      std::byte& state = begin[at + offsetof(EntryHeader, state)];
      // Adapters may read the byte while it is written.
      std::atomic_ref<uint8_t>(reinterpret_cast<uint8_t&>(state))
          .store(static_cast<uint8_t>(EntryState::Freed), std::memory_order_release);
      ++entries_marked;
      at += bytes;
    }
    offset += at;
    seen_bytes += at;
  }
  return offset;
}

bool holdsBelievable(const Segment& segment) {
  for (uint32_t offset = 0; offset < segment.committedBytes();) {
    const ByteSpan rest = segment.restOfExtent(offset);
    const uint32_t bytes = bytesOfEntry(rest);
    if (bytes == 0) {
      // Where the next entry lies is not known before the next extent.
      offset += static_cast<uint32_t>(rest.size());
      continue;
    }
    const EntryView entry(rest.data());
    if (entry.type() == EntryType::Object && isKnown(entry.state()) && !isRefused(entry.state())) return true;
    offset += bytes;
  }
  return false;
}

}  // namespace ramcore::log
