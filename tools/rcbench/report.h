#pragma once

#include <string>

#include "tools/rcbench/recorder.h"
#include "tools/rcbench/settings.h"

namespace ramcore::rcbench {

/// How the load phase went.
struct LoadResult {
  uint64_t records = 0;
  double seconds = 0;
};

/// Everything a report is made of.
struct Findings {
  const Settings& settings;
  LoadResult load;  ///< records 0: there was none
  const Recorder& recorder;
};

/// The result in the form that settings.output asks for, ending with a newline.
std::string report(const Findings& findings);

}  // namespace ramcore::rcbench
