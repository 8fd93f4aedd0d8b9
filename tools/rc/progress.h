#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ramcore::rc {

/// Shows on stderr how far a long command is: a bar that is redrawn on a terminal, a line now and then elsewhere.
class Progress {
 public:
  Progress(std::string what, bool is_quiet);
  /// Cheap unless it is time to show something.
  /// @param part  share of the work that is done, 0 to 1; kUnknown if it is not known.
  void update(uint64_t objects, uint64_t bytes, double part);
  /// Shows the last line: totals and rate. A known part counts as 1 if `is_complete`.
  void finish(uint64_t objects, uint64_t bytes, bool is_complete);

  static constexpr double kUnknown = -1;

 private:
  using Clock = std::chrono::steady_clock;
  void show(uint64_t objects, uint64_t bytes, bool is_last);

  const std::string what_;
  const bool is_quiet_;
  const bool is_terminal_;
  const Clock::time_point begin_;
  Clock::time_point next_;
  double part_ = kUnknown;
};

}  // namespace ramcore::rc
