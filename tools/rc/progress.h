#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ramcore::rc {

/// Tells on stderr how far something long is: a bar that is redrawn on a terminal, a line now and then elsewhere.
class Progress {
 public:
  /// @param total_bytes  0 if nobody knows.
  Progress(std::string what, uint64_t total_bytes, bool is_quiet);
  /// Cheap unless it is time to show something.
  void update(uint64_t objects, uint64_t bytes);
  /// The last line: totals and rate.
  void finish(uint64_t objects, uint64_t bytes);

 private:
  using Clock = std::chrono::steady_clock;
  void show(uint64_t objects, uint64_t bytes, bool is_last);

  const std::string what_;
  const uint64_t total_bytes_;
  const bool is_quiet_;
  const bool is_terminal_;
  const Clock::time_point begin_;
  Clock::time_point next_;
};

}  // namespace ramcore::rc
