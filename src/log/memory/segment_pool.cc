#include "log/memory/segment_pool.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace ramcore::log {

namespace {
constexpr int kPoison = 0xdd;
}  // namespace

SegmentPool::SegmentPool(const LogConfig& config, const LogMemory& memory)
    : config_(config),
      memory_(memory),
      seglet_shift_(std::countr_zero(config.seglet_bytes)),
      free_runs_(config.extentBytesMin()),
      survivor_reserve_bytes_(config.survivorReserveBytes()),
      directory_(config.segmentSlots()),
      tombstones_(config.segmentSlots()) {
  RC_CHECK(memory.bytes() >= config.memory_bytes);
  const uint32_t slot_count = config.segmentSlots();
  for (uint32_t i = 0; i < slot_count; ++i) {
    slots_.push_back(std::make_unique<Segment>());
    slots_.back()->slot_ = i;
    slots_.back()->memory_ = &memory;
  }
  seglets_ = std::make_unique<std::atomic<Segment*>[]>(config.memory_bytes / config.seglet_bytes);

  MutexGuard guard(lock_);
  for (uint32_t i = slot_count; i-- > 0;) free_slots_.push_back(slots_[i].get());
  free_slot_count_.store(slot_count, std::memory_order_relaxed);
  for (uint32_t i = LogConfig::kSmallHeads; i-- > 0;) {
    free_small_heads_.push_back(uint64_t{i} * config.smallHeadBytes());
  }
  const uint64_t begin = config.smallHeadsBytes();
  putRun({begin, config.memory_bytes - begin});
  publishFree();
}

SegmentPool::~SegmentPool() = default;

uint64_t SegmentPool::freeBytesForHeads() const {
  const uint64_t pieces = free_piece_bytes_.load(std::memory_order_relaxed);
  const uint64_t blocks = blockBytesFor(SegmentKind::Head);
  return blocks + std::min(blocks, pieces - std::min(pieces, piecesForSurvivors(reserveLeftBytes())));
}

bool SegmentPool::hasReserve() const {
  const uint64_t reserve = survivorReserveBytes();
  return freeBlockBytes() + piecesForSurvivors(reserve) >= reserve;
}

/// The part of the reserve that may be pieces. Survivors of small entries take some beside the blocks that each has to
/// have. If no pieces were counted, memory that has fallen into pieces would keep the reserve twice. If there are
/// segments with large entries, their survivors need all of the reserve in blocks.
uint64_t SegmentPool::piecesForSurvivors(uint64_t reserve_bytes) const {
  if (large_segment_count_.load(std::memory_order_relaxed) > 0) return 0;
  const uint64_t blocks_bytes = config_.survivor_segments * roomBytesMin();
  const uint64_t most = reserve_bytes - std::min(reserve_bytes, blocks_bytes);
  return std::min(survivor_piece_bytes_.load(std::memory_order_relaxed), most);
}

uint32_t SegmentPool::slotsApart(SegmentKind kind) {
  switch (kind) {
    case SegmentKind::Side:
      return 16;
    case SegmentKind::Head:
      return 12;
    case SegmentKind::Survivor:
      return LogConfig::kSmallHeads;
    case SegmentKind::SmallHead:
      return 0;
  }
  return 0;
}

bool SegmentPool::isShortOfSlots() const {
  constexpr uint32_t kAhead = 8;
  return freeSlotCount() < std::max(slotCount() / 4, slotsApart(SegmentKind::Side) + kAhead);
}

/// Bytes in blocks that this kind may take.
uint64_t SegmentPool::blockBytesFor(SegmentKind kind) const {
  const uint64_t free_bytes = freeBlockBytes();
  if (kind == SegmentKind::Survivor) return free_bytes;
  const uint64_t reserve = reserveLeftBytes();
  const uint64_t reserve_in_blocks = reserve - piecesForSurvivors(reserve);
  return free_bytes > reserve_in_blocks ? free_bytes - reserve_in_blocks : 0;
}

bool SegmentPool::mayHaveRoom(SegmentKind kind) const {
  return blockBytesFor(kind) >= roomBytesMin() && free_slot_count_.load(std::memory_order_relaxed) > slotsApart(kind);
}

Segment* SegmentPool::allocate(SegmentKind kind, SegmentId id, uint32_t entry_bytes_max) {
  MutexGuard guard(lock_);
  Segment* const segment = take(kind, id, entry_bytes_max);
  if (segment != nullptr) directory_.insert(*segment);
  return segment;
}

Segment* SegmentPool::allocateCopy(const Segment& original, uint32_t entry_bytes_max) {
  MutexGuard guard(lock_);
  RC_CHECK(original.kind_ != SegmentKind::SmallHead);
  Segment* const copy = take(SegmentKind::Survivor, SegmentId(), entry_bytes_max);
  if (copy == nullptr) return nullptr;
  copy->kind_ = original.kind_;
  copy->compaction_count_ = original.compaction_count_ + 1;
  return copy;
}

void SegmentPool::putInPlace(Segment& original, Segment& copy) {
  MutexGuard guard(lock_);
  directory_.replace(original, copy);
}

void SegmentPool::exchange(std::span<Segment* const> survivors, std::span<Segment* const> given_up) {
  MutexGuard guard(lock_);
  for (Segment* segment : survivors) setExchanged(*segment, false);
  for (Segment* segment : given_up) setExchanged(*segment, true);
}

void SegmentPool::setExchanged(Segment& segment, bool is_exchanged) {
  // Small heads have a place of their own.
  if (segment.is_exchanged_ == is_exchanged || segment.kind_ == SegmentKind::SmallHead) return;
  segment.is_exchanged_ = is_exchanged;
  exchanged_bytes_.fetch_add(is_exchanged ? segment.memory_bytes_ : 0 - segment.memory_bytes_,
                             std::memory_order_relaxed);
}

Segment* SegmentPool::take(SegmentKind kind, SegmentId id, uint32_t entry_bytes_max) {
  if (free_slots_.size() <= slotsApart(kind)) return nullptr;
  Segment& segment = *free_slots_.back();
  RC_CHECK(segment.state() == SegmentState::Free);
  segment.extent_count_ = 0;
  segment.memory_bytes_ = 0;
  segment.capacity_bytes_ = 0;

  const bool takes_pieces = kind != SegmentKind::Survivor || entry_bytes_max <= config_.smallEntryBytesMax();
  const bool got = kind == SegmentKind::SmallHead ? allocateSmallHead(segment)
                                                  : allocateExtents(segment, blockBytesFor(kind), takes_pieces);
  publishFree();
  if (!got) return nullptr;
  free_slots_.pop_back();
  free_slot_count_.store(static_cast<uint32_t>(free_slots_.size()), std::memory_order_relaxed);

  segment.kind_ = kind;
  segment.cursor_ = {};
  if (segment.extents_[0].begin == 0) {
    // An offset of 0 would be "none": the first entries of the memory begin behind one cache line.
    segment.extents_[0].begin = EntryRef::kFirstBytes;
    segment.extents_[0].bytes.fetch_sub(EntryRef::kFirstBytes);
    segment.capacity_bytes_ -= EntryRef::kFirstBytes;
  }
  segment.committed_bytes_.store(0, std::memory_order_relaxed);
  segment.live_.clear();
  segment.stamp_bytes_ = 0;
  segment.damaged_.store(false, std::memory_order_relaxed);
  segment.was_damaged_.store(false, std::memory_order_relaxed);
  segment.replication_.clear();
  segment.membership_.clear();
  setExchanged(segment, kind == SegmentKind::Survivor);
  segment.compaction_count_ = 0;
  segment.compacted_live_bytes_ = 0;
  segment.reclamation_.clear();
  segment.id_.store(id.value, std::memory_order_release);
  segment.setState(SegmentState::Open);
  return &segment;
}

void SegmentPool::trim(Segment& segment) {
  MutexGuard guard(lock_);
  if (!segment.is_large_ && segment.live().largestEntryBytes() > config_.smallEntryBytesMax()) {
    segment.is_large_ = true;
    addLargeSegments(1);
  }
  if (segment.kind_ == SegmentKind::SmallHead) return;
  const bool is_exchanged = segment.is_exchanged_;
  setExchanged(segment, false);
  const Segment::Cursor& cursor = segment.cursor_;
  while (segment.extent_count_ > cursor.extent + 1) {
    const Extent& last = segment.extents_[--segment.extent_count_];
    segment.memory_bytes_ -= last.bytes;
    putRun({last.begin, last.bytes});
  }
  Extent& last = segment.extents_[cursor.extent];
  const uint64_t granule = config_.granuleBytes(segment.live().largestEntryBytes());
  const uint64_t kept = std::max(alignUp(cursor.extent_used, config_.seglet_bytes), granule);
  if (kept + granule <= last.bytes) {
    const Run tail{last.begin + kept, last.bytes - kept};
    last.bytes = static_cast<uint32_t>(kept);
    segment.memory_bytes_ -= tail.bytes;
    putRun(tail);
  }
  segment.capacity_bytes_ = cursor.offset;
  setExchanged(segment, is_exchanged);
  publishFree();
}

void SegmentPool::release(Segment& segment) {
  MutexGuard guard(lock_);
  setExchanged(segment, false);
  if (std::exchange(segment.is_large_, false)) addLargeSegments(-1);
  // A copy that was given up, or a segment that was replaced by a copy, is not what the directory finds by the id.
  if (directory_.find(segment.id()) == &segment) {
    directory_.erase(segment);
  } else {
    RC_CHECK(segment.membership_.is_replaced || segment.compaction_count_ > 0);
  }
  for (uint32_t i = 0; i < segment.extent_count_; ++i) {
    Extent& extent = segment.extents_[i];
    if (config_.poison_freed) std::memset(memory_.at(extent.begin), kPoison, extent.bytes);
    if (segment.kind_ == SegmentKind::SmallHead) {
      const uint64_t begin = extent.begin & ~uint64_t{config_.seglet_bytes - 1};
      setSeglets({begin, config_.smallHeadBytes()}, nullptr);
      free_small_heads_.push_back(begin);
      free_small_head_count_.fetch_add(1, std::memory_order_relaxed);
    } else {
      putRun({extent.begin, extent.bytes});
    }
  }
  publishFree();
  segment.extent_count_ = 0;
  segment.memory_bytes_ = 0;
  segment.id_.store(0, std::memory_order_release);
  segment.setState(SegmentState::Free);
  free_slots_.push_back(&segment);
  free_slot_count_.store(static_cast<uint32_t>(free_slots_.size()), std::memory_order_relaxed);
}

void SegmentPool::addLargeSegments(int32_t count) {
  const uint32_t now = large_segment_count_.load(std::memory_order_relaxed) + static_cast<uint32_t>(count);
  large_segment_count_.store(now, std::memory_order_relaxed);
  survivor_reserve_bytes_.store(config_.survivorReserveBytes(now), std::memory_order_relaxed);
}

bool SegmentPool::allocateSmallHead(Segment& segment) {
  if (free_small_heads_.empty()) return false;
  const Run run{free_small_heads_.back(), config_.smallHeadBytes()};
  free_small_heads_.pop_back();
  free_small_head_count_.fetch_sub(1, std::memory_order_relaxed);
  addExtent(segment, run);
  return true;
}

/// Blocks first, so that any group has room, then pieces.
bool SegmentPool::allocateExtents(Segment& segment, uint64_t block_bytes_max, bool takes_pieces) {
  if (block_bytes_max < roomBytesMin()) return false;
  const uint64_t bytes_max = config_.segment_bytes;
  uint64_t pieces_bytes = takes_pieces ? std::min(free_runs_.pieceBytes(), bytes_max / 2) : 0;
  pieces_bytes &= ~uint64_t{config_.seglet_bytes - 1};
  const uint64_t blocks_bytes = std::max(bytes_max - pieces_bytes, roomBytesMin());
  block_bytes_max = std::min(block_bytes_max, blocks_bytes) & ~uint64_t{config_.seglet_bytes - 1};
  while (segment.memory_bytes_ < block_bytes_max && segment.extent_count_ < Segment::kExtentsMax) {
    const auto run = free_runs_.takeBlocks(block_bytes_max - segment.memory_bytes_);
    if (!run) break;
    addExtent(segment, *run);
  }
  RC_CHECK(segment.capacity_bytes_ >= segmentBytesMin());
  if (!takes_pieces) return true;
  uint64_t pieces_left =
      std::min<uint64_t>(segment.memory_bytes_, bytes_max - std::min(bytes_max, segment.memory_bytes_));
  pieces_left &= ~uint64_t{config_.seglet_bytes - 1};
  while (pieces_left > 0 && segment.extent_count_ < Segment::kExtentsMax) {
    const auto run = free_runs_.takePiece(pieces_left);
    if (!run) break;
    addExtent(segment, *run);
    pieces_left -= run->bytes;
  }
  return true;
}

void SegmentPool::putRun(Run run) {
  setSeglets(run, nullptr);
  free_runs_.put(run);
}

void SegmentPool::publishFree() {
  free_block_bytes_.store(free_runs_.blockRunBytes(), std::memory_order_relaxed);
  free_piece_bytes_.store(free_runs_.pieceBytes(), std::memory_order_relaxed);
  // The other extents of a survivor are blocks.
  constexpr uint32_t kPiecesMax = Segment::kExtentsMax * 3 / 4;
  survivor_piece_bytes_.store(free_runs_.longestPiecesBytes(size_t{kPiecesMax} * config_.survivor_segments),
                              std::memory_order_relaxed);
}

void SegmentPool::addExtent(Segment& segment, Run run) {
  Extent& extent = segment.extents_[segment.extent_count_];
  extent.begin = run.begin;
  extent.bytes = static_cast<uint32_t>(run.bytes);
  extent.stream_begin.store(segment.extent_count_ == 0 ? 0 : kSegmentBytesMax, std::memory_order_relaxed);
  ++segment.extent_count_;
  segment.memory_bytes_ += run.bytes;
  segment.capacity_bytes_ = static_cast<uint32_t>(std::min<uint64_t>(segment.memory_bytes_, config_.segment_bytes));
  setSeglets(run, &segment);
}

void SegmentPool::setSeglets(Run run, Segment* segment) {
  for (uint64_t at = run.begin; at < run.begin + run.bytes; at += config_.seglet_bytes) {
    seglets_[at >> seglet_shift_].store(segment, std::memory_order_release);
  }
}

}  // namespace ramcore::log
