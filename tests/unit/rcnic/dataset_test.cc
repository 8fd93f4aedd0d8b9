#include "tools/rcnic/analysis/dataset.h"

#include <gtest/gtest.h>

#include <limits>

#include "tools/rcnic/analysis/tables.h"
#include "unit/rcnic/dataset_builder.h"

namespace ramcore::rcnic {
namespace {

TEST(Statistics, QuartilesLieBetweenNeighbours) {
  const Quartiles even = quartilesOf({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(even.low, 1.75);
  EXPECT_DOUBLE_EQ(even.median, 2.5);
  EXPECT_DOUBLE_EQ(even.high, 3.25);
  EXPECT_DOUBLE_EQ(quartilesOf({7}).high, 7);
  EXPECT_DOUBLE_EQ(quartilesOf({}).median, 0);
}

TEST(Statistics, SpreadIsLargestOverSmallest) {
  EXPECT_DOUBLE_EQ(spreadOf({2, 3, 2.5}), 1.5);
  EXPECT_DOUBLE_EQ(spreadOf({}), 1);
  EXPECT_EQ(spreadOf({0, 1}), std::numeric_limits<double>::infinity());
}

TEST(Dataset, RatiosAreTakenRoundByRound) {
  // Both rates double from one round to the next, as when the machine gets its processor back: the ratio does not.
  std::vector<Sample> samples;
  const Subject subject{.transport = "verbs", .device = "a", .is_software = false};
  for (uint32_t number = 1; number <= 3; ++number) {
    for (const auto& [mode, messages] : {std::pair{Mode::ZeroCopy, 300U}, std::pair{Mode::CopyOut, 100U}}) {
      samples.push_back({"copy",
                         subject,
                         gather(mode, 128, 1),
                         {.number = number, .messages = uint64_t{messages} << number, .elapsed_ns = 1'000'000}});
    }
  }
  const Dataset dataset(subject, samples);
  const Rounds* const ours = dataset.find("copy", gather(Mode::ZeroCopy, 128, 1));
  const Rounds* const theirs = dataset.find("copy", gather(Mode::CopyOut, 128, 1));
  ASSERT_TRUE(ours != nullptr && theirs != nullptr);
  const Quartiles ratio = Dataset::ratio(*ours, *theirs, &Sample::bytesPerSecond);
  EXPECT_DOUBLE_EQ(ratio.low, 3);
  EXPECT_DOUBLE_EQ(ratio.high, 3);
  EXPECT_DOUBLE_EQ(Dataset::spread(*ours), 4);
  const Rounds first_only(theirs->begin(), theirs->begin() + 1);
  EXPECT_DOUBLE_EQ(Dataset::ratio(*ours, first_only, &Sample::bytesPerSecond).median, 3);
  EXPECT_DOUBLE_EQ(Dataset::ratio(*ours, {}, &Sample::bytesPerSecond).median, 0);
}

TEST(Dataset, HoldsOneSubject) {
  DatasetBuilder verbs;
  verbs.add("copy", gather(Mode::ZeroCopy, 128, 1), 1);
  DatasetBuilder tcp({.transport = "tcp", .device = "", .is_software = true});
  tcp.add("copy", gather(Mode::CopyOut, 128, 1), 1);
  std::vector<Sample> both = verbs.samples();
  both.insert(both.end(), tcp.samples().begin(), tcp.samples().end());
  const std::vector<Subject> subjects = subjectsOf(both);
  ASSERT_EQ(subjects.size(), 2u);
  EXPECT_EQ(subjects[0].name(), "verbs:mlx4_0");
  const Dataset second(subjects[1], both);
  EXPECT_EQ(second.shapesOf("copy").size(), 1u);
  EXPECT_EQ(second.find("copy", gather(Mode::ZeroCopy, 128, 1)), nullptr);
}

TEST(Sample, FiguresAreWhatTheRoundMoved) {
  const Sample sample{.experiment = "copy",
                      .subject = {},
                      .shape = gather(Mode::ZeroCopy, 100, 10),
                      .round = {.number = 1, .messages = 500, .elapsed_ns = 500'000'000, .work_cycles = 1'000'000}};
  EXPECT_DOUBLE_EQ(sample.messagesPerSecond(), 1000);
  EXPECT_DOUBLE_EQ(sample.bytesPerSecond(), 1e6);
  EXPECT_DOUBLE_EQ(sample.cyclesPerByte(), 2);
  EXPECT_DOUBLE_EQ(Sample{}.bytesPerSecond(), 0);
}

TEST(Tables, SayWhatWasMeasuredAndHowMuchRoundsDiffer) {
  DatasetBuilder builder;
  builder.add("deltas", pageAnd(2), 3.0, 0.25);
  builder.add("deltas", gather(Mode::ZeroCopy, 128, 8), 1.0, 1, 2.0);
  const std::string table = tableOf(builder.build(), "deltas");
  EXPECT_NE(table.find("verbs:mlx4_0, deltas: a page of 16 kB"), std::string::npos) << table;
  EXPECT_NE(table.find("send zero-copy 16384 + 2 x 128 B"), std::string::npos) << table;
  EXPECT_NE(table.find("  2999.99 "), std::string::npos) << table;
  EXPECT_NE(table.find("7 rounds, shapes in turn; rounds of one shape differ by up to 2.00x (noisy)"),
            std::string::npos)
      << table;
  EXPECT_NE(tableOf(builder.build(), "copy").find("nothing was measured"), std::string::npos);
}

TEST(Experiments, LeaveOutWhatATransportCannot) {
  const std::vector<Operation> send = {Operation::Send};
  const Abilities narrow{.operations = send,
                         .pieces_max = 4,
                         .inline_bytes_max = 0,
                         .message_bytes_max = 2048,
                         .has_selective_signals = false};
  size_t count = 0;
  for (const Experiment& experiment : experiments()) {
    for (const Shape& shape : shapesFor(experiment, narrow, false)) {
      ++count;
      EXPECT_EQ(shape.operation, Operation::Send);
      EXPECT_NE(shape.mode, Mode::Inline);
      EXPECT_LE(shape.bytes(), 2048u);
      EXPECT_EQ(shape.signal_every, kSignalEvery);
      EXPECT_TRUE(shape.mode == Mode::CopyOut || shape.pieces() <= 4) << describe(shape);
    }
  }
  EXPECT_GT(count, 20u);
  EXPECT_EQ(experimentOf("no such experiment"), nullptr);
}

TEST(Experiments, ASmokeHasOneOfEachKind) {
  const std::vector<Operation> operations = {Operation::Send, Operation::Write, Operation::Read};
  const Abilities abilities{.operations = operations,
                            .pieces_max = 33,
                            .inline_bytes_max = 1024,
                            .message_bytes_max = 64 * 1024,
                            .has_selective_signals = true};
  for (const Experiment& experiment : experiments()) {
    const std::vector<Shape> all = shapesFor(experiment, abilities, false);
    const std::vector<Shape> few = shapesFor(experiment, abilities, true);
    EXPECT_LT(few.size(), all.size()) << experiment.name;
    for (const Shape& shape : all) {
      EXPECT_TRUE(std::any_of(few.begin(), few.end(),
                              [&](const Shape& other) {
                                return other.operation == shape.operation && other.mode == shape.mode &&
                                       other.layout == shape.layout && other.page_kb == shape.page_kb;
                              }))
          << experiment.name << ": " << describe(shape);
    }
  }
}

}  // namespace
}  // namespace ramcore::rcnic
