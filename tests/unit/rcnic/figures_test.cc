#include "tools/rcnic/analysis/figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "unit/rcnic/dataset_builder.h"

namespace ramcore::rcnic {
namespace {

size_t countOf(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(SvgChart, DrawsEveryPointOfEveryLine) {
  Chart chart{.title = "a < b & c",
              .remark = "somewhere",
              .x_label = "bytes",
              .y_label = "MB/s",
              .x_scale = Chart::Scale::PowersOfTwo,
              .y_scale = Chart::Scale::Decades,
              .lines = {{"one", {{16, {1, 2, 3}}, {64, {10, 20, 30}}}}, {"two \"", {{1024, {5, 5, 5}}}}}};
  const std::string svg = svgOf(chart);
  EXPECT_EQ(countOf(svg, "<circle"), 3u);
  EXPECT_EQ(countOf(svg, "<polyline"), 2u);
  EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
  EXPECT_NE(svg.find("two &quot;"), std::string::npos);
  EXPECT_NE(svg.find(">1K</text>"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
}

TEST(SvgChart, LeavesOutWhatItsScaleCannotShow) {
  Chart chart{.title = "t",
              .remark = {},
              .x_label = {},
              .y_label = {},
              .y_scale = Chart::Scale::Decades,
              .lines = {{"a", {{1, {0, 0, 0}}, {2, {0, INFINITY, 0}}}}}};
  EXPECT_EQ(svgOf(chart), "");
  chart.lines.front().points.push_back({3, {0, 10, 20}});
  EXPECT_EQ(countOf(svgOf(chart), "<circle"), 1u);
}

TEST(SvgChart, ALineWithoutHeightHasAnAxis) {
  const Chart chart{.title = "t", .remark = {}, .x_label = {}, .y_label = {}, .lines = {{"a", {{0, {0, 0, 0}}}}}};
  const std::string svg = svgOf(chart);
  EXPECT_EQ(countOf(svg, "<circle"), 1u);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(Figures, ShowWhatWasMeasured) {
  DatasetBuilder builder({.transport = "verbs", .device = "rxe0", .is_software = true});
  for (const uint32_t records : {1U, 8U}) {
    builder.add("copy", gather(Mode::ZeroCopy, 128, records), 1);
    builder.add("copy", gather(Mode::CopyOut, 1024, records), 1);
    builder.add("crossover", gather(Mode::ZeroCopy, 64, records), 1);
    builder.add("crossover", gather(Mode::CopyOut, 64, records), 2);
  }
  builder.add("deltas", pageAnd(4), 1);
  builder.add("deltas", gather(Mode::ZeroCopy, 128, 8), 1);  // no page: what the page is compared with
  const std::vector<PaperFigure> figures = figuresOf(builder.build());
  std::string names;
  for (const PaperFigure& figure : figures) {
    names += figure.name + " ";
    EXPECT_EQ(figure.chart.remark, "verbs:rxe0, no adapter: says nothing about adapters");
    EXPECT_NE(svgOf(figure.chart), "") << figure.name;
  }
  EXPECT_EQ(names, "throughput busy cycles deltas crossover ");
  EXPECT_EQ(figures[0].chart.lines.size(), 2u);
  EXPECT_EQ(figures[0].chart.lines[0].name, "128 B records, zero-copy");
  EXPECT_DOUBLE_EQ(figures[0].chart.lines[0].points[1].x, 1024);
  EXPECT_EQ(figures[3].chart.lines.size(), 1u);
  EXPECT_DOUBLE_EQ(figures[4].chart.lines[0].points[0].y.median, 0.5);
}

}  // namespace
}  // namespace ramcore::rcnic
