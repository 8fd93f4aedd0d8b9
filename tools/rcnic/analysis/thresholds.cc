#include "tools/rcnic/analysis/thresholds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>

namespace ramcore::rcnic {
namespace {

constexpr std::array<uint32_t, 18> kChunkBytes = {32,   64,   96,   128,  192,  256,  384,  512,   768,
                                                  1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384};
constexpr std::array<uint32_t, 14> kMessageBytes = {16,  32,  64,  96,  128,  192,  256,
                                                    384, 512, 768, 912, 1024, 2048, 4096};
constexpr std::array<uint32_t, 11> kChunkCounts = {1, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32};
// As many chunks as a multi-read of a few keys has, and fewer where they are long.
constexpr uint32_t kChunksOfMessage = 8;
constexpr uint32_t kMessageBytesOfChunks = 32 * 1024;
constexpr double kCyclesWeight = 0.25;

Shape chunksOf(Mode mode, uint32_t chunk_bytes, uint32_t chunks) {
  return Shape{.mode = mode, .base_bytes = kHeadBytes, .record_bytes = chunk_bytes, .records = chunks};
}

// Adds `first` in its own mode and in the other one, or in neither if it is beyond `abilities`.
void addBoth(std::vector<Shape>& shapes, const Abilities& abilities, Shape first, Mode other) {
  const bool is_within = first.pieces() <= abilities.pieces_max && first.bytes() <= abilities.message_bytes_max;
  if (!is_within || (first.mode == Mode::Inline && first.bytes() > abilities.inline_bytes_max)) return;
  shapes.push_back(first);
  first.mode = other;
  shapes.push_back(first);
}

template <typename SizeOf>
std::vector<Step> stepsOf(const Dataset& dataset, const std::string& experiment, Mode ours, Mode theirs,
                          SizeOf size_of) {
  std::vector<Step> steps;
  for (const Shape& shape : dataset.shapesOf(experiment)) {
    if (shape.mode != ours) continue;
    Shape other = shape;
    other.mode = theirs;
    const Rounds* const first = dataset.find(experiment, shape);
    const Rounds* const second = dataset.find(experiment, other);
    if (second == nullptr) continue;
    const double speed = Dataset::ratio(*first, *second, &Sample::bytesPerSecond).median;
    const double cycles = Dataset::ratio(*second, *first, &Sample::cyclesPerByte).median;
    if (speed > 0 && cycles > 0) steps.push_back({size_of(shape), speed, cycles});
  }
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.size < b.size; });
  return steps;
}

}  // namespace

double Step::score() const { return std::log(speed_ratio) + kCyclesWeight * std::log(cycles_ratio); }

std::vector<Shape> copyCalibrationShapes(const Abilities& abilities) {
  std::vector<Shape> shapes;
  for (const uint32_t bytes : kChunkBytes) {
    const uint32_t chunks = std::clamp(kMessageBytesOfChunks / bytes, 1U, kChunksOfMessage);
    addBoth(shapes, abilities, chunksOf(Mode::ZeroCopy, bytes, chunks), Mode::CopyOut);
  }
  return shapes;
}

std::vector<Shape> inlineCalibrationShapes(const Abilities& abilities) {
  std::vector<Shape> shapes;
  for (const uint32_t bytes : kMessageBytes) {
    addBoth(shapes, abilities, Shape{.mode = Mode::Inline, .record_bytes = bytes, .records = 1}, Mode::ZeroCopy);
  }
  return shapes;
}

std::vector<Shape> entriesCalibrationShapes(const Abilities& abilities, uint32_t chunk_bytes) {
  std::vector<Shape> shapes;
  for (const uint32_t chunks : kChunkCounts) {
    addBoth(shapes, abilities, chunksOf(Mode::ZeroCopy, chunk_bytes, chunks), Mode::CopyOut);
  }
  return shapes;
}

std::vector<Step> copySteps(const Dataset& dataset) {
  return stepsOf(dataset, kCopyCalibration, Mode::ZeroCopy, Mode::CopyOut,
                 [](const Shape& shape) { return shape.record_bytes; });
}

std::vector<Step> inlineSteps(const Dataset& dataset) {
  return stepsOf(dataset, kInlineCalibration, Mode::Inline, Mode::ZeroCopy,
                 [](const Shape& shape) { return static_cast<uint32_t>(shape.bytes()); });
}

std::vector<Step> entriesSteps(const Dataset& dataset) {
  return stepsOf(dataset, kEntriesCalibration, Mode::ZeroCopy, Mode::CopyOut,
                 [](const Shape& shape) { return shape.pieces(); });
}

std::optional<uint32_t> bestFrom(const std::vector<Step>& steps) {
  std::optional<uint32_t> best;
  double sum = 0;
  double most = 0;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    sum += step->score();
    if (sum > most) {
      most = sum;
      best = step->size;
    }
  }
  return best;
}

std::optional<uint32_t> bestUpTo(const std::vector<Step>& steps, double indulgence) {
  std::optional<uint32_t> best;
  double sum = 0;
  double most = 0;
  for (const Step& step : steps) {
    sum += step.score() + indulgence;
    if (sum > most) {
      most = sum;
      best = step.size;
    }
  }
  return best;
}

std::string textOf(const std::vector<Step>& steps, const std::string& size_name) {
  char line[128];
  std::snprintf(line, sizeof line, "%12s %10s %10s %8s\n", size_name.c_str(), "speed", "1/cycles", "score");
  std::string text = line;
  for (const Step& step : steps) {
    std::snprintf(line, sizeof line, "%12u %9.2fx %9.2fx %8.2f\n", step.size, step.speed_ratio, step.cycles_ratio,
                  step.score());
    text += line;
  }
  return text;
}

}  // namespace ramcore::rcnic
