#pragma once

#include <string>

#include "base/result.h"
#include "tools/rcnic/run_command.h"

namespace ramcore::rcnic {

struct CalibrateFlags {
  MeasureFlags measure;
  std::string out;
  bool accepts_noise = false;
  bool is_smoke = false;

  void addTo(tools::Command& command);
};

/// Measures the thresholds of the gather policy and writes them to a file, beside what the file says about other
/// devices.
/// Failure: with cause and remedy.
Outcome<bool> calibrate(const CalibrateFlags& flags);

}  // namespace ramcore::rcnic
