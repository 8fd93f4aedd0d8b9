#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/rcnic/analysis/sample.h"

namespace ramcore::rcnic {

/// Replaces a file as a whole: a process that reads it meanwhile sees the old content or the new one. Failure: IoError.
Outcome<bool> writeFile(const std::string& path, const std::string& content);
/// Makes the directory if it is not there. Failure: IoError.
Outcome<bool> makeDirectory(const std::string& path);
/// Reads all of a file. `remedy` ends the message if it cannot be read. Failure: IoError.
Outcome<std::string> readFile(const std::string& path, const std::string& remedy);
/// Reads what `run --csv` wrote. Failure: IoError, or BadConfig: it is not such a file.
Outcome<std::vector<Sample>> readResults(const std::string& path);

}  // namespace ramcore::rcnic
