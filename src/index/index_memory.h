#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "index/index_line.h"

namespace ramcore::index {

/// The address range of one hash index: buckets, overflow lines, and the list links of overflow lines, each growing
/// from its own front. Reserved once, never moved; a page costs memory when it is first touched or pre-faulted.
///
/// Memory into which the index grows is taken in small pages, so that no half-used huge page costs memory; 2 MB that
/// are in use to their end are collapsed into a huge page. From `kHugeFromBytes` of buckets on, where half a huge page
/// is little, the kernel is asked for huge pages at once.
class IndexMemory {
 public:
  static constexpr uint64_t kReserveBytesMin = 64 << 10;
  static constexpr uint64_t kHugePageBytes = 2 << 20;
  static constexpr uint64_t kHugeFromBytes = 64 << 20;

  /// Reserves addresses, two thirds of them for buckets.
  /// @param bytes  at least kReserveBytesMin
  /// @return the memory, or NoSpace when the operating system refuses
  static Outcome<std::unique_ptr<IndexMemory>> reserve(uint64_t bytes);
  ~IndexMemory();
  IndexMemory(const IndexMemory&) = delete;
  IndexMemory& operator=(const IndexMemory&) = delete;

  std::span<Line> buckets() const { return buckets_; }
  std::span<Line> overflowLines() const { return lines_; }
  std::span<uint32_t> links() const { return links_; }

  /// Pre-faults up to one step ahead of what is used, so that inserts meet no page fault: a 64th of what is used,
  /// 64 KB..2 MB for buckets and for overflow lines. May take milliseconds.
  /// @return bytes pre-faulted; 0 = nothing to do
  /// Thread: one at a time, beside any number of readers and writers.
  uint64_t prefault(uint64_t buckets_used, uint64_t lines_touched);
  /// Whether less than half a step is left. Any thread.
  bool prefaultIsDue(uint64_t buckets_used, uint64_t lines_touched) const;
  /// Puts the next 2 MB of buckets, or else of overflow lines, that are in use to their end into one huge page. The
  /// kernel copies them: that takes up to milliseconds, and a thread that touches these 2 MB waits for a part of that
  /// time. Never called with a lock held. Where the kernel cannot (before Linux 6.1, or no huge page is free) the index
  /// goes on unchanged, and the memory is left to the kernel's own daemon.
  /// @param buckets_filled  the number of buckets of which every page is in use: they were split or split off, or hold
  ///                        entries all over
  /// @return bytes looked after; 0 = nothing to do
  /// Thread: that of prefault(), beside any number of readers and writers.
  uint64_t collapse(uint64_t buckets_filled, uint64_t lines_touched);
  /// Whether collapse() would do something. Any thread.
  bool collapseIsDue(uint64_t buckets_filled, uint64_t lines_touched) const;
  /// Bytes of memory taken: used or pre-faulted, in whole pages.
  uint64_t bytesCommitted(uint64_t buckets_used, uint64_t lines_touched) const;

 private:
  struct Part {
    std::byte* base = nullptr;
    uint64_t bytes = 0;
    std::atomic<uint64_t> populated_bytes{0};
    std::atomic<uint64_t> collapsed_bytes{0};  // a multiple of kHugePageBytes; what the kernel was asked for
  };
  IndexMemory(std::byte* base, uint64_t reserved_bytes, uint64_t bucket_count, uint64_t line_count);
  static uint64_t prefaultPart(Part& part, uint64_t used_bytes);
  static bool isPartDue(const Part& part, uint64_t used_bytes);
  static uint64_t collapsePart(Part& part, uint64_t used_bytes);
  static bool isCollapseDue(const Part& part, uint64_t used_bytes);

  std::byte* base_;
  uint64_t reserved_bytes_;
  std::span<Line> buckets_;
  std::span<Line> lines_;
  std::span<uint32_t> links_;
  Part bucket_part_;
  Part line_part_;
};

}  // namespace ramcore::index
