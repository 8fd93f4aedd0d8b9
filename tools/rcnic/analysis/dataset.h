#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/rcnic/analysis/sample.h"
#include "tools/rcnic/analysis/statistics.h"

namespace ramcore::rcnic {

/// All rounds of one shape in one experiment, by the number of the round.
using Rounds = std::vector<Sample>;
using Figure = double (Sample::*)() const;

/// The results of one subject: experiments, and the rounds of their shapes.
class Dataset {
 public:
  /// @param samples  those of other subjects are left out
  Dataset(Subject subject, const std::vector<Sample>& samples);

  const Subject& subject() const { return subject_; }
  /// In the order in which they were measured.
  const std::vector<std::string>& experiments() const { return order_; }
  const std::vector<Shape>& shapesOf(const std::string& experiment) const&;
  const std::vector<Shape>& shapesOf(const std::string& experiment) const&& = delete;
  /// nullptr if it was not measured. Does not compile for a dataset that dies at the end of the statement.
  const Rounds* find(const std::string& experiment, const Shape& shape) const&;
  const Rounds* find(const std::string& experiment, const Shape& shape) const&& = delete;

  static Quartiles quartiles(const Rounds& rounds, Figure figure);
  static double median(const Rounds& rounds, Figure figure) { return quartiles(rounds, figure).median; }
  /// Quartiles of `ours` divided by `theirs` in the round of the same number, which ran next to it. Rounds that one of
  /// them does not have are left out; 0 if no round is left.
  static Quartiles ratio(const Rounds& ours, const Rounds& theirs, Figure figure);
  /// The spread of the rounds' throughput.
  static double spread(const Rounds& rounds);

 private:
  struct Experiment {
    std::vector<Shape> order;
    std::map<Shape, Rounds> rounds;
  };
  Subject subject_;
  std::vector<std::string> order_;
  std::map<std::string, Experiment, std::less<>> experiments_;
};

/// The subjects of the samples, in the order in which they first come.
std::vector<Subject> subjectsOf(const std::vector<Sample>& samples);

}  // namespace ramcore::rcnic
