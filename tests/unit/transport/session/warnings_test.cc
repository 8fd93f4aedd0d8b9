#include "transport/session/warnings.h"

#include <gtest/gtest.h>

#include <vector>

namespace ramcore::transport {
namespace {

struct WarningTrace final : Trace {
  void write(TraceLevel level, std::string_view text) override {
    if (level == TraceLevel::Warning) lines.emplace_back(text);
  }
  std::vector<std::string> lines;
};

TEST(Warnings, OneASecond) {
  runtime::ManualClock clock(0);
  WarningTrace trace;
  Warnings warnings(clock, trace, "tcp: ");
  warnings.warn("a");
  clock.advance(runtime::kNanosPerSecond - 1);
  warnings.warn("b");
  warnings.warn("c");
  clock.advance(1);
  warnings.warn("d");
  EXPECT_EQ(trace.lines, (std::vector<std::string>{"tcp: a", "tcp: d (and 2 more warnings since the last one)"}));
}

}  // namespace
}  // namespace ramcore::transport
