#pragma once

#include <vector>

#include "log/log.h"

namespace ramcore::log {

/// A log on the side: replay and moves append to it without meeting others at the head, and it becomes part of the
/// main log at one instant, when a head takes over whose digest lists its segments. Until then a recovery of this
/// server does not see it. Its entries are readable at once.
///
/// An entry of the main log may be killed from here only if the state it held can still be had from elsewhere until the
/// side log has joined (the log being replayed, the source of a move): the cleaner relies on the death at once, and a
/// crash before the join loses both.
///
/// Order: append and copy..., close, (wait until isClosed), join, (wait until isJoined). Or abandon, or leave, also
/// after takeBack.
///
/// Thread: one at a time. Destroying a side log that was neither joined nor abandoned nor left is a bug (checked).
class SideLog {
 public:
  SideLog(Log& log, Replicator& replicator, CopiesAwaited copies = CopiesAwaited::Least)
      : log_(log), replicator_(replicator), copies_(copies) {}
  ~SideLog();
  SideLog(const SideLog&) = delete;
  SideLog& operator=(const SideLog&) = delete;

  /// As Log::append; `end` names a place in a segment of the side log, for which Log::isDurable says nothing.
  Result<Appended> append(std::span<const EntryInput> group, AppendClass append_class);

  /// Appends one entry of another server's log as it is, a group of its own, but without a result that it carries: no
  /// checksum is computed again if it carries none and names no segment. For entries by which nothing dies. Live bytes
  /// and replicas learn of it with the next settle().
  /// @param entry  verified; at most config.entry_bytes_max; borrowed until return
  /// @return where it lies now; NoSpace and RetryLater as append. Cost: 20-30 ns for 150 bytes
  Result<EntryRef> copy(const EntryView& entry, AppendClass append_class);
  /// Counts what was copied since the last call and hands it to the replicas. After each batch of copies.
  void settle();

  /// No more appends; has all segments closed on all replicas.
  void close();
  bool isClosed() const;
  /// close() was called.
  bool isSealed() const { return closed_; }
  /// Some segment finds no place on a server that it waits for.
  bool lacksPlaces() const;
  /// Of CopiesAwaited::All: no longer waits for more copies than its master needs to go on. After close().
  void awaitLeast();
  /// Segments that are not closed on all replicas.
  size_t unclosedCount() const;
  /// After isClosed(): makes the segments members of the log with the next head, which is opened at once.
  void join();
  /// The segments are members, and the log would be recovered with them.
  bool isJoined() const { return joined_ && log_.isRolled(roll_); }
  /// Undoes join(), so that everything can be given up after all. To be repeated until it is true or isJoined(): then
  /// it is too late. So it is, and nothing happens, when the cleaner has begun with it.
  bool takeBack();
  /// join() was called, and not taken back.
  bool isJoining() const { return joined_; }
  /// Gives everything up. Nobody refers to its entries any more. Not after join().
  void abandon();
  /// The process ends: forgets the segments, which stay where they are because the index still refers to them. No
  /// recovery will see them. Not after join().
  void leave();

 private:
  Segment* openSegment();

  Log& log_;
  Replicator& replicator_;
  const CopiesAwaited copies_;
  std::vector<Segment*> segments_;
  uint64_t copied_bytes_ = 0;  // since the last settle(), all in segments_.back()
  uint64_t copied_result_bytes_ = 0;
  uint64_t copied_large_bytes_ = 0;
  uint32_t copied_entries_ = 0;
  bool closed_ = false;
  bool joined_ = false;
  SegmentId roll_;
};

}  // namespace ramcore::log
