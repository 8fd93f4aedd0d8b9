#include "backup/replica_page.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "base/mutation.h"
#include "log/format/log_reader.h"

namespace ramcore::backup {
namespace {

using Range = wire::ReadReplica::Range;

bool beginsBefore(const Range& a, const Range& b) {
  return std::tie(a.table, a.hashes.first) < std::tie(b.table, b.hashes.first);
}

}  // namespace

RangeFilter::RangeFilter(std::vector<Range> ranges, SegmentId segment) : ranges_(std::move(ranges)) {
  std::erase_if(ranges_, [segment](const Range& range) {
    return range.first_segment > segment && !RC_MUTATION("lend-what-is-of-before");
  });
  std::sort(ranges_.begin(), ranges_.end(), &beginsBefore);
  for (size_t i = 1; i < ranges_.size(); ++i) {
    const Range& before = ranges_[i - 1];
    overlapping_ = overlapping_ || (before.table == ranges_[i].table && before.hashes.last >= ranges_[i].hashes.first);
  }
}

bool RangeFilter::contains(TableId table, KeyHash hash) const {
  const auto has = [table, hash](const Range& range) { return range.table == table && range.hashes.contains(hash); };
  // Tablets of one recovery do not overlap. A request for ranges that do overlap takes a little longer.
  if (overlapping_) return std::any_of(ranges_.begin(), ranges_.end(), has);
  const auto behind = std::upper_bound(
      ranges_.begin(), ranges_.end(), std::pair(table, hash),
      [](const auto& key, const Range& range) { return key < std::pair(range.table, range.hashes.first); });
  return behind != ranges_.begin() && has(*std::prev(behind));
}

bool RangeFilter::wants(const log::EntryView& entry) const {
  switch (entry.type()) {
    case log::EntryType::Object:
    case log::EntryType::Tombstone:
      return contains(entry.table(), hashKey(entry.table(), entry.key()));
    case log::EntryType::ResultRecord:
      return contains(entry.table(), entry.payloadAs<log::ResultRecordPayload>().key_hash);
    case log::EntryType::SegmentHeader:
    case log::EntryType::LogDigest:
    case log::EntryType::SafeVersion:
      break;
  }
  return false;
}

Status ReplicaPage::fill(ByteSpan bytes, uint32_t offset_bytes, const RangeFilter& filter, const Bounds& bounds) {
  if (offset_bytes > bytes.size()) return Status::BadRequest;
  // A page may begin inside a group: the rest of a group looks like a group.
  log::SegmentReader reader(bytes.subspan(offset_bytes));
  for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
    for (const log::EntryView& entry : group) {
      next_offset_bytes = static_cast<uint32_t>(entry.address() - bytes.data());
      if (entry.type() == log::EntryType::SafeVersion) {
        safe_version = std::max(safe_version, entry.payloadAs<log::SafeVersionPayload>().version);
      }
      if (!filter.wants(entry)) continue;
      if (!entries.empty() && entry_bytes >= bounds.bytes_wanted) return Status::Ok;
      if (entry_bytes + entry.alignedBytes() > bounds.bytes_max) {
        return entries.empty() ? Status::TooLarge : Status::Ok;
      }
      entries.push_back(entry);
      entry_bytes += entry.alignedBytes();
    }
  }
  if (reader.end() != log::WalkEnd::Clean) return Status::BadRequest;
  next_offset_bytes = static_cast<uint32_t>(bytes.size());
  done = true;
  return Status::Ok;
}

}  // namespace ramcore::backup
