#pragma once

#include <array>
#include <optional>
#include <span>

#include "base/hash.h"
#include "base/result.h"
#include "index/hash_index.h"
#include "log/log.h"
#include "runtime/clock.h"
#include "store/carried_results.h"
#include "store/crowded_hashes.h"
#include "store/damage_resolver.h"
#include "store/mutation.h"
#include "store/range_purge.h"
#include "store/result_table.h"
#include "store/safe_version.h"
#include "store/server_lease.h"
#include "store/store_replay.h"
#include "store/stored_entries.h"
#include "store/tablet_table.h"
#include "store/tombstone_queue.h"

namespace ramcore::store {

class EntryGroup;

/// Objects by key over log and index: versions, conditions, exactly-once. One code path for every mutation: a section
/// without suspension under the key's stripe, that checks tablet and epoch, lease, duplicate, condition and space,
/// appends the group and updates the index. Nothing here waits.
///
/// It holds the parts of the store that other work has to do with: replay, purge, damage and the queue of removed keys.
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
  /// the construction. Before that only safeVersion() and raiseSafeVersion() may be called.
  void connect(const Parts& parts);

  // ---- client operations

  /// Whether this server may answer for a key now. `now_ns` was read after the request arrived.
  /// @param permit  set with Ok
  struct ReadPermit {
    Durability level = Durability::Buffered;  ///< the durability that the answer waits for
    /// False: if the index does not have the key, it is not known whether the key exists (Tablet::hasArrived).
    bool has_arrived = true;
    bool is_lost =
        false;  ///< and it will not be: the server that has the tablet's contents has lost a key of this hash
    const ArrivingRange* arriving = nullptr;  ///< if not has_arrived
    /// Whether it is not known what the key is, though the index has this version of it (ArrivingRange::isOld).
    bool isOld(Version version) const { return !has_arrived && arriving->isOld(version); }
  };
  Status checkRead(TableId table, KeyHash hash, TabletEpoch epoch, int64_t now_ns, ReadPermit& permit) const;
  /// The entry of a key: its object or, until that is as durable as its table requires, its tombstone; an empty ref if
  /// there is none. A damaged entry is found by the bits that the index has of the hash, and stands for all keys with
  /// these bits: see damageOf. An entry whose key does not have the hash under which the index has it is found to be
  /// damaged here.
  Found lookup(TableId table, KeyHash hash, ByteSpan key) const;
  /// Looks up several keys at once, with their cache misses overlapped.
  using Key = ObjectKey;
  void lookupBatch(std::span<const Key> keys, std::span<const KeyHash> hashes, std::span<log::EntryRef> out) const;
  static constexpr size_t kLookupsMax = 64;  ///< the most keys of one lookupBatch()
  log::EntryView entry(log::EntryRef ref) const { return entries_->entry(ref); }

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

  using Locking = ramcore::store::Locking;
  /// Carries out one mutation, or answers a repeated one from its record.
  ///
  /// LeaseExpired: the client is not known here: confirm its lease, ResultTable::admit() it, apply again. With
  /// Locking::Try: nullopt if the stripe is taken, or if the lock of the client's results or of the log head is held
  /// for longer than a holder that runs takes (LockWait::Brief). Nothing has happened then, and the dispatch thread
  /// hands the mutation over to a worker. Once the group is in the log, the mutation is completed in any case, and
  /// waits for the locks that it needs.
  std::optional<Answer> apply(const Mutation& mutation, Locking locking);

  /// Makes the versions that are handed out from now on to keys without an object higher than `version`.
  void raiseSafeVersion(Version version) { versions_.raise(version); }
  Version safeVersionNow() const { return versions_.now(); }
  /// Above every version of every key of this server.
  Version versionCeiling() const;

  // ---- other work on the same objects

  /// The entries behind the references that lookups and scans of the index return.
  const StoredEntries& entries() const { return *entries_; }
  /// Takes what moves and recoveries bring.
  StoreReplay& replay() { return *replay_; }
  /// Removes the entries of tablets that this server does not hold any more from the index.
  RangePurge& purge() { return *purge_; }
  DamageResolver& damages() { return *damages_; }
  /// Removed keys that are still in the index.
  TombstoneQueue& tombstones() { return *tombstones_; }
  const TombstoneQueue& tombstones() const { return *tombstones_; }
  /// The key hashes that several keys have.
  const CrowdedHashes& crowdedHashes() const { return crowded_; }

  /// Keys in the index: objects, and removals that are not durable yet.
  uint64_t objectCount() const { return parts_->index.entryCount(); }
  /// Memory that the index takes for them.
  uint64_t indexBytes() const { return parts_->index.stats().committed_bytes; }

  // log::EntryOwner
  Hint willBeRelocated(const log::EntryView& entry) override;
  Moved relocated(log::EntryRef from, log::EntryRef to, const log::EntryView& entry, Hint hint) override;
  void dropped(log::EntryRef ref, const log::EntryView& entry) override;
  log::SafeVersionPayload safeVersion() override;

 private:
  std::optional<Answer> applyLocked(const Mutation& mutation, const index::StripeGuard& stripe, LockWait wait);
  Answer notHere(const Mutation& mutation, Status status) const;
  static Answer notArrived(const Tablet& tablet, KeyHash hash);
  static bool mayComeEarly(const Mutation& mutation, const Tablet& tablet, size_t others);
  Answer answerDuplicate(const ResultTable::Lookup& known, Durability level) const;
  static Status checkCondition(const Mutation& mutation, Version present);
  static Status increment(const Mutation& mutation, const Found& present, int64_t& sum);
  void putIntoIndex(const index::StripeGuard& stripe, log::EntryRef present, log::EntryRef ref);
  Status addToGroup(const Mutation& mutation, const index::StripeGuard& stripe, const Found& present,
                    std::span<const ByteSpan> value, const Tablet& tablet, Answer& answer, EntryGroup& group);
  std::optional<Answer> mutate(const Mutation& mutation, const index::StripeGuard& stripe, const Found& present,
                               const Tablet& tablet, LockWait wait);
  void retire(const Mutation& mutation, const index::StripeGuard& stripe, log::EntryRef tombstone,
              const Tablet& tablet);
  std::optional<Answer> logRefusal(const Mutation& mutation, Answer answer, Durability level, LockWait wait);

  log::LogMemory& memory_;
  // Set by connect(), each by value, so that a lookup follows no further pointer.
  std::optional<Parts> parts_;
  std::optional<StoredEntries> entries_;
  std::optional<CarriedResults> carried_;
  std::optional<TombstoneQueue> tombstones_;
  std::optional<RangePurge> purge_;
  std::optional<StoreReplay> replay_;
  std::optional<DamageResolver> damages_;
  // Raised by writes of new keys: not on a line that every lookup reads.
  alignas(64) SafeVersion versions_;
  CrowdedHashes crowded_;
};

}  // namespace ramcore::store
