#pragma once

#include <atomic>
#include <cstdint>

namespace ramcore::backup {

/// Counters of a FrameStore, shared by its parts. Written by the store's executor, read by any thread; `checked_bytes`
/// is also written by the thread that reads again.
struct StoreStats {
  std::atomic<uint64_t> frames_total{0};
  std::atomic<uint64_t> frames_free{0};
  std::atomic<uint64_t> frames_kept{0};    ///< storage frames for small heads and survivors: no other head gets them
  std::atomic<uint64_t> bytes_written{0};  ///< data of replicas, without certificates
  std::atomic<uint64_t> flushes{0};
  std::atomic<uint64_t> refused_full{0};    ///< replicas for which there was no storage frame
  std::atomic<uint64_t> corrupt_frames{0};  ///< storage frames found corrupt in this life of the process
  std::atomic<uint64_t> checked_bytes{0};   ///< bytes of closed replicas that were read again
  std::atomic<bool> condemned{false};

  /// Adds to a counter. Only the one thread that writes the counter calls it.
  static void add(std::atomic<uint64_t>& counter, int64_t by) {
    counter.store(counter.load(std::memory_order_relaxed) + static_cast<uint64_t>(by), std::memory_order_relaxed);
  }
};

}  // namespace ramcore::backup
