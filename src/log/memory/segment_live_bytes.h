#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace ramcore::log {

/// Counts the live bytes in one segment. Also counts the bytes of the tombstones, in any segment, that name this one,
/// and of those that would come to name it if live objects died.
///
/// Threads: any, with relaxed atomics: what is read is approximate while others append or kill. Only noteEntryBytes()
/// belongs to the segment's one writer.
class SegmentLiveBytes {
 public:
  /// Bytes of entries that have to be kept.
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  void add(int64_t bytes) { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  int64_t take() { return bytes_.exchange(0, std::memory_order_relaxed); }

  /// Parts of the live bytes: results (records, and those that objects carry), and objects above
  /// LogConfig::smallEntryBytesMax().
  int64_t resultBytes() const { return result_bytes_.load(std::memory_order_relaxed); }
  void addResults(int64_t bytes) { result_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  int64_t takeResults() { return result_bytes_.exchange(0, std::memory_order_relaxed); }
  int64_t largeBytes() const { return large_bytes_.load(std::memory_order_relaxed); }
  void addLarge(int64_t bytes) { large_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  int64_t takeLarge() { return large_bytes_.exchange(0, std::memory_order_relaxed); }

  /// Bytes of live tombstones, written and due, that lie in any segment and name this one.
  uint64_t namedByTombstoneBytes() const { return named_by_bytes_.load(std::memory_order_relaxed); }
  void addNamedBy(int64_t bytes) { named_by_bytes_.fetch_add(static_cast<uint64_t>(bytes), std::memory_order_relaxed); }

  /// Bytes of the tombstones that would be due for live objects, in any segment, that name this one, if all of them
  /// died: bytes that may still be added to what names it.
  int64_t succeededBytes() const { return succeeded_bytes_.load(std::memory_order_relaxed); }
  void addSucceeded(int64_t bytes) { succeeded_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  int64_t takeSucceeded() { return succeeded_bytes_.exchange(0, std::memory_order_relaxed); }

  /// The size of its largest counted entry: this much can be lost at the end of an extent that takes its entries over.
  uint32_t largestEntryBytes() const { return largest_entry_bytes_; }
  void noteEntryBytes(uint32_t bytes) { largest_entry_bytes_ = std::max(largest_entry_bytes_, bytes); }

  /// Nothing is alive in the segment: its slot is used anew. No other thread uses the segment.
  void clear() {
    for (std::atomic<int64_t>* const count : {&bytes_, &result_bytes_, &large_bytes_, &succeeded_bytes_}) {
      count->store(0, std::memory_order_relaxed);
    }
    named_by_bytes_.store(0, std::memory_order_relaxed);
    largest_entry_bytes_ = 0;
  }

 private:
  std::atomic<int64_t> bytes_{0};
  std::atomic<int64_t> result_bytes_{0};
  std::atomic<int64_t> large_bytes_{0};
  std::atomic<uint64_t> named_by_bytes_{0};
  std::atomic<int64_t> succeeded_bytes_{0};
  uint32_t largest_entry_bytes_ = 0;
};

}  // namespace ramcore::log
