#pragma once

#include <cstdint>

namespace ramcore {

/// How far the state of a cluster's coordinator has come, as it tells it with its answers: the number of its latest
/// change, which goes on over all starts of a coordinator, and the start that made it, drawn at random. A state that
/// was put back from an older copy counts on from there, and reaches the same numbers again; the starts tell them
/// apart.
struct ChangeRef {
  uint64_t start = 0;  ///< 0: nothing was heard of any change yet
  uint64_t number = 0;

  bool operator==(const ChangeRef&) const = default;
  explicit operator bool() const { return start != 0; }
};

}  // namespace ramcore
