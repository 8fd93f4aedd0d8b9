#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/rcnic/analysis/dataset.h"

namespace ramcore::rcnic {

/// What a finding reads from a dataset. Remembers what the finding wanted and was not measured, and how much the rounds
/// of the shapes that it used differ.
class Evidence {
 public:
  explicit Evidence(const Dataset& dataset) : dataset_(dataset) {}

  bool has(const std::string& experiment, const Shape& shape) const {
    return dataset_.find(experiment, shape) != nullptr;
  }
  /// Median of the shape's rounds; 0 if it was not measured.
  double median(const std::string& experiment, const Shape& shape, Figure figure);
  /// Median of the ratios of rounds that ran beside each other; 0 if one of them was not measured.
  double ratio(const std::string& experiment, const Shape& ours, const Shape& theirs, Figure figure);
  /// The largest median throughput in the experiment: what the link takes, if any shape of the experiment reaches that.
  double peak(const std::string& experiment);
  /// Numbers of records for which `shape` was measured, from the lowest; wants two of them at least.
  std::vector<uint32_t> recordCounts(const std::string& experiment, Shape shape);
  /// The smallest number of records from which on `shape` never falls below `share` of the experiment's peak; infinite
  /// if there is none. Wants numbers of records on both sides of `expected`.
  double saturatedFrom(const std::string& experiment, Shape shape, double share, uint32_t expected);

  /// Says that something was wanted that was not measured.
  void want(const std::string& what);
  /// The first thing that was wanted and not measured; empty if nothing.
  const std::string& missing() const { return missing_; }
  /// The worst spread among the rounds of everything that was looked at.
  double spread() const { return spread_; }

 private:
  const Rounds* look(const std::string& experiment, const Shape& shape);

  const Dataset& dataset_;
  std::string missing_;
  double spread_ = 1;
};

}  // namespace ramcore::rcnic
