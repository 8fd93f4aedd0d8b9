#include "log/memory/log_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "log/format/segment_format.h"

namespace ramcore::log {

namespace {

constexpr uint64_t kPieceBytes = uint64_t{64} << 20;
constexpr uint64_t kPageBytes = 4096;

void touchPages(std::byte* from, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kPageBytes) {
    auto& byte = reinterpret_cast<volatile uint8_t&>(from[at]);
    byte = byte;
  }
}

// MAP_HUGE_2MB of <linux/mman.h>, which <sys/mman.h> does not have.
constexpr int kHugePagesOf2Mb = 21 << 26;

// Maps huge pages over a part of the mapping, and reserves them at once: touching one later cannot fail.
Outcome<bool> mapReserved(std::byte* base, uint64_t bytes) {
  const uint64_t pages = (bytes + LogMemory::kAlignmentBytes - 1) / LogMemory::kAlignmentBytes;
  void* const mapping = ::mmap(base, pages * LogMemory::kAlignmentBytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_HUGETLB | kHugePagesOf2Mb, -1, 0);
  if (mapping != MAP_FAILED) return true;
  const int error = errno;
  return Failure{error == ENOMEM ? Status::NoSpace : Status::IoError,
                 "cannot take " + std::to_string(pages) + " huge pages of 2 MiB for the log: " + std::strerror(error) +
                     "; of those that are set aside, free_hugepages less resv_hugepages are left, both in "
                     "/sys/kernel/mm/hugepages/hugepages-2048kB: raise nr_hugepages there by what is missing"};
}

}  // namespace

Outcome<std::unique_ptr<LogMemory>> LogMemory::open(uint64_t bytes, Pages pages) {
  if (bytes == 0 || bytes > EntryRef::kMemoryBytesMax) {
    return Failure{Status::BadConfig, "log memory must be between 1 byte and 8 TB"};
  }
  // Reads do not verify lengths. If a flipped bit has made one so long that it leads out of the memory, zeros are read
  // there.
  constexpr uint64_t kBehind =
      kEntryHeaderBytes + kNamedSegmentBytes + kCarriedResultBytes + kKeyBytesMax + kPayloadBytesMax;
  const uint64_t mapping_bytes = alignUp(bytes, kAlignmentBytes) + kAlignmentBytes + alignUp(kBehind, kPageBytes);
  void* mapping =
      ::mmap(nullptr, mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return Failure{Status::IoError, "cannot map " + std::to_string(bytes) + " bytes of log memory: " +
                                        std::strerror(errno) + "; choose a smaller --memory"};
  }
  auto* const first = static_cast<std::byte*>(mapping);
  const auto address = reinterpret_cast<uintptr_t>(first);
  std::byte* const base = first + (alignUp(address, kAlignmentBytes) - address);
  if (pages == Pages::Reserved) {
    auto mapped = mapReserved(base, bytes);
    if (!mapped.ok()) {
      ::munmap(mapping, mapping_bytes);
      return std::move(mapped).error();
    }
  }
  // Advice only: a kernel that does not know one of these gives a slower or larger process, not a wrong one. For
  // reserved pages the kernel takes no advice about a part of a page.
  const uint64_t advised_bytes = pages == Pages::Reserved ? alignUp(bytes, kAlignmentBytes) : bytes;
  if (pages == Pages::Transparent) ::madvise(base, bytes, MADV_HUGEPAGE);
  ::madvise(base, advised_bytes, MADV_DONTDUMP);
  ::madvise(base, advised_bytes, MADV_DONTFORK);
  return std::unique_ptr<LogMemory>(new LogMemory(first, mapping_bytes, base, bytes));
}

LogMemory::~LogMemory() { ::munmap(mapping_, mapping_bytes_); }

bool LogMemory::prefaultNext() {
  const uint64_t from = next_piece_bytes_.fetch_add(kPieceBytes, std::memory_order_relaxed);
  if (from >= bytes_) return false;
  const uint64_t piece_bytes = std::min(kPieceBytes, bytes_ - from);
#if defined(MADV_POPULATE_WRITE)
  const int outcome = ::madvise(base_ + from, piece_bytes, MADV_POPULATE_WRITE);
#else
  const int outcome = ::madvise(base_ + from, piece_bytes, 23);
#endif
  if (outcome != 0 && errno != EINVAL) {
    prefault_error_.store(errno, std::memory_order_relaxed);
    return false;
  }
  if (outcome != 0) touchPages(base_ + from, piece_bytes);  // before Linux 5.14
  prefaulted_bytes_.fetch_add(piece_bytes, std::memory_order_relaxed);
  return true;
}

Outcome<bool> LogMemory::prefaulted() const {
  const int error = prefault_error_.load(std::memory_order_relaxed);
  if (error == 0) return true;
  // Pages are set aside for the machine as a whole, and may be used up on the node that memory is bound to.
  return Failure{Status::NoSpace, std::string("cannot fill the log's memory: ") +
                                      (error == EFAULT ? "no page is left where it may lie" : std::strerror(error)) +
                                      "; give less --memory, or, with --hugetlb, set more huge pages aside on the node "
                                      "of --numa-node (/sys/devices/system/node/node*/hugepages), or raise the limit "
                                      "of the control group"};
}

}  // namespace ramcore::log
