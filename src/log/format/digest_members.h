#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace ramcore::log {

/// Which segments have come to the log and which have left it since the last digest. Noted by whoever changes that,
/// under the log's lock and at little cost.
class MemberChanges {
 public:
  MemberChanges() { changes_.reserve(kExpected); }

  /// Of one segment the last word counts.
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
  // What passes and heads change between two digests. More come only where thousands of segments join at a time, and
  // then memory is taken under the lock.
  static constexpr size_t kExpected = 1024;

  void note(SegmentId id, bool is_member) {
    changes_.push_back({id, static_cast<uint32_t>(changes_.size()), is_member});
  }

  std::vector<Change> changes_;
};

/// The segments that a digest lists, in order. There may be tens of thousands, so what has changed is put in where
/// nobody waits: by whoever writes the digest, outside of the log's lock.
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
