#include "tools/rcnic/analysis/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace ramcore::rcnic {
namespace {

double quantileOfSorted(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double share = position - static_cast<double>(below);
  return sorted[below] + share * (sorted[above] - sorted[below]);
}

}  // namespace

Quartiles quartilesOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {quantileOfSorted(values, 0.25), quantileOfSorted(values, 0.5), quantileOfSorted(values, 0.75)};
}

double spreadOf(const std::vector<double>& values) {
  if (values.empty()) return 1;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return *low > 0 ? *high / *low : std::numeric_limits<double>::infinity();
}

}  // namespace ramcore::rcnic
