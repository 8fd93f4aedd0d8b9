/// Untrusted segment bytes: the walk must stay inside them, and what it shows must be whole.
///
/// Each input is read twice: as it is, and with every entry's checksum repaired, because a fuzzer does not guess
/// CRC32C.

#include <cstdlib>
#include <vector>

#include "fuzz/planted.h"
#include "log/format/log_reader.h"

namespace {

using namespace ramcore;

void checkEntry(const log::EntryView& entry, ByteSpan bytes) {
  const std::byte* const begin = bytes.data();
  const std::byte* const end = begin + bytes.size();
  if (entry.address() < begin || entry.address() + entry.alignedBytes() > end) std::abort();
  if (entry.version() > kVersionMax || entry.key().size() > log::kKeyBytesMax) std::abort();
  uint32_t sum = 0;
  for (const std::byte b : entry.key()) sum += static_cast<uint8_t>(b);
  for (const std::byte b : entry.payload()) sum += static_cast<uint8_t>(b);
  if (entry.hasExpiry()) sum += entry.expiry();
  volatile uint32_t sink = sum;
  static_cast<void>(sink);
  fuzz::crashIfPlanted(entry.hasExpiry() && entry.payload().empty());
}

bool decode(ByteSpan bytes) {
  log::SegmentReader reader(bytes);
  uint32_t before = 0;
  for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
    if (reader.offset() <= before || reader.offset() > bytes.size()) std::abort();
    before = reader.offset();
    for (const log::EntryView& entry : group) checkEntry(entry, bytes);
    if (group.back().groupContinues()) std::abort();
  }
  log::SegmentPreamble preamble;
  if (log::readPreamble(bytes, preamble) == Status::Ok && preamble.has_digest) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < preamble.digest.payload.count; ++i) sum += preamble.digest.at(i).value;
    volatile uint64_t sink = sum;
    static_cast<void>(sink);
  }
  return reader.end() == log::WalkEnd::Clean;
}

/// Gives every entry that would be read the checksum that it ought to have.
void repair(std::vector<std::byte>& bytes) {
  size_t at = 0;
  while (bytes.size() - at >= log::kEntryHeaderBytes) {
    const log::EntryView entry(bytes.data() + at);
    if (entry.alignedBytes() > bytes.size() - at) return;
    storeAs(bytes.data() + at + offsetof(log::EntryHeader, crc), entry.computeCrc());
    at += entry.alignedBytes();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of exactly this length, so that AddressSanitizer sees one byte too many.
  std::vector<std::byte> bytes(size);
  if (size != 0) std::memcpy(bytes.data(), data, size);
  decode(bytes);
  repair(bytes);
  decode(bytes);
  return 0;
}
