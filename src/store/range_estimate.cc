#include "store/range_estimate.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace ramcore::store {
namespace {

// Stretches of the range, and the entries that are looked at in each.
constexpr uint64_t kStretches = 16;
constexpr size_t kEntries = 256;
constexpr log::Keep kKeep{.name = false, .result = false};

}  // namespace

RangeEstimate estimateRange(const ObjectStore& store, index::HashIndex& index, TableId table, const HashRange& range) {
  const StoredEntries& entries = store.entries();
  const auto hash_of = [&entries](log::EntryRef ref) { return entries.hashOf(ref); };
  const auto prefetch = [&entries](log::EntryRef ref) { entries.prefetch(ref); };
  double objects = 0;
  double bytes = 0;
  std::vector<index::IndexEntry> found;
  const uint64_t step = (range.last - range.first) / kStretches + 1;
  for (KeyHash first = range.first;;) {
    const KeyHash last = first + std::min(step - 1, range.last - first);
    found.clear();
    const std::optional<KeyHash> next = index.scan(first, last, kEntries, hash_of, found, prefetch);
    const double width = static_cast<double>(last - first) + 1;
    const double seen = next ? static_cast<double>(*next - first) : width;
    for (const index::IndexEntry& one : found) {
      const log::EntryView entry = entries.entry(one.ref);
      const bool is_object = !one.is_misplaced && entry.table() == table && !log::isDamaged(entry.state()) &&
                             entry.type() == log::EntryType::Object;
      if (!is_object) continue;
      objects += width / seen;
      bytes += static_cast<double>(entry.copyBytes(kKeep)) * width / seen;
    }
    if (last == range.last) break;
    first = last + 1;
  }
  return {.objects = static_cast<uint64_t>(objects), .bytes = static_cast<uint64_t>(bytes)};
}

}  // namespace ramcore::store
