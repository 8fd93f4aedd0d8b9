#pragma once

#include <atomic>

#include "base/ids.h"

namespace ramcore::store {

/// The safe version: higher than every version that was handed out for keys whose trace is gone. Keys without an object
/// get their first version from it. Any thread; one atomic, no lock.
class SafeVersion {
 public:
  /// The version that the next key without an object gets.
  Version now() const { return next_.load(std::memory_order_relaxed); }
  /// Hands out a version.
  Version take() { return next_.fetch_add(1, std::memory_order_relaxed); }
  /// Makes the versions that are handed out from now on higher than `version`.
  void raise(Version version) {
    Version known = next_.load(std::memory_order_relaxed);
    while (known <= version && !next_.compare_exchange_weak(known, version + 1, std::memory_order_relaxed)) {
    }
  }

 private:
  std::atomic<Version> next_{1};
};

}  // namespace ramcore::store
