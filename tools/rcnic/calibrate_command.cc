#include "tools/rcnic/calibrate_command.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tools/rcnic/analysis/tables.h"
#include "tools/rcnic/analysis/thresholds.h"
#include "tools/rcnic/result_files.h"
#include "tools/support/command_line.h"
#include "transport/gather/gather_calibration.h"

namespace ramcore::rcnic {
namespace {

using transport::GatherCalibration;
using transport::GatherSection;

constexpr const char* kFileHead =
    "# Thresholds of the gather policy, measured by rcnic calibrate. Servers and coordinators on this machine\n"
    "# take them with --gather-file.\n";

// Bounds for the chunks of which lists are made; 32 of the longest fit into a transmission.
constexpr uint32_t kChunkBytesLeast = 1024;
constexpr uint32_t kChunkBytesMost = 1920;

void tellCalibration(const std::string& line) { std::fprintf(stderr, "rcnic: %s\n", line.c_str()); }

// Reads the file, because what it says about other devices stays. Failure: IoError, BadConfig: it says something else.
Outcome<GatherCalibration> readCalibration(const std::string& path) {
  if (path.empty() || !std::filesystem::exists(path)) return GatherCalibration();
  const auto text = readFile(path, "name another one with --out");
  if (!text.ok()) return text.error();
  return GatherCalibration::parse(*text, path);
}

/// Runs the experiments of one device one after the other, because what the first one says decides what the next one
/// measures.
class Calibrator {
 public:
  Calibrator(std::unique_ptr<Probe> probe, const LaboratorySettings& settings)
      : subject_(probe->traits().subject), laboratory_(std::move(probe), settings, &tellCalibration) {}

  const Subject& subject() const { return subject_; }

  Outcome<GatherSection> run() {
    const Abilities abilities = laboratory_.abilities();
    GatherSection section{.transport = subject_.transport, .device = subject_.device};
    auto copied = steps(kCopyCalibration, copyCalibrationShapes(abilities), &copySteps);
    if (!copied.ok()) return std::move(copied).error();
    const std::optional<uint32_t> gathers_from = bestFrom(*copied);
    section.copy_below_bytes =
        std::min(gathers_from.value_or(GatherCalibration::kCopyBelowBytesMost), GatherCalibration::kCopyBelowBytesMost);
    std::printf("%s: gathered chunks compared with copied ones\n%scopy_below_bytes = %u%s\n\n", subject_.name().c_str(),
                textOf(*copied, "chunk bytes").c_str(), *section.copy_below_bytes,
                gathers_from ? "" : " (gathering pays for no size)");
    if (!abilities.has_selective_signals) return section;  // no descriptors: nothing inside them, no entries

    auto inlined = steps(kInlineCalibration, inlineCalibrationShapes(abilities), &inlineSteps);
    if (!inlined.ok()) return std::move(inlined).error();
    section.inline_bytes_max = std::min(bestUpTo(*inlined).value_or(0), GatherCalibration::kInlineBytesMost);
    std::printf(
        "%s: messages inside the descriptor compared with fetched ones; the device takes %u B\n"
        "%sinline_bytes_max = %u\n\n",
        subject_.name().c_str(), abilities.inline_bytes_max, textOf(*inlined, "bytes").c_str(),
        *section.inline_bytes_max);

    // The chunks are of a size for which gathering clearly pays, as long as the longest list of them fits.
    const uint32_t chunk_bytes = std::clamp(4 * *section.copy_below_bytes, kChunkBytesLeast, kChunkBytesMost);
    auto counted = steps(kEntriesCalibration, entriesCalibrationShapes(abilities, chunk_bytes), &entriesSteps);
    if (!counted.ok()) return std::move(counted).error();
    section.entries_max = std::clamp(bestUpTo(*counted, kEntriesIndulgence).value_or(2), 2U,
                                     std::clamp(abilities.pieces_max, 2U, GatherCalibration::kEntriesMost));
    std::printf("%s: gathered entries of %u B compared with copied ones; the device takes %u\n%sentries_max = %u\n\n",
                subject_.name().c_str(), chunk_bytes, abilities.pieces_max, textOf(*counted, "entries").c_str(),
                *section.entries_max);
    return section;
  }

  bool wasNoisy() const { return laboratory_.wasNoisy(); }

 private:
  Outcome<std::vector<Step>> steps(const std::string& experiment, const std::vector<Shape>& shapes,
                                   std::vector<Step> (*read)(const Dataset&)) {
    auto measured = laboratory_.measure(experiment, shapes);
    if (!measured.ok()) return std::move(measured).error();
    return read(Dataset(subject_, *measured));
  }

  const Subject subject_;
  Laboratory laboratory_;
};

Outcome<std::vector<std::string>> transportsToCalibrate(const MeasureFlags& measure) {
  if (!measure.transports.empty()) return measure.namedTransports();
  if (!measure.devices.dpdk.ports.empty()) return std::vector<std::string>{"dpdk"};
  std::vector<std::string> found;
  for (const TransportListing& listing : listTransports()) {
    if (!listing.devices.empty() && !listing.devices.front().name.empty()) found.push_back(listing.transport);
  }
  if (!found.empty()) return found;
  return Failure{
      Status::BadConfig,
      "this machine has no adapter to calibrate for; ramcore's defaults suit it, or name --transport dpdk, shm or tcp"};
}

}  // namespace

void CalibrateFlags::addTo(tools::Command& command) {
  measure.addTo(command, "all whose devices this machine has (dpdk, shm and tcp have no devices of their own)");
  command
      .addOption(
          "--out", out,
          "File to write the thresholds to, for --gather-file of the daemons; what it says about other transports "
          "and devices stays. Not given: only print them")
      .typeName("FILE");
  command.addFlag("--accept-noise", accepts_noise,
                  "Write thresholds also if rounds of the same measurement differ by more than 1.5 times, because the "
                  "machine is busy");
  command.addFlag("--smoke", is_smoke,
                  "Measure for milliseconds instead of seconds: shows whether it works, not what is best");
}

Outcome<bool> calibrate(const CalibrateFlags& flags) {
  const auto transports = transportsToCalibrate(flags.measure);
  if (!transports.ok()) return transports.error();
  auto chosen = flags.measure.checkDevices(*transports);
  if (!chosen.ok()) return chosen;
  auto calibration = readCalibration(flags.out);  // before minutes are spent
  if (!calibration.ok()) return std::move(calibration).error();
  bool was_noisy = false;
  for (const std::string& transport : *transports) {
    auto probe = openProbe(flags.measure.choiceFor(transport));
    if (!probe.ok()) return std::move(probe).error();
    Calibrator calibrator(std::move(probe).value(), flags.measure.settings(flags.is_smoke));
    auto section = calibrator.run();
    if (!section.ok()) return std::move(section).error();
    was_noisy = was_noisy || calibrator.wasNoisy();
    if (!calibrator.subject().device.empty() && calibrator.subject().is_software) {
      tellCalibration(calibrator.subject().name() +
                      " is a software device: the thresholds suit it, and mean nothing about adapters");
    }
    calibration->set(std::move(section).value());
  }
  if (flags.out.empty()) {
    std::printf("%s", calibration->text().c_str());
    return true;
  }
  if (was_noisy && !flags.accepts_noise) {
    return Failure{Status::IoError, "nothing is written to '" + flags.out +
                                        "', because rounds of the same measurement differ too much; stop what else "
                                        "runs here and measure again with larger --round-ms, or give --accept-noise"};
  }
  auto written = writeFile(flags.out, kFileHead + calibration->text());
  if (written.ok()) std::printf("written to %s\n", flags.out.c_str());
  return written;
}

}  // namespace ramcore::rcnic
