#include "tools/rcnic/analysis/results_csv.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <utility>

namespace ramcore::rcnic {
namespace {

constexpr std::string_view kHeading =
    "experiment,transport,device,software,operation,mode,layout,base_bytes,record_bytes,records,signal_every,page_kb,"
    "round,messages,elapsed_ns,elapsed_cycles,work_cycles,copy_cycles,steal_ms";
constexpr size_t kColumns = 19;

Failure badLine(const std::string& name, size_t line, const std::string& cause) {
  return Failure{Status::BadConfig,
                 name + ":" + std::to_string(line) + ": " + cause + "; give a file that rcnic run --csv has written"};
}

bool split(std::string_view line, std::array<std::string_view, kColumns>& fields) {
  for (size_t i = 0; i < kColumns; ++i) {
    const size_t comma = line.find(',');
    fields[i] = line.substr(0, comma);
    if ((comma == std::string_view::npos) != (i + 1 == kColumns)) return false;
    if (comma != std::string_view::npos) line.remove_prefix(comma + 1);
  }
  return true;
}

template <typename T>
bool readNumber(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

// The first field that makes no sense; without data() if there is none.
std::string_view readFields(const std::array<std::string_view, kColumns>& fields, Sample& sample) {
  sample.experiment = fields[0];
  sample.subject.transport = fields[1];
  sample.subject.device = fields[2];
  uint32_t is_software = 0;
  if (!readNumber(fields[3], is_software) || is_software > 1) return fields[3];
  sample.subject.is_software = is_software == 1;
  const auto operation = operationOf(fields[4]);
  if (!operation) return fields[4];
  const auto mode = modeOf(fields[5]);
  if (!mode) return fields[5];
  const auto layout = layoutOf(fields[6]);
  if (!layout) return fields[6];
  sample.shape.operation = *operation;
  sample.shape.mode = *mode;
  sample.shape.layout = *layout;
  const std::array<std::pair<size_t, uint32_t*>, 6> small = {{{7, &sample.shape.base_bytes},
                                                              {8, &sample.shape.record_bytes},
                                                              {9, &sample.shape.records},
                                                              {10, &sample.shape.signal_every},
                                                              {11, &sample.shape.page_kb},
                                                              {12, &sample.round.number}}};
  for (const auto& [column, value] : small) {
    if (!readNumber(fields[column], *value)) return fields[column];
  }
  const std::array<std::pair<size_t, uint64_t*>, 6> large = {{{13, &sample.round.messages},
                                                              {14, &sample.round.elapsed_ns},
                                                              {15, &sample.round.elapsed_cycles},
                                                              {16, &sample.round.work_cycles},
                                                              {17, &sample.round.copy_cycles},
                                                              {18, &sample.round.steal_ms}}};
  for (const auto& [column, value] : large) {
    if (!readNumber(fields[column], *value)) return fields[column];
  }
  return {};
}

}  // namespace

std::string csvOf(const std::vector<Sample>& samples) {
  std::string text(kHeading);
  text += '\n';
  for (const Sample& sample : samples) {
    const Shape& shape = sample.shape;
    const Round& round = sample.round;
    text += sample.experiment + ',' + sample.subject.transport + ',' + sample.subject.device + ',' +
            (sample.subject.is_software ? '1' : '0');
    for (const std::string_view word : {nameOf(shape.operation), nameOf(shape.mode), nameOf(shape.layout)}) {
      text += ',';
      text += word;
    }
    for (const uint64_t number :
         {uint64_t{shape.base_bytes}, uint64_t{shape.record_bytes}, uint64_t{shape.records},
          uint64_t{shape.signal_every}, uint64_t{shape.page_kb}, uint64_t{round.number}, round.messages,
          round.elapsed_ns, round.elapsed_cycles, round.work_cycles, round.copy_cycles, round.steal_ms}) {
      text += ',' + std::to_string(number);
    }
    text += '\n';
  }
  return text;
}

Outcome<std::vector<Sample>> parseCsv(std::string_view text, const std::string& name) {
  std::vector<Sample> samples;
  size_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return badLine(name, number, "the line has no end: the file is cut off");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (number == 1) {
      if (line != kHeading) return badLine(name, number, "the heading is not that of a file of results");
      continue;
    }
    std::array<std::string_view, kColumns> fields;
    if (!split(line, fields)) {
      return badLine(name, number, "a line of results has " + std::to_string(kColumns) + " columns");
    }
    Sample sample;
    const std::string_view wrong = readFields(fields, sample);
    if (wrong.data() != nullptr) return badLine(name, number, "'" + std::string(wrong) + "' makes no sense there");
    if (sample.experiment.empty() || sample.subject.transport.empty()) {
      return badLine(name, number, "experiment and transport have no name");
    }
    samples.push_back(std::move(sample));
  }
  if (number == 0) return badLine(name, 1, "the file is empty");
  return samples;
}

}  // namespace ramcore::rcnic
