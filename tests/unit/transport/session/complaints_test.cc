#include "transport/session/complaints.h"

#include <gtest/gtest.h>

#include <vector>

namespace ramcore::transport {
namespace {

struct Warnings final : Trace {
  void write(TraceLevel level, std::string_view text) override {
    if (level == TraceLevel::Warning) lines.emplace_back(text);
  }
  std::vector<std::string> lines;
};

TEST(Complaints, OneASecond) {
  runtime::ManualClock clock(0);
  Warnings warnings;
  Complaints complaints(clock, warnings, "tcp: ");
  complaints.complain("a");
  clock.advance(runtime::kNanosPerSecond - 1);
  complaints.complain("b");
  complaints.complain("c");
  clock.advance(1);
  complaints.complain("d");
  EXPECT_EQ(warnings.lines, (std::vector<std::string>{"tcp: a", "tcp: d (and 2 more complaints since the last one)"}));
}

}  // namespace
}  // namespace ramcore::transport
