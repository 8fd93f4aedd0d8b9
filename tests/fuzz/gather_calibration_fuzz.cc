/// Files of thresholds, from disk: what is accepted prints to a text that means the same, and nothing that comes out of
/// it is beyond what transports are built for.

#include <cstdlib>
#include <string>

#include "fuzz/planted.h"
#include "transport/gather/gather_calibration.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using ramcore::transport::GatherCalibration;
  using ramcore::transport::GatherLimits;
  using ramcore::transport::GatherSection;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto parsed = GatherCalibration::parse(text, "f");
  if (!parsed.ok()) {
    if (!parsed.error().message.starts_with("f:")) std::abort();
    return 0;
  }
  const auto again = GatherCalibration::parse(parsed->text(), "f");
  if (!again.ok() || again->sections() != parsed->sections()) std::abort();
  constexpr GatherLimits kDefaults{.entries_max = 33, .inline_bytes_max = 256, .copy_below_bytes = 256};
  GatherCalibration rebuilt;
  for (const GatherSection& section : parsed->sections()) {
    rebuilt.set(section);
    const GatherLimits limits = parsed->settle(section.transport, section.device, kDefaults);
    if (limits.entries_max < 2 || limits.entries_max > GatherCalibration::kEntriesMost) std::abort();
    if (limits.inline_bytes_max > GatherCalibration::kInlineBytesMost) std::abort();
    if (limits.copy_below_bytes < 1 || limits.copy_below_bytes > GatherCalibration::kCopyBelowBytesMost) std::abort();
    ramcore::fuzz::crashIfPlanted(section.entries_max == 7U);
  }
  if (rebuilt.sections() != parsed->sections()) std::abort();
  return 0;
}
