#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/durability.h"
#include "base/ids.h"
#include "base/spin_lock.h"
#include "base/status.h"
#include "runtime/epoch.h"
#include "store/arriving_range.h"

namespace ramcore::store {

/// Traffic of one tablet. Any thread; all is relaxed.
struct TabletCounters {
  /// One in so many calls is kept: a prime, because callers do things in turns.
  static constexpr uint64_t kCallsPerSample = 17;
  static constexpr size_t kSampleMax = 256;

  void countRead(KeyHash hash) { keep(reads.fetch_add(1, std::memory_order_relaxed), hash); }
  void countWrite(KeyHash hash) { keep(writes.fetch_add(1, std::memory_order_relaxed), hash); }
  /// The key hashes of some of the last calls, in no order.
  std::vector<KeyHash> sample() const {
    std::vector<KeyHash> out;
    for (const std::atomic<KeyHash>& hash : called_) {
      if (const KeyHash kept = hash.load(std::memory_order_relaxed); kept != 0) out.push_back(kept);
    }
    return out;
  }

  std::atomic<uint64_t> reads{0};
  std::atomic<uint64_t> writes{0};

 private:
  void keep(uint64_t count, KeyHash hash) {
    if (count % kCallsPerSample != 0) return;
    called_[count / kCallsPerSample % kSampleMax].store(hash, std::memory_order_relaxed);
  }

  std::array<std::atomic<KeyHash>, kSampleMax> called_{};  // 0: none
};

enum class TabletState : uint8_t {
  Normal,    ///< reads and mutations
  Frozen,    ///< reads only: the tablet is about to be handed over to another server. If it was Arriving, reads as far
             ///< as the contents have arrived, which goes on
  Pulling,   ///< neither: its contents are being fetched, or are about to be, and another server still owns it
  Arriving,  ///< reads and mutations, as far as the contents have arrived: another server, which does not answer any
             ///< more, still has the rest
  Lent,      ///< neither: another server owns it and fetches the contents, which stay here until all have arrived there
};

/// The server that owns a tablet which is lent to it.
struct LentTo {
  ServerId owner;
  TabletEpoch epoch;  ///< under which it holds the tablet
};

/// A range of a table's key hashes that this server holds.
struct Tablet {
  TabletId id;
  TableId table;
  HashRange range;
  TabletEpoch epoch;
  TabletState state = TabletState::Normal;
  SegmentId first_segment;  ///< a segment of our log: entries of the range before it are of an earlier ownership and
                            ///< dead
  Durability durability = Durability::Buffered;  ///< the durability of its table
  std::shared_ptr<TabletCounters> counters;
  std::shared_ptr<const ArrivingRange> arriving{};  ///< in state Arriving, and then in Frozen: what has arrived
  std::optional<LentTo> lent_to{};                  ///< in state Lent, if it is known
  /// In state Lent, of one that was Arriving: only what is above this version was changed here. The rest is as the
  /// server has it that this one is lent to, but for what was removed. 0: all of it is from here.
  Version changes_after = 0;
  TabletEpoch return_epoch{};     ///< in state Frozen, of one that was Arriving: under which it is to be handed back
  TabletEpoch return_given_up{};  ///< under this epoch, or an older one, it is not handed back any more

  /// Whether what is not in the index certainly does not exist. Asked before the index is.
  bool hasArrived(KeyHash hash) const { return arriving == nullptr || arriving->has(hash); }
  /// Whether removed keys keep their tombstones in the index: another server has, or asks for, what is older.
  bool keepsTombstones() const { return arriving != nullptr || changes_after != 0; }
};

/// What a request wants of a tablet.
enum class Access : uint8_t { Read, Mutate };

/// The tablets of this server. Lookups take no lock: they read a snapshot that changes replace as a whole; the caller
/// is inside an RCU read section (runtime/epoch.h) and keeps nothing past it. So a change has drained when a grace
/// period has passed after it: no thread acts on the former tablets any more.
class TabletTable {
 public:
  explicit TabletTable(runtime::Rcu& rcu);
  ~TabletTable();
  TabletTable(const TabletTable&) = delete;
  TabletTable& operator=(const TabletTable&) = delete;

  /// The tablet of a key, or nullptr. Any reader thread; about 5 ns for a few tablets.
  const Tablet* find(TableId table, KeyHash hash) const;
  /// Checks that this server may answer: WrongServer: not here, or not any more; StaleEpoch: the request is older than
  /// the tablet (the client refreshes); RetryLater: it is newer, or the tablet is in transition. `tablet` is set with
  /// Ok; if it is Arriving, Tablet::hasArrived() tells what a look at the index is worth.
  Status check(TableId table, KeyHash hash, TabletEpoch epoch, Access access, const Tablet*& tablet) const;

  // Changes: any thread, one at a time inside. Each is visible to lookups that begin after it returned.

  /// Adds a tablet. BadRequest if it overlaps one that is here; Ok without a change if exactly it is here already.
  Status add(const Tablet& tablet) RC_EXCLUDES(lock_);
  /// Replaces state (not by Arriving), epoch and first segment of tablet `id`, which does not arrive any more; NotFound
  /// if it is not here.
  Status update(TabletId id, TabletEpoch epoch, TabletState state, SegmentId first_segment) RC_EXCLUDES(lock_);
  /// Puts tablet `id` into state Lent. NotFound if it is not here.
  Status lend(TabletId id, std::optional<LentTo> lent_to) RC_EXCLUDES(lock_);
  /// Puts tablet `id`, which is in state Pulling or comes back from Lent, into state Arriving, under `epoch`. NotFound
  /// if it is not here.
  Status arrive(TabletId id, TabletEpoch epoch, std::shared_ptr<const ArrivingRange> arriving) RC_EXCLUDES(lock_);
  /// Freezes a tablet that is Arriving, to be handed back under `return_epoch`. Ok also if that was done; StaleEpoch if
  /// that was given up. NotFound: it is not here, or does not arrive.
  Status freezeArriving(TabletId id, TabletEpoch return_epoch) RC_EXCLUDES(lock_);
  /// The tablet is not handed back under `return_epoch`: it goes on arriving, unless it was frozen for a later return.
  /// NotFound: as freezeArriving().
  Status thaw(TabletId id, TabletEpoch return_epoch) RC_EXCLUDES(lock_);
  /// Puts two tablets in the place of `id`, which together cover exactly its range. State, first segment and
  /// durability are inherited.
  Status split(TabletId id, const Tablet& lower, const Tablet& upper) RC_EXCLUDES(lock_);
  /// Removes a tablet; NotFound if it is not here.
  Status remove(TabletId id) RC_EXCLUDES(lock_);

  /// Copies, for slow paths. Any thread.
  std::optional<Tablet> get(TabletId id) const RC_EXCLUDES(lock_);
  std::vector<Tablet> list() const RC_EXCLUDES(lock_);

 private:
  /// Sorted by table and first hash; never changed after it was published.
  struct Snapshot : runtime::Deferred {
    std::vector<Tablet> tablets;
  };
  static Status checkInTransition(const Tablet& tablet, KeyHash hash, Access access);
  const Snapshot& current() const RC_REQUIRES(lock_) { return *snapshot_.load(std::memory_order_relaxed); }
  void publish(std::vector<Tablet> tablets) RC_REQUIRES(lock_);

  runtime::Rcu& rcu_;
  mutable SpinLock lock_;  // a leaf; orders changes
  std::atomic<Snapshot*> snapshot_;
};

}  // namespace ramcore::store
