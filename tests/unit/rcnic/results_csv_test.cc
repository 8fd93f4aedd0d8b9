#include "tools/rcnic/analysis/results_csv.h"

#include <gtest/gtest.h>

#include <string>

#include "unit/rcnic/dataset_builder.h"

namespace ramcore::rcnic {
namespace {

std::vector<Sample> someSamples() {
  DatasetBuilder builder;
  builder.add("copy", gather(Mode::CopyOut, 128, 4), 1.5, 0.3);
  Shape shape = one(Operation::Read, Mode::ZeroCopy, 8, 64);
  shape.layout = Layout::Contiguous;
  shape.page_kb = kHugePageKb;
  builder.add("pages", shape, 0.5);
  builder.add("deltas", pageAnd(3), 2);
  return builder.samples();
}

std::string failureOf(const std::string& text) {
  const auto parsed = parseCsv(text, "r.csv");
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(ResultsCsv, WhatIsWrittenIsRead) {
  const std::vector<Sample> samples = someSamples();
  const auto parsed = parseCsv(csvOf(samples), "r.csv");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  ASSERT_EQ(parsed->size(), samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ((*parsed)[i].experiment, samples[i].experiment);
    EXPECT_EQ((*parsed)[i].subject, samples[i].subject);
    EXPECT_EQ((*parsed)[i].shape, samples[i].shape);
    EXPECT_EQ((*parsed)[i].round.number, samples[i].round.number);
    EXPECT_EQ((*parsed)[i].round.messages, samples[i].round.messages);
    EXPECT_EQ((*parsed)[i].round.work_cycles, samples[i].round.work_cycles);
    EXPECT_EQ((*parsed)[i].round.elapsed_ns, samples[i].round.elapsed_ns);
  }
}

TEST(ResultsCsv, TheLineIsWhatItsHeadingSays) {
  Sample sample{.experiment = "copy",
                .subject = {.transport = "verbs", .device = "rxe0", .is_software = true},
                .shape = gather(Mode::ZeroCopy, 1024, 6),
                .round = {1, 2, 3, 4, 5, 6, 7}};
  EXPECT_EQ(csvOf({sample}),
            "experiment,transport,device,software,operation,mode,layout,base_bytes,record_bytes,records,signal_every,"
            "page_kb,round,messages,elapsed_ns,elapsed_cycles,work_cycles,copy_cycles,steal_ms\n"
            "copy,verbs,rxe0,1,send,zero-copy,scattered,0,1024,6,16,4,1,2,3,4,5,6,7\n");
}

TEST(ResultsCsv, EveryWordThatIsWrongIsAnErrorWithItsLine) {
  const std::string good = csvOf(someSamples());
  ASSERT_EQ(failureOf(good), "");
  const size_t line = good.find('\n') + 1;
  const size_t end = good.find('\n', line);
  // Each field in turn, with something in its place that is no such thing.
  size_t begin = line;
  for (int field = 0; begin < end; ++field) {
    const size_t comma = std::min(good.find(',', begin), end);
    std::string bad = good;
    bad.replace(begin, comma - begin, field < 3 ? "" : "-1x");
    if (field == 2) bad = good;  // a transport without devices
    const std::string failure = failureOf(bad);
    EXPECT_EQ(failure.empty(), field == 2) << field;
    if (field != 2) {
      EXPECT_TRUE(failure.starts_with("r.csv:2: ")) << failure;
    }
    begin = comma + 1;
  }
}

TEST(ResultsCsv, WhatIsCutOffOrOfAnotherKindIsRefused) {
  const std::string good = csvOf(someSamples());
  EXPECT_NE(failureOf(good.substr(0, good.size() - 1)).find("cut off"), std::string::npos);
  EXPECT_NE(failureOf("").find("empty"), std::string::npos);
  EXPECT_NE(failureOf("a,b\n").find("r.csv:1: the heading"), std::string::npos);
  EXPECT_NE(failureOf(good + "copy,verbs\n").find("19 columns"), std::string::npos);
  std::string more = good;
  more.insert(more.size() - 1, ",1");
  EXPECT_NE(failureOf(more).find("19 columns"), std::string::npos);
}

}  // namespace
}  // namespace ramcore::rcnic
