#pragma once

#include <vector>

#include "log/log.h"

namespace ramcore::log {

/// A set of segments beside the main log. Replay and moves append to it without contending for the head, and it becomes
/// part of the main log at one instant, when a head takes over whose digest lists its segments. Until then a recovery
/// of this server does not see it. Its entries are readable at once.
///
/// An entry of the side log may kill an entry of the main log only if the state that the killed entry held can be had
/// from elsewhere until the side log has joined: from the log that is being replayed, or from the source of a move. The
/// reason is that the cleaner relies on the death at once, and a crash before the join loses both entries.
///
/// Order of calls: append() and copy()..., close(), wait until isClosed(), join(), wait until isJoined(). abandon() or
/// leave() may come instead of join(), and also after takeBack().
///
/// Thread: one at a time. Destroying a side log that was neither joined nor abandoned nor left is a bug (checked).
class SideLog {
 public:
  SideLog(Log& log, Replicator& replicator, CopiesAwaited copies = CopiesAwaited::Least)
      : log_(log), replicator_(replicator), copies_(copies) {}
  ~SideLog();
  SideLog(const SideLog&) = delete;
  SideLog& operator=(const SideLog&) = delete;

  /// From now on what is appended may take the room that is held (LiveLimit::hold).
  void useHeldRoom() { uses_held_room_ = true; }
  /// Bytes that were appended and copied so far.
  uint64_t bytes() const { return bytes_; }

  /// As Log::append(). `end` is a position in a segment of the side log, about which LogDurability says nothing.
  Result<Appended> append(std::span<const EntryInput> group, AppendClass append_class);

  /// Appends one entry of another server's log as it is, as a group of its own, but without the result that it carries
  /// and the segment that it names. If it has neither, and no entry of its group follows it, no checksum is computed
  /// again. Only for entries by which no other entry dies. The live bytes and the replicas are updated by the next
  /// settle().
  /// @param entry  verified; at most config.entry_bytes_max; borrowed until return
  /// @return where it lies now; NoSpace and RetryLater as append. Cost: 20-30 ns for 150 bytes
  Result<EntryRef> copy(const EntryView& entry, AppendClass append_class);
  /// Counts what was copied since the last call and hands it to the replicas. To be called after each batch of copies.
  void settle();

  /// If something was found damaged in the segment that is appended to: has that closed on its replicas, from which it
  /// can be restored then. The next append opens another segment.
  void closeDamaged();

  /// Seals the side log: no more appends. Has all segments closed on all replicas; see isClosed().
  void close();
  /// True when, after close(), all segments are closed on all replicas.
  bool isClosed() const;
  /// True after close(), abandon() or leave(): there are no more appends.
  bool isSealed() const { return closed_; }
  /// True if a segment finds no place on a server that it waits for.
  bool lacksPlaces() const;
  /// For CopiesAwaited::All: from now on waits for no more replicas than the master needs to go on. Only after close().
  void awaitLeast();
  /// The number of segments that are not closed on all replicas.
  size_t unclosedCount() const;
  /// Only after isClosed(): makes the segments members of the log with the next head, which is requested at once.
  void join();
  /// True if the segments are members and a recovery of this server would include them.
  bool isJoined() const { return joined_ && log_.isRolled(roll_); }
  /// Undoes join(), so that everything can be given up after all. The call is to be repeated until it returns true, or
  /// until isJoined(): then it is too late. It is also too late, and the call changes nothing, as soon as the
  /// cleaner may have begun with one of the segments (Log::listCleanable has listed it).
  bool takeBack();
  /// True if join() was called, and takeBack() has not undone it.
  bool isJoining() const { return joined_; }
  /// Gives all segments up. The caller has made sure that nothing refers to their entries any more. Not after join(),
  /// unless takeBack() has undone it.
  void abandon();
  /// Called when the process ends: forgets the segments, which stay where they are because the index still refers to
  /// them. No recovery will see them. Not after join(), unless takeBack() has undone it.
  void leave();

 private:
  Segment* openSegment();
  void closeSegment();
  bool hasSpaceFor(uint64_t bytes) const;

  Log& log_;
  Replicator& replicator_;
  const CopiesAwaited copies_;
  std::vector<Segment*> segments_;
  uint64_t copied_bytes_ = 0;  // since the last settle(), all in segments_.back()
  uint64_t copied_result_bytes_ = 0;
  uint64_t copied_large_bytes_ = 0;
  uint32_t copied_entries_ = 0;
  uint64_t bytes_ = 0;
  bool uses_held_room_ = false;
  bool has_open_ = false;  ///< segments_.back() is appended to
  bool closed_ = false;    ///< sealed; isClosed() asks for the replicas as well
  bool joined_ = false;    ///< joining or joined; isJoined() asks for the head as well
  SegmentId roll_;
};

}  // namespace ramcore::log
