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

/// Whose log it is: in every segment header and certificate.
struct LogIdentity {
  ClusterId cluster;
  ServerId server;
};

/// What an append is for; decides what it may use when memory is short.
enum class AppendClass : uint8_t {
  Write,   ///< refused with NoSpace at the limit of live bytes
  Remove,  ///< groups that make live bytes fewer (tombstones): go on at the limit and into reserve heads
};

/// The outcome of an append.
struct Appended {
  /// Behind the group: it is durable when the log is durable up to here.
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
/// quiescent states): that is what keeps a segment that they found in place. `lock_` guards the head and the
/// bookkeeping; the pool's lock may be taken before it, never inside it; replicator, owner and waiters are called
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
  /// On return the entries are readable on this server but not durable: nothing may be answered that reveals them
  /// before `isDurable(end)`. What an entry of the group names as `dead` counts as garbage, and is marked superseded.
  ///
  /// @param group  1..kGroupEntriesMax entries of at most config.entry_bytes_max each (checked); without the largest
  ///               of them, together at most half of that, so that any head has room. Borrowed until return; every
  ///               `dead` refers to an entry that its owner still has (the caller holds the lock of its key).
  /// @return NoSpace     the live bytes are at their limit, or no cleaning gains any more: free something (Write only)
  ///         RetryLater  the next head is not open yet, or all memory is garbage that the cleaner has to collect first
  ///         any other   the status given to fail(): final
  /// Never waits for I/O. Groups up to 1 KB are copied under a spin lock; larger ones outside it.
  Result<Appended> append(std::span<const EntryInput> group, AppendClass append_class) {
    return *append(group, append_class, LockWait::Any);
  }
  /// Also nothing, and nothing has happened, where other threads have the head for longer than `wait` says.
  std::optional<Result<Appended>> append(std::span<const EntryInput> group, AppendClass append_class, LockWait wait);

  /// An entry in memory. Valid inside the read section, or while a pin taken in it is held.
  EntryView view(EntryRef ref) const { return EntryView(memory_.at(ref)); }

  /// Counts an entry as garbage that nothing in the log says is dead: result records, objects of tablets that are not
  /// ours any more. Exactly once.
  void markDead(EntryRef ref) RC_EXCLUDES(lock_);
  /// The result that an object carries is needed no more: it counts as garbage, and copies of the object will lack it.
  /// Nothing if the object is dead. Exactly once.
  void markAcknowledged(EntryRef ref);

  /// A damaged entry is what it was, and a grace period is over since Integrity::restore: takes the mark away, and
  /// counts what happened to it while it was marked. Nothing if it is gone with its segment: others may lie there.
  /// Thread: the cleaner's.
  Integrity::Released release(const Damage& damage) RC_EXCLUDES(lock_);

  /// Everything before this is on all replicas at the level of acknowledgements. One load.
  LogPosition durableUpTo() const;
  bool isDurable(LogPosition position) const { return position <= durableUpTo(); }
  /// Whether the entry is durable. Entries moved by the cleaner always are; those of side logs count as durable
  /// because they are read under a recorded lineage or not at all.
  bool isDurable(EntryRef ref) const { return isBefore(ref, durableUpTo()); }
  /// The position behind an entry of a head, for waiting.
  LogPosition endOf(EntryRef ref) const;
  /// Calls waiter.run once the log is durable up to `position`, or has failed. False: it already is; `run` is not
  /// called. The waiter stays in place until then. The replicator knows that somebody waits.
  bool notifyDurable(LogPosition position, DurableWaiter& waiter) RC_EXCLUDES(lock_);

  /// Everything before this survives a power failure of all replicas; at most durableUpTo(), and behind it unless
  /// somebody asks. Without replicas both are the same. One load.
  LogPosition flushedUpTo() const;
  bool isFlushed(LogPosition position) const { return position <= flushedUpTo(); }
  /// As isDurable: what is closed is flushed.
  bool isFlushed(EntryRef ref) const { return isBefore(ref, flushedUpTo()); }
  /// As notifyDurable. Has it flushed.
  bool notifyFlushed(LogPosition position, DurableWaiter& waiter) RC_EXCLUDES(lock_);
  /// Undoes one of the two. False: its `run` was called, or is about to be. Not for waiters that `run` may free.
  bool cancelNotification(DurableWaiter& waiter) RC_EXCLUDES(lock_);
  /// Has everything before `position` flushed soon.
  void requestFlush(LogPosition position) RC_EXCLUDES(lock_);

  /// Asks for a head newer than every segment that exists now: with a digest of what is in the log now, and with an id
  /// above every id handed out so far. Pass the result to isRolled.
  /// In a full memory it waits until there is some.
  SegmentId requestRoll() RC_EXCLUDES(lock_);
  /// As requestRoll, for tablets that come from elsewhere and cannot wait until writes find a head: when the replicator
  /// is short of places it takes a small head, as removes do, because what they come from may be what fills the
  /// storage. The present head will do if nothing was appended to it and no other segment is newer: it takes no places
  /// then.
  SegmentId requestHeadToJoin() RC_EXCLUDES(lock_);
  /// Undoes that, at once. The head may be there, or come all the same; if nobody else wants it, and it is not open, it
  /// gives back its places.
  void cancelHeadToJoin(SegmentId request) RC_EXCLUDES(lock_);
  /// True once such a head has taken over and the heads before it are closed everywhere.
  bool isRolled(SegmentId request) const { return durableUpTo().segment >= request; }
  /// The head, or none before the first one is open.
  SegmentId headId() const { return SegmentId(head_id_.load(std::memory_order_acquire)); }

  /// Gives memory of unlinked segments back once nobody can read it. Call it now and then (each round while segments
  /// wait). Thread: the reclaimer of the Rcu.
  /// @return segments that still wait
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
  /// Live bytes at which writes are refused, as large as the entries are now.
  uint64_t liveBytesMax() const;

  // For side logs and the cleaner.

  /// A segment that only the caller appends to: Survivor or Side, holding its header. nullptr: not enough memory.
  /// @param entry_bytes_max  the largest entry that a survivor will take
  Segment* openPrivate(SegmentKind kind, uint32_t entry_bytes_max = 0, CopiesAwaited copies = CopiesAwaited::Least)
      RC_EXCLUDES(lock_);
  /// The caller will not append to it any more: trims it and has it closed on all replicas (state Closed then).
  void closePrivate(Segment& segment);
  /// Gives up a private segment to which nothing refers and that was never added to the log.
  void dropPrivate(Segment& segment) RC_EXCLUDES(lock_);
  /// More memory for what is alive in `original`, which is closed and in the log: a segment with the same id, known to
  /// nobody yet, that holds what the original begins with (header, digest) and has room for all that is alive.
  /// nullptr: there is not enough memory.
  /// @param entry_bytes_max  the largest entry that will come
  Segment* openCopy(const Segment& original, uint32_t entry_bytes_max) RC_EXCLUDES(lock_);
  /// No more will come: gives back what the copy does not use.
  void finishCopy(Segment& copy);
  /// The original stays, and the copy beside it, for good: nobody cleans it.
  void keepApart(Segment& copy);
  /// The copy takes the place of the original: in the log, and for the replicator, whose replicas stay as they are. All
  /// that is alive is in the copy, and all that killed the rest is flushed. The original's memory comes back when
  /// nobody reads it any more.
  void replace(Segment& original, Segment& copy) RC_EXCLUDES(lock_);
  /// While a pass runs, removes take no further small heads: its last roll needs one.
  /// @return false: one may just be being taken; not before it is
  bool tryBeginPass() RC_EXCLUDES(lock_);
  void endPass() RC_EXCLUDES(lock_);
  /// As requestRoll, for the end of a pass: may take the last small head, because the pass gives some back.
  SegmentId requestRollForPass() RC_EXCLUDES(lock_);
  /// What has died since the log began: grows with every death, and by little else.
  int64_t deathsBytes() const;
  /// The cleaner has found no garbage whose collection gains anything, or some after all. As long as there is none, no
  /// memory for a head, and nothing has died since, writers are told that there is no space, and not to come back
  /// later.
  void noteCollectable(bool is_collectable);
  /// For what the cleaner found dead by its state byte: the grace period that begins now is over when every writer that
  /// had killed something before has told the owner.
  runtime::GraceTicket graceTicket() const { return environment_.rcu.ticket(); }
  bool isOver(runtime::GraceTicket ticket) const;
  /// Nothing is being closed, given up or waited for: what memory there is is free, or in segments that can be cleaned.
  bool isSettled() RC_EXCLUDES(lock_);
  /// From the next digest on, `joining` (Closed) are in the log and `leaving` are not: together, in one digest.
  void exchange(std::span<Segment* const> joining, std::span<Segment* const> leaving) RC_EXCLUDES(lock_);
  /// Has segments of a side log (Closed) in the log from a new head on, which may be a small one as for
  /// requestHeadToJoin.
  SegmentId addToJoin(std::span<Segment* const> joining) RC_EXCLUDES(lock_);
  /// Undoes addToJoin; what places that head has taken are given back. To be repeated until it is true, or
  /// isRolled(roll).
  /// @return true: the segments are private again. False: not yet; or too late, because a head that lists them is open
  ///         or the cleaner may have begun with them: then it stays false
  bool takeBack(std::span<Segment* const> joining, SegmentId roll) RC_EXCLUDES(lock_);
  /// The segments that a cleaner may take: in the log, closed, not leaving, not damaged, and closed for so long that
  /// nobody is still between appending to it and telling the owner where the entry lies: to the owner such an entry
  /// looks dead.
  void listCleanable(std::vector<Segment*>& segments) RC_EXCLUDES(lock_);
  /// In the digest of the head, or of the next one.
  bool isListed(const Segment& segment) const RC_EXCLUDES(lock_);
  /// Tombstones naming `segment` leave together with it (see isTombstoneLive). Only the cleaner asks.
  void setInPass(Segment& segment, bool in_pass) { segment.in_pass_ = in_pass; }
  /// What writers can append before memory has to come back: the rest of the head and of the next one, and what is free
  /// for others.
  uint64_t writableBytes() const RC_EXCLUDES(lock_);
  /// Where the head ends now.
  LogPosition end() const RC_EXCLUDES(lock_);
  /// Whether a tombstone of this log still holds something down: the segment it names is in a digest that a recovery
  /// could choose, and is not about to leave together with the tombstone.
  /// @param named  the segment it names; nullptr if that is gone
  bool isTombstoneLive(const Segment* named) const;
  /// Marks that the result is needed no more which the object at `ref` carries; whoever calls it counts it.
  /// @return false: the object is dead
  bool dropResult(EntryRef ref);
  /// Counts an entry as live in `segment`, before anyone can kill it, and what dies by it as dead.
  /// @param dead  what dies by it; none if nothing does
  void countLive(Segment& segment, const EntryView& entry, EntryRef dead) RC_EXCLUDES(lock_);
  /// A tombstone that was copied from one segment to another, or that was due in one and written in the other.
  struct MovedTombstone {
    Segment* named;
    SegmentId named_id;
    uint32_t bytes;
  };
  /// Tombstones that were counted in `from` are counted in `to` from now on.
  void moveTombstones(Segment& from, Segment& to, std::span<const MovedTombstone> moved) RC_EXCLUDES(lock_);
  /// Where the entry lies that dies by this one; none if none does.
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
  const uint64_t least_live_bytes_max_;  ///< whatever the entries' sizes
  LogStats stats_;
  SegmentPool pool_;
  Integrity integrity_{pool_, stats_};

  mutable SpinLock lock_;
  Segment* head_ RC_GUARDED_BY(lock_) = nullptr;
  Segment* next_ RC_GUARDED_BY(lock_) = nullptr;     ///< opened ahead
  Segment* closing_ RC_GUARDED_BY(lock_) = nullptr;  ///< the former head until it is closed everywhere
  bool next_opened_ RC_GUARDED_BY(lock_) = false;
  bool next_preparing_ RC_GUARDED_BY(lock_) = false;
  bool next_withdrawn_ RC_GUARDED_BY(lock_) = false;  ///< the replicator was told
  bool head_full_ RC_GUARDED_BY(lock_) = false;       ///< something did not fit: take the next one as soon as possible
  bool remove_blocked_ RC_GUARDED_BY(lock_) = false;  ///< a remove did not fit: a reserve head is justified
  SegmentId want_roll_ RC_GUARDED_BY(lock_);          ///< roll until the head's id is at least this
  SegmentId want_pass_roll_ RC_GUARDED_BY(lock_);     ///< the same, with the last small head if need be
  SegmentId want_join_roll_ RC_GUARDED_BY(lock_);     ///< a roll, with a small head where places are short
  std::vector<SegmentId> join_rolls_ RC_GUARDED_BY(lock_);  ///< of which that is the highest; no head has them yet
  /// No further next head: what these are (the segments of a side log) is being taken back.
  const void* held_by_ RC_GUARDED_BY(lock_) = nullptr;
  SegmentId unwanted_next_ RC_GUARDED_BY(lock_);  ///< to be withdrawn if it is not open
  bool pass_running_ RC_GUARDED_BY(lock_) = false;
  uint64_t next_id_ RC_GUARDED_BY(lock_) = 1;
  // Segments are looked for in these, and not among all slots, where appends wait for the lock.
  MemberChanges member_changes_ RC_GUARDED_BY(lock_);
  MemberChanges taken_changes_;                          ///< belongs to whoever maintains; empty between two heads
  DigestMembers digest_members_;                         ///< the same
  std::vector<Segment*> joining_ RC_GUARDED_BY(lock_);   ///< by addToJoin; no head is open yet that lists them
  std::vector<Segment*> leaving_ RC_GUARDED_BY(lock_);   ///< in state Leaving
  std::vector<Segment*> unlinked_ RC_GUARDED_BY(lock_);  ///< for the reclaimer, which has not seen them yet
  std::vector<Segment*> reclaiming_;                     ///< in state Unlinked; the reclaimer's
  std::atomic<uint32_t> unsettled_count_{0};             ///< segments in states Closing, Leaving and Unlinked
  std::atomic<uint64_t> last_sealed_{0};                 ///< the latest ticket of a segment that was sealed
  CommitRing ring_ RC_GUARDED_BY(lock_);
  DurableWaiters waiters_ RC_GUARDED_BY(lock_);
  DurableWaiters flush_waiters_ RC_GUARDED_BY(lock_);
  LogPosition flush_requested_ RC_GUARDED_BY(lock_);    ///< the replicator knows
  LogPosition durable_requested_ RC_GUARDED_BY(lock_);  ///< the same

  std::atomic<uint64_t> durable_{0};  ///< packed LogPosition
  std::atomic<uint64_t> flushed_{0};  ///< the same; with replicas only
  std::atomic<uint64_t> head_id_{0};
  std::atomic<uint32_t> maintain_requests_{0};
  std::atomic<int64_t> nothing_collectable_at_{kCollectable};  ///< deathsBytes() then
  std::atomic<Status> failed_{Status::Ok};
};

}  // namespace ramcore::log
