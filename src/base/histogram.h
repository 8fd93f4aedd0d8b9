#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace ramcore {

/// Counts of non-negative integers in log-linear buckets: 16 per power of two, so a value read back is at most 1/16
/// off. One thread records; any thread may merge at the same time and sees each count late at worst. Cost of record:
/// two relaxed loads and stores.
class LogLinearHistogram {
 public:
  static constexpr uint32_t kSubBits = 4;
  static constexpr uint32_t kBucketCount = (64 - kSubBits + 1) << kSubBits;

  void record(uint64_t value) {
    bump(buckets_[bucketOf(value)], 1);
    bump(sum_, value);
  }
  /// Adds everything `other` has counted to this one.
  void merge(const LogLinearHistogram& other) {
    for (uint32_t i = 0; i < kBucketCount; ++i) bump(buckets_[i], other.buckets_[i].load(std::memory_order_relaxed));
    bump(sum_, other.sum_.load(std::memory_order_relaxed));
  }
  void reset() {
    for (auto& bucket : buckets_) bucket.store(0, std::memory_order_relaxed);
    sum_.store(0, std::memory_order_relaxed);
  }
  uint64_t count() const {
    uint64_t total = 0;
    for (const auto& bucket : buckets_) total += bucket.load(std::memory_order_relaxed);
    return total;
  }
  uint64_t sum() const { return sum_.load(std::memory_order_relaxed); }
  /// The smallest bucket value v such that at least `fraction` (0..1) of all counts are <= v; 0 if there are none.
  uint64_t quantile(double fraction) const {
    const uint64_t total = count();
    if (total == 0) return 0;
    auto wanted = static_cast<uint64_t>(fraction * static_cast<double>(total) + 0.999999);
    if (wanted == 0) wanted = 1;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < kBucketCount; ++i) {
      seen += buckets_[i].load(std::memory_order_relaxed);
      if (seen >= wanted) return upperBoundOf(i);
    }
    return upperBoundOf(kBucketCount - 1);
  }
  uint64_t bucketCountAt(uint32_t bucket) const { return buckets_[bucket].load(std::memory_order_relaxed); }

  static constexpr uint32_t bucketOf(uint64_t value) {
    if (value < (1U << kSubBits)) return static_cast<uint32_t>(value);
    const auto power = static_cast<uint32_t>(63 - std::countl_zero(value));
    const auto sub = static_cast<uint32_t>(value >> (power - kSubBits)) & ((1U << kSubBits) - 1);
    return ((power - kSubBits + 1) << kSubBits) + sub;
  }
  /// The largest value that falls into `bucket`.
  static constexpr uint64_t upperBoundOf(uint32_t bucket) {
    if (bucket < (1U << kSubBits)) return bucket;
    const uint32_t power = (bucket >> kSubBits) + kSubBits - 1;
    const uint64_t sub = (bucket & ((1U << kSubBits) - 1)) + 1;
    return (uint64_t{1} << power) + (sub << (power - kSubBits)) - 1;
  }

 private:
  static void bump(std::atomic<uint64_t>& counter, uint64_t by) {
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  std::array<std::atomic<uint64_t>, kBucketCount> buckets_{};
  std::atomic<uint64_t> sum_{0};
};

}  // namespace ramcore
