#pragma once

#include <optional>
#include <span>

#include "base/ids.h"
#include "base/status.h"
#include "index/hash_index.h"
#include "log/log.h"
#include "log/side_log.h"
#include "store/arriving_range.h"
#include "store/carried_results.h"
#include "store/crowded_hashes.h"
#include "store/dead_versions.h"
#include "store/result_table.h"
#include "store/safe_version.h"
#include "store/stored_entries.h"

namespace ramcore::store {

/// Takes the entries that moves and recoveries bring, which another server has logged, into a side log, the index and
/// the table of results. Holds references only.
///
/// Lock order: stripe -> result shard; stripe -> the log's own locks. Any registered reader thread, inside a read
/// section.
class StoreReplay {
 public:
  /// Everything is borrowed and outlives this.
  struct Parts {
    log::Log& log;
    index::HashIndex& index;
    ResultTable& results;
    const StoredEntries& entries;
    CarriedResults& carried;
    SafeVersion& versions;
    CrowdedHashes& crowded;
  };
  explicit StoreReplay(const Parts& parts) : parts_(parts) {}

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
  /// Notes that a key cannot be had from the server that has it, unless what is here is newer.
  /// @param hash  of the key
  /// @param is_lost  set with Ok: it is not here
  /// @return RetryLater, Corrupt: as replayBatch(). NoSpace: too many are lost
  Status noteLost(TableId table, KeyHash hash, ByteSpan key, const ArrivingRange& arriving, bool& is_lost);
  /// Takes a removal that another server has logged, of a tablet that comes back from there: what this server has of
  /// the key up to that version leaves the index, with a tombstone of its own in the side log.
  /// @param foreign  verified; a tombstone
  /// @return RetryLater, Corrupt: as replayBatch(); or as SideLog::append()
  Status replayRemoval(const log::EntryView& foreign, KeyHash hash, log::SideLog& side);
  /// Whether the result of this call is here. @param foreign  verified; a result record
  bool knowsResult(const log::EntryView& foreign) const;
  /// Whether something of this server's own is damaged now.
  bool hasDamage() const;
  /// Gives objects of a range the version `version` instead of an older one, a bounded slice per call: those before
  /// `cursor` have it. Sets the next cursor, or nothing when the range is done. For ranges that are replayed from a log
  /// of which a part is lost: a key's next version follows on its present one, and higher versions may have been handed
  /// out in what is lost. RetryLater, Corrupt: because of a damaged entry, as replayBatch().
  /// @param side  where they are written; nullptr: to the log's head, if objects of this server's own log are among
  ///              them. Those die at once, and a side log may never join
  Status renewSlice(TableId table, const HashRange& range, Version version, std::optional<KeyHash>& cursor,
                    log::SideLog* side);

 private:
  struct Present {
    log::EntryRef ref;
    bool has_others = false;  // without `ref`: other keys of the table have this hash, or nearly
  };
  bool isLostHere(log::EntryRef lost, const log::EntryView& foreign) const;
  Status findPresent(const index::StripeGuard& stripe, KeyHash hash, TableId table, ByteSpan key,
                     Present& present) const;
  Status replayOne(const log::EntryView& foreign, KeyHash hash, log::SideLog& side, DeadVersions* dead);
  Status replayObject(const log::EntryView& foreign, KeyHash hash, log::SideLog& side, DeadVersions* dead);
  Status replayOver(const log::EntryView& object, Version version, log::EntryRef present,
                    const index::StripeGuard& stripe, log::SideLog* side);
  Status appendOver(log::EntryRef present, const log::EntryInput& input, log::AppendClass append_class,
                    log::SideLog* side, log::EntryRef& ref);
  Status takeOut(log::EntryRef present, const index::StripeGuard& stripe, log::SideLog& side);
  Status replayTombstone(const log::EntryView& foreign, KeyHash hash, log::SideLog& side, DeadVersions& dead);
  Status replayResult(const log::EntryView& foreign, log::SideLog& side);
  Status replayCarried(const log::EntryView& object, KeyHash hash, log::SideLog& side);
  Status renewOne(TableId table, log::EntryRef seen, KeyHash hash, Version version, log::SideLog* side);

  const Parts parts_;
};

}  // namespace ramcore::store
