#include "runtime/fork_mark.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "base/check.h"

namespace ramcore::runtime {
namespace {

using Mark = std::atomic<uint32_t>;

// Set once in a process and kept over forks. Not a static local: its guard's lock might be held while another thread
// forks.
constinit std::atomic<Mark*> g_page{nullptr};
// The last mark that was given out. It is in ordinary memory, so that a child goes on from it, and its marks differ
// from all of its parents'.
constinit std::atomic<uint32_t> g_last_mark{0};

Mark* makePage() {
  const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  RC_CHECK_MSG(memory != MAP_FAILED, "no memory for one page");
  Mark* const page = new (memory) Mark(0);
  // Advised before other threads see the page: a fork in between would not be noticed by those that took a mark from
  // it.
  if (::madvise(memory, bytes, MADV_WIPEONFORK) != 0) {
    // A kernel before 4.14, or something that imitates one: at least the C library's fork() is noticed.
    ::pthread_atfork(nullptr, nullptr, [] {
      if (Mark* const known = g_page.load(); known != nullptr) known->store(0);
    });
  }
  Mark* known = nullptr;
  if (g_page.compare_exchange_strong(known, page)) return page;
  ::munmap(memory, bytes);
  return known;
}

}  // namespace

ForkMark::ForkMark() {
  Mark* page = g_page.load();
  if (page == nullptr) page = makePage();
  uint32_t mark = page->load();
  while (mark == 0) {
    const uint32_t fresh = g_last_mark.fetch_add(1) + 1;
    if (page->compare_exchange_strong(mark, fresh)) mark = fresh;
  }
  page_ = page;
  mark_ = mark;
}

}  // namespace ramcore::runtime
