#pragma once

#include <cstddef>
#include <vector>

#include "base/ids.h"

namespace ramcore::client {

/// Numbers the mutating calls of one client identity and knows up to where all of them are finished: masters may forget
/// the results up to there. One thread.
class CallTracker {
 public:
  /// Sequences from the oldest unfinished call to the newest, at most: masters keep the results of all of them.
  static constexpr uint64_t kWindowMax = 4'096;

  CallTracker() : finished_(kInitialWindow, false) {}

  /// True if `count` more calls may begin now; not before an old one has finished otherwise.
  bool hasRoom(uint64_t count) const { return next_ - next_unfinished_ + count <= kWindowMax; }

  /// The sequence of a new call, for which there is room (checked); the same one goes with every attempt of it.
  Sequence begin();
  /// The call's outcome is known, or nobody will ask for it any more. Once per sequence (checked). True if that made
  /// room.
  bool finish(Sequence sequence);
  /// All sequences up to this one are finished; 0 if not even the first is.
  Sequence acknowledged() const { return Sequence(next_unfinished_ - 1); }
  uint64_t unfinishedCount() const { return unfinished_count_; }

 private:
  static constexpr size_t kInitialWindow = 64;  // a power of two

  std::vector<bool>::reference slot(uint64_t sequence) { return finished_[sequence & (finished_.size() - 1)]; }
  void grow();

  // Of the sequences in [next_unfinished_, next_), as a ring.
  std::vector<bool> finished_;
  uint64_t next_ = 1;
  uint64_t next_unfinished_ = 1;
  uint64_t unfinished_count_ = 0;
};

}  // namespace ramcore::client
