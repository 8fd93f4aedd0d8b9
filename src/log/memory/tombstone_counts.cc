#include "log/memory/tombstone_counts.h"

#include <numeric>
#include <utility>

namespace ramcore::log {

TombstoneCounts::TombstoneCounts(uint32_t slot_count)
    : row_of_slot_(slot_count),
      slot_of_row_(slot_count),
      first_of_row_(slot_count, kNone),
      first_of_holder_(slot_count, kNone) {
  std::iota(row_of_slot_.begin(), row_of_slot_.end(), 0);
  std::iota(slot_of_row_.begin(), slot_of_row_.end(), 0);
}

TombstoneCounts::~TombstoneCounts() { delete spare_.load(); }

void TombstoneCounts::prepare() {
  if (spare_.load(std::memory_order_relaxed) != nullptr) return;
  // The whole block is written here, so that its pages are there.
  auto block = std::make_unique<Block>();
  Block* none = nullptr;
  if (spare_.compare_exchange_strong(none, block.get(), std::memory_order_release, std::memory_order_relaxed)) {
    static_cast<void>(block.release());
  }
}

void TombstoneCounts::addBlock() {
  std::unique_ptr<Block> block(spare_.exchange(nullptr, std::memory_order_acquire));
  // No block is ready if thousands of pairs are added at a time. Then memory is taken under the lock, until prepare()
  // is called again.
  if (block == nullptr) block = std::make_unique<Block>();
  block->buckets.fill(kNone);
  blocks_.push_back(std::move(block));
  bytes_.store(blocks_.size() * sizeof(Block), std::memory_order_relaxed);
  if (bucket_count_ != 0) return;
  bucket_count_ = kBlockPairs;
  bucket_mask_ = kBlockPairs - 1;
}

uint32_t TombstoneCounts::bucketOf(uint32_t row, uint32_t holder) const {
  const auto hash = static_cast<uint32_t>(((uint64_t{row} << 32 | holder) * 0x9e3779b97f4a7c15) >> 32);
  const uint32_t bucket = hash & (2 * bucket_mask_ + 1);
  return bucket < bucket_count_ ? bucket : hash & bucket_mask_;
}

uint32_t TombstoneCounts::find(uint32_t row, uint32_t holder) const {
  if (bucket_count_ == 0) return kNone;
  uint32_t index = bucketAt(bucketOf(row, holder));
  while (index != kNone && (pairAt(index).row != row || pairAt(index).holder != holder)) {
    index = pairAt(index).next_in_bucket;
  }
  return index;
}

/// Adds a bucket. The pairs that belong to it come from the one bucket that has had them so far.
void TombstoneCounts::splitBucket() {
  if (bucket_count_ == 2 * (bucket_mask_ + 1)) bucket_mask_ = 2 * bucket_mask_ + 1;
  const uint32_t to = bucket_count_++;
  const uint32_t from = to & bucket_mask_;
  uint32_t index = std::exchange(bucketAt(from), kNone);
  while (index != kNone) {
    Pair& pair = pairAt(index);
    uint32_t& bucket = bucketAt(bucketOf(pair.row, pair.holder));
    const uint32_t next = std::exchange(pair.next_in_bucket, bucket);
    bucket = index;
    index = next;
  }
}

uint32_t TombstoneCounts::insert(uint32_t row, uint32_t holder) {
  uint32_t index = free_;
  if (index != kNone) {
    free_ = pairAt(index).next_in_bucket;
  } else {
    if (fresh_ == blocks_.size() * kBlockPairs) addBlock();
    index = fresh_++;
  }
  if (++pair_count_ > bucket_count_) splitBucket();
  uint32_t& bucket = bucketAt(bucketOf(row, holder));
  uint32_t& first_of_row = first_of_row_[row];
  uint32_t& first_of_holder = first_of_holder_[holder];
  pairAt(index) = {.row = row,
                   .holder = holder,
                   .bytes = 0,
                   .next_in_bucket = bucket,
                   .previous_of_row = kNone,
                   .next_of_row = first_of_row,
                   .previous_of_holder = kNone,
                   .next_of_holder = first_of_holder};
  if (first_of_row != kNone) pairAt(first_of_row).previous_of_row = index;
  if (first_of_holder != kNone) pairAt(first_of_holder).previous_of_holder = index;
  bucket = first_of_row = first_of_holder = index;
  return index;
}

void TombstoneCounts::erase(uint32_t index) {
  Pair& pair = pairAt(index);
  uint32_t* link = &bucketAt(bucketOf(pair.row, pair.holder));
  while (*link != index) link = &pairAt(*link).next_in_bucket;
  *link = pair.next_in_bucket;
  (pair.previous_of_row != kNone ? pairAt(pair.previous_of_row).next_of_row : first_of_row_[pair.row]) =
      pair.next_of_row;
  if (pair.next_of_row != kNone) pairAt(pair.next_of_row).previous_of_row = pair.previous_of_row;
  (pair.previous_of_holder != kNone ? pairAt(pair.previous_of_holder).next_of_holder : first_of_holder_[pair.holder]) =
      pair.next_of_holder;
  if (pair.next_of_holder != kNone) pairAt(pair.next_of_holder).previous_of_holder = pair.previous_of_holder;
  pair.next_in_bucket = free_;
  free_ = index;
  --pair_count_;
}

int64_t TombstoneCounts::bytesOf(uint32_t named, uint32_t holder) const {
  const uint32_t index = find(row_of_slot_[named], holder);
  return index != kNone ? pairAt(index).bytes : 0;
}

void TombstoneCounts::add(uint32_t named, uint32_t holder, int64_t bytes) {
  if (bytes == 0) return;
  const uint32_t row = row_of_slot_[named];
  uint32_t index = find(row, holder);
  if (index == kNone) index = insert(row, holder);
  int32_t& counted = pairAt(index).bytes;
  counted += static_cast<int32_t>(bytes);
  if (counted == 0) erase(index);
}

TombstoneCounts::Taken TombstoneCounts::takeNaming(uint32_t named) {
  const uint32_t index = first_of_row_[row_of_slot_[named]];
  if (index == kNone) return {};
  const Taken taken{.slot = pairAt(index).holder, .bytes = pairAt(index).bytes};
  erase(index);
  return taken;
}

TombstoneCounts::Taken TombstoneCounts::takeHeld(uint32_t holder) {
  const uint32_t index = first_of_holder_[holder];
  if (index == kNone) return {};
  const Taken taken{.slot = slot_of_row_[pairAt(index).row], .bytes = pairAt(index).bytes};
  erase(index);
  return taken;
}

void TombstoneCounts::moveNaming(uint32_t from, uint32_t to) {
  for (Taken taken = takeNaming(to); taken.bytes != 0; taken = takeNaming(to)) add(from, taken.slot, taken.bytes);
  std::swap(row_of_slot_[from], row_of_slot_[to]);
  slot_of_row_[row_of_slot_[from]] = from;
  slot_of_row_[row_of_slot_[to]] = to;
}

}  // namespace ramcore::log
