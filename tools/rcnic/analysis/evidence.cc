#include "tools/rcnic/analysis/evidence.h"

#include <algorithm>
#include <limits>

#include "tools/rcnic/analysis/tables.h"

namespace ramcore::rcnic {

void Evidence::want(const std::string& what) {
  if (missing_.empty()) missing_ = what;
}

const Rounds* Evidence::look(const std::string& experiment, const Shape& shape) {
  const Rounds* const rounds = dataset_.find(experiment, shape);
  if (rounds == nullptr) {
    want("experiment " + experiment + ", " + describe(shape));
    return nullptr;
  }
  spread_ = std::max(spread_, Dataset::spread(*rounds));
  return rounds;
}

double Evidence::median(const std::string& experiment, const Shape& shape, Figure figure) {
  const Rounds* const rounds = look(experiment, shape);
  return rounds == nullptr ? 0 : Dataset::median(*rounds, figure);
}

double Evidence::ratio(const std::string& experiment, const Shape& ours, const Shape& theirs, Figure figure) {
  const Rounds* const one = look(experiment, ours);
  const Rounds* const other = look(experiment, theirs);
  if (one == nullptr || other == nullptr) return 0;
  const double value = Dataset::ratio(*one, *other, figure).median;
  if (!(value > 0))
    want("experiment " + experiment + ", rounds in common of " + describe(ours) + " and " + describe(theirs));
  return value;
}

double Evidence::peak(const std::string& experiment) {
  double best = 0;
  for (const Shape& shape : dataset_.shapesOf(experiment)) {
    best = std::max(best, Dataset::median(*dataset_.find(experiment, shape), &Sample::bytesPerSecond));
  }
  if (!(best > 0)) want("experiment " + experiment);
  return best;
}

std::vector<uint32_t> Evidence::recordCounts(const std::string& experiment, Shape shape) {
  std::vector<uint32_t> counts;
  for (const Shape& measured : dataset_.shapesOf(experiment)) {
    shape.records = measured.records;
    if (shape == measured) counts.push_back(shape.records);
  }
  std::sort(counts.begin(), counts.end());
  if (counts.size() < 2) {
    shape.records = 1;
    want("experiment " + experiment + ", several numbers of records as " + describe(shape));
  }
  return counts;
}

double Evidence::saturatedFrom(const std::string& experiment, Shape shape, double share, uint32_t expected) {
  const std::vector<uint32_t> counts = recordCounts(experiment, shape);
  if (counts.size() < 2) return 0;
  if (counts.front() >= expected || counts.back() <= expected) {
    shape.records = 1;
    want("experiment " + experiment + ", less and more than " + std::to_string(expected) + " records, as " +
         describe(shape));
    return 0;
  }
  const double enough = share * peak(experiment);
  double from = std::numeric_limits<double>::infinity();
  for (auto records = counts.rbegin(); records != counts.rend(); ++records) {
    shape.records = *records;
    if (median(experiment, shape, &Sample::bytesPerSecond) < enough) break;
    from = *records;
  }
  return from;
}

}  // namespace ramcore::rcnic
