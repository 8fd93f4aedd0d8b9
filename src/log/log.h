#pragma once

#include <optional>
#include <span>
#include <vector>

#include "log/entry_owner.h"
#include "log/integrity/integrity.h"
#include "log/live_counts.h"
#include "log/live_limit.h"
#include "log/log_appender.h"
#include "log/log_durability.h"
#include "log/log_heads.h"
#include "log/log_members.h"
#include "log/memory/log_config.h"
#include "log/memory/log_lock.h"
#include "log/memory/log_stats.h"
#include "log/memory/segment_pool.h"
#include "log/own_entries.h"
#include "log/private_segments.h"
#include "log/replicator.h"
#include "log/segment_copies.h"
#include "log/segment_reclaimer.h"
#include "log/segment_settling.h"
#include "runtime/epoch.h"
#include "runtime/pins.h"

namespace ramcore::log {

/// The log of one server: appends groups of entries at its head, rolls the head, and knows what is durable and what is
/// still needed.
///
/// At any moment the newest digest that a recovery can find lists segments that all exist, and what they hold is the
/// acknowledged state: LogHeads says how.
///
/// Each part of the log is a class of its own; this one puts them together, and hands on what the replicator reports.
///
/// Threads: any, unless a call says otherwise. Callers are inside a read section of the Rcu (a worker between two
/// quiescent states): the read section keeps a segment that they found in place. One LogLock guards the head and the
/// bookkeeping of all parts. The pool's lock is never taken while it is held. Replicator, owner and waiters are called
/// without locks.
class Log final : public ReplicationEvents {
 public:
  struct Environment {
    EntryOwner& owner;
    Replicator& replicator;
    runtime::Rcu& rcu;
    runtime::PinRegistry& pins;
  };

  /// Begins a new log. Appends answer RetryLater until its first head is open on all replicas (at once without
  /// replicas). Everything passed by reference outlives the log.
  /// @param config  validated (checked)
  Log(const LogConfig& config, LogIdentity identity, const LogMemory& memory, Environment environment);
  ~Log() override;

  /// Appends entries that are replayed together or not at all.
  ///
  /// On return the entries are readable on this server but not durable: no answer may reveal them before
  /// `isDurable(end)` is true. The entry that an entry of the group names as `dead` counts as garbage from then on, and
  /// is marked superseded.
  ///
  /// @param group  1..kGroupEntriesMax entries of at most config.entry_bytes_max each (checked). Together, without the
  ///               largest, they have at most half of config.entry_bytes_max, so that any head has room for the group.
  ///               Borrowed until return. Every `dead` is an entry to which the owner still has a reference (the caller
  ///               holds the lock of its key).
  /// @return NoSpace     the live bytes are at their limit, or cleaning gains nothing any more: objects have to be
  ///                     removed first (Write only)
  ///         RetryLater  the next head is not open yet, or the cleaner has to collect garbage before there is memory
  ///                     for one, or too many large groups are being copied at a time (CommitRing)
  ///         any other   the status given to fail(): final
  /// Never waits for I/O. Groups up to 1 KB are copied under a spin lock; larger ones outside it.
  Result<Appended> append(std::span<const EntryInput> group, AppendClass append_class) {
    return *appender_.append(group, append_class, LockWait::Any);
  }
  /// As above, but returns nothing, and has appended nothing, if other threads hold the lock of the head for longer
  /// than `wait` allows.
  std::optional<Result<Appended>> append(std::span<const EntryInput> group, AppendClass append_class, LockWait wait) {
    return appender_.append(group, append_class, wait);
  }

  /// An entry in memory. Valid inside the read section, or while a pin taken in it is held.
  EntryView view(EntryRef ref) const { return EntryView(memory_.at(ref)); }

  /// Counts an entry as garbage whose death no other entry of the log records: a result record, or an object of a
  /// tablet that this server does not hold any more. Called exactly once for an entry.
  void markDead(EntryRef ref) RC_EXCLUDES(kLogLock) { counts_.markDead(ref); }
  /// Notes that the result which the object at `ref` carries is not needed any more: the result counts as garbage, and
  /// later copies of the object omit it. Does nothing if the object is dead. Called exactly once for a result.
  void markAcknowledged(EntryRef ref) { counts_.markAcknowledged(ref); }

  /// Takes the damage mark off an entry whose bytes are right again, and counts what happened to the entry while it was
  /// marked. The caller has let a grace period pass since Integrity::restore(). Does nothing if the entry is gone with
  /// its segment, because another entry may lie there now.
  /// Thread: the cleaner's.
  Integrity::Released release(const Damage& damage) RC_EXCLUDES(kLogLock) { return counts_.release(damage); }

  /// Requests a head that is newer than every segment that exists now: its digest lists what is in the log now, and its
  /// id is above every id handed out so far. In a full memory the head is opened when there is memory for it.
  /// @return the request, for isRolled()
  SegmentId requestRoll() RC_EXCLUDES(kLogLock) { return heads_.requestRoll(); }
  /// As requestRoll(), for tablets that come from other servers and cannot wait until writes find a head. When the
  /// replicator is short of places on backups, the head is a small one, as for removes, because the logs from which the
  /// tablets come may be what fills the storage. If nothing was appended to the present head, none was refused by it
  /// for want of room, and no segment but the next head is newer, the present head is returned, and no further places
  /// are taken.
  SegmentId requestHeadToJoin() RC_EXCLUDES(kLogLock) { return heads_.requestHeadToJoin(); }
  /// Withdraws a request of requestHeadToJoin(), at once. The head may exist already, or may come all the same. If
  /// nothing else needs it and it is not open yet, its places on backups are given back.
  void cancelHeadToJoin(SegmentId request) RC_EXCLUDES(kLogLock) { heads_.cancelHeadToJoin(request); }
  /// True once a requested head has taken over and the heads before it are closed everywhere.
  bool isRolled(SegmentId request) const { return durability_.durableUpTo().segment >= request; }
  /// The head, or none before the first one is open.
  SegmentId headId() const { return heads_.headId(); }

  /// Gives the memory of unlinked segments back once no thread can read it any more. To be called now and then, and in
  /// each round while segments wait. Thread: the reclaimer of the Rcu.
  /// @return the number of segments that still wait
  size_t reclaim(uint64_t now_ns) RC_EXCLUDES(kLogLock);
  /// Opens the next head if one is due. Called by the log itself whenever something changed; calling it is harmless.
  void maintain() RC_EXCLUDES(kLogLock) { heads_.maintain(); }
  /// Ends the log: appends answer `status` from now on and all waiters are called with it. Final.
  void fail(Status status) RC_EXCLUDES(kLogLock) { durability_.fail(status); }

  SegmentPool& pool() { return pool_; }
  const SegmentPool& pool() const { return pool_; }
  Replicator& replicator() const { return environment_.replicator; }
  const LogConfig& config() const { return pool_.config(); }
  const LogIdentity& identity() const { return own_entries_.identity(); }
  LogStats& stats() { return stats_; }
  const LogStats& stats() const { return stats_; }
  /// The damage that is known in the memory.
  Integrity& integrity() { return integrity_; }
  const Integrity& integrity() const { return integrity_; }
  /// Up to where the log is durable and flushed, and waiting for that.
  LogDurability& durability() { return durability_; }
  const LogDurability& durability() const { return durability_; }
  /// How many live bytes there may be.
  LiveLimit& limit() { return limit_; }
  const LiveLimit& limit() const { return limit_; }

  // For side logs and the cleaner.

  /// The counts of live bytes.
  LiveCounts& counts() { return counts_; }
  /// The present head, the next one, and requests for heads.
  LogHeads& heads() { return heads_; }
  /// Which segments are in the log.
  LogMembers& members() { return members_; }
  /// Segments with one writer, which are not in the log yet.
  PrivateSegments& privateSegments() { return private_segments_; }
  /// Moves segments of the log to other memory.
  SegmentCopies& copies() { return copies_; }
  /// Grace periods.
  const SegmentSettling& settling() const { return settling_; }
  /// Lists the segments that the cleaner may take: in the log, closed, not leaving, not damaged, and sealed at least
  /// one grace period ago. Before that a writer may have appended an entry without having told the owner where the
  /// entry lies, and to the owner such an entry looks dead.
  void listCleanable(std::vector<Segment*>& segments) RC_EXCLUDES(kLogLock);

  // ReplicationEvents.
  void segmentOpened(SegmentId id) override RC_EXCLUDES(kLogLock);
  void segmentLacksPlaces(SegmentId id, bool lacks) override;
  void segmentDurable(SegmentId id, uint32_t bytes) override RC_EXCLUDES(kLogLock) { heads_.noteDurable(id, bytes); }
  void segmentFlushed(SegmentId id, uint32_t bytes) override RC_EXCLUDES(kLogLock) { heads_.noteFlushed(id, bytes); }
  void segmentClosed(SegmentId id) override RC_EXCLUDES(kLogLock);
  void segmentWithdrawn(SegmentId id) override RC_EXCLUDES(kLogLock) { heads_.noteWithdrawn(id); }
  void segmentUnsound(const Segment& segment, uint32_t offset_bytes) override;
  bool segmentSpoilt(const Segment& segment, uint32_t offset_bytes) override;

 private:
  const LogMemory& memory_;
  const Environment environment_;
  LogStats stats_;
  SegmentPool pool_;
  Integrity integrity_{pool_, stats_};
  // Appends take this lock exclusively. Every read looks at durability_, so that lies on another cache line.
  alignas(64) LogLock lock_;

  // Each part is followed by the parts that use it.
  alignas(64) LogDurability durability_;
  LiveLimit limit_;
  LiveCounts counts_;
  SegmentSettling settling_;
  OwnEntries own_entries_;
  JoiningSegments joining_;
  SegmentReclaimer reclaimer_;
  LogMembers members_;
  LogHeads heads_;
  LogAppender appender_;
  PrivateSegments private_segments_;
  SegmentCopies copies_;
};

}  // namespace ramcore::log
