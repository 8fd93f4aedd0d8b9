#pragma once

#include <vector>

namespace ramcore::rcnic {

/// The median of several rounds, and the values below and above which a quarter of them lies.
struct Quartiles {
  double low = 0;
  double median = 0;
  double high = 0;
};

/// Between two neighbouring values it is interpolated linearly. Zeros for no values.
Quartiles quartilesOf(std::vector<double> values);
/// The largest value divided by the smallest; 1 for no values, infinite if the smallest is not positive.
double spreadOf(const std::vector<double>& values);

/// Rounds that differ by more than this say nothing: something else ran on the machine.
inline constexpr double kSpreadMax = 1.5;

}  // namespace ramcore::rcnic
