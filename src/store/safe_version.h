#pragma once

#include <algorithm>
#include <atomic>

#include "base/ids.h"

namespace ramcore::store {

/// The safe version: higher than every version that was handed out for keys whose trace is gone. Keys without an object
/// get their first version from it. A key that is overwritten gets the version after its present one, which may be
/// above the safe version; the ceiling is above all of them. Any thread; two atomics, no lock.
class SafeVersion {
 public:
  /// The version that the next key without an object gets.
  Version now() const { return next_.load(std::memory_order_relaxed); }
  /// Hands out a version.
  Version take() { return next_.fetch_add(1, std::memory_order_relaxed); }
  /// Notes that a key with an object has got this version.
  void noteOverwrite(Version version) {
    Version known = highest_.load(std::memory_order_relaxed);
    while (known < version && !highest_.compare_exchange_weak(known, version, std::memory_order_relaxed)) {
    }
  }
  /// Above every version of every key: those that were handed out here, and those that were brought by moves and
  /// recoveries (raise()). Once nothing is written to a tablet any more it holds for that tablet.
  Version ceiling() const { return std::max(now(), highest_.load(std::memory_order_relaxed) + 1); }
  /// Makes the versions that are handed out from now on higher than `version`.
  void raise(Version version) {
    Version known = next_.load(std::memory_order_relaxed);
    while (known <= version && !next_.compare_exchange_weak(known, version + 1, std::memory_order_relaxed)) {
    }
  }

 private:
  std::atomic<Version> next_{1};
  std::atomic<Version> highest_{0};  ///< of those that replaced an object
};

}  // namespace ramcore::store
