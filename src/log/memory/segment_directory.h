#pragma once

#include <atomic>
#include <memory>

#include "log/memory/segment.h"

namespace ramcore::log {

/// Finds segments by id without a lock: it is asked for every entry that dies and for every entry that the cleaner
/// looks at.
///
/// Segments of one bucket are chained. A search that finds its segment is right, whatever changes at the same time. A
/// search that finds nothing is repeated if anything has changed meanwhile.
///
/// Threads: find from any, everything else from one at a time.
class SegmentDirectory {
 public:
  /// @param segment_count_max  the most segments at a time; with more, searches become slow
  explicit SegmentDirectory(size_t segment_count_max);

  /// @param segment  has its id; stays where it is for as long as the directory lives. Its id is not in here yet.
  void insert(Segment& segment);
  /// @param segment  still has the id that it was inserted with
  void erase(Segment& segment);
  /// From now on `copy`, which has the same id, is found instead: searches find the one or the other, and never
  /// nothing.
  /// @param segment  in here; stays where it is, with its id, as long as a search that found it may look at it
  void replace(Segment& segment, Segment& copy);
  /// nullptr: it is not in here. Two cache lines.
  Segment* find(SegmentId id) const;

 private:
  std::atomic<Segment*>& linkTo(const Segment& segment) const;
  std::atomic<Segment*>& bucketOf(SegmentId id) const { return buckets_[id.value & mask_]; }

  const uint64_t mask_;
  const std::unique_ptr<std::atomic<Segment*>[]> buckets_;
  std::atomic<uint64_t> changes_{0};  ///< odd while one is being made
};

}  // namespace ramcore::log
