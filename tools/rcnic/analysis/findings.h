#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tools/rcnic/analysis/evidence.h"

namespace ramcore::rcnic {

/// Something that a paper measured, as a number that can be measured again.
struct Finding {
  std::string_view name;
  std::string_view paper;
  std::string_view section;
  std::string_view claim;
  /// What the number is: "records", "x", "% of the link".
  std::string_view unit;
  /// None: the paper gives a direction and no number.
  std::optional<double> predicted;
  /// Numbers from `low` to `high` confirm the finding. For crossovers that is a factor of two each way, because the
  /// shapes that are measured are that far apart. For "up to" the range begins where one would still act on the number.
  double low;
  double high;
  /// Reads the same number from a dataset.
  double (*read)(Evidence& evidence);
};

std::span<const Finding> findings();
/// nullptr: there is none of that name.
const Finding* findingOf(std::string_view name);

enum class Judgement : uint8_t {
  Confirmed,
  Refuted,
  Noisy,         ///< the rounds differ too much to tell
  NotMeasured,   ///< something that it needs is not in the dataset
  MeansNothing,  ///< it was measured on something that is no adapter
};
std::string_view nameOf(Judgement judgement);

struct Verdict {
  const Finding* finding = nullptr;
  Judgement judgement = Judgement::NotMeasured;
  std::optional<double> measured;
  std::string why;  ///< for people; may be empty
};

Verdict judge(const Finding& finding, const Dataset& dataset);
/// Paper, claim, predicted and measured number, verdict: three lines.
std::string textOf(const Verdict& verdict);
/// The verdicts on all findings for one subject, with what there is to say about the whole.
std::string verdictsOf(const Dataset& dataset);

}  // namespace ramcore::rcnic
