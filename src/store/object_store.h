#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <optional>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "index/hash_index.h"
#include "log/log.h"
#include "log/side_log.h"
#include "runtime/clock.h"
#include "store/dead_versions.h"
#include "store/durability.h"
#include "store/result_table.h"
#include "store/server_lease.h"
#include "store/tablet_table.h"
#include "wire/master_messages.h"

namespace ramcore::master {

/// What a mutating call asks for; borrows key and value until apply() has returned.
struct Mutation {
  wire::Opcode opcode{};  ///< Write, Remove or Increment
  wire::CallIdentity identity;
  TabletEpoch epoch;
  TableId table;
  KeyHash hash = 0;
  ByteSpan key;
  std::span<const ByteSpan> value;  ///< what a write stores
  int64_t delta = 0;                ///< what an increment adds
  wire::Condition condition = wire::Condition::None;
  Version condition_version = 0;
};

/// The answer of a call, and how far the log must be before the answer may be given.
struct Answer {
  Status status = Status::Ok;
  Version version = 0;
  int64_t value = 0;          ///< of an increment
  ShowAfter show_after = {};  ///< nothing in the answer is younger than this
  bool is_duplicate = false;  ///< answered from the record of an earlier run
  bool lacks_room = false;    ///< RetryLater, because the log had no room: it will have some soon
};

/// What a lookup found: good inside the read section it was made in.
struct Found {
  log::EntryRef ref;
  log::EntryView entry;  ///< empty if damageOf(ref) is not Ok
};

/// What a lookup returns in the place of an entry that is damaged. Neither is the address of an entry.
inline constexpr log::EntryRef kDamagedRef = log::EntryRef::fromBits(1);
inline constexpr log::EntryRef kRestoringRef = log::EntryRef::fromBits(2);
inline log::EntryRef refOfDamaged(log::EntryState state) {
  return state == log::EntryState::Damaged ? kDamagedRef : kRestoringRef;
}
/// Ok; Corrupt: the object's bytes are lost; RetryLater: they are being fetched from a replica.
inline Status damageOf(log::EntryRef found) {
  if (found.bits() > kRestoringRef.bits() || !found) return Status::Ok;
  return found == kDamagedRef ? Status::Corrupt : Status::RetryLater;
}

/// Objects by key over log and index: versions, conditions, exactly-once. One code path for every mutation: a section
/// without suspension under the key's stripe, that checks tablet and epoch, lease, duplicate, condition and space,
/// appends the group and updates the index. Nothing here waits.
///
/// Lock order: stripe -> result shard; stripe -> the log's own locks. Any registered reader thread.
class ObjectStore final : public log::EntryOwner {
 public:
  /// Everything is borrowed and outlives the store.
  struct Parts {
    log::Log& log;
    index::HashIndex& index;
    TabletTable& tablets;
    ResultTable& results;
    ServerLease& lease;
    runtime::Clock& clock;
  };
  explicit ObjectStore(log::LogMemory& memory) : memory_(memory) {}
  /// The log needs its owner when it is opened, and the store needs the log: therefore the parts are connected after
  /// the construction.
  void connect(const Parts& parts) { parts_.emplace(parts); }

  // ---- client operations

  /// Whether this server may answer for a key now. `now_ns` was read after the request arrived.
  /// @param level  with Ok, set to the durability that the answer waits for
  Status checkRead(TableId table, KeyHash hash, TabletEpoch epoch, int64_t now_ns, Durability& level) const;
  /// The entry of a key: its object or, until that is as durable as its table requires, its tombstone; an empty ref if
  /// there is none. A damaged entry is found by the bits that the index has of the hash, and stands for all keys with
  /// these bits: see damageOf. An entry whose key does not have the hash under which the index has it is found to be
  /// damaged here.
  Found lookup(TableId table, KeyHash hash, ByteSpan key) const;
  /// Several at once, with their cache misses overlapped.
  struct Key {
    TableId table;
    ByteSpan key;
  };
  void lookupBatch(std::span<const Key> keys, std::span<const KeyHash> hashes, std::span<log::EntryRef> out) const;
  static constexpr size_t kLookupsMax = 64;  ///< the most keys of one lookupBatch()
  log::EntryView entry(log::EntryRef ref) const { return log::EntryView(memory_.base() + ref.offsetBytes()); }

  /// The most keys of one table whose hashes agree in the bits that the index keeps. Chance gives two at most, but any
  /// number of such keys can be computed. Further ones are refused (TooLarge), so that lookups stay short and all
  /// objects of one hash fit into one answer of a scan.
  static constexpr size_t kKeysPerHashMax = 7;

  /// Overlaps the cache misses of the mutations of one batch: to be called with growing `i` before the `i`th is
  /// applied.
  /// @param hash_of  `KeyHash(size_t)`: of mutation 0 .. count - 1. Inside a read section; changes nothing.
  template <typename HashOf>
  void fetchAhead(size_t i, size_t count, HashOf&& hash_of) const {
    // The line of the index has to have come before the entry that it leads to is prefetched.
    constexpr size_t kEntriesAhead = 8;
    constexpr size_t kLinesAhead = 16;
    const auto fetchLine = [&](size_t at) {
      if (at < count) parts_->index.prefetch(hash_of(at));
    };
    for (size_t at = 0; i == 0 && at < kLinesAhead; ++at) fetchLine(at);
    fetchLine(i + kLinesAhead);
    if (i + kEntriesAhead < count) parts_->index.prefetchEntry(hash_of(i + kEntriesAhead), memory_.base());
  }

  /// As fetchAhead(), in two steps, for a batch that is small: first all lines, then all entries.
  void prefetch(KeyHash hash) const { parts_->index.prefetch(hash); }
  void prefetchEntry(KeyHash hash) const { parts_->index.prefetchEntry(hash, memory_.base()); }

  enum class Locking : uint8_t { Wait, Try };
  /// Carries out one mutation, or answers a repeated one from its record.
  ///
  /// LeaseExpired: the client is not known here: confirm its lease, ResultTable::admit() it, apply again. With
  /// Locking::Try: nullopt if the stripe is taken, or if the lock of the client's results or of the log head is held
  /// for longer than a holder that runs takes (LockWait::Brief). Nothing has happened then, and the dispatch thread
  /// hands the mutation over to a worker. Once the group is in the log, the mutation is completed in any case, and
  /// waits for the locks that it needs.
  std::optional<Answer> apply(const Mutation& mutation, Locking locking);

  // ---- moves and recoveries

  /// Takes entries that another server logged (objects and result records) into a side log, keeping the newer version
  /// of each key. The cache misses of their places in the index are overlapped, because that miss is most of what a
  /// single entry costs. Ends at the first entry that is not taken and returns its status.
  ///
  /// With `dead`, also takes tombstones, and entries that are dead by them: a log as it is, in any order and with
  /// repetitions. An object is taken unless a tombstone of its version or a newer one was met; a tombstone takes such
  /// an object out again, with a tombstone of its own in the side log. Otherwise nothing is kept of a removed key, in
  /// the index or in the log: no client is answered before the side log has joined, and then the absence is durable.
  /// Between two batches of one replay nothing else changes its ranges.
  ///
  /// RetryLater, Corrupt: an entry of the index, which may be of the same key, is being restored, or is lost.
  /// @param entries  verified
  /// @param taken    set to the number of entries that were taken
  /// @param dead     the notes of this replay; nullptr: tombstones are refused (BadRequest)
  Status replayBatch(std::span<const log::EntryView> entries, log::SideLog& side, size_t& taken,
                     DeadVersions* dead = nullptr);
  /// Gives objects of a range the version `version` instead of an older one, a bounded slice per call: those before
  /// `cursor` have it. Sets the next cursor, or nothing when the range is done. For ranges that are replayed from a log
  /// of which a part is lost: a key's next version follows on its present one, and higher versions may have been handed
  /// out in what is lost. RetryLater, Corrupt: because of a damaged entry, as replayBatch().
  Status renewSlice(TableId table, const HashRange& range, Version version, std::optional<KeyHash>& cursor,
                    log::SideLog& side);
  /// Makes the versions that are handed out from now on to keys without an object higher than `version`.
  void raiseSafeVersion(Version version);
  Version safeVersionNow() const { return next_version_.load(std::memory_order_relaxed); }
  /// Forgets what the index has of a range, a bounded slice per call: entries before `cursor` are gone. Returns the
  /// next cursor, or nothing when the range is done. Damaged entries stay, and leave when they are restored: see
  /// reconcile(). Until then they do not disturb a later ownership of the range, because they lie before its first
  /// segment.
  /// @param is_left  set to true if a damaged entry stays that may be of the range
  std::optional<KeyHash> purgeSlice(TableId table, const HashRange& range, KeyHash cursor, bool* is_left = nullptr);

  // ---- upkeep

  struct Reaped {
    size_t count = 0;
    ShowAfter
        waits_for;  ///< the position that the oldest of the remaining keys waits for, for each level; none: no position
  };
  /// Takes removed keys out of the index whose tombstones are as durable as their tables require; at most `count_max`
  /// of each level. Any thread; while another thread is reaping, nothing is done and no position is returned. With
  /// Locking::Try it also stops when another thread has the stripe of the next key.
  /// Cost: 0.1 to 0.3 us each.
  Reaped reapTombstones(size_t count_max, Locking locking = Locking::Wait);
  /// Removed keys that are still in the index. Any thread; a load.
  size_t tombstonesToReap(Durability level) const {
    return removed_count_[static_cast<size_t>(level)].load(std::memory_order_relaxed);
  }
  size_t tombstonesToReap() const {
    return tombstonesToReap(Durability::Buffered) + tombstonesToReap(Durability::Sync);
  }

  /// Whether the objects of a range can be listed: see log::Integrity.
  Status rangeStatus() const { return parts_->log.integrity().rangeStatus(); }
  struct Identity {
    TableId table;
    KeyHash hash;
  };
  /// The table and key hash that a damaged entry shows, if they can be read and the index has the entry under them.
  std::optional<Identity> identify(log::EntryRef ref, SegmentId segment);
  /// To be called for an entry whose bytes are right again, before the mark is taken away. While it was damaged its
  /// tablet may have been given up without it, or, if it is a tombstone, its time to leave the index may have passed:
  /// then it leaves now.
  /// @return RetryLater: it has changed once more, or is a tombstone whose removal is not as durable as its table
  ///         requires; it stays marked, and the call is to be repeated. Otherwise Ok
  /// Any registered reader thread, inside a read section; takes the key's stripe.
  Status reconcile(const log::Damage& restored);
  /// Verifies an entry, and has it marked if it is not what was written.
  /// @return Ok; RetryLater: it is being restored; Corrupt: it is lost
  /// Any registered reader thread, inside a read section.
  Status verify(log::EntryRef ref) const;
  /// True if a damaged entry is certainly not an object, unless more than one bit of its type has flipped. False also
  /// for entries whose type is one bit away from that of an object.
  bool isBookkeeping(log::EntryRef ref) const;

  /// Keys in the index: objects, and removals that are not durable yet.
  uint64_t objectCount() const { return parts_->index.entryCount(); }
  /// Memory that the index takes for them.
  uint64_t indexBytes() const { return parts_->index.stats().committed_bytes; }

  /// The hash of the key that an entry shows. If the entry is damaged, no byte beyond its extent is read.
  KeyHash hashOf(log::EntryRef ref) const;

  // log::EntryOwner
  Hint willBeRelocated(const log::EntryView& entry) override;
  Moved relocated(log::EntryRef from, log::EntryRef to, const log::EntryView& entry, Hint hint) override;
  void dropped(log::EntryRef ref, const log::EntryView& entry) override;
  log::SafeVersionPayload safeVersion() override;

 private:
  std::optional<Answer> applyLocked(const Mutation& mutation, const index::StripeGuard& stripe, LockWait wait);
  Answer answerDuplicate(const ResultTable::Lookup& known, Durability level) const;
  bool fits(uint64_t key_bytes, uint64_t value_bytes, bool has_expiry) const;
  static Status checkCondition(const Mutation& mutation, Version present);
  static Status increment(const Mutation& mutation, const Found& present, int64_t& sum);
  void putIntoIndex(const index::StripeGuard& stripe, log::EntryRef present, log::EntryRef ref);
  std::optional<Answer> mutate(const Mutation& mutation, const index::StripeGuard& stripe, const Found& present,
                               Durability level, LockWait wait);
  std::optional<Answer> logRefusal(const Mutation& mutation, Answer answer, Durability level, LockWait wait);
  Status replayOne(const log::EntryView& foreign, KeyHash hash, log::SideLog& side, DeadVersions* dead);
  Status replayTombstone(const log::EntryView& foreign, KeyHash hash, log::SideLog& side, DeadVersions& dead);
  Status replayOver(const log::EntryView& object, Version version, log::EntryRef present,
                    const index::StripeGuard& stripe, log::SideLog& side);
  Status replayResult(const log::EntryView& foreign, log::SideLog& side);
  Status replayObject(const log::EntryView& foreign, KeyHash hash, log::SideLog& side, DeadVersions* dead);
  Status replayCarried(const log::EntryView& object, KeyHash hash, log::SideLog& side);
  Status findCarried(log::EntryRef ref, std::optional<ResultTable::Record>& result) const;
  Status forgetCarried(log::EntryRef ref);
  /// Whether an entry that the index has under the bits of a hash decides the answer when this key is asked for: it is
  /// the key's, or damaged.
  /// @param state  set to the entry's state
  bool standsFor(log::EntryRef candidate, KeyHash hash, const Key& key, log::EntryState& state) const {
    const log::EntryView view = entry(candidate);
    // The state is read before anything else, so that an entry that is restored meanwhile is not believed in part.
    state = view.state();
    if (isDamaged(state)) return true;
    if (view.table() == key.table && std::ranges::equal(view.key(), key.key)) [[likely]]
      return true;
    state = stateOfOtherKey(candidate, hash);
    return isDamaged(state);
  }
  log::EntryState stateOfOtherKey(log::EntryRef candidate, KeyHash hash) const;
  bool isOfFormer(log::EntryRef ref, TableId table, KeyHash hash) const;
  Status findForReplay(const index::StripeGuard& stripe, KeyHash hash, TableId table, ByteSpan key,
                       log::EntryRef& present) const;
  Status renewOne(TableId table, log::EntryRef seen, KeyHash hash, Version version, log::SideLog& side);
  void retireTombstone(const index::StripeGuard& stripe, log::EntryRef tombstone, KeyHash hash, Durability level);
  LogPosition reapTombstones(Durability level, size_t count_max, Locking locking, size_t& reaped);

  log::LogMemory& memory_;
  std::optional<Parts> parts_;
  std::atomic<Version> next_version_{1};

  struct Removed {
    KeyHash hash;
    log::EntryRef tombstone;
  };
  SpinLock removed_lock_;  // a leaf
  // One queue for each durability of tables, so that a key that waits for a disk does not hold up others.
  std::array<std::deque<Removed>, 2> removed_ RC_GUARDED_BY(removed_lock_);
  std::array<std::atomic<size_t>, 2> removed_count_{};
  std::atomic<bool> reaping_{false};  // a thread is reaping
};

}  // namespace ramcore::master
