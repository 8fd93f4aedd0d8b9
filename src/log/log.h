#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "log/commit_ring.h"
#include "log/durable_waiters.h"
#include "log/entry_owner.h"
#include "log/format/digest_members.h"
#include "log/format/entry_writer.h"
#include "log/integrity/integrity.h"
#include "log/memory/log_config.h"
#include "log/memory/log_stats.h"
#include "log/memory/segment_pool.h"
#include "log/replicator.h"
#include "runtime/epoch.h"
#include "runtime/pins.h"

namespace ramcore::log {

/// Identifies a log. Every segment header and every certificate contains it.
struct LogIdentity {
  ClusterId cluster;
  ServerId server;
};

/// What an append is for; decides what it may use when memory is short.
enum class AppendClass : uint8_t {
  Write,   ///< refused with NoSpace at the limit of live bytes
  Remove,  ///< groups that reduce the live bytes (tombstones): accepted at the limit too, and in the small heads of the
           ///< reserve
};

/// The outcome of an append.
struct Appended {
  /// The position behind the group. The group is durable when the log is durable up to this position.
  LogPosition end;
  /// Where the entries lie, in the order of the group.
  std::array<EntryRef, kGroupEntriesMax> refs{};
};

/// The log of one server: appends groups of entries at its head, rolls the head, and knows what is durable and what is
/// still needed.
///
/// A head is opened ahead of need with the digest of all segments that will be in the log when it takes over; it takes
/// over when it is open on all replicas, and only then is the old head closed. Nothing in the new head counts as
/// durable before the old one is closed everywhere, and only then are the segments that left the digest given up. So at
/// any moment the newest digest that a recovery can find lists segments that all exist, and what they hold is the
/// acknowledged state.
///
/// Threads: any, unless a call says otherwise. Callers are inside a read section of the Rcu (a worker between two
/// quiescent states): the read section keeps a segment that they found in place. `lock_` guards the head and the
/// bookkeeping. The pool's lock is never taken while `lock_` is held. Replicator, owner and waiters are called without
/// locks.
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
    return *append(group, append_class, LockWait::Any);
  }
  /// As above, but returns nothing, and has appended nothing, if other threads hold the lock of the head for longer
  /// than `wait` allows.
  std::optional<Result<Appended>> append(std::span<const EntryInput> group, AppendClass append_class, LockWait wait);

  /// An entry in memory. Valid inside the read section, or while a pin taken in it is held.
  EntryView view(EntryRef ref) const { return EntryView(memory_.at(ref)); }

  /// Counts an entry as garbage whose death no other entry of the log records: a result record, or an object of a
  /// tablet that this server does not hold any more. Called exactly once for an entry.
  void markDead(EntryRef ref) RC_EXCLUDES(lock_);
  /// Notes that the result which the object at `ref` carries is not needed any more: the result counts as garbage, and
  /// later copies of the object omit it. Does nothing if the object is dead. Called exactly once for a result.
  void markAcknowledged(EntryRef ref);

  /// Takes the damage mark off an entry whose bytes are right again, and counts what happened to the entry while it was
  /// marked. The caller has let a grace period pass since Integrity::restore(). Does nothing if the entry is gone with
  /// its segment, because another entry may lie there now.
  /// Thread: the cleaner's.
  Integrity::Released release(const Damage& damage) RC_EXCLUDES(lock_);

  /// Everything before this position is on all replicas at the level that acknowledgements need. Cost: one load.
  LogPosition durableUpTo() const;
  bool isDurable(LogPosition position) const { return position <= durableUpTo(); }
  /// Whether the entry is durable. Entries that the cleaner has moved always are. Entries of side logs count as
  /// durable, because no client is answered from them before the side log has joined the log.
  bool isDurable(EntryRef ref) const { return isBefore(ref, durableUpTo()); }
  /// The position behind an entry of a head, for waiting.
  LogPosition endOf(EntryRef ref) const;
  /// Calls waiter.run once the log is durable up to `position`, or has failed. The waiter stays in place until then.
  /// The replicator is told that a caller waits.
  /// @return false: the log is durable up to there already; `run` is not called
  bool notifyDurable(LogPosition position, DurableWaiter& waiter) RC_EXCLUDES(lock_);

  /// Everything before this position survives a power failure of all replicas. It is at most durableUpTo(), and lags
  /// behind it unless a flush is requested. Without replicas both are the same. Cost: one load.
  LogPosition flushedUpTo() const;
  bool isFlushed(LogPosition position) const { return position <= flushedUpTo(); }
  /// Whether the entry is flushed. As isDurable(EntryRef): what is closed is flushed.
  bool isFlushed(EntryRef ref) const { return isBefore(ref, flushedUpTo()); }
  /// As notifyDurable(), for flushedUpTo(). Requests the flush.
  bool notifyFlushed(LogPosition position, DurableWaiter& waiter) RC_EXCLUDES(lock_);
  /// Cancels a notifyDurable() or a notifyFlushed(). Not for waiters that `run` may free, because the waiter is read.
  /// @return false: `run` was called, or is about to be called
  bool cancelNotification(DurableWaiter& waiter) RC_EXCLUDES(lock_);
  /// Requests that everything before `position` is flushed soon.
  void requestFlush(LogPosition position) RC_EXCLUDES(lock_);

  /// Requests a head that is newer than every segment that exists now: its digest lists what is in the log now, and its
  /// id is above every id handed out so far. In a full memory the head is opened when there is memory for it.
  /// @return the request, for isRolled()
  SegmentId requestRoll() RC_EXCLUDES(lock_);
  /// As requestRoll(), for tablets that come from other servers and cannot wait until writes find a head. When the
  /// replicator is short of places on backups, the head is a small one, as for removes, because the logs from which the
  /// tablets come may be what fills the storage. If nothing was appended to the present head, none was refused by it
  /// for want of room, and no segment but the next head is newer, the present head is returned, and no further places
  /// are taken.
  SegmentId requestHeadToJoin() RC_EXCLUDES(lock_);
  /// Withdraws a request of requestHeadToJoin(), at once. The head may exist already, or may come all the same. If
  /// nothing else needs it and it is not open yet, its places on backups are given back.
  void cancelHeadToJoin(SegmentId request) RC_EXCLUDES(lock_);
  /// True once a requested head has taken over and the heads before it are closed everywhere.
  bool isRolled(SegmentId request) const { return durableUpTo().segment >= request; }
  /// The head, or none before the first one is open.
  SegmentId headId() const { return SegmentId(head_id_.load(std::memory_order_acquire)); }

  /// Gives the memory of unlinked segments back once no thread can read it any more. To be called now and then, and in
  /// each round while segments wait. Thread: the reclaimer of the Rcu.
  /// @return the number of segments that still wait
  size_t reclaim(uint64_t now_ns) RC_EXCLUDES(lock_);
  /// Opens the next head if one is due. Called by the log itself whenever something changed; calling it is harmless.
  void maintain() RC_EXCLUDES(lock_);
  /// Ends the log: appends answer `status` from now on and all waiters are called with it. Final.
  void fail(Status status) RC_EXCLUDES(lock_);

  SegmentPool& pool() { return pool_; }
  const SegmentPool& pool() const { return pool_; }
  Replicator& replicator() const { return environment_.replicator; }
  const LogConfig& config() const { return pool_.config(); }
  const LogIdentity& identity() const { return identity_; }
  LogStats& stats() { return stats_; }
  /// What is known of damage in the memory.
  Integrity& integrity() { return integrity_; }
  const Integrity& integrity() const { return integrity_; }
  const LogStats& stats() const { return stats_; }
  /// True if a write of `bytes` would not exceed the limit of live bytes.
  bool hasSpaceFor(uint64_t bytes) const;
  /// The live bytes at which writes are refused, for the present sizes of the entries.
  uint64_t liveBytesMax() const;

  // For side logs and the cleaner.

  /// Opens a segment to which only the caller appends, of the kind Survivor or Side. It holds its segment header.
  /// @param entry_bytes_max  the largest entry that a survivor will take
  /// @return nullptr: there is not enough memory, or no segment slot
  Segment* openPrivate(SegmentKind kind, uint32_t entry_bytes_max = 0, CopiesAwaited copies = CopiesAwaited::Least)
      RC_EXCLUDES(lock_);
  /// Ends the appends of the caller to such a segment: trims it and has it closed on all replicas. When that is done
  /// its state is Closed.
  void closePrivate(Segment& segment);
  /// Gives up a private segment to which nothing refers and that was never added to the log.
  void dropPrivate(Segment& segment) RC_EXCLUDES(lock_);
  /// Opens the copy of a compaction: other memory for what is alive in `original`, which is closed and in the log. The
  /// copy is a segment with the same id, which no search finds yet. It holds the entries that the original begins with
  /// (header, digest, safe version) and has room for everything that is alive.
  /// @param entry_bytes_max  the largest entry that will come
  /// @return nullptr: there is not enough memory, or no segment slot
  Segment* openCopy(const Segment& original, uint32_t entry_bytes_max) RC_EXCLUDES(lock_);
  /// Ends the appends to a copy: commits it and gives back the memory that it does not use.
  void finishCopy(Segment& copy);
  /// Keeps both the original and the copy for good. The cleaner never takes the copy.
  void keepApart(Segment& copy);
  /// Puts the copy in the place of the original, in the log and for the replicator; the replicas stay as they are. The
  /// caller has made sure that everything alive is in the copy, and that everything that killed the rest is flushed.
  /// The original's memory comes back when no thread reads it any more.
  void replace(Segment& original, Segment& copy) RC_EXCLUDES(lock_);
  /// Notes that a pass of the cleaner begins. While a pass runs, removes take no further small heads, because the roll
  /// that ends the pass needs one.
  /// @return false: the next head is just being prepared, which may take a small head, and no pass begins before that
  ///         is done
  bool tryBeginPass() RC_EXCLUDES(lock_);
  void endPass() RC_EXCLUDES(lock_);
  /// As requestRoll(), for the end of a pass: the head may be the last small head. A pass begins only if two small
  /// heads are free, or if one is free and the pass gives another one back (Cleaner::canEnd).
  SegmentId requestRollForPass() RC_EXCLUDES(lock_);
  /// The bytes that have died since the log began. Grows with every death, and by little else.
  int64_t deathsBytes() const;
  /// Records whether the cleaner has found garbage whose collection gains anything. While it has found none, a write
  /// that finds no room in the head is refused with NoSpace and not with RetryLater, if there is no memory for another
  /// head, none is on its way (no next head, no former head that is still being closed, no open reservation), and less
  /// than a seglet has died since.
  void noteCollectable(bool is_collectable);
  /// A ticket for a grace period that begins now. A writer sets the state byte of an entry that dies before it updates
  /// the references of the owner. So the cleaner, which relies on state bytes, takes a ticket when it has found entries
  /// dead: when the grace period is over, every writer that had killed an entry before has updated those references.
  runtime::GraceTicket graceTicket() const { return environment_.rcu.ticket(); }
  bool isOver(runtime::GraceTicket ticket) const;
  /// Whether no segment is being closed, given up or waited for. Then the memory that can be gained at all is free, or
  /// in segments that can be cleaned.
  bool isSettled() RC_EXCLUDES(lock_);
  /// From the next digest on, `joining` (in state Closed) are in the log and `leaving` are not. Both changes are made
  /// by one digest.
  void exchange(std::span<Segment* const> joining, std::span<Segment* const> leaving) RC_EXCLUDES(lock_);
  /// Makes segments of a side log (in state Closed) members of the log. They join with a new head, which is requested
  /// here and may be a small one as for requestHeadToJoin().
  /// @return the request, for isRolled()
  SegmentId addToJoin(std::span<Segment* const> joining) RC_EXCLUDES(lock_);
  /// Undoes addToJoin(); the places on backups that the requested head has taken are given back. The call is to be
  /// repeated until it returns true, or until isRolled(roll).
  /// @return true: the segments are private again. False: not yet; or too late, because a head that lists them is open
  ///         or the cleaner may have begun with them: then it stays false
  bool takeBack(std::span<Segment* const> joining, SegmentId roll) RC_EXCLUDES(lock_);
  /// Lists the segments that the cleaner may take: in the log, closed, not leaving, not damaged, and sealed at least
  /// one grace period ago. Before that a writer may have appended an entry without having told the owner where the
  /// entry lies, and to the owner such an entry looks dead.
  void listCleanable(std::vector<Segment*>& segments) RC_EXCLUDES(lock_);
  /// Whether the digest of the head lists the segment, or a later digest will.
  bool isListed(const Segment& segment) const RC_EXCLUDES(lock_);
  /// Sets whether a pass of the cleaner has `segment`. Then tombstones that name `segment` count as leaving together
  /// with it (see isTombstoneLive). Only the cleaner asks, and during a pass it asks only about entries of segments
  /// that leave with the same digest.
  void setInPass(Segment& segment, bool in_pass) { segment.in_pass_ = in_pass; }
  /// The bytes that writers can append before memory has to come back: the rest of the head and of the next one, unless
  /// they are small heads, and what is free for other heads.
  uint64_t writableBytes() const RC_EXCLUDES(lock_);
  /// Where the head ends now.
  LogPosition end() const RC_EXCLUDES(lock_);
  /// Whether a tombstone, or another entry that names a segment, still keeps an older entry dead: the segment that it
  /// names is in a digest that a recovery could choose, and is not about to leave together with the entry.
  /// @param named  the segment that it names; nullptr if that is gone
  bool isTombstoneLive(const Segment* named) const;
  /// Marks the result that the object at `ref` carries as not needed any more. The caller counts it.
  /// @return false: the object is dead
  bool dropResult(EntryRef ref);
  /// Counts an entry as live in `segment`, and the entry that dies by it as dead. Called before any thread can kill the
  /// new entry.
  /// @param dead  the entry that dies by it; none if none does
  void countLive(Segment& segment, const EntryView& entry, EntryRef dead) RC_EXCLUDES(lock_);
  /// A tombstone that was copied from one segment to another, or that was due in one and written in the other.
  struct MovedTombstone {
    Segment* named;
    SegmentId named_id;
    uint32_t bytes;
  };
  /// Tombstones that were counted in `from` are counted in `to` from now on.
  void moveTombstones(Segment& from, Segment& to, std::span<const MovedTombstone> moved) RC_EXCLUDES(lock_);
  /// The segment in which the entry lies that dies by this one; none if none does.
  SegmentId killedIn(const EntryInput& input) const;

  // ReplicationEvents.
  void segmentOpened(SegmentId id) override RC_EXCLUDES(lock_);
  void segmentLacksPlaces(SegmentId id, bool lacks) override;
  void segmentDurable(SegmentId id, uint32_t bytes) override RC_EXCLUDES(lock_);
  void segmentFlushed(SegmentId id, uint32_t bytes) override RC_EXCLUDES(lock_);
  void segmentClosed(SegmentId id) override RC_EXCLUDES(lock_);
  void segmentWithdrawn(SegmentId id) override RC_EXCLUDES(lock_);
  void segmentUnsound(const Segment& segment, uint32_t offset_bytes) override;
  bool segmentSpoilt(const Segment& segment, uint32_t offset_bytes) override;

 private:
  struct Prepared;
  struct Reservation;
  static constexpr int64_t kCollectable = INT64_MIN;

  bool gainsNothing() const;
  std::optional<Result<Appended>> tryAppend(std::span<const EntryInput> group, const Prepared& prepared,
                                            AppendClass append_class, const std::byte* staged, LockWait wait)
      RC_EXCLUDES(lock_);
  Status reserve(const Prepared& prepared, AppendClass append_class, const std::byte* staged,
                 std::span<const EntryInput> group, Reservation& reservation) RC_REQUIRES(lock_);
  void finish(Reservation& reservation, std::span<const EntryInput> group) RC_EXCLUDES(lock_);
  void countGroup(Segment& segment, std::span<const EntryInput> group, const Prepared& prepared) RC_REQUIRES(lock_);
  struct Parts {
    int64_t all = 0;
    int64_t results = 0;
  };
  void countParts(Segment& segment, EntryType type, uint32_t entry_bytes, const Parts& bytes);
  void countTombstone(Segment& holder, Segment& named, int64_t bytes) RC_REQUIRES(lock_);
  void countSuccessor(Segment& named, int64_t tombstone_bytes) RC_REQUIRES(lock_);
  Segment& segmentNamedFor(EntryRef dead) const;
  Segment* namedBy(const EntryView& entry) const;
  void countOut(EntryRef ref, int64_t due_bytes);
  void countLoss(EntryRef ref, bool is_acknowledged, int64_t due_bytes);
  void countResultOut(EntryRef ref);
  int64_t countDue(EntryRef ref, Segment* named) RC_REQUIRES(lock_);
  void countDead(EntryRef ref, Segment* named) RC_REQUIRES(lock_);
  void commitHead(uint32_t offset) RC_REQUIRES(lock_);
  bool mayUseSmallHead(bool is_short) const RC_REQUIRES(lock_);
  bool isPrepareDue() const RC_REQUIRES(lock_);
  bool isRollWanted() const RC_REQUIRES(lock_);
  bool isNextWanted() const RC_REQUIRES(lock_);
  bool isHeadUntouched() const RC_REQUIRES(lock_);
  bool hasNewer(SegmentId head, SegmentId next) const;
  SegmentId noteJoinRoll() RC_REQUIRES(lock_);
  void forgetJoinRoll(SegmentId roll) RC_REQUIRES(lock_);

  bool trySwitch() RC_EXCLUDES(lock_);
  bool prepareNext() RC_EXCLUDES(lock_);
  void withdrawNext() RC_EXCLUDES(lock_);
  void listForDigest(Segment& next) RC_REQUIRES(lock_);
  void writeOwnEntry(Segment& segment, EntryType type, std::span<const ByteSpan> payload);
  void writeSegmentHeader(Segment& segment);
  void seal(Segment& segment);
  void setUnsettled(Segment& segment, SegmentState state);
  void unlinkLeft(std::vector<SegmentId>& freed) RC_REQUIRES(lock_);
  void unlink(Segment& segment) RC_REQUIRES(lock_);
  void takeOverTombstones(Segment& original, Segment& copy) RC_REQUIRES(lock_);
  void copyOwnEntries(const Segment& original, Segment& copy);
  void forgetNamingTombstones(Segment& named) RC_EXCLUDES(lock_);
  void forgetHeldTombstones(Segment& holder) RC_EXCLUDES(lock_);
  bool markSlice(Segment& segment, uint32_t& bytes_left);
  SegmentId takeId() RC_EXCLUDES(lock_);
  bool isBefore(EntryRef ref, LogPosition position) const;
  Segment* openHead(SegmentId id) RC_REQUIRES(lock_);
  void refreshDurable(DurableWaiters& ready) RC_REQUIRES(lock_);

  const LogIdentity identity_;
  const LogMemory& memory_;
  const Environment environment_;
  const bool at_once_;
  const uint64_t least_live_bytes_max_;  ///< lower bound of liveBytesMax(), whatever the entries' sizes
  LogStats stats_;
  SegmentPool pool_;
  Integrity integrity_{pool_, stats_};

  mutable SpinLock lock_;
  Segment* head_ RC_GUARDED_BY(lock_) = nullptr;
  Segment* next_ RC_GUARDED_BY(lock_) = nullptr;     ///< the next head, opened ahead of need
  Segment* closing_ RC_GUARDED_BY(lock_) = nullptr;  ///< the former head until it is closed everywhere
  bool next_opened_ RC_GUARDED_BY(lock_) = false;
  bool next_preparing_ RC_GUARDED_BY(lock_) = false;
  bool next_withdrawn_ RC_GUARDED_BY(lock_) = false;  ///< the replicator was told to withdraw the next head
  bool head_full_ RC_GUARDED_BY(lock_) = false;       ///< an append did not fit: the next head takes over as soon as
                                                      ///< possible
  bool remove_blocked_ RC_GUARDED_BY(lock_) = false;  ///< a remove did not fit: a small head may be taken
  SegmentId want_roll_ RC_GUARDED_BY(lock_);          ///< roll until the head's id is at least this
  SegmentId want_pass_roll_ RC_GUARDED_BY(lock_);     ///< as want_roll_, with the last small head if need be
  SegmentId want_join_roll_ RC_GUARDED_BY(lock_);     ///< as want_roll_, with a small head where places are short
  std::vector<SegmentId> join_rolls_ RC_GUARDED_BY(lock_);  ///< requests, of which want_join_roll_ is the highest; no
                                                            ///< head has satisfied them yet
  /// While this is set no further next head is prepared, because a side log is being taken back: it identifies that
  /// side log by the address of its list of segments.
  const void* held_by_ RC_GUARDED_BY(lock_) = nullptr;
  SegmentId unwanted_next_ RC_GUARDED_BY(lock_);  ///< the next head to be withdrawn, if it is not open
  bool pass_running_ RC_GUARDED_BY(lock_) = false;
  uint64_t next_id_ RC_GUARDED_BY(lock_) = 1;
  // These lists are searched for segments, instead of all slots, because appends wait for the lock.
  MemberChanges member_changes_ RC_GUARDED_BY(lock_);
  MemberChanges taken_changes_;                          ///< used only by the thread that maintains; empty between two
                                                         ///< heads
  DigestMembers digest_members_;                         ///< used only by the thread that maintains
  std::vector<Segment*> joining_ RC_GUARDED_BY(lock_);   ///< added by addToJoin(); no open head lists them yet
  std::vector<Segment*> leaving_ RC_GUARDED_BY(lock_);   ///< in state Leaving
  std::vector<Segment*> unlinked_ RC_GUARDED_BY(lock_);  ///< for the reclaimer, which has not taken them over yet
  std::vector<Segment*> reclaiming_;                     ///< in state Unlinked; used only by the reclaimer
  std::atomic<uint32_t> unsettled_count_{0};             ///< segments in states Closing, Leaving and Unlinked
  std::atomic<uint64_t> last_sealed_{0};                 ///< the latest ticket of a segment that was sealed
  CommitRing ring_ RC_GUARDED_BY(lock_);
  DurableWaiters waiters_ RC_GUARDED_BY(lock_);
  DurableWaiters flush_waiters_ RC_GUARDED_BY(lock_);
  LogPosition flush_requested_ RC_GUARDED_BY(lock_);    ///< the replicator was asked to flush up to here
  LogPosition durable_requested_ RC_GUARDED_BY(lock_);  ///< the replicator was told that a caller waits up to here

  std::atomic<uint64_t> durable_{0};  ///< packed LogPosition
  std::atomic<uint64_t> flushed_{0};  ///< packed LogPosition; with replicas only
  std::atomic<uint64_t> head_id_{0};
  std::atomic<uint32_t> maintain_requests_{0};
  std::atomic<int64_t> nothing_collectable_at_{kCollectable};  ///< deathsBytes() when noteCollectable(false) was called
                                                               ///< last
  std::atomic<Status> failed_{Status::Ok};
};

}  // namespace ramcore::log
