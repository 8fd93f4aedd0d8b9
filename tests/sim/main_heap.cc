// The heap of the simulator's process. A run takes and gives back millions of small blocks: lists of free blocks of one
// size, which are never merged or split, cost a third of what malloc does. What is larger comes from malloc.
//
// Sanitized builds have malloc for everything, or use after free would be invisible.
#if !defined(RAMCORE_SANITIZED)

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include <sys/mman.h>

namespace {

constexpr size_t kStepBytes = 16;
constexpr size_t kPooledBytesMax = 1024;
constexpr size_t kClassCount = kPooledBytesMax / kStepBytes;
constexpr size_t kPageBytes = size_t{64} << 10;  // cut into blocks of one class
constexpr size_t kReservedBytes = size_t{4} << 30;

struct FreeBlock {
  FreeBlock* next;
};

// Of one thread: what is freed joins the lists of the thread that frees it. Neither constructed nor destroyed, since
// there are blocks before main and after it.
constinit thread_local std::array<FreeBlock*, kClassCount> t_free{};

// An address tells by its page of which class a block is. Pages are taken once and stay.
constinit std::atomic<std::byte*> g_pages{nullptr};
constinit std::atomic<size_t> g_page_count{0};
constinit std::array<uint8_t, kReservedBytes / kPageBytes> g_class_of_page{};

std::byte* reservedPages() {
  std::byte* pages = g_pages.load(std::memory_order_acquire);
  if (pages != nullptr) return pages;
  void* const mapping =
      ::mmap(nullptr, kReservedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) std::abort();
  ::madvise(mapping, kReservedBytes, MADV_HUGEPAGE);  // fewer faults and misses: 4 % of a run; nothing depends on it
  if (g_pages.compare_exchange_strong(pages, static_cast<std::byte*>(mapping))) return static_cast<std::byte*>(mapping);
  ::munmap(mapping, kReservedBytes);
  return pages;
}

// nullptr when all pages are taken.
[[gnu::noinline]] void* takeFromNewPage(size_t index) {
  std::byte* const pages = reservedPages();
  const size_t page = g_page_count.fetch_add(1);
  if (page >= g_class_of_page.size()) return nullptr;
  g_class_of_page[page] = static_cast<uint8_t>(index);
  const size_t block_bytes = (index + 1) * kStepBytes;
  std::byte* const begin = pages + page * kPageBytes;
  FreeBlock* first = t_free[index];
  for (size_t at = kPageBytes / block_bytes; at-- > 0;) first = new (begin + at * block_bytes) FreeBlock{first};
  t_free[index] = first->next;
  return first;
}

void* take(size_t bytes) {
  const size_t index = bytes == 0 ? 0 : (bytes - 1) / kStepBytes;
  if (index < kClassCount) {
    if (FreeBlock* const block = t_free[index]) {
      t_free[index] = block->next;
      return block;
    }
    if (void* const block = takeFromNewPage(index)) return block;
  }
  return std::malloc(bytes);
}

void giveBack(void* block) {
  if (block == nullptr) return;
  const auto offset = static_cast<size_t>(static_cast<std::byte*>(block) - g_pages.load(std::memory_order_relaxed));
  if (offset >= kReservedBytes) return std::free(block);
  FreeBlock*& first = t_free[g_class_of_page[offset / kPageBytes]];
  first = new (block) FreeBlock{first};
}

}  // namespace

void* operator new(size_t bytes) {
  void* const block = take(bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void* operator new[](size_t bytes) { return operator new(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return take(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return take(bytes); }
void operator delete(void* block) noexcept { giveBack(block); }
void operator delete[](void* block) noexcept { giveBack(block); }
void operator delete(void* block, size_t) noexcept { giveBack(block); }
void operator delete[](void* block, size_t) noexcept { giveBack(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { giveBack(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { giveBack(block); }

#endif
