#pragma once

#include <cstdint>
#include <memory>

#include "base/spin_lock.h"
#include "index/index_line.h"

namespace ramcore::index {

/// The locks of keys, several keys to each. A stripe is chosen by low bits of the reversed hash which all buckets of
/// one split family share, so a bucket and its split target have the same one. Any thread.
class Stripes {
 public:
  explicit Stripes(unsigned count_log2)
      : mask_((uint64_t{1} << count_log2) - 1), stripes_(std::make_unique<Stripe[]>(mask_ + 1)) {}

  /// The number of the stripe of a key, or of a bucket by its number.
  uint64_t of(ReversedHash reversed) const { return reversed & mask_; }
  SpinLock& lock(uint64_t stripe) const { return stripes_[stripe].lock; }
  uint64_t bytes() const { return (mask_ + 1) * sizeof(Stripe); }

 private:
  struct alignas(64) Stripe {
    SpinLock lock;
  };
  const uint64_t mask_;
  const std::unique_ptr<Stripe[]> stripes_;
};

}  // namespace ramcore::index
