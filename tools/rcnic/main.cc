// rcnic: measures what RDMA adapters and the other transports make of gather lists, copies and completions, holds it
// against published findings, and finds the thresholds of the gather policy.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "tools/rcnic/calibrate_command.h"
#include "tools/rcnic/probes/probes.h"
#include "tools/rcnic/run_command.h"
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
  CLI::App app("Measures what adapters and transports make of gather lists, copies and completions", kProgram);
  app.set_version_flag("--version", std::string("ramcore ") + RAMCORE_VERSION);
  app.require_subcommand(1);
  CLI::App* const list_command = app.add_subcommand("list", "What this build can measure, and the devices there are");
  RunFlags run_flags;
  CLI::App* const run_command = app.add_subcommand("run", "Run experiments, print tables and verdicts");
  run_flags.addTo(*run_command);
  VerdictFlags verdict_flags;
  CLI::App* const verdict_command = app.add_subcommand("verdict", "Hold results of earlier runs against the papers");
  verdict_flags.addTo(*verdict_command);
  CalibrateFlags calibrate_flags;
  CLI::App* const calibrate_command =
      app.add_subcommand("calibrate", "Measure the thresholds of the gather policy of this machine's adapter");
  calibrate_flags.addTo(*calibrate_command);
  int exit_code = 0;
  if (!tools::parseFlags(app, argc, argv, exit_code)) return exit_code;
  if (list_command->parsed()) return list();
  const Outcome<bool> done = verdict_command->parsed()     ? printVerdicts(verdict_flags)
                             : calibrate_command->parsed() ? calibrate(calibrate_flags)
                                                           : run(run_flags);
  return done.ok() ? tools::kExitOk : tools::fail(kProgram, done.error());
}

}  // namespace

int main(int argc, char** argv) {
  ramcore::tools::StandardOutput output(kProgram);
  return output.finish(runCommand(argc, argv));
}
