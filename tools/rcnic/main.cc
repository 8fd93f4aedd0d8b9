// rcnic: measures how fast RDMA adapters and the other transports are with gather lists, copies and completions,
// compares that with published findings, and finds the thresholds of the gather policy.
#include <cstdio>
#include <string>
#include <vector>

#include "tools/rcnic/calibrate_command.h"
#include "tools/rcnic/probes/probes.h"
#include "tools/rcnic/run_command.h"
#include "tools/support/command_line.h"
#include "tools/support/process.h"
#include "tools/support/standard_output.h"

namespace {

using namespace ramcore;
using namespace ramcore::rcnic;

constexpr const char* kProgram = "rcnic";

int list() {
  for (const TransportListing& listing : listTransports()) {
    if (!listing.absence.empty()) std::printf("%s: not here: %s\n", listing.transport.c_str(), listing.absence.c_str());
    for (const TransportListing::Device& device : listing.devices) {
      std::printf("%s%s%s: %s%s\n", listing.transport.c_str(), device.name.empty() ? "" : " ", device.name.c_str(),
                  device.about.c_str(), device.is_software ? " (software)" : "");
    }
  }
  return tools::kExitOk;
}

int runCommand(int argc, char** argv) {
  tools::CommandLine app("Measures how fast adapters and transports are with gather lists, copies and completions",
                         kProgram);
  app.setVersion(std::string("ramcore ") + RAMCORE_VERSION);
  app.requireCommand();
  tools::Command list_command = app.addCommand("list", "What this build can measure, and the devices there are");
  RunFlags run_flags;
  tools::Command run_command = app.addCommand("run", "Run experiments, print tables and verdicts");
  run_flags.addTo(run_command);
  VerdictFlags verdict_flags;
  tools::Command verdict_command = app.addCommand("verdict", "Compare results of earlier runs with the papers");
  verdict_flags.addTo(verdict_command);
  CalibrateFlags calibrate_flags;
  tools::Command calibrate_command =
      app.addCommand("calibrate", "Measure the thresholds of the gather policy of this machine's adapter");
  calibrate_flags.addTo(calibrate_command);
  int exit_code = 0;
  if (!tools::parseFlags(app, argc, argv, exit_code)) return exit_code;
  if (list_command.isGiven()) return list();
  const Outcome<bool> done = verdict_command.isGiven()     ? printVerdicts(verdict_flags)
                             : calibrate_command.isGiven() ? calibrate(calibrate_flags)
                                                           : run(run_flags);
  return done.ok() ? tools::kExitOk : tools::fail(kProgram, done.error());
}

}  // namespace

int main(int argc, char** argv) {
  ramcore::tools::StandardOutput output(kProgram);
  return output.finish(runCommand(argc, argv));
}
