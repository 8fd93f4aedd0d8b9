#pragma once

#include <cstddef>
#include <vector>

#include "base/ids.h"

namespace ramcore::client {

/// Numbers the mutating calls of one client identity and knows up to where all of them are finished: masters may forget
/// the results up to there. One thread.
class CallTracker {
 public:
  /// The largest number of sequences from the oldest unfinished call to the newest, both included: masters keep the
  /// results of all of them.
  static constexpr uint64_t kWindowMax = 4'096;

  CallTracker() : finished_(kInitialWindow, false) {}

  /// True if `count` more calls may begin now. Otherwise an old one has to finish before.
  bool hasRoom(uint64_t count) const { return next_ - next_unfinished_ + count <= kWindowMax; }

  /// The sequence of a new call, for which there is room (checked); the same one goes with every attempt of it.
  Sequence begin();
  /// Says that a call is over: its outcome is known, or will not be asked for any more. Once per sequence (checked).
  /// @return true if that made room for other calls
  bool finish(Sequence sequence);
  /// All sequences up to this one are finished; 0 if not even the first is.
  Sequence acknowledged() const { return Sequence(next_unfinished_ - 1); }
  uint64_t unfinishedCount() const { return unfinished_count_; }

 private:
  static constexpr size_t kInitialWindow = 64;  // a power of two

  std::vector<bool>::reference slot(uint64_t sequence) { return finished_[sequence & (finished_.size() - 1)]; }
  void grow();

  // For each sequence in [next_unfinished_, next_), as a ring.
  std::vector<bool> finished_;
  uint64_t next_ = 1;
  uint64_t next_unfinished_ = 1;
  uint64_t unfinished_count_ = 0;
};

}  // namespace ramcore::client
