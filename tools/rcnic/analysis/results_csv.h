#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/rcnic/analysis/sample.h"

namespace ramcore::rcnic {

/// A heading, and a line for each round of each shape: all that is known, so that medians and ratios can be computed
/// again.
std::string csvOf(const std::vector<Sample>& samples);
/// Reads such a text. Failure: BadConfig: it is not such a text; the message is "name:line: cause; remedy".
Outcome<std::vector<Sample>> parseCsv(std::string_view text, const std::string& name);

}  // namespace ramcore::rcnic
