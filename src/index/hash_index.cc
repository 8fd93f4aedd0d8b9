#include "index/hash_index.h"

#include "base/check.h"
#include "base/mutation.h"

#if defined(RAMCORE_MUTATIONS)
#include <map>
#endif

namespace ramcore::index {

// ---- Stripes

StripeGuard::StripeGuard(HashIndex& index, KeyHash hash) RC_NO_THREAD_SAFETY_ANALYSIS
    : reversed_(reverseBits(hash)),
      stripe_(index.stripes_.of(reversed_)) {
  lock_ = &index.stripes_.lock(stripe_);
  lock_->lock();
}

std::optional<StripeGuard> StripeGuard::tryLock(HashIndex& index, KeyHash hash) RC_NO_THREAD_SAFETY_ANALYSIS {
  const ReversedHash reversed = reverseBits(hash);
  const uint64_t stripe = index.stripes_.of(reversed);
  SpinLock& lock = index.stripes_.lock(stripe);
  if (lock.try_lock()) return StripeGuard(&lock, reversed, stripe);
  if (!RC_MUTATION("ignore-a-held-stripe")) return std::nullopt;
  return StripeGuard(nullptr, reversed, stripe);
}

StripeGuard::~StripeGuard() RC_NO_THREAD_SAFETY_ANALYSIS {
  if (lock_ != nullptr) lock_->unlock();
}

void HashIndex::checkHeld(const StripeGuard& guard) const {
  RC_DCHECK(guard.lock_ == &stripes_.lock(guard.stripe_));
  static_cast<void>(guard);
}

// ---- Opening

Outcome<std::unique_ptr<HashIndex>> HashIndex::open(const IndexConfig& config, runtime::Rcu& rcu) {
  if (config.reserve_bytes < IndexMemory::kReserveBytesMin) {
    return Failure{Status::BadConfig, "the hash index needs at least " + std::to_string(IndexMemory::kReserveBytesMin) +
                                          " bytes of addresses: raise its reserve"};
  }
  auto memory = IndexMemory::reserve(config.reserve_bytes);
  if (!memory.ok()) return std::move(memory).error();
  const uint64_t buckets_max = (*memory)->buckets().size();
  if (config.initial_buckets_log2 > 30 || uint64_t{1} << config.initial_buckets_log2 > buckets_max) {
    return Failure{Status::BadConfig, "the hash index is to begin with 2^" +
                                          std::to_string(config.initial_buckets_log2) +
                                          " buckets, but its reserve holds " + std::to_string(buckets_max) +
                                          ": lower the one or raise the other"};
  }
  return std::unique_ptr<HashIndex>(new HashIndex(config, std::move(*memory), rcu));
}

HashIndex::HashIndex(const IndexConfig& config, std::unique_ptr<IndexMemory> memory, runtime::Rcu& rcu)
    : table_(memory->buckets(), memory->overflowLines(), config.initial_buckets_log2),
      // A stripe is chosen by bits that all buckets of one split family share, so there are at most as many stripes as
      // first buckets.
      stripes_(std::min(config.stripes_log2, config.initial_buckets_log2)),
      // A split reads the tag bit above those that number the bucket, so the tag bounds the table.
      splitter_({table_, stripes_, pool_, entries_},
                std::min<uint64_t>(memory->buckets().size(), uint64_t{1} << (config.initial_buckets_log2 + kTagBits))),
      memory_(std::move(memory)),
      pool_(memory_->overflowLines(), memory_->links(), rcu) {}

// ---- Chains. The caller holds the stripe of the bucket.

std::optional<HashIndex::Place> HashIndex::locate(uint64_t bucket, SlotBits wanted) const {
  Place place{.line = &table_.bucket(bucket)};
  while (place.line != nullptr) {
    for (place.slot_index = 0; place.slot_index < kSlotsPerLine; ++place.slot_index) {
      if (place.line->load(place.slot_index) == wanted) return place;
    }
    place.parent = place.line;
    place.line = table_.nextLine(place.line->load(kLinkSlot));
  }
  return std::nullopt;
}

std::optional<HashIndex::Place> HashIndex::locateEmpty(uint64_t bucket) const { return locate(bucket, 0); }

Status HashIndex::extendChain(uint64_t bucket) {
  Line* last = &table_.bucket(bucket);
  while (Line* next = table_.nextLine(last->load(kLinkSlot))) last = next;
  const uint32_t number = pool_.allocate();
  if (number == LinePool::kNone) return Status::NoSpace;
  // A reader finds the entry of the last slot either in its place or, by the link that replaces it, in the new line.
  table_.overflowLine(number).slots[0].store(last->load(kLinkSlot), std::memory_order_relaxed);
  last->store(kLinkSlot, linkSlot(number));
  return Status::Ok;
}

void HashIndex::unlinkIfSparse(const Place& place) {
  if (place.parent == nullptr) return;
  const SlotBits link = place.parent->load(kLinkSlot);
  SlotBits only_entry = 0;
  for (uint32_t slot_index = 0; slot_index < kLinkSlot; ++slot_index) {
    const SlotBits slot = place.line->load(slot_index);
    if (slot == 0) continue;
    if (only_entry != 0) return;
    only_entry = slot;
  }
  const SlotBits last = place.line->load(kLinkSlot);
  if (only_entry != 0 && last != 0) return;
  // One store takes the line out: what is left of it, an entry or a link, goes where the link to it was. Its own bytes
  // stay, so a reader inside finds what was there when it came.
  place.parent->store(kLinkSlot, only_entry != 0 ? only_entry : last);
  pool_.retire(static_cast<uint32_t>(linkedLine(link)));
}

// ---- Mutations

Status HashIndex::prepareInsert(const StripeGuard& guard) {
  checkHeld(guard);
  const uint64_t bucket = table_.currentBucket(guard.reversed_);
  return locateEmpty(bucket) ? Status::Ok : extendChain(bucket);
}

Status HashIndex::insert(const StripeGuard& guard, EntryRef ref) {
  RC_CHECK(static_cast<bool>(ref));
  checkHeld(guard);
  const uint64_t bucket = table_.currentBucket(guard.reversed_);
  auto place = locateEmpty(bucket);
  if (!place) {
    if (const Status extended = extendChain(bucket); extended != Status::Ok) return extended;
    place = locateEmpty(bucket);
  }
  RC_CHECK(place.has_value());
  place->line->store(place->slot_index, entrySlot(table_.tagBits(guard.reversed_), ref));
  entries_.fetch_add(1, std::memory_order_relaxed);
  splitter_.splitAsNeeded(guard.stripe_);
  return Status::Ok;
}

bool HashIndex::swapSlot(uint64_t bucket, const StripeGuard& guard, EntryRef old, EntryRef now) {
  RC_CHECK(static_cast<bool>(old) && static_cast<bool>(now));
  const uint64_t tag = table_.tagBits(guard.reversed_);
  const auto place = locate(bucket, entrySlot(tag, old));
  if (!place) return false;
  place->line->store(place->slot_index, entrySlot(tag, now));
  return true;
}

bool HashIndex::replace(const StripeGuard& guard, EntryRef old, EntryRef now) {
  checkHeld(guard);
  return swapSlot(table_.currentBucket(guard.reversed_), guard, old, now);
}

#if defined(RAMCORE_MUTATIONS)
namespace {

/// The planted bug: the place comes from a word that was loaded before the stripe was taken, one for many relocations,
/// so that the bucket may have been split meanwhile. Kept outside of the index, which is the same in all builds.
TableSize staleSize(const HashIndex* index, TableSize now) {
  constexpr uint32_t kRelocationsPerWord = 256;
  struct Loaded {
    uint32_t relocations = 0;
    TableSize size;
  };
  static std::map<const HashIndex*, Loaded> all;  // the simulator and tests/steps have one thread at a time
  Loaded& loaded = all[index];
  const bool is_of_former = loaded.size.toWord() > now.toWord();
  if (loaded.relocations++ % kRelocationsPerWord == 0 || is_of_former) loaded.size = now;
  return loaded.size;
}

}  // namespace
#endif

bool HashIndex::relocate(const StripeGuard& guard, EntryRef old, EntryRef now) {
  checkHeld(guard);
  TableSize table = table_.size();
#if defined(RAMCORE_MUTATIONS)
  if (RC_MUTATION("relocate-while-splitting")) table = staleSize(this, table);
#endif
  if (swapSlot(table.bucketOf(guard.reversed_), guard, old, now)) return true;
  relocations_refused_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool HashIndex::erase(const StripeGuard& guard, EntryRef ref) {
  checkHeld(guard);
  RC_CHECK(static_cast<bool>(ref));
  const auto place = locate(table_.currentBucket(guard.reversed_), entrySlot(table_.tagBits(guard.reversed_), ref));
  if (!place) return false;
  place->line->store(place->slot_index, 0);
  entries_.fetch_sub(1, std::memory_order_relaxed);
  unlinkIfSparse(*place);
  return true;
}

HashRange HashIndex::copyBucket(KeyHash cursor, std::vector<IndexEntry>& out) {
  const size_t begin = out.size();
  size_t room = 2 * kSlotsPerLine;
  for (;;) {
    // Memory is not allocated while the stripe is held.
    out.resize(begin);
    out.reserve(begin + room);
    size_t met = 0;
    const StripeGuard guard(*this, cursor);
    const TableSize table = table_.size();
    const uint64_t bucket = table.bucketOf(guard.reversed_);
    for (const Line* line = &table_.bucket(bucket); line != nullptr; line = table_.nextLine(line->load(kLinkSlot))) {
      for (uint32_t slot_index = 0; slot_index < kSlotsPerLine; ++slot_index) {
        const SlotBits slot = line->load(slot_index);
        if (!isEntry(slot)) continue;
        if (met++ < room) out.push_back({.hash = tagOf(slot), .ref = refOf(slot), .is_misplaced = false});
      }
    }
    if (met <= room) return table.rangeOf(bucket);
    room = met + kSlotsPerLine;
  }
}

// ---- Maintenance

// Buckets count as filled from the first split on: then the first buckets have six entries on average, so no page of
// theirs is untouched. Before that, a table that was opened large may be nearly empty.
uint64_t HashIndex::filledBuckets() const {
  const uint64_t buckets = table_.size().bucketCount();
  return buckets > uint64_t{1} << table_.tagShift() ? buckets : 0;
}

uint64_t HashIndex::maintainMemory() {
  const uint64_t buckets = table_.size().bucketCount();
  const uint64_t lines_touched = pool_.touched();
  // Pre-faulting is due for many pages at a time. If it were due for each page, steady growth would keep the collapse
  // below from ever coming.
  if (memory_->prefaultIsDue(buckets, lines_touched)) return memory_->prefault(buckets, lines_touched);
  return memory_->collapse(filledBuckets(), lines_touched);
}

bool HashIndex::memoryIsDue() const {
  const uint64_t lines_touched = pool_.touched();
  return memory_->prefaultIsDue(table_.size().bucketCount(), lines_touched) ||
         memory_->collapseIsDue(filledBuckets(), lines_touched);
}

IndexStats HashIndex::stats() const {
  IndexStats stats;
  stats.entries = entries_.load(std::memory_order_relaxed);
  stats.buckets = table_.size().bucketCount();
  stats.overflow_lines = pool_.inUse();
  stats.committed_bytes = memory_->bytesCommitted(stats.buckets, pool_.touched()) + stripes_.bytes() + sizeof(*this);
  stats.splits = splitter_.splits();
  stats.splits_per_operation_max = splitter_.splitsPerOperationMax();
  stats.splits_put_off = splitter_.splitsPutOff();
  stats.relocations_refused = relocations_refused_.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace ramcore::index
