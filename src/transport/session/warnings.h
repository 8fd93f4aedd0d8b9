#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/trace.h"
#include "runtime/clock.h"

namespace ramcore::transport {

/// Rate-limited warnings about peers, at most one a second: unknown peers must not be able to fill a disk. The others
/// go to the level of debug, and the next warning says how many there were. One thread.
class Warnings {
 public:
  /// `prefix` stands in front of every line. All borrowed.
  Warnings(runtime::Clock& clock, Trace& trace, std::string_view prefix)
      : clock_(clock), trace_(trace), prefix_(prefix) {}

  void warn(std::string text) {
    text.insert(0, prefix_);
    const int64_t now_ns = clock_.nowNs();
    if (has_warned_ && now_ns - last_ns_ < runtime::kNanosPerSecond) {
      ++dropped_;
      trace_.debug(text);
      return;
    }
    has_warned_ = true;
    last_ns_ = now_ns;
    const uint64_t dropped = std::exchange(dropped_, 0);
    if (dropped != 0) text += " (and " + std::to_string(dropped) + " more warnings since the last one)";
    trace_.warning(text);
  }

 private:
  runtime::Clock& clock_;
  Trace& trace_;
  const std::string_view prefix_;
  bool has_warned_ = false;
  int64_t last_ns_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace ramcore::transport
