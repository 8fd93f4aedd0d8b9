#include "tools/rcnic/run_command.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <utility>

#include "tools/rcnic/analysis/dataset.h"
#include "tools/rcnic/analysis/figures.h"
#include "tools/rcnic/analysis/findings.h"
#include "tools/rcnic/analysis/results_csv.h"
#include "tools/rcnic/analysis/tables.h"
#include "tools/rcnic/result_files.h"
#include "tools/support/command_line.h"
#include "tools/support/dpdk_flags.h"

namespace ramcore::rcnic {
namespace {

constexpr uint32_t kSmokeRounds = 2;
constexpr uint32_t kSmokeRoundMs = 3;
constexpr size_t kSmokeMemoryBytes = size_t{4} << 20;

std::vector<std::string> experimentNames() {
  std::vector<std::string> names;
  for (const Experiment& experiment : experiments()) names.emplace_back(experiment.name);
  return names;
}

void tell(const std::string& line) { std::fprintf(stderr, "rcnic: %s\n", line.c_str()); }

}  // namespace

void MeasureFlags::addTo(tools::Command& command, const std::string& all_transports) {
  tools::addDpdkPortFlags(command, devices.dpdk);
  command.showDefaults();
  command.addOption("--transport", transports, "Transport to measure, repeatable; not given: " + all_transports)
      .oneOf(transportNames())
      .showDefault("");
  command.addOption("--device", devices.device,
                    "RDMA device of the sender, NAME, NAME:PORT or NAME:PORT:GID; not given: the first active one");
  command.addOption("--peer-device", devices.peer_device, "RDMA device of the receiver; not given: that of the sender");
  command.addOption("--rounds", laboratory.rounds, "Rounds of each experiment; in each all its shapes take turns")
      .inRange(1, 1000);
  command.addOption("--round-ms", laboratory.round_ms, "Milliseconds that one shape is measured in a round")
      .inRange(1, 60'000);
  command
      .addOption("--memory-mb", memory_mb,
                 "Memory that contains the records, in MB (2^20 bytes); more than caches hold")
      .inRange(1, 65'536);
}

LaboratorySettings MeasureFlags::settings(bool is_smoke) const {
  if (is_smoke) {
    return {.rounds = kSmokeRounds, .round_ms = kSmokeRoundMs, .memory_bytes = kSmokeMemoryBytes, .attempts_max = 0};
  }
  LaboratorySettings settings = laboratory;
  settings.memory_bytes = size_t{memory_mb} << 20;
  return settings;
}

std::vector<std::string> MeasureFlags::namedTransports() const {
  std::vector<std::string> named;
  for (const std::string& name : transports) {
    if (std::find(named.begin(), named.end(), name) == named.end()) named.push_back(name);
  }
  return named;
}

std::vector<std::string> MeasureFlags::chosenTransports() const {
  if (!transports.empty()) return namedTransports();
  std::vector<std::string> present = transportNames();
  std::erase_if(present, [](const std::string& name) { return !isPresent(name); });
  return present;
}

ProbeChoice MeasureFlags::choiceFor(const std::string& transport) const {
  ProbeChoice choice = devices;
  choice.transport = transport;
  if (transport != "verbs") choice.device = choice.peer_device = "";
  if (transport != "dpdk") choice.dpdk = {};
  return choice;
}

Outcome<bool> MeasureFlags::checkDevices(const std::vector<std::string>& chosen) const {
  const bool has_device = !devices.device.empty() || !devices.peer_device.empty();
  if (!has_device || std::find(chosen.begin(), chosen.end(), "verbs") != chosen.end()) return true;
  return Failure{Status::BadConfig,
                 "--device and --peer-device name RDMA devices, and verbs is not measured; leave them "
                 "out, or give --transport verbs"};
}

void RunFlags::addTo(tools::Command& command) {
  measure.addTo(command, "all that this machine has");
  command.addOption("--experiment", experiments, "Experiment to run, repeatable; not given: all")
      .oneOf(experimentNames())
      .showDefault("");
  command.addOption("--csv", csv_directory, "Directory to write rcnic.csv to, with all rounds; made if it is not there")
      .typeName("DIR");
  command
      .addOption("--svg", svg_directory,
                 "Directory to draw the papers' figures to with these data, as SVG; made if it is not there")
      .typeName("DIR");
  command.addFlag("--smoke", is_smoke, "Measure a few shapes for milliseconds: shows whether it works, not how fast");
}

namespace {

// Runs the experiments of one transport, and prints the table of each.
Outcome<std::vector<Sample>> runTransport(const RunFlags& flags, const std::string& transport) {
  auto probe = openProbe(flags.measure.choiceFor(transport));
  if (!probe.ok()) return std::move(probe).error();
  Laboratory laboratory(std::move(probe).value(), flags.measure.settings(flags.is_smoke), &tell);
  std::vector<Sample> samples;
  for (const std::string& name : flags.experiments.empty() ? experimentNames() : flags.experiments) {
    const std::vector<Shape> shapes = shapesFor(*experimentOf(name), laboratory.abilities(), flags.is_smoke);
    if (shapes.empty()) {
      tell(name + ": " + transport + " can do none of its shapes");
      continue;
    }
    auto measured = laboratory.measure(name, shapes);
    if (!measured.ok()) return std::move(measured).error();
    std::printf("%s\n", tableOf(Dataset(laboratory.traits().subject, *measured), name).c_str());
    std::fflush(stdout);
    std::move(measured->begin(), measured->end(), std::back_inserter(samples));
  }
  return samples;
}

Outcome<bool> writeResults(const std::string& directory, const std::vector<Sample>& samples) {
  if (directory.empty()) return true;
  auto made = makeDirectory(directory);
  if (!made.ok()) return made;
  return writeFile(directory + "/rcnic.csv", csvOf(samples));
}

Outcome<bool> drawFigures(const std::string& directory, const std::vector<Sample>& samples) {
  if (directory.empty()) return true;
  auto made = makeDirectory(directory);
  if (!made.ok()) return made;
  for (const Subject& subject : subjectsOf(samples)) {
    std::string prefix = subject.name();
    std::replace(prefix.begin(), prefix.end(), ':', '-');
    for (const PaperFigure& figure : figuresOf(Dataset(subject, samples))) {
      auto written = writeFile(directory + "/" + prefix + "-" + figure.name + ".svg", svgOf(figure.chart));
      if (!written.ok()) return written;
    }
  }
  return true;
}

void printVerdicts(const std::vector<Sample>& samples) {
  for (const Subject& subject : subjectsOf(samples)) {
    std::printf("%s\n", verdictsOf(Dataset(subject, samples)).c_str());
  }
}

}  // namespace

Outcome<bool> run(const RunFlags& flags) {
  const std::vector<std::string> transports = flags.measure.chosenTransports();
  auto chosen = flags.measure.checkDevices(transports);
  if (!chosen.ok()) return chosen;
  std::vector<Sample> samples;
  for (const std::string& transport : transports) {
    auto measured = runTransport(flags, transport);
    if (!measured.ok()) return std::move(measured).error();
    std::move(measured->begin(), measured->end(), std::back_inserter(samples));
    // Written again after each transport: minutes of measuring are not lost if the next one fails.
    auto written = writeResults(flags.csv_directory, samples);
    if (!written.ok()) return written;
  }
  auto drawn = drawFigures(flags.svg_directory, samples);
  if (!drawn.ok()) return drawn;
  printVerdicts(samples);
  return true;
}

void VerdictFlags::addTo(tools::Command& command) {
  command.addOption("FILE", files, "What rcnic run --csv wrote; several are taken together").required();
  command.addOption("--svg", svg_directory, "Directory to draw the papers' figures to with these data, as SVG")
      .typeName("DIR");
}

Outcome<bool> printVerdicts(const VerdictFlags& flags) {
  std::vector<Sample> samples;
  for (const std::string& file : flags.files) {
    auto read = readResults(file);
    if (!read.ok()) return std::move(read).error();
    std::move(read->begin(), read->end(), std::back_inserter(samples));
  }
  auto drawn = drawFigures(flags.svg_directory, samples);
  if (!drawn.ok()) return drawn;
  printVerdicts(samples);
  return true;
}

}  // namespace ramcore::rcnic
