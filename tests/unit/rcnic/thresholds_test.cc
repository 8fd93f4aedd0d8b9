#include "tools/rcnic/analysis/thresholds.h"

#include <gtest/gtest.h>

#include <string>

#include "transport/gather/gather_calibration.h"
#include "unit/rcnic/dataset_builder.h"

namespace ramcore::rcnic {
namespace {

const std::vector<Operation> kSend = {Operation::Send};

Abilities adapter() {
  return {.operations = kSend,
          .pieces_max = 33,
          .inline_bytes_max = 912,
          .message_bytes_max = 64 * 1024,
          .has_selective_signals = true};
}

// Both ways of each size: `ratio(size)` is what the first has over the second.
template <typename Ratio>
Dataset measured(const char* experiment, const std::vector<Shape>& shapes, Mode first, Ratio ratio) {
  DatasetBuilder builder;
  for (const Shape& shape : shapes) {
    builder.addMessages(experiment, shape, 1e6 * (shape.mode == first ? ratio(shape) : 1.0));
  }
  return builder.build();
}

TEST(Thresholds, GatheringBeginsWhereItPays) {
  const std::vector<Shape> shapes = copyCalibrationShapes(adapter());
  const auto pays = [](const Shape& shape) { return shape.record_bytes >= 512 ? 1.2 : 0.7; };
  const auto steps = copySteps(measured(kCopyCalibration, shapes, Mode::ZeroCopy, pays));
  ASSERT_EQ(steps.size(), 18u);
  EXPECT_EQ(steps.front().size, 32u);
  EXPECT_DOUBLE_EQ(steps.front().speed_ratio, 0.7);
  EXPECT_EQ(bestFrom(steps), 512u);
}

TEST(Thresholds, OneOutlierDoesNotMoveIt) {
  const std::vector<Shape> shapes = copyCalibrationShapes(adapter());
  const auto pays = [](const Shape& shape) {
    return shape.record_bytes == 6144 ? 0.6 : shape.record_bytes == 64 ? 1.5 : shape.record_bytes >= 512 ? 1.2 : 0.7;
  };
  EXPECT_EQ(bestFrom(copySteps(measured(kCopyCalibration, shapes, Mode::ZeroCopy, pays))), 512u);
}

TEST(Thresholds, ItMayPayAlwaysOrNever) {
  const std::vector<Shape> shapes = copyCalibrationShapes(adapter());
  const auto never = [](const Shape&) { return 0.9; };
  const auto always = [](const Shape&) { return 1.1; };
  EXPECT_EQ(bestFrom(copySteps(measured(kCopyCalibration, shapes, Mode::ZeroCopy, never))), std::nullopt);
  EXPECT_EQ(bestFrom(copySteps(measured(kCopyCalibration, shapes, Mode::ZeroCopy, always))), 32u);
  EXPECT_EQ(bestFrom({}), std::nullopt);
  EXPECT_EQ(bestUpTo({}), std::nullopt);
}

TEST(Thresholds, TheProcessorDecidesWhereTheLinkIsTheLimit) {
  const Step same_speed{.size = 1024, .speed_ratio = 1.0, .cycles_ratio = 4.0};
  EXPECT_GT(same_speed.score(), 0);
  // What the papers have for records of 128 B: 53 % slower, 12 % fewer cycles.
  const Step small{.size = 128, .speed_ratio = 1 / 1.53, .cycles_ratio = 1 / 0.88};
  EXPECT_LT(small.score(), 0);
}

TEST(Thresholds, InlineEndsWhereItCosts) {
  const std::vector<Shape> shapes = inlineCalibrationShapes(adapter());
  const auto pays = [](const Shape& shape) { return shape.record_bytes <= 192 ? 1.3 : 0.8; };
  const auto steps = inlineSteps(measured(kInlineCalibration, shapes, Mode::Inline, pays));
  EXPECT_EQ(steps.back().size, 912u);
  EXPECT_EQ(bestUpTo(steps), 192u);
  Abilities none = adapter();
  none.inline_bytes_max = 0;
  EXPECT_TRUE(inlineCalibrationShapes(none).empty());
}

TEST(Thresholds, EntriesEndWhereLongListsCost) {
  const std::vector<Shape> shapes = entriesCalibrationShapes(adapter(), 512);
  const auto pays = [](const Shape& shape) { return shape.records <= 8 ? 1.1 : 0.8; };
  const auto steps = entriesSteps(measured(kEntriesCalibration, shapes, Mode::ZeroCopy, pays));
  EXPECT_EQ(bestUpTo(steps, kEntriesIndulgence), 9u);  // with the head
  // As much as long lists cost where the two are even: nothing is gained by a limit.
  const auto even = [](const Shape& shape) { return shape.records > 16 ? 0.95 : 0.97; };
  const auto even_steps = entriesSteps(measured(kEntriesCalibration, shapes, Mode::ZeroCopy, even));
  EXPECT_EQ(bestUpTo(even_steps, kEntriesIndulgence), transport::GatherCalibration::kEntriesMost);
  EXPECT_EQ(bestUpTo(even_steps), std::nullopt);
}

TEST(Thresholds, ShapesComeInPairsThatTheDeviceTakes) {
  Abilities narrow = adapter();
  narrow.pieces_max = 5;
  for (const std::vector<Shape>& shapes :
       {copyCalibrationShapes(narrow), entriesCalibrationShapes(narrow, 1024), inlineCalibrationShapes(narrow)}) {
    ASSERT_FALSE(shapes.empty());
    ASSERT_EQ(shapes.size() % 2, 0u);
    for (size_t i = 0; i < shapes.size(); i += 2) {
      EXPECT_EQ(shapes[i].bytes(), shapes[i + 1].bytes());
      EXPECT_LE(shapes[i].pieces(), 5u);
    }
  }
  EXPECT_EQ(copyCalibrationShapes(narrow).back().record_bytes, 16384u);
}

TEST(Thresholds, WhatWasMeasuredOneWayOnlyIsNoStep) {
  DatasetBuilder builder;
  builder.addMessages(kCopyCalibration, {.mode = Mode::ZeroCopy, .base_bytes = 64, .record_bytes = 32, .records = 8},
                      1e6);
  EXPECT_TRUE(copySteps(builder.build()).empty());
}

TEST(Thresholds, TextHasALineForEachStep) {
  EXPECT_EQ(textOf({{.size = 512, .speed_ratio = 1.5, .cycles_ratio = 1}}, "chunk bytes"),
            " chunk bytes      speed   1/cycles    score\n"
            "         512      1.50x      1.00x     0.41\n");
}

}  // namespace
}  // namespace ramcore::rcnic
