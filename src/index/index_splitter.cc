#include "index/index_splitter.h"

#include "base/check.h"
#include "base/mutation.h"

namespace ramcore::index {

/// Fills a bucket that no lookup goes to yet, because the published size of the table does not include it. Therefore
/// its stores are relaxed: publish() makes them visible.
class IndexSplitter::ChainBuilder {
 public:
  ChainBuilder(LinePool& pool, Line& bucket) : pool_(pool), bucket_(bucket), line_(&bucket) {
    for (auto& slot : bucket.slots) slot.store(0, std::memory_order_relaxed);
  }

  /// @return false if no overflow line is to be had
  bool append(SlotBits entry) {
    if (used_ == kSlotsPerLine) {
      const uint32_t number = pool_.allocate();
      if (number == LinePool::kNone) return false;
      Line& next = pool_.at(number);
      next.slots[0].store(line_->slots[kLinkSlot].load(std::memory_order_relaxed), std::memory_order_relaxed);
      line_->slots[kLinkSlot].store(linkSlot(number), std::memory_order_relaxed);
      line_ = &next;
      used_ = 1;
    }
    line_->slots[used_++].store(entry, std::memory_order_relaxed);
    return true;
  }

  /// Empties the bucket again.
  void abandon() {
    SlotBits link = bucket_.load(kLinkSlot);
    while (isLink(link)) {
      const auto number = static_cast<uint32_t>(linkedLine(link));
      link = pool_.at(number).load(kLinkSlot);
      pool_.giveBack(number);
    }
    for (auto& slot : bucket_.slots) slot.store(0, std::memory_order_relaxed);
  }

 private:
  LinePool& pool_;
  Line& bucket_;
  Line* line_;
  uint32_t used_ = 0;
};

void IndexSplitter::splitAsNeeded(uint64_t stripe_held) {
  uint64_t splits = 0;
  while (splits < kSplitsPerOperationMax &&
         parts_.entries.load(std::memory_order_relaxed) > kEntriesPerBucketMax * parts_.table.size().bucketCount() &&
         parts_.table.size().bucketCount() < buckets_max_) {
    if (!trySplit(stripe_held)) {
      // The next inserts make up for it: each may do two splits, where one split for six inserts would do.
      splits_put_off_.fetch_add(1, std::memory_order_relaxed);
      break;
    }
    ++splits;
  }
  if (splits > splits_per_operation_max_.load(std::memory_order_relaxed)) {
    splits_per_operation_max_.store(splits, std::memory_order_relaxed);
  }
}

bool IndexSplitter::trySplit(uint64_t stripe_held) RC_NO_THREAD_SAFETY_ANALYSIS {
  // Never wait here: the caller holds a stripe already, and another splitter may want it, which would be a deadlock.
  if (!lock_.try_lock()) return false;
  const TableSize before = parts_.table.size();
  const uint64_t stripe = parts_.stripes.of(before.split);
  bool split = false;
  if (before.bucketCount() < buckets_max_ && (stripe == stripe_held || parts_.stripes.lock(stripe).try_lock())) {
    split = splitBucket(before);
    if (stripe != stripe_held) parts_.stripes.lock(stripe).unlock();
  }
  lock_.unlock();
  return split;
}

/// Whether an entry of the bucket that is split goes to the target: the tag has the bit of the reversed hash above
/// those that number the bucket, and that bit decides.
bool IndexSplitter::belongsToTarget(TableSize before, SlotBits slot) const {
  return (tagOf(slot) >> (before.level - parts_.table.tagShift()) & 1) != 0;
}

bool IndexSplitter::splitBucket(TableSize before) {
  const uint64_t bucket = before.split;
  const uint64_t target = before.bucketCount();
  RC_DCHECK(target == bucket + (uint64_t{1} << before.level));

  ChainBuilder builder(parts_.pool, parts_.table.bucket(target));
  uint64_t entries_kept = 0;
  uint64_t lines_now = 0;
  for (const Line* line = &parts_.table.bucket(bucket); line != nullptr;
       line = parts_.table.nextLine(line->load(kLinkSlot))) {
    ++lines_now;
    for (uint32_t slot_index = 0; slot_index < kSlotsPerLine; ++slot_index) {
      const SlotBits slot = line->load(slot_index);
      if (!isEntry(slot)) continue;
      if (!belongsToTarget(before, slot)) {
        ++entries_kept;
      } else if (!builder.append(slot)) {
        builder.abandon();
        return false;
      }
    }
  }
  const bool clears_first = RC_MUTATION("clear-before-publish");
  if (clears_first) compactChain(before, bucket, entries_kept, lines_now);
  parts_.table.publish(before.afterSplit());
  if (!clears_first) compactChain(before, bucket, entries_kept, lines_now);
  splits_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

/// Clears the slots of the entries that went to the target, and lets the entries that stay move into the first lines of
/// the chain, so that the other lines can be unlinked.
///
/// An entry that moves is copied over a slot that is empty or holds an entry of the target. Its original is not
/// touched: it goes with the line it is in, after the word was published once more. So a reader passes the entry, or
/// passes the store that removed it; in the second case it sees a changed word afterwards, and looks again.
void IndexSplitter::compactChain(TableSize before, uint64_t bucket, uint64_t entries_kept, uint64_t lines_now) {
  constexpr uint64_t kLinked = kSlotsPerLine - 1;  // entries in a line that has a link
  const uint64_t lines_wanted = entries_kept <= kSlotsPerLine ? 1 : (entries_kept - 1 + kLinked - 1) / kLinked;
  Line* last_kept = &parts_.table.bucket(bucket);
  for (uint64_t line = 1; line < lines_wanted; ++line) last_kept = parts_.table.nextLine(last_kept->load(kLinkSlot));

  const SlotBits tail_link = lines_now > lines_wanted ? last_kept->load(kLinkSlot) : 0;
  Line* tail = parts_.table.nextLine(tail_link);
  uint32_t tail_slot = 0;
  // The next entry of the tail that stays in this bucket; 0 when there is none left.
  const auto nextMover = [&]() -> SlotBits {
    while (tail != nullptr) {
      if (tail_slot == kSlotsPerLine) {
        tail = parts_.table.nextLine(tail->load(kLinkSlot));
        tail_slot = 0;
        continue;
      }
      const SlotBits slot = tail->load(tail_slot++);
      if (isEntry(slot) && !belongsToTarget(before, slot)) return slot;
    }
    return 0;
  };

  bool moved = false;
  SlotBits mover = nextMover();
  for (Line* line = &parts_.table.bucket(bucket);;) {
    for (uint32_t slot_index = 0; slot_index < kSlotsPerLine; ++slot_index) {
      const SlotBits slot = line->load(slot_index);
      if (isLink(slot) || (isEntry(slot) && !belongsToTarget(before, slot))) continue;
      if (slot == mover) continue;  // both empty
      line->store(slot_index, mover);
      if (mover == 0) continue;
      moved = true;
      mover = nextMover();
    }
    if (line == last_kept) break;
    line = parts_.table.nextLine(line->load(kLinkSlot));
  }
  if (tail_link == 0) return;

  // At most one entry is left to move: it takes the place of the link, in the store that unlinks the other lines.
  RC_CHECK(nextMover() == 0);
  if (moved && !RC_MUTATION("move-unnoticed")) parts_.table.publish(before.afterSplit().afterMove());
  last_kept->store(kLinkSlot, mover);
  // Readers may still be in these lines, so they are retired for a grace period and not given back at once.
  for (SlotBits link = tail_link; isLink(link);) {
    const auto number = static_cast<uint32_t>(linkedLine(link));
    link = parts_.table.overflowLine(number).load(kLinkSlot);
    parts_.pool.retire(number);
  }
}

}  // namespace ramcore::index
