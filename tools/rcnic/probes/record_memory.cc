#include "tools/rcnic/probes/record_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "runtime/random.h"

namespace ramcore::rcnic {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kCacheLineBytes = 64;

}  // namespace

RecordMemory::RecordMemory(std::byte* mapping, size_t mapped_bytes, size_t bytes)
    : mapping_(mapping),
      mapped_bytes_(mapped_bytes),
      base_(reinterpret_cast<std::byte*>(alignUp(reinterpret_cast<uintptr_t>(mapping), kHugePageBytes))),
      bytes_(bytes) {}

RecordMemory::RecordMemory(RecordMemory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_bytes_(other.mapped_bytes_),
      base_(other.base_),
      bytes_(other.bytes_) {}

RecordMemory::~RecordMemory() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_bytes_);
}

Outcome<RecordMemory> RecordMemory::open(size_t bytes, uint32_t page_kb) {
  const size_t mapped_bytes = bytes + kHugePageBytes;
  void* const mapping = ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    return Failure{Status::NoSpace, "cannot map " + std::to_string(mapped_bytes) +
                                        " bytes for records: " + std::strerror(errno) + "; give less --memory-mb"};
  }
  RecordMemory memory(static_cast<std::byte*>(mapping), mapped_bytes, bytes);
  // The advice has to come before the memory is touched. Without huge pages in the kernel it changes nothing, and
  // hugePercent() says so.
  static_cast<void>(::madvise(memory.base_, bytes, page_kb > 4 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE));
  std::memset(memory.base_, 0x5a, bytes);
  return memory;
}

uint32_t RecordMemory::hugePercent() const {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool is_ours = false;
  uint64_t huge_bytes = 0;
  while (std::getline(maps, line)) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    uint64_t kilobytes = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2) {
      const auto ours = reinterpret_cast<uintptr_t>(base_);
      is_ours = begin < ours + bytes_ && end > ours;
    } else if (is_ours && std::sscanf(line.c_str(), "AnonHugePages: %" SCNu64, &kilobytes) == 1) {
      huge_bytes += kilobytes * 1024;
    }
  }
  return static_cast<uint32_t>(std::min<uint64_t>(100, huge_bytes * 100 / bytes_));
}

std::vector<Piece> RecordMemory::choosePieces(const Shape& shape, uint32_t count, uint64_t seed) const {
  runtime::Random random(seed);
  std::vector<Piece> pieces;
  pieces.reserve(size_t{count} * shape.pieces());
  const auto anywhere = [&](uint64_t piece_bytes) {
    return base_ + random.below((bytes_ - piece_bytes) / kCacheLineBytes) * kCacheLineBytes;
  };
  for (uint32_t i = 0; i < count; ++i) {
    if (shape.base_bytes != 0) pieces.push_back({anywhere(shape.base_bytes), shape.base_bytes});
    std::byte* next = anywhere(uint64_t{shape.record_bytes} * shape.records);
    for (uint32_t record = 0; record < shape.records; ++record) {
      std::byte* const at = shape.layout == Layout::Scattered ? anywhere(shape.record_bytes) : next;
      pieces.push_back({at, shape.record_bytes});
      next += shape.record_bytes;
    }
  }
  return pieces;
}

}  // namespace ramcore::rcnic
