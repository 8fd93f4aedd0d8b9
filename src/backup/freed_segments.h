#pragma once

#include <algorithm>
#include <vector>

#include "base/ids.h"

namespace ramcore::backup {

/// The segments that one master has freed lately. Where the transport does not keep the order of requests, a request
/// that opens a replica may come after the one that frees it, and the storage frame that it took would never be freed.
/// Segment ids are not used twice, so what was freed is never opened again. Remembers the last kMax segments. A request
/// that comes later than that takes a storage frame until the process ends; the next process asks the master about it.
class FreedSegments {
 public:
  static constexpr size_t kMax = 1024;

  void add(SegmentId segment) {
    if (ids_.size() < kMax) {
      ids_.push_back(segment);
    } else {
      ids_[next_] = segment;
    }
    next_ = (next_ + 1) % kMax;
  }
  bool contains(SegmentId segment) const { return std::find(ids_.begin(), ids_.end(), segment) != ids_.end(); }

 private:
  std::vector<SegmentId> ids_;
  size_t next_ = 0;  ///< where the next one goes once there are kMax
};

}  // namespace ramcore::backup
