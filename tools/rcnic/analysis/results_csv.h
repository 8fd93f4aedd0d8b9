#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/rcnic/analysis/sample.h"

namespace ramcore::rcnic {

/// A heading, and a line for each round of each shape: all that is known, so that medians and ratios can be taken
/// again.
std::string csvOf(const std::vector<Sample>& samples);
/// The same back. Failure: BadConfig: not such a file; "name:line: cause; remedy".
Outcome<std::vector<Sample>> parseCsv(std::string_view text, const std::string& name);

}  // namespace ramcore::rcnic
