#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/random.h"

namespace ramcore::bench {

/// Ranks 0..population-1, rank r with a probability proportional to 1 / (r + 1)^skew (Gray et al., "Quickly generating
/// billion-record synthetic databases", 1994), as rcbench draws them.
class Zipfian {
 public:
  /// @param population  at least 3; costs one pow() each. @param skew  above 0, below 1
  Zipfian(uint64_t population, double skew)
      : population_(static_cast<double>(population)), alpha_(1 / (1 - skew)), zeta_of_two_(1 + std::pow(0.5, skew)) {
    for (uint64_t i = 1; i <= population; ++i) zeta_ += 1 / std::pow(static_cast<double>(i), skew);
    eta_ = (1 - std::pow(2 / population_, 1 - skew)) / (1 - zeta_of_two_ / zeta_);
  }
  uint64_t next(runtime::Random& random) const {
    const double u = random.unit();
    if (u * zeta_ < 1) return 0;
    if (u * zeta_ < zeta_of_two_) return 1;
    const double rank = population_ * std::pow(eta_ * u - eta_ + 1, alpha_);
    return static_cast<uint64_t>(rank < population_ ? rank : population_ - 1);
  }

 private:
  const double population_;
  const double alpha_;
  const double zeta_of_two_;
  double zeta_ = 0;
  double eta_ = 0;
};

}  // namespace ramcore::bench
