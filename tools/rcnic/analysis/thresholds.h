#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/rcnic/analysis/dataset.h"
#include "tools/rcnic/analysis/experiments.h"

namespace ramcore::rcnic {

// What a calibration measures, and what follows from it for the gather policy. All messages have a head of 64 B in
// front, as those of the product have.

inline constexpr uint32_t kHeadBytes = 64;
/// Added to the scores of long lists: a limit on entries makes copies of chunks of any length, so it has to gain a
/// tenth.
inline constexpr double kEntriesIndulgence = 0.1;
inline constexpr const char* kCopyCalibration = "calibrate-copy";
inline constexpr const char* kInlineCalibration = "calibrate-inline";
inline constexpr const char* kEntriesCalibration = "calibrate-entries";

/// Chunks of 32 B to 16 kB: gathered, or copied behind the head.
std::vector<Shape> copyCalibrationShapes(const Abilities& abilities);
/// Messages up to the length that the device takes inside a descriptor: inside it, or fetched. Empty if the device
/// takes none.
std::vector<Shape> inlineCalibrationShapes(const Abilities& abilities);
/// 1 to 32 chunks of `chunk_bytes`: gathered, or copied behind the head.
std::vector<Shape> entriesCalibrationShapes(const Abilities& abilities, uint32_t chunk_bytes);

/// A step of a calibration: the ratio of one way to the other one at this size. Above 1 the first way is better.
struct Step {
  uint32_t size = 0;  ///< bytes of a chunk or message, or entries of a message
  double speed_ratio = 1;
  double cycles_ratio = 1;  ///< cycles of the other way over those of the first

  /// Positive if the first way is better: the logarithm of the ratio of speeds and, with a quarter of its weight, of
  /// cycles, which decides where the link is the limit of both ways.
  double score() const;
};
/// The steps of all sizes that were measured both ways, from the smallest.
std::vector<Step> copySteps(const Dataset& dataset);
std::vector<Step> inlineSteps(const Dataset& dataset);
std::vector<Step> entriesSteps(const Dataset& dataset);

/// The size from which on the first way has to be taken so that the sum of scores is the largest: one outlier moves it
/// little. nullopt: it is better never to take the first way.
std::optional<uint32_t> bestFrom(const std::vector<Step>& steps);
/// The size up to which the first way has to be taken, found likewise. `indulgence` is added to every score: the other
/// way has to be better by more than that.
std::optional<uint32_t> bestUpTo(const std::vector<Step>& steps, double indulgence = 0);

/// The steps as text, a line each.
std::string textOf(const std::vector<Step>& steps, const std::string& size_name);

}  // namespace ramcore::rcnic
