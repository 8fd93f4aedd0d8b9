#pragma once

#include <cstdint>

namespace ramcore {

/// A point in the history of a cluster coordinator's state, which the coordinator sends with its answers: the number of
/// its latest change, and the start of the coordinator that made this change. The numbers go on over all starts of a
/// coordinator. Each start has an id that is drawn at random. A state that was restored from an older copy continues
/// with the numbers of that copy and reaches the same numbers again; the starts tell them apart.
struct ChangeRef {
  uint64_t start = 0;  ///< 0: no change is known yet
  uint64_t number = 0;

  bool operator==(const ChangeRef&) const = default;
  explicit operator bool() const { return start != 0; }
};

}  // namespace ramcore
