#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ramcore::transport {

/// An accepted connection that has not yet proven who it is.
struct Newcomer {
  std::string source;       ///< what tells strangers apart: the host, the process
  int64_t deadline_ns = 0;  ///< of its handshake; all have the same time, so the least one is the oldest
  bool is_silent = false;   ///< nothing came from it yet
};

/// Which of them has to go when there is no room for another one: of the source with the most, one that said nothing
/// before one that did, and then the oldest. So whoever opens connections and leaves them pushes out its own ones, and
/// an honest peer needs a few round trips only. At least one newcomer (checked).
size_t chooseWhoLeaves(std::span<const Newcomer> newcomers);

}  // namespace ramcore::transport
