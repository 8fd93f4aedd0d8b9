#include "tools/rcnic/analysis/tables.h"

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <string>

#include "tools/rcnic/analysis/experiments.h"

namespace ramcore::rcnic {
namespace {

__attribute__((format(printf, 2, 3))) void appendf(std::string& text, const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  text += line;
}

double shareOfTime(const Rounds& rounds, uint64_t Round::* cycles) {
  double part = 0;
  double all = 0;
  for (const Sample& sample : rounds) {
    part += static_cast<double>(sample.round.*cycles);
    all += static_cast<double>(sample.round.elapsed_cycles);
  }
  return all > 0 ? 100 * part / all : 0;
}

}  // namespace

std::string describe(const Shape& shape) {
  std::string text(nameOf(shape.operation));
  text += " " + std::string(nameOf(shape.mode));
  if (shape.base_bytes != 0) text += " " + std::to_string(shape.base_bytes) + " +";
  text += " " + std::to_string(shape.records) + " x " + std::to_string(shape.record_bytes) + " B";
  if (shape.layout == Layout::Contiguous) text += ", side by side";
  if (shape.signal_every != kSignalEvery) text += ", signal every " + std::to_string(shape.signal_every);
  if (shape.page_kb != 4) text += ", pages of " + std::to_string(shape.page_kb) + " kB";
  return text;
}

std::string tableOf(const Dataset& dataset, const std::string& experiment) {
  const Experiment* const known = experimentOf(experiment);
  std::string text;
  appendf(text, "%s, %s: %s\n", dataset.subject().name().c_str(), experiment.c_str(),
          known == nullptr ? "" : std::string(known->question).c_str());
  appendf(text, "%-48s %9s %17s %10s %8s %17s %6s %6s\n", "transmission", "MB/s", "quartiles", "msg/s", "cyc/B",
          "quartiles", "busy%", "copy%");
  uint64_t steal_ms = 0;
  double spread_worst = 1;
  size_t rounds_least = SIZE_MAX;
  for (const Shape& shape : dataset.shapesOf(experiment)) {
    const Rounds& rounds = *dataset.find(experiment, shape);
    const Quartiles bytes = Dataset::quartiles(rounds, &Sample::bytesPerSecond);
    const Quartiles cycles = Dataset::quartiles(rounds, &Sample::cyclesPerByte);
    appendf(text, "%-48s %9.2f %8.2f-%-8.2f %10.0f %8.2f %8.2f-%-8.2f %6.1f %6.1f\n", describe(shape).c_str(),
            bytes.median / 1e6, bytes.low / 1e6, bytes.high / 1e6, Dataset::median(rounds, &Sample::messagesPerSecond),
            cycles.median, cycles.low, cycles.high, shareOfTime(rounds, &Round::work_cycles),
            shareOfTime(rounds, &Round::copy_cycles));
    for (const Sample& sample : rounds) steal_ms += sample.round.steal_ms;
    spread_worst = std::max(spread_worst, Dataset::spread(rounds));
    rounds_least = std::min(rounds_least, rounds.size());
  }
  if (rounds_least == SIZE_MAX) return text + "nothing was measured\n";
  appendf(text,
          "%zu rounds, shapes in turn; rounds of one shape differ by up to %.2fx%s; stolen from this machine: %.2f s\n",
          rounds_least, spread_worst, spread_worst > kSpreadMax ? " (noisy)" : "",
          static_cast<double>(steal_ms) / 1000);
  return text;
}

}  // namespace ramcore::rcnic
