#pragma once

// Template bodies of hash_index.h; included by it alone.

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "index/hash_index.h"

namespace ramcore::index {

/// Prefetches header and key of an entry, which seldom lie in one cache line.
inline void prefetchEntryAt(const std::byte* memory, EntryRef ref) {
  const std::byte* entry = memory + ref.offsetBytes();
  __builtin_prefetch(entry);
  __builtin_prefetch(entry + 63);
}

/// Bit i is set if slot i may hold an entry with this tag: the caller loads the slot again and compares. `last` is what
/// was loaded from the link slot, once and before the other slots. With a second load the lookup could miss an entry:
/// between the loads the entry in that slot may be replaced by a link to a line that holds it.
inline uint32_t HashIndex::matchMask(const Line& line, uint64_t tag, SlotBits last) {
  const uint32_t last_bit = static_cast<uint32_t>(matchesTag(last, tag)) << kLinkSlot;
#if defined(RAMCORE_SANITIZED) || defined(RAMCORE_STEPS) || !defined(__SSE2__)
  uint32_t mask = last_bit;
  for (uint32_t slot_index = 0; slot_index < kLinkSlot; ++slot_index) {
    mask |= static_cast<uint32_t>(matchesTag(line.load(slot_index), tag)) << slot_index;
  }
  return mask;
#else
  // Eight separate loads and compares make lookups about an eighth slower. A vector load reads each aligned slot whole.
  // It is written as assembly because C++ has no atomic vectors; x86 keeps loads in order, and the clobber keeps the
  // compiler from moving the reader's next load of the table's size before them.
  const auto load = [&line](uint32_t slot_index) {
    __m128i slots;
    asm volatile("movdqa %1, %0"
                 : "=x"(slots)
                 : "m"(*reinterpret_cast<const __m128i*>(&line.slots[slot_index]))
                 : "memory");
    return _mm_castsi128_ps(slots);
  };
  const __m128i wanted = _mm_set1_epi32(static_cast<int>(tag));
  const auto compare = [wanted](__m128 low, __m128 high) {
    // The high halves of four slots; the tag is their upper 24 bits.
    const __m128i halves = _mm_castps_si128(_mm_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1)));
    const __m128i equal = _mm_cmpeq_epi32(_mm_srli_epi32(halves, 32 - kTagBits), wanted);
    return static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(equal)));
  };
  const uint32_t first = compare(load(0), load(2));
  const uint32_t second = compare(load(4), load(6));
  return ((first | second << 4) & ~(uint32_t{1} << kLinkSlot)) | last_bit;
#endif
}

template <typename Matcher>
EntryRef HashIndex::probe(uint64_t bucket, uint64_t tag, Matcher& matches) const {
  for (const Line* line = &table_.bucket(bucket); line != nullptr;) {
    const SlotBits last = line->load(kLinkSlot);
    for (uint32_t mask = matchMask(*line, tag, last); mask != 0; mask &= mask - 1) {
      const auto slot_index = static_cast<uint32_t>(std::countr_zero(mask));
      const SlotBits slot = slot_index == kLinkSlot ? last : line->load(slot_index);
      // Loaded again, so it may have changed.
      if (matchesTag(slot, tag) && matches(refOf(slot))) return refOf(slot);
    }
    line = table_.nextLine(last);
  }
  return {};
}

inline void HashIndex::prefetchEntry(KeyHash hash, const std::byte* memory) const {
  const ReversedHash reversed = reverseBits(hash);
  const uint64_t tag = table_.tagBits(reversed);
  const Line& line = table_.bucket(table_.currentBucket(reversed));
  const SlotBits last = line.load(kLinkSlot);
  const uint32_t mask = matchMask(line, tag, last);
  if (mask == 0) return;
  const auto slot_index = static_cast<uint32_t>(std::countr_zero(mask));
  const SlotBits slot = slot_index == kLinkSlot ? last : line.load(slot_index);
  if (matchesTag(slot, tag)) prefetchEntryAt(memory, refOf(slot));
}

template <typename Matcher>
void HashIndex::lookupBatch(std::span<const KeyHash> hashes, std::span<EntryRef> out, const std::byte* memory,
                            Matcher&& matches) const {
  RC_CHECK(hashes.size() == out.size());
  constexpr size_t kGroup = 16;
  struct Step {
    const Line* line = nullptr;
    uint64_t tag = 0;
  };
  Step steps[2][kGroup];
  const auto startGroup = [&](size_t first, Step* group) {
    const TableSize now = table_.size();
    const size_t count = std::min(kGroup, hashes.size() - first);
    for (size_t i = 0; i < count; ++i) {
      const ReversedHash reversed = reverseBits(hashes[first + i]);
      group[i] = {&table_.bucket(now.bucketOf(reversed)), table_.tagBits(reversed)};
      __builtin_prefetch(group[i].line);
    }
  };
  // Returns the first entry of the line whose tag agrees, prefetched but not yet compared. If there is none, goes on to
  // the next line.
  const auto nominate = [&](Step& step) -> EntryRef {
    const SlotBits last = step.line->load(kLinkSlot);
    const uint32_t mask = matchMask(*step.line, step.tag, last);
    if (mask == 0) {
      step.line = table_.nextLine(last);
      if (step.line != nullptr) __builtin_prefetch(step.line);
      return {};
    }
    const auto slot_index = static_cast<uint32_t>(std::countr_zero(mask));
    const SlotBits slot = slot_index == kLinkSlot ? last : step.line->load(slot_index);
    step.line = nullptr;
    if (!matchesTag(slot, step.tag)) return {};
    prefetchEntryAt(memory, refOf(slot));
    return refOf(slot);
  };

  if (!hashes.empty()) startGroup(0, steps[0]);
  for (size_t first = 0, group_index = 0; first < hashes.size(); first += kGroup, group_index ^= 1) {
    Step* group = steps[group_index];
    const size_t count = std::min(kGroup, hashes.size() - first);
    EntryRef candidates[kGroup];
    for (size_t i = 0; i < count; ++i) candidates[i] = nominate(group[i]);
    if (first + kGroup < hashes.size()) startGroup(first + kGroup, steps[group_index ^ 1]);
    for (size_t i = 0; i < count; ++i) {
      if (group[i].line != nullptr) candidates[i] = nominate(group[i]);
    }
    for (size_t i = 0; i < count; ++i) {
      const size_t at = first + i;
      if (candidates[i] && matches(at, candidates[i])) {
        out[at] = candidates[i];
        continue;
      }
      // The key is absent, or another key has an equal tag, or the chain is long, or a split is under way: a single
      // lookup decides.
      out[at] = lookup(hashes[at], [&](EntryRef ref) { return matches(at, ref); });
    }
  }
}

/// Prefetches the buckets of a range, in the order in which a scan comes to them: they lie far from each other.
inline void HashIndex::prefetchBuckets(KeyHash cursor, KeyHash last, size_t count) const {
  const TableSize now = table_.size();
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bucket = now.bucketOf(reverseBits(cursor));
    __builtin_prefetch(&table_.bucket(bucket));
    const KeyHash bucket_last = now.rangeOf(bucket).last;
    if (bucket_last >= last) return;
    cursor = bucket_last + 1;
  }
}

/// Gives the entries of a bucket their hashes, and puts those of the range to `to`, in order. `to` is at their own
/// place or before it. @return how many
template <typename HashOf>
size_t HashIndex::keepInRange(const HashRange& wanted, const HashRange& bucket, HashOf& hash_of,
                              std::span<const IndexEntry> entries, IndexEntry* to) const {
  size_t kept = 0;
  for (IndexEntry entry : entries) {
    const uint64_t tag = std::exchange(entry.hash, hash_of(entry.ref));
    entry.is_misplaced = !bucket.contains(entry.hash) || table_.tagBits(reverseBits(entry.hash)) != tag;
    if (entry.is_misplaced) entry.hash = wanted.first;
    if (wanted.contains(entry.hash)) to[kept++] = entry;
  }
  std::sort(to, to + kept, [](const auto& a, const auto& b) {
    return a.hash != b.hash ? a.hash < b.hash : a.ref.bits() < b.ref.bits();
  });
  return kept;
}

/// Copies the entries of some buckets of a range, in hash order, until there are `entries_min`, so that the cache
/// misses of all of them overlap: a key is read when the entries of all buckets have been announced.
template <typename Prefetch>
HashIndex::Window HashIndex::copyWindow(KeyHash cursor, KeyHash last, size_t buckets_max, size_t entries_min,
                                        std::vector<IndexEntry>& out, Prefetch& prefetch) {
  constexpr size_t kEntriesPerBucket = 4;  // about as many as there are
  Window window;
  const size_t begin = out.size();
  const size_t most = std::min({window.buckets.size(), buckets_max, entries_min / kEntriesPerBucket + 1});
  prefetchBuckets(cursor, last, most);
  while (window.count < most && !window.is_last && out.size() - begin < entries_min) {
    const size_t first = out.size();
    const HashRange range = copyBucket(cursor, out);
    window.buckets[window.count++] = {.wanted = {cursor, last}, .range = range, .first = first, .end = out.size()};
    window.is_last = range.last >= last;
    if (!window.is_last) cursor = range.last + 1;
  }
  for (size_t i = begin; i < out.size(); ++i) prefetch(out[i].ref);
  window.next = cursor;
  return window;
}

template <typename HashOf, typename Prefetch>
std::optional<KeyHash> HashIndex::scan(KeyHash cursor, KeyHash last, size_t entries_min, HashOf&& hash_of,
                                       std::vector<IndexEntry>& out, Prefetch&& prefetch) {
  const size_t wanted = std::max<size_t>(entries_min, 1);
  const size_t before = out.size();
  bool is_done = cursor > last;
  for (size_t buckets = 0; !is_done && buckets < kScanBucketsMax && out.size() - before < wanted;) {
    size_t kept = out.size();
    const Window window = copyWindow(cursor, last, kScanBucketsMax - buckets, wanted - (kept - before), out, prefetch);
    for (const CopiedBucket& bucket : std::span(window.buckets).first(window.count)) {
      const auto entries = std::span(out).subspan(bucket.first, bucket.end - bucket.first);
      kept += keepInRange(bucket.wanted, bucket.range, hash_of, entries, out.data() + kept);
    }
    out.resize(kept);
    buckets += window.count;
    cursor = window.next;
    is_done = window.is_last;
  }
  return is_done ? std::nullopt : std::optional(cursor);
}

template <typename Prefetch, typename Visit>
std::optional<KeyHash> HashIndex::visitBuckets(const HashRange& range, std::vector<IndexEntry>& buffer,
                                               Prefetch&& prefetch, Visit&& visit) {
  buffer.clear();
  const Window window = copyWindow(range.first, range.last, kWindow, SIZE_MAX, buffer, prefetch);
  for (const CopiedBucket& bucket : std::span(window.buckets).first(window.count)) {
    const auto entries = std::span(std::as_const(buffer)).subspan(bucket.first, bucket.end - bucket.first);
    if (!visit(Bucket{bucket.range, bucket.wanted.first, entries})) return bucket.wanted.first;
  }
  return window.is_last ? std::nullopt : std::optional(window.next);
}

template <typename HashOf, typename Visit>
void HashIndex::forEachInRange(HashRange range, HashOf&& hash_of, Visit&& visit) {
  std::vector<IndexEntry> entries;
  std::optional<KeyHash> cursor = range.first;
  while (cursor) {
    entries.clear();
    cursor = scan(*cursor, range.last, 1, hash_of, entries);
    for (const IndexEntry& entry : entries) visit(entry.hash, entry.ref);
  }
}

}  // namespace ramcore::index
