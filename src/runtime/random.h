#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"

namespace ramcore::runtime {

/// xoshiro256** (Blackman, Vigna 2018): fast, seeded, the same everywhere. Not for secrets. One thread at a time.
///
/// Each component has a stream of its own, derived from a seed and a name, so that one more draw here does not change
/// what another component draws.
class Random {
 public:
  explicit Random(uint64_t seed);
  /// A stream for the component called `name`: a function of the seed this one was made from and the name only.
  Random stream(std::string_view name) const;

  uint64_t next();
  /// Uniform in [0, bound); bound >= 1. Unbiased (Lemire 2019).
  uint64_t below(uint64_t bound);
  /// Uniform in [first, last].
  uint64_t between(uint64_t first, uint64_t last) { return first + below(last - first + 1); }
  /// Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  /// True with probability `p`.
  bool chance(double p) { return unit() < p; }

 private:
  uint64_t seed_;
  uint64_t state_[4];
};

/// A source of unpredictable bytes: the operating system, or the simulator's seed.
class Entropy {
 public:
  virtual ~Entropy() = default;
  /// Fills all of `out`. Any thread.
  virtual void fill(MutableByteSpan out) = 0;
  uint64_t next() {
    uint64_t value = 0;
    fill(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
};

/// Not real entropy: bytes that follow from a seed.
class SeededEntropy final : public Entropy {
 public:
  explicit SeededEntropy(uint64_t seed) : random_(seed) {}
  void fill(MutableByteSpan out) override;

 private:
  Random random_;
};

}  // namespace ramcore::runtime
