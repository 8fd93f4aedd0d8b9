#include "tools/rcnic/analysis/dataset.h"

#include <algorithm>
#include <utility>

namespace ramcore::rcnic {

Dataset::Dataset(Subject subject, const std::vector<Sample>& samples) : subject_(std::move(subject)) {
  for (const Sample& sample : samples) {
    if (sample.subject != subject_) continue;
    if (!experiments_.contains(sample.experiment)) order_.push_back(sample.experiment);
    Experiment& experiment = experiments_[sample.experiment];
    Rounds& rounds = experiment.rounds[sample.shape];
    if (rounds.empty()) experiment.order.push_back(sample.shape);
    rounds.push_back(sample);
  }
}

const std::vector<Shape>& Dataset::shapesOf(const std::string& experiment) const& {
  static const std::vector<Shape> kNone;
  const auto found = experiments_.find(experiment);
  return found == experiments_.end() ? kNone : found->second.order;
}

const Rounds* Dataset::find(const std::string& experiment, const Shape& shape) const& {
  const auto found = experiments_.find(experiment);
  if (found == experiments_.end()) return nullptr;
  const auto rounds = found->second.rounds.find(shape);
  return rounds == found->second.rounds.end() ? nullptr : &rounds->second;
}

Quartiles Dataset::quartiles(const Rounds& rounds, Figure figure) {
  std::vector<double> values;
  for (const Sample& sample : rounds) values.push_back((sample.*figure)());
  return quartilesOf(std::move(values));
}

Quartiles Dataset::ratio(const Rounds& ours, const Rounds& theirs, Figure figure) {
  std::vector<double> ratios;
  for (const Sample& sample : ours) {
    const auto beside = std::find_if(theirs.begin(), theirs.end(),
                                     [&](const Sample& other) { return other.round.number == sample.round.number; });
    if (beside == theirs.end()) continue;
    const double divisor = ((*beside).*figure)();
    if (divisor > 0) ratios.push_back((sample.*figure)() / divisor);
  }
  return quartilesOf(std::move(ratios));
}

double Dataset::spread(const Rounds& rounds) {
  std::vector<double> values;
  for (const Sample& sample : rounds) values.push_back(sample.bytesPerSecond());
  return spreadOf(values);
}

std::vector<Subject> subjectsOf(const std::vector<Sample>& samples) {
  std::vector<Subject> subjects;
  for (const Sample& sample : samples) {
    if (std::find(subjects.begin(), subjects.end(), sample.subject) == subjects.end()) {
      subjects.push_back(sample.subject);
    }
  }
  return subjects;
}

}  // namespace ramcore::rcnic
