#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/rcnic/laboratory.h"
#include "tools/rcnic/probes/probes.h"

namespace ramcore::tools {
class Command;
}

namespace ramcore::rcnic {

/// Flags of the commands that measure: what to measure, and for how long.
struct MeasureFlags {
  std::vector<std::string> transports;  ///< empty: all that are here
  ProbeChoice devices;                  ///< `transport` stays empty
  LaboratorySettings laboratory;
  uint32_t memory_mb = 64;

  /// @param all_transports  what is measured when none is named, for people
  void addTo(tools::Command& command, const std::string& all_transports);
  /// @param is_smoke  only see, in milliseconds, whether it works: nothing is measured again because it is noisy.
  LaboratorySettings settings(bool is_smoke) const;
  /// The transports that were asked for, each once: DPDK starts only once in a process.
  std::vector<std::string> namedTransports() const;
  /// The transports that were asked for, or all that this machine has.
  std::vector<std::string> chosenTransports() const;
  ProbeChoice choiceFor(const std::string& transport) const;
  /// Failure: BadConfig: a device is named, and none of `chosen` has devices.
  Outcome<bool> checkDevices(const std::vector<std::string>& chosen) const;
};

struct RunFlags {
  MeasureFlags measure;
  std::vector<std::string> experiments;  ///< empty: all
  std::string csv_directory;
  std::string svg_directory;
  bool is_smoke = false;

  void addTo(tools::Command& command);
};

/// Measures, prints tables and verdicts, writes files. Failure: with cause and remedy.
Outcome<bool> run(const RunFlags& flags);

struct VerdictFlags {
  std::vector<std::string> files;
  std::string svg_directory;

  void addTo(tools::Command& command);
};

/// Prints verdicts about what earlier runs measured. Failure: with cause and remedy.
Outcome<bool> printVerdicts(const VerdictFlags& flags);

}  // namespace ramcore::rcnic
