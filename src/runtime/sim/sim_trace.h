#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "base/trace.h"
#include "runtime/sim/sim_scheduler.h"

namespace ramcore::runtime {

/// What all nodes of a simulated cluster trace, in the order in which it happened. Each line goes into the fingerprint
/// of the run, unless it is left out; the last ones are kept for the report of a failed run.
class SimTraceLog {
 public:
  /// The scheduler outlives the log.
  /// @param lines_max  lines kept, the oldest go first
  explicit SimTraceLog(SimScheduler& scheduler, size_t lines_max = 2'000)
      : scheduler_(scheduler), lines_max_(lines_max) {}

  /// Has every line of `level` and above handed to `print` as well. Has no influence on the run.
  void printTo(std::function<void(std::string_view line)> print, TraceLevel level);
  /// From now on the fingerprint covers only events and messages, so that builds that do the same and trace other words
  /// have the same fingerprint.
  void leaveOutOfFingerprint() { is_in_fingerprint_ = false; }
  /// Adds "12.000345678 server3 info text", where the number is simulated seconds.
  void write(std::string_view node, TraceLevel level, std::string_view text);

  const std::deque<std::string>& lines() const { return lines_; }
  uint64_t lineCount() const { return line_count_; }

 private:
  SimScheduler& scheduler_;
  size_t lines_max_;
  bool is_in_fingerprint_ = true;
  std::deque<std::string> lines_;
  uint64_t line_count_ = 0;
  std::function<void(std::string_view)> print_;
  TraceLevel print_level_ = TraceLevel::Off;
};

/// The trace of one node.
class SimTrace final : public Trace {
 public:
  SimTrace(SimTraceLog& log, std::string_view node) : log_(log), node_(node) {}
  void write(TraceLevel level, std::string_view text) override { log_.write(node_, level, text); }

 private:
  SimTraceLog& log_;
  std::string node_;
};

}  // namespace ramcore::runtime
