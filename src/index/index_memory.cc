#include "index/index_memory.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/check.h"

#include <sys/mman.h>

namespace ramcore::index {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kStepBytesMin = 64 << 10;
constexpr uint64_t kStepShare = 64;
#if defined(MADV_COLLAPSE)
constexpr int kAdviceCollapse = MADV_COLLAPSE;
#else
constexpr int kAdviceCollapse = 25;  // Linux 6.1; older headers do not have it
#endif

uint64_t stepBytes(uint64_t used_bytes) {
  return alignUp(std::clamp(used_bytes / kStepShare, kStepBytesMin, IndexMemory::kHugePageBytes), kPageBytes);
}

// Parts begin at huge pages where they are large enough to use one, else at pages: tests reserve kilobytes.
uint64_t partBytes(uint64_t bytes) {
  return alignUp(bytes, bytes >= IndexMemory::kHugePageBytes ? IndexMemory::kHugePageBytes : kPageBytes);
}

}  // namespace

Outcome<std::unique_ptr<IndexMemory>> IndexMemory::reserve(uint64_t bytes) {
  RC_CHECK(bytes >= kReserveBytesMin);
  const uint64_t bucket_count = bytes / 3 * 2 / sizeof(Line);
  const uint64_t line_count = std::min(bytes / 3 / (sizeof(Line) + sizeof(uint32_t)), kLinesMax);
  const uint64_t reserved_bytes = partBytes(bucket_count * sizeof(Line)) + partBytes(line_count * sizeof(Line)) +
                                  partBytes(line_count * sizeof(uint32_t)) + kHugePageBytes;
  void* base =
      mmap(nullptr, reserved_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return Failure{Status::NoSpace, "cannot reserve " + std::to_string(reserved_bytes >> 20) +
                                        " MB of addresses for the hash index: raise the limit on virtual memory "
                                        "(ulimit -v) or lower --memory"};
  }
  return std::unique_ptr<IndexMemory>(
      new IndexMemory(static_cast<std::byte*>(base), reserved_bytes, bucket_count, line_count));
}

IndexMemory::IndexMemory(std::byte* base, uint64_t reserved_bytes, uint64_t bucket_count, uint64_t line_count)
    : base_(base), reserved_bytes_(reserved_bytes) {
  const uint64_t skipped =
      alignUp(reinterpret_cast<uintptr_t>(base), kHugePageBytes) - reinterpret_cast<uintptr_t>(base);
  bucket_part_.base = base + skipped;
  bucket_part_.bytes = partBytes(bucket_count * sizeof(Line));
  line_part_.base = bucket_part_.base + bucket_part_.bytes;
  line_part_.bytes = partBytes(line_count * sizeof(Line));
  buckets_ = {reinterpret_cast<Line*>(bucket_part_.base), bucket_count};
  lines_ = {reinterpret_cast<Line*>(line_part_.base), line_count};
  links_ = {reinterpret_cast<uint32_t*>(line_part_.base + line_part_.bytes), line_count};

  // Advice: a kernel that does not know it loses nothing but speed.
  madvise(base_, reserved_bytes_, MADV_DONTDUMP);
  madvise(base_, reserved_bytes_, MADV_DONTFORK);
  madvise(base_, reserved_bytes_, MADV_NOHUGEPAGE);
  if (bucket_part_.bytes > kHugeFromBytes) {
    madvise(bucket_part_.base + kHugeFromBytes, bucket_part_.bytes - kHugeFromBytes, MADV_HUGEPAGE);
  }
}

IndexMemory::~IndexMemory() { munmap(base_, reserved_bytes_); }

uint64_t IndexMemory::prefaultPart(Part& part, uint64_t used_bytes) {
  const uint64_t step = stepBytes(used_bytes);
  const uint64_t populated = part.populated_bytes.load(std::memory_order_relaxed);
  const uint64_t wanted = std::min(part.bytes, alignUp(used_bytes, kPageBytes) + step);
  if (populated >= wanted) return 0;
  // Begins at the page in use: populating pages that are in use already costs nothing.
  const uint64_t from = std::max(populated, used_bytes / kPageBytes * kPageBytes);
  const uint64_t bytes = std::min(wanted - from, step + kPageBytes);
  madvise(part.base + from, bytes, MADV_POPULATE_WRITE);
  part.populated_bytes.store(from + bytes, std::memory_order_relaxed);
  return bytes;
}

uint64_t IndexMemory::prefault(uint64_t buckets_used, uint64_t lines_touched) {
  return prefaultPart(bucket_part_, buckets_used * sizeof(Line)) +
         prefaultPart(line_part_, lines_touched * sizeof(Line));
}

// Due when less than half a step is left, so that a growing index asks once for many pages.
bool IndexMemory::isPartDue(const Part& part, uint64_t used_bytes) {
  const uint64_t wanted = std::min(part.bytes, used_bytes + stepBytes(used_bytes) / 2);
  return part.populated_bytes.load(std::memory_order_relaxed) < wanted;
}

bool IndexMemory::prefaultIsDue(uint64_t buckets_used, uint64_t lines_touched) const {
  return isPartDue(bucket_part_, buckets_used * sizeof(Line)) || isPartDue(line_part_, lines_touched * sizeof(Line));
}

uint64_t IndexMemory::collapsePart(Part& part, uint64_t used_bytes) {
  if (!isCollapseDue(part, used_bytes)) return 0;
  const uint64_t from = part.collapsed_bytes.load(std::memory_order_relaxed);
  std::byte* const region = part.base + from;
  RC_CHECK(reinterpret_cast<uintptr_t>(region) % kHugePageBytes == 0);
  // Both calls are advice: the first lets the kernel's daemon do later what the second could not do at once. The kernel
  // is not asked twice for the same memory: otherwise it would be asked for ever if there are no free huge pages.
  madvise(region, kHugePageBytes, MADV_HUGEPAGE);
  madvise(region, kHugePageBytes, kAdviceCollapse);
  part.collapsed_bytes.store(from + kHugePageBytes, std::memory_order_relaxed);
  return kHugePageBytes;
}

uint64_t IndexMemory::collapse(uint64_t buckets_filled, uint64_t lines_touched) {
  const uint64_t bytes = collapsePart(bucket_part_, buckets_filled * sizeof(Line));
  return bytes != 0 ? bytes : collapsePart(line_part_, lines_touched * sizeof(Line));
}

bool IndexMemory::isCollapseDue(const Part& part, uint64_t used_bytes) {
  return part.collapsed_bytes.load(std::memory_order_relaxed) + kHugePageBytes <= used_bytes;
}

bool IndexMemory::collapseIsDue(uint64_t buckets_filled, uint64_t lines_touched) const {
  return isCollapseDue(bucket_part_, buckets_filled * sizeof(Line)) ||
         isCollapseDue(line_part_, lines_touched * sizeof(Line));
}

uint64_t IndexMemory::bytesCommitted(uint64_t buckets_used, uint64_t lines_touched) const {
  const auto pages = [](uint64_t used_bytes, uint64_t populated_bytes) {
    return alignUp(std::max(used_bytes, populated_bytes), kPageBytes);
  };
  uint64_t bucket_bytes =
      pages(buckets_used * sizeof(Line), bucket_part_.populated_bytes.load(std::memory_order_relaxed));
  if (bucket_bytes > kHugeFromBytes) bucket_bytes = alignUp(bucket_bytes, kHugePageBytes);
  return bucket_bytes +
         pages(lines_touched * sizeof(Line), line_part_.populated_bytes.load(std::memory_order_relaxed)) +
         alignUp(lines_touched * sizeof(uint32_t), kPageBytes);
}

}  // namespace ramcore::index
