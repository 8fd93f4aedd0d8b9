#include "log/memory/segment_directory.h"

#include <bit>

#include "base/check.h"

namespace ramcore::log {

SegmentDirectory::SegmentDirectory(size_t segment_count_max)
    : mask_(std::bit_ceil(2 * segment_count_max) - 1), buckets_(new std::atomic<Segment*>[mask_ + 1]()) {}

void SegmentDirectory::insert(Segment& segment) {
  std::atomic<Segment*>& bucket = bucketOf(segment.id());
  RC_CHECK(find(segment.id()) == nullptr);
  changes_.fetch_add(1, std::memory_order_acq_rel);
  segment.next_in_directory_.store(bucket.load(std::memory_order_relaxed), std::memory_order_release);
  bucket.store(&segment, std::memory_order_release);
  changes_.fetch_add(1, std::memory_order_acq_rel);
}

/// The link of the chain that leads to the segment.
std::atomic<Segment*>& SegmentDirectory::linkTo(const Segment& segment) const {
  std::atomic<Segment*>* link = &bucketOf(segment.id());
  while (link->load(std::memory_order_relaxed) != &segment) {
    Segment* const other = link->load(std::memory_order_relaxed);
    RC_CHECK_MSG(other != nullptr, "a segment is erased or replaced once");
    link = &other->next_in_directory_;
  }
  return *link;
}

void SegmentDirectory::erase(Segment& segment) {
  std::atomic<Segment*>& link = linkTo(segment);
  changes_.fetch_add(1, std::memory_order_acq_rel);
  link.store(segment.next_in_directory_.load(std::memory_order_relaxed), std::memory_order_release);
  changes_.fetch_add(1, std::memory_order_acq_rel);
}

void SegmentDirectory::replace(Segment& segment, Segment& copy) {
  RC_CHECK(copy.id() == segment.id());
  std::atomic<Segment*>& link = linkTo(segment);
  changes_.fetch_add(1, std::memory_order_acq_rel);
  copy.next_in_directory_.store(segment.next_in_directory_.load(std::memory_order_relaxed), std::memory_order_release);
  link.store(&copy, std::memory_order_release);
  changes_.fetch_add(1, std::memory_order_acq_rel);
}

Segment* SegmentDirectory::find(SegmentId id) const {
  for (;;) {
    const uint64_t changes = changes_.load(std::memory_order_acquire);
    Segment* segment = bucketOf(id).load(std::memory_order_acquire);
    while (segment != nullptr && segment->id() != id) {
      segment = segment->next_in_directory_.load(std::memory_order_acquire);
    }
    if (segment != nullptr) return segment;
    // The search may have followed a segment that moved to another chain meanwhile.
    if (changes % 2 == 0 && changes_.load(std::memory_order_acquire) == changes) return nullptr;
  }
}

}  // namespace ramcore::log
