#pragma once

#include <vector>

namespace ramcore::rcnic {

/// The middle of several rounds, and what a quarter of them lies below and above.
struct Quartiles {
  double low = 0;
  double median = 0;
  double high = 0;
};

/// Between two neighbours in proportion. Zeros for no values.
Quartiles quartilesOf(std::vector<double> values);
/// Largest over smallest; 1 for none, infinite if the smallest is not positive.
double spreadOf(const std::vector<double>& values);

/// Rounds that differ by more than this say nothing: something else ran on the machine.
inline constexpr double kSpreadMax = 1.5;

}  // namespace ramcore::rcnic
