#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/rcnic/analysis/sample.h"

namespace ramcore::rcnic {

/// Replaces a file as a whole: who reads it meanwhile sees the old one or the new one. Failure: IoError.
Outcome<bool> writeFile(const std::string& path, const std::string& content);
/// Makes it if it is not there. Failure: IoError.
Outcome<bool> makeDirectory(const std::string& path);
/// All of it. `remedy` ends the message if it cannot be read. Failure: IoError.
Outcome<std::string> readFile(const std::string& path, const std::string& remedy);
/// What `run --csv` wrote. Failure: IoError, or BadConfig: it is not that.
Outcome<std::vector<Sample>> readResults(const std::string& path);

}  // namespace ramcore::rcnic
