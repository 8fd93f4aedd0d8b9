#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tools/rcnic/analysis/sample.h"

namespace ramcore::rcnic {

/// One question, and the shapes whose figures answer it. All its shapes take turns in each round, so that the figures
/// of any two of them may be divided by each other.
struct Experiment {
  std::string_view name;
  std::string_view question;
  std::vector<Shape> (*shapes)();
};

/// In the order in which they run.
std::span<const Experiment> experiments();
/// nullptr: there is none of that name.
const Experiment* experimentOf(std::string_view name);

/// What a transport or device can do.
struct Abilities {
  std::span<const Operation> operations;
  uint32_t pieces_max = 1;
  uint32_t inline_bytes_max = 0;
  uint32_t message_bytes_max = 0;
  bool has_selective_signals = false;
};
/// The shapes of `experiment` without those that are beyond `abilities`. With `is_smoke` only a few of them, so that
/// each kind has one.
std::vector<Shape> shapesFor(const Experiment& experiment, const Abilities& abilities, bool is_smoke);

// Values that experiments and findings both name.
inline constexpr uint32_t kSignalEvery = 16;
inline constexpr uint32_t kBasePageBytes = 16 * 1024;
inline constexpr uint32_t kSmallRecordBytes = 128;
inline constexpr uint32_t kLargeRecordBytes = 1024;
inline constexpr uint32_t kTinyRecordBytes = 16;
inline constexpr uint32_t kHugePageKb = 2048;
inline constexpr uint32_t kSignalEveryMost = 64;

}  // namespace ramcore::rcnic
