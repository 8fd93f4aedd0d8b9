#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ramcore::bench {

/// The value below which the share `q` (0..1) of `values` lies; 0 of none.
inline double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

/// Largest over smallest.
inline double spread(const std::vector<double>& values) {
  if (values.empty()) return 1;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return *low > 0 ? *high / *low : 1;
}

/// Values of interleaved rounds divided pairwise: both sides of each ratio were measured next to each other.
inline std::vector<double> ratios(const std::vector<double>& ours, const std::vector<double>& peer) {
  std::vector<double> out;
  for (size_t i = 0; i < std::min(ours.size(), peer.size()); ++i) out.push_back(peer[i] > 0 ? ours[i] / peer[i] : 0);
  return out;
}

/// Pairwise the better of two peers.
inline std::vector<double> better(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> out;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) out.push_back(std::max(a[i], b[i]));
  return out;
}

}  // namespace ramcore::bench
