#pragma once

#include <atomic>
#include <cstdint>

namespace ramcore::runtime {

/// Remembers in which process it was made, and recognizes a process that was forked from it later. This costs one load
/// and one compare, because it is asked at every call.
///
/// The kernel clears a page of memory in each child (MADV_WIPEONFORK), whichever way it was forked; nothing has to run
/// in the child for that, and no lock is taken that another thread of the parent may have held. Any thread.
class ForkMark {
 public:
  ForkMark();

  /// True in a process that was forked after this was made.
  bool isForked() const { return page_->load(std::memory_order_relaxed) != mark_; }

 private:
  const std::atomic<uint32_t>* page_;
  uint32_t mark_;
};

}  // namespace ramcore::runtime
