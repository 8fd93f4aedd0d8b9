#pragma once

#include <atomic>
#include <cstdint>

#include "base/ids.h"
#include "runtime/epoch.h"

namespace ramcore::log {

/// On how many servers a segment has to be before it counts as open, and before it counts as closed.
enum class CopiesAwaited : uint8_t {
  Least,  ///< on as many as its master needs to go on; further replicas follow when there are places
  All,    ///< on all that are to have a replica, including those that have no place for it. For segments that take the
          ///< place of replicas which other servers give up once the new ones are there
};

/// What the log knows of the replicas of one segment. Under the log's lock, except for what is atomic.
struct SegmentReplication {
  uint32_t durable_bytes = 0;  ///< committed on all replicas
  uint32_t flushed_bytes = 0;  ///< the part of them that is flushed there
  std::atomic<bool> has_places{false};
  std::atomic<bool> lacks_places{false};
  CopiesAwaited copies_awaited = CopiesAwaited::Least;

  void clear() {
    durable_bytes = flushed_bytes = 0;
    has_places.store(false, std::memory_order_relaxed);
    lacks_places.store(false, std::memory_order_relaxed);
    copies_awaited = CopiesAwaited::Least;
  }
};

/// Since when, and until when, one segment is a member of the log. Under the log's lock, except for what is atomic; for
/// a private segment, `sealed_ticket` belongs to its one writer until it has joined.
struct SegmentMembership {
  SegmentId joins_with;  ///< a segment of a side log may be taken back until there is a head of this id or
                         ///< higher
  SegmentId first_head;  ///< while it joins: the first head whose digest lists it, open or not; or none
  SegmentId leave_head;  ///< the first head whose digest does not list it any more
  runtime::GraceTicket sealed_ticket;  ///< when it is over, all writers that appended to it have told the owner where
                                       ///< their entries lie
  uint32_t own_bytes = 0;   ///< for a head: the bytes that it begins with; if it has no more, nothing was appended
  bool is_listed = false;   ///< in the digest of the head, or of a later one
  bool is_joining = false;  ///< it is among those of JoiningSegments
  bool stays = false;       ///< it may not be taken back any more, because a pass of the cleaner may have it
  std::atomic<bool> in_pass{false};  ///< a pass of the cleaner has it: tombstones that name it leave together with it
  std::atomic<bool> is_replaced{false};  ///< unlinked because a copy in another slot has taken its place

  /// All but `is_listed`, which is false when a segment is given up, and `sealed_ticket`.
  void clear() {
    joins_with = first_head = leave_head = {};
    own_bytes = 0;
    is_joining = stays = false;
    in_pass = is_replaced = false;
  }
};

/// How far the memory of one segment that left the log is given back: first the tombstones that name it are counted
/// out, then the grace period is waited for, then the pins; then the entries that are not marked freed yet are marked.
/// Thread: that of the reclaimer, from when the segment was unlinked.
struct SegmentReclamation {
  enum class Wait : uint8_t { Names, Grace, Epoch, Pins, Marks };
  Wait wait = Wait::Names;
  uint32_t marked_bytes = 0;  ///< entries below this offset are marked, first by the cleaner and then by the reclaimer
  runtime::GraceTicket ticket;
  uint64_t pin_epoch = 0;

  void clear() {
    wait = Wait::Names;
    marked_bytes = 0;
  }
};

}  // namespace ramcore::log
