#include "runtime/sim/sim_trace.h"

#include <utility>

#include "runtime/clock.h"

namespace ramcore::runtime {
namespace {

std::string_view levelName(TraceLevel level) {
  switch (level) {
    case TraceLevel::Debug:
      return "debug";
    case TraceLevel::Info:
      return "info";
    case TraceLevel::Warning:
      return "warning";
    case TraceLevel::Error:
      return "error";
    case TraceLevel::Off:
      break;
  }
  return "off";
}

std::string seconds(int64_t time_ns) {
  const std::string fraction = std::to_string(time_ns % kNanosPerSecond);
  return std::to_string(time_ns / kNanosPerSecond) + "." + std::string(9 - fraction.size(), '0') + fraction;
}

}  // namespace

void SimTraceLog::printTo(std::function<void(std::string_view)> print, TraceLevel level) {
  print_ = std::move(print);
  print_level_ = level;
}

void SimTraceLog::write(std::string_view node, TraceLevel level, std::string_view text) {
  std::string line = seconds(scheduler_.nowNs());
  line.append(" ").append(node).append(" ").append(levelName(level)).append(" ").append(text);
  if (is_in_fingerprint_) scheduler_.mix(asBytes(line));
  ++line_count_;
  if (print_ && level >= print_level_) print_(line);
  lines_.push_back(std::move(line));
  if (lines_.size() > lines_max_) lines_.pop_front();
}

}  // namespace ramcore::runtime
