#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/ids.h"
#include "base/step.h"
#include "log/format/entry_ref.h"

/// Bytes and arithmetic of the hash index: slots, lines, and which bucket a hash belongs to. No state.
namespace ramcore::index {

using log::EntryRef;

/// A key hash with its bits in reverse order. A bucket's number is its low bits, so that each bucket holds one
/// contiguous range of key hashes at every size of the table, and halving a range appends one bit.
using ReversedHash = uint64_t;
inline ReversedHash reverseBits(uint64_t value) { return __builtin_bitreverse64(value); }

/// 24 bits of the reversed hash above those that number the buckets of the smallest table.
inline constexpr unsigned kTagBits = 24;
inline constexpr uint64_t kTagMask = (uint64_t{1} << kTagBits) - 1;
inline constexpr uint64_t kRefMask = (uint64_t{1} << EntryRef::kBits) - 1;

/// Content of a slot: tag in the high 24 bits, EntryRef in the low 40. 0 is empty. Low bits 1..7, which are no entry's
/// address, mark a link: the number of an overflow line, its low 24 bits in the place of the tag.
using SlotBits = uint64_t;
inline constexpr uint64_t kFirstEntry = EntryRef::kFirstBytes / EntryRef::kUnitBytes;
inline constexpr uint64_t kLinesMax = (kFirstEntry - 1) << kTagBits;

constexpr SlotBits entrySlot(uint64_t tag, EntryRef ref) { return tag << EntryRef::kBits | ref.bits(); }
constexpr SlotBits linkSlot(uint64_t line_number) {
  return (line_number & kTagMask) << EntryRef::kBits | (1 + (line_number >> kTagBits));
}
constexpr bool isEntry(SlotBits slot) { return (slot & kRefMask) >= kFirstEntry; }
constexpr bool isLink(SlotBits slot) { return slot != 0 && !isEntry(slot); }
constexpr uint64_t tagOf(SlotBits slot) { return slot >> EntryRef::kBits; }
constexpr EntryRef refOf(SlotBits slot) { return EntryRef::fromBits(slot & kRefMask); }
constexpr uint64_t linkedLine(SlotBits slot) { return ((slot & kRefMask) - 1) << kTagBits | tagOf(slot); }
/// True for an entry with this tag. One compare: the exclusive or of equal tags leaves the reference.
constexpr bool matchesTag(SlotBits slot, uint64_t tag) {
  return (slot ^ tag << EntryRef::kBits) - kFirstEntry <= kRefMask - kFirstEntry;
}

inline constexpr uint32_t kSlotsPerLine = 8;
inline constexpr uint32_t kLinkSlot = kSlotsPerLine - 1;  // the only slot that may be a link

/// One cache line: a bucket, or an overflow line of one.
struct alignas(64) Line {
  std::array<std::atomic<SlotBits>, kSlotsPerLine> slots;

  SlotBits load(uint32_t slot_index) const {
    RC_READ_STEP();
    return slots[slot_index].load(std::memory_order_acquire);
  }
  void store(uint32_t slot_index, SlotBits bits) {
    RC_STEP();
    slots[slot_index].store(bits, std::memory_order_release);
  }
};
static_assert(sizeof(Line) == 64);

/// The size of the table in one atomic word: buckets 0 .. `split` - 1 of the 2^level have been split in two. `phase` is
/// 1 after entries were moved inside the bucket that was split last. No value of the word is ever used again: a reader
/// that found nothing and sees the same word again has missed no move.
struct TableSize {
  uint64_t split : 57 = 0;
  uint64_t phase : 1 = 0;
  uint64_t level : 6 = 0;

  constexpr uint64_t toWord() const {
    return static_cast<uint64_t>(level) << 58 | static_cast<uint64_t>(phase) << 57 | static_cast<uint64_t>(split);
  }
  static constexpr TableSize fromWord(uint64_t word) {
    TableSize size;
    size.split = word & ((uint64_t{1} << 57) - 1);
    size.phase = word >> 57 & 1;
    size.level = word >> 58;
    return size;
  }

  constexpr uint64_t bucketCount() const { return (uint64_t{1} << level) + split; }
  constexpr uint64_t bucketOf(ReversedHash reversed) const {
    const uint64_t mask = (uint64_t{1} << level) - 1;
    const uint64_t bucket = reversed & mask;
    return bucket < split ? (reversed & (mask << 1 | 1)) : bucket;
  }
  /// How many bits of the reversed hash number this bucket.
  constexpr unsigned bitsOf(uint64_t bucket) const {
    const bool is_split = bucket < split || bucket >= (uint64_t{1} << level);
    return static_cast<unsigned>(level) + (is_split ? 1 : 0);
  }
  /// The key hashes that belong to this bucket.
  HashRange rangeOf(uint64_t bucket) const {
    const unsigned bits = bitsOf(bucket);
    const KeyHash first = reverseBits(bucket);
    return {first, bits == 0 ? ~uint64_t{0} : first | ~uint64_t{0} >> bits};
  }
  /// The table after the next bucket was split.
  constexpr TableSize afterSplit() const {
    TableSize next = *this;
    next.phase = 0;
    next.split = split + 1;
    if (next.split == uint64_t{1} << level) {
      next.level = level + 1;
      next.split = 0;
    }
    return next;
  }
  constexpr TableSize afterMove() const {
    TableSize next = *this;
    next.phase = 1;
    return next;
  }
};

}  // namespace ramcore::index
