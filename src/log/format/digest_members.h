#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace ramcore::log {

/// The segments that have come to the log and those that have left it since the last digest. Each change is noted by
/// the code that makes it, under the log's lock and at little cost.
class MemberChanges {
 public:
  MemberChanges() { changes_.reserve(kExpected); }

  /// If a segment is noted more than once, the last call counts.
  void add(SegmentId id) { note(id, true); }
  void remove(SegmentId id) { note(id, false); }
  void swap(MemberChanges& other) { changes_.swap(other.changes_); }
  bool empty() const { return changes_.empty(); }

 private:
  friend class DigestMembers;
  struct Change {
    SegmentId id;
    uint32_t number;  ///< in the order in which they were noted
    bool is_member;
  };
  // The number of changes that passes and heads make between two digests. There are more only where thousands of
  // segments join at a time, and then memory is taken under the lock.
  static constexpr size_t kExpected = 1024;

  void note(SegmentId id, bool is_member) {
    changes_.push_back({id, static_cast<uint32_t>(changes_.size()), is_member});
  }

  std::vector<Change> changes_;
};

/// The segments that a digest lists, in order. There may be tens of thousands, so the changes are merged into the list
/// where no append waits: outside of the log's lock, by the thread that writes the digest.
class DigestMembers {
 public:
  /// @param changes  emptied; its memory is kept for the next time
  /// @return all members, ascending; valid until the next call
  std::span<const SegmentId> apply(MemberChanges& changes);

 private:
  std::vector<SegmentId> ids_;
  std::vector<SegmentId> former_;
};

}  // namespace ramcore::log
