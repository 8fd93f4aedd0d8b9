#include "tools/rcnic/analysis/experiments.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <tuple>
#include <utility>

namespace ramcore::rcnic {
namespace {

constexpr std::array kAllOperations = {Operation::Send, Operation::Write, Operation::Read};

Shape gathered(Mode mode, uint32_t record_bytes, uint32_t records) {
  return Shape{.mode = mode, .record_bytes = record_bytes, .records = records};
}

// For the figures of throughput, of processor time and of cycles for each byte: records gathered, or copied together.
std::vector<Shape> copyShapes() {
  std::vector<Shape> shapes;
  for (const uint32_t bytes : {kSmallRecordBytes, kLargeRecordBytes}) {
    for (const uint32_t records : {1U, 2U, 4U, 6U, 8U, 12U, 16U, 24U, 32U}) {
      shapes.push_back(gathered(Mode::ZeroCopy, bytes, records));
      shapes.push_back(gathered(Mode::CopyOut, bytes, records));
    }
  }
  // More records than a gather list holds.
  for (const uint32_t records : {64U, 128U}) shapes.push_back(gathered(Mode::CopyOut, kSmallRecordBytes, records));
  return shapes;
}

// Records gathered, or copied together, over all sizes: from which size on gathering pays.
std::vector<Shape> crossoverShapes() {
  std::vector<Shape> shapes;
  for (uint32_t bytes = kTinyRecordBytes; bytes <= kBasePageBytes; bytes *= 2) {
    for (const uint32_t records : {1U, 4U, 16U, 32U}) {
      shapes.push_back(gathered(Mode::ZeroCopy, bytes, records));
      shapes.push_back(gathered(Mode::CopyOut, bytes, records));
    }
  }
  return shapes;
}

std::vector<Shape> operationShapes() {
  std::vector<Shape> shapes;
  for (uint32_t bytes = kTinyRecordBytes; bytes <= kBasePageBytes; bytes *= 2) {
    for (const Operation operation : kAllOperations) {
      shapes.push_back(Shape{.operation = operation, .record_bytes = bytes, .records = 1});
    }
  }
  return shapes;
}

std::vector<Shape> lengthShapes() {
  std::vector<Shape> shapes;
  for (const uint32_t bytes : {100U, 1000U}) {
    for (const uint32_t records : {1U, 2U, 4U, 8U, 16U, 32U}) {
      for (const Operation operation : kAllOperations) {
        shapes.push_back(Shape{.operation = operation, .record_bytes = bytes, .records = records});
      }
    }
  }
  return shapes;
}

std::vector<Shape> layoutShapes() {
  std::vector<Shape> shapes;
  for (const uint32_t bytes : {kSmallRecordBytes, kLargeRecordBytes}) {
    for (const uint32_t records : {4U, 16U, 32U}) {
      for (const Mode mode : {Mode::ZeroCopy, Mode::CopyOut}) {
        for (const Layout layout : {Layout::Scattered, Layout::Contiguous}) {
          shapes.push_back(Shape{.mode = mode, .layout = layout, .record_bytes = bytes, .records = records});
        }
      }
      shapes.push_back(Shape{.layout = Layout::Contiguous, .record_bytes = bytes * records, .records = 1});
    }
  }
  return shapes;
}

std::vector<Shape> deltaShapes() {
  std::vector<Shape> shapes;
  for (const uint32_t deltas : {0U, 1U, 2U, 4U, 8U, 16U, 31U}) {
    for (const uint32_t bytes : {kSmallRecordBytes, kLargeRecordBytes}) {
      if (deltas == 0 && bytes != kSmallRecordBytes) continue;
      shapes.push_back(Shape{.base_bytes = kBasePageBytes, .record_bytes = bytes, .records = deltas});
    }
  }
  // Small records without a page, with which the others are compared.
  for (const uint32_t records : {8U, 16U, 32U}) {
    shapes.push_back(gathered(Mode::ZeroCopy, kSmallRecordBytes, records));
  }
  shapes.push_back(gathered(Mode::CopyOut, kSmallRecordBytes, kBasePageBytes / kSmallRecordBytes));
  return shapes;
}

std::vector<Shape> inlineShapes() {
  std::vector<Shape> shapes;
  for (const uint32_t bytes : {8U, 16U, 32U, 64U, 128U, 256U, 512U, 912U}) {
    for (const Operation operation : {Operation::Send, Operation::Write}) {
      for (const Mode mode : {Mode::Inline, Mode::ZeroCopy, Mode::CopyOut}) {
        shapes.push_back(Shape{.operation = operation, .mode = mode, .record_bytes = bytes, .records = 1});
      }
    }
  }
  return shapes;
}

std::vector<Shape> signalShapes() {
  std::vector<Shape> shapes;
  for (const uint32_t every : {1U, 2U, 4U, 8U, kSignalEvery, 32U, kSignalEveryMost}) {
    for (const Operation operation : kAllOperations) {
      for (const Mode mode : {Mode::Inline, Mode::ZeroCopy}) {
        if (operation == Operation::Read && mode == Mode::Inline) continue;  // a READ carries no payload
        shapes.push_back(
            Shape{.operation = operation, .mode = mode, .record_bytes = 8, .records = 1, .signal_every = every});
      }
    }
  }
  return shapes;
}

std::vector<Shape> pageShapes() {
  std::vector<Shape> shapes;
  for (const auto& [bytes, records] :
       {std::pair{kSmallRecordBytes, 32U}, std::pair{kLargeRecordBytes, 16U}, std::pair{kBasePageBytes, 1U}}) {
    for (const uint32_t page_kb : {4U, kHugePageKb}) {
      shapes.push_back(Shape{.record_bytes = bytes, .records = records, .page_kb = page_kb});
    }
  }
  return shapes;
}

constexpr std::array kExperiments = {
    Experiment{"copy", "records of 128 B and 1024 B: gathered by the device, or copied together first", &copyShapes},
    Experiment{"crossover", "records of 16 B to 16 kB, gathered or copied: from which size on gathering pays",
               &crossoverShapes},
    Experiment{"operations", "SEND, WRITE and READ of one record of 16 B to 16 kB", &operationShapes},
    Experiment{"lengths", "SEND, WRITE and READ of 1 to 32 records of 100 B and 1000 B", &lengthShapes},
    Experiment{"layout", "records anywhere in memory, side by side, or as one piece", &layoutShapes},
    Experiment{"deltas", "a page of 16 kB with 0 to 31 records of 128 B or 1024 B behind it", &deltaShapes},
    Experiment{"inline", "small records inside the descriptor", &inlineShapes},
    Experiment{"signals", "a completion for every transmission, or for every 2nd to 64th", &signalShapes},
    Experiment{"pages", "records in pages of 4 kB, and of 2 MB", &pageShapes},
};

bool isWithin(const Shape& shape, const Abilities& abilities) {
  const auto& operations = abilities.operations;
  if (std::find(operations.begin(), operations.end(), shape.operation) == operations.end()) return false;
  if (shape.bytes() > abilities.message_bytes_max) return false;
  if (shape.mode != Mode::CopyOut && shape.pieces() > abilities.pieces_max) return false;
  if (shape.mode == Mode::Inline && shape.bytes() > abilities.inline_bytes_max) return false;
  return abilities.has_selective_signals || shape.signal_every == kSignalEvery;
}

// The smallest and the largest shape of each combination of operation, mode, layout, base page and page size.
std::vector<Shape> aFewOf(const std::vector<Shape>& shapes) {
  const auto kindOf = [](const Shape& shape) {
    return std::tuple(shape.operation, shape.mode, shape.layout, shape.base_bytes, shape.page_kb);
  };
  std::vector<Shape> few;
  for (const Shape& shape : shapes) {
    const auto is_smaller = [](const Shape& a, const Shape& b) { return a.bytes() < b.bytes(); };
    std::vector<Shape> alike;
    std::copy_if(shapes.begin(), shapes.end(), std::back_inserter(alike),
                 [&](const Shape& other) { return kindOf(other) == kindOf(shape); });
    const auto [low, high] = std::minmax_element(alike.begin(), alike.end(), is_smaller);
    if (shape == *low || shape == *high) few.push_back(shape);
  }
  return few;
}

}  // namespace

std::span<const Experiment> experiments() { return kExperiments; }

const Experiment* experimentOf(std::string_view name) {
  const auto* const found = std::find_if(kExperiments.begin(), kExperiments.end(),
                                         [&](const Experiment& experiment) { return experiment.name == name; });
  return found == kExperiments.end() ? nullptr : found;
}

std::vector<Shape> shapesFor(const Experiment& experiment, const Abilities& abilities, bool is_smoke) {
  std::vector<Shape> shapes = experiment.shapes();
  std::erase_if(shapes, [&](const Shape& shape) { return !isWithin(shape, abilities); });
  return is_smoke ? aFewOf(shapes) : shapes;
}

}  // namespace ramcore::rcnic
