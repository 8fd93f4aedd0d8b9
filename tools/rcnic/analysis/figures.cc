#include "tools/rcnic/analysis/figures.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "tools/rcnic/analysis/experiments.h"

namespace ramcore::rcnic {
namespace {

using Scale = Chart::Scale;

double busyPercent(const Sample& sample) {
  return sample.round.elapsed_cycles == 0
             ? 0
             : 100 * static_cast<double>(sample.round.work_cycles) / static_cast<double>(sample.round.elapsed_cycles);
}
double megabytes(const Sample& sample) { return sample.bytesPerSecond() / 1e6; }
double thousandMessages(const Sample& sample) { return sample.messagesPerSecond() / 1e3; }
double cyclesOfByte(const Sample& sample) { return sample.cyclesPerByte(); }

/// What one chart shows of an experiment: which shapes make a line, at which x, with which y.
struct View {
  std::string experiment;
  std::function<std::string(const Shape&)> line;  ///< empty name: the shape is not shown
  std::function<double(const Shape&)> x;
  double (*y)(const Sample&);
};

std::vector<Chart::Line> linesOf(const Dataset& dataset, const View& view) {
  std::vector<Chart::Line> lines;
  for (const Shape& shape : dataset.shapesOf(view.experiment)) {
    const std::string name = view.line(shape);
    if (name.empty()) continue;
    std::vector<double> values;
    for (const Sample& sample : *dataset.find(view.experiment, shape)) values.push_back(view.y(sample));
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Chart::Line& one) { return one.name == name; });
    if (line == lines.end()) line = lines.insert(lines.end(), {name, {}});
    line->points.push_back({view.x(shape), quartilesOf(std::move(values))});
  }
  for (Chart::Line& line : lines) {
    std::sort(line.points.begin(), line.points.end(),
              [](const Chart::Point& a, const Chart::Point& b) { return a.x < b.x; });
  }
  return lines;
}

std::string recordsLine(const Shape& shape) {
  return std::to_string(shape.record_bytes) + " B records, " + std::string(nameOf(shape.mode));
}
std::string operationLine(const Shape& shape) {
  std::string name(nameOf(shape.operation));
  for (char& c : name) c = static_cast<char>(c - 'a' + 'A');
  return name;
}
double bytesOf(const Shape& shape) { return static_cast<double>(shape.bytes()); }
double recordBytesOf(const Shape& shape) { return shape.record_bytes; }
double recordsIn(const Shape& shape) { return shape.records; }
double signalsOf(const Shape& shape) { return shape.signal_every; }

std::string deltaLine(const Shape& shape) {
  if (shape.base_bytes == 0) return {};
  return "16 kB page and records of " + std::to_string(shape.record_bytes) + " B";
}
std::string lengthLine(const Shape& shape) {
  return operationLine(shape) + ", records of " + std::to_string(shape.record_bytes) + " B";
}
std::string featureLine(const Shape& shape) {
  return operationLine(shape) + (shape.mode == Mode::Inline ? ", inline" : "");
}

// From which size on gathering pays: zero-copy over copy-out, round by round.
std::vector<Chart::Line> ratioLines(const Dataset& dataset) {
  std::vector<Chart::Line> lines;
  for (const Shape& shape : dataset.shapesOf("crossover")) {
    if (shape.mode != Mode::ZeroCopy) continue;
    Shape other = shape;
    other.mode = Mode::CopyOut;
    const Rounds* const copied = dataset.find("crossover", other);
    if (copied == nullptr) continue;
    const std::string name = std::to_string(shape.records) + (shape.records == 1 ? " record" : " records");
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Chart::Line& one) { return one.name == name; });
    if (line == lines.end()) line = lines.insert(lines.end(), {name, {}});
    line->points.push_back(
        {recordBytesOf(shape), Dataset::ratio(*dataset.find("crossover", shape), *copied, &Sample::bytesPerSecond)});
  }
  return lines;
}

}  // namespace

std::vector<PaperFigure> figuresOf(const Dataset& dataset) {
  const std::string who = dataset.subject().name();
  const std::string remark = dataset.subject().is_software ? who + ", no adapter: says nothing about adapters" : who;
  const std::string kTransmission = "bytes in a transmission";
  std::vector<PaperFigure> figures;
  const auto add = [&](const std::string& name, Chart chart) {
    chart.remark = remark;
    if (!chart.lines.empty()) figures.push_back({name, std::move(chart)});
  };
  add("throughput", {.title = "Throughput, gathered and copied (IMDM 2016, figure 3)",
                     .remark = {},
                     .x_label = kTransmission,
                     .y_label = "MB/s",
                     .x_scale = Scale::PowersOfTwo,
                     .lines = linesOf(dataset, {"copy", &recordsLine, &bytesOf, &megabytes})});
  add("busy", {.title = "Share of the time in which the sender works (IMDM 2016, figure 4)",
               .remark = {},
               .x_label = kTransmission,
               .y_label = "% of the time",
               .x_scale = Scale::PowersOfTwo,
               .lines = linesOf(dataset, {"copy", &recordsLine, &bytesOf, &busyPercent})});
  add("cycles", {.title = "Cycles of the sender for a byte (IMDM 2016, figure 5)",
                 .remark = {},
                 .x_label = kTransmission,
                 .y_label = "cycles per byte",
                 .x_scale = Scale::PowersOfTwo,
                 .y_scale = Scale::Decades,
                 .lines = linesOf(dataset, {"copy", &recordsLine, &bytesOf, &cyclesOfByte})});
  add("deltas", {.title = "A page and deltas (IMDM 2016, figure 6)",
                 .remark = {},
                 .x_label = "records behind the page",
                 .y_label = "MB/s",
                 .lines = linesOf(dataset, {"deltas", &deltaLine, &recordsIn, &megabytes})});
  add("lengths", {.title = "Operations and lengths of gather lists (thesis, figures 2.2 and 2.3)",
                  .remark = {},
                  .x_label = "records in a transmission",
                  .y_label = "MB/s",
                  .x_scale = Scale::PowersOfTwo,
                  .lines = linesOf(dataset, {"lengths", &lengthLine, &recordsIn, &megabytes})});
  add("operations", {.title = "Operations and sizes (dissertation, figure 7.3)",
                     .remark = {},
                     .x_label = kTransmission,
                     .y_label = "thousands a second",
                     .x_scale = Scale::PowersOfTwo,
                     .lines = linesOf(dataset, {"operations", &operationLine, &recordBytesOf, &thousandMessages})});
  add("signals", {.title = "Completions and inline data, 8 B (dissertation, figures 7.4 to 7.6)",
                  .remark = {},
                  .x_label = "transmissions for one completion",
                  .y_label = "thousands a second",
                  .x_scale = Scale::PowersOfTwo,
                  .lines = linesOf(dataset, {"signals", &featureLine, &signalsOf, &thousandMessages})});
  add("crossover", {.title = "Gathered over copied: above 1 gathering pays",
                    .remark = {},
                    .x_label = "bytes of a record",
                    .y_label = "zero-copy / copy-out",
                    .x_scale = Scale::PowersOfTwo,
                    .lines = ratioLines(dataset)});
  return figures;
}

}  // namespace ramcore::rcnic
