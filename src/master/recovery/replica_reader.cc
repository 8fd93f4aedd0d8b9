#include "master/recovery/replica_reader.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "base/mutation.h"
#include "log/format/segment_format.h"
#include "runtime/await.h"
#include "store/foreign_entry.h"
#include "store/tablet_intake.h"

namespace ramcore::master {
namespace {

using Range = wire::ReadReplica::Range;

constexpr uint32_t kPageBytes = 512 * 1024;
constexpr int64_t kPageDeadlineNs = 2 * runtime::kNanosPerSecond;
// How long an answer is waited for while other holders have the segment, too. It is not shorter, because a busy disk
// may take a while, and asking two holders costs both.
constexpr int64_t kPagePatienceNs = 300 * runtime::kNanosPerMilli;
// The pause between two rounds through all holders.
constexpr int64_t kRoundPauseNs = 20 * runtime::kNanosPerMilli;

// True for answers that make no sense. The holder's next answer would make none either.
bool isNonsense(Status status) { return status == Status::BadRequest || status == Status::Corrupt; }

const Range* rangeOf(std::span<const Range> ranges, TableId table, KeyHash hash) {
  const auto behind = std::upper_bound(
      ranges.begin(), ranges.end(), std::tuple(table, hash),
      [](const auto& key, const Range& range) { return key < std::tuple(range.table, range.hashes.first); });
  if (behind == ranges.begin()) return nullptr;
  const Range& range = *(behind - 1);
  return range.table == table && range.hashes.contains(hash) ? &range : nullptr;
}

}  // namespace

struct ReplicaReader::Page {
  wire::ReadReplica::Response header{.header = {.status = Status::Ok},
                                     .next_offset_bytes = 0,
                                     .entry_bytes = 0,
                                     .entry_count = 0,
                                     .done = 0,
                                     .safe_version = 0};
  std::vector<std::byte> entries;  // copied: the bytes are checked and used over several turns
};

/// How long the answer to one question is waited for.
struct ReplicaReader::Patience {
  const std::atomic<bool>& cancelled;
  runtime::Clock& clock;
  bool has_others = false;
  int64_t until_ns = 0;

  static bool isOver(void* patience) {
    const auto& self = *static_cast<Patience*>(patience);
    return self.cancelled || (self.has_others && self.clock.nowNs() >= self.until_ns);
  }
};

runtime::Task<Status> ReplicaReader::read(const Segment& segment, const std::atomic<bool>& cancelled,
                                          SegmentContents& contents) {
  const int64_t give_up_ns = executor_.clock().nowNs() + store::TabletIntake::kPatienceNs;
  std::vector<Source> left = segment.sources;
  Status status = Status::NotFound;
  while (!left.empty()) {
    std::vector<Source> order;
    for (const bool silent : {false, true}) {
      std::ranges::copy_if(left, std::back_inserter(order),
                           [&](const Source& source) { return source.holder->is_silent == silent; });
    }
    std::vector<Source> serious;
    for (size_t i = 0; i < order.size(); ++i) {
      if (cancelled) co_return Status::Cancelled;
      contents = {};
      const Source& source = order[i];
      const bool has_others = std::any_of(order.begin() + static_cast<ptrdiff_t>(i) + 1, order.end(),
                                          [](const Source& other) { return !other.holder->is_silent; });
      status = co_await readFrom(source, has_others, segment, cancelled, contents);
      if (status == Status::Ok) std::reverse(contents.entries.begin(), contents.entries.end());
      if (status == Status::Ok || status == Status::Cancelled) co_return status;
      if (!isNonsense(status)) serious.push_back(source);
    }
    left = std::move(serious);
    if (executor_.clock().nowNs() >= give_up_ns) break;
    if (!left.empty()) co_await runtime::sleepFor(executor_, kRoundPauseNs);
  }
  co_return status;
}

runtime::Task<Status> ReplicaReader::readFrom(const Source& source, bool has_others, const Segment& segment,
                                              const std::atomic<bool>& cancelled, SegmentContents& contents) {
  for (size_t first = 0; first < segment.ranges.size(); first += wire::ReadReplica::kRangesMax) {
    const auto ranges =
        segment.ranges.subspan(first, std::min<size_t>(wire::ReadReplica::kRangesMax, segment.ranges.size() - first));
    uint32_t offset = 0;
    for (bool done = false; !done;) {
      if (cancelled) co_return Status::Cancelled;
      Page page;
      Patience patience{.cancelled = cancelled, .clock = executor_.clock(), .has_others = has_others};
      Status status = co_await readPage(source, patience, segment, ranges, offset, page);
      if (status != Status::Ok) co_return status;
      done = page.header.done != 0;
      // A page is a part of the segment, so all pages together are no longer than it is, and there is a last one.
      const uint32_t end = done ? log::kSegmentBytesMax : page.header.next_offset_bytes;
      if (end > log::kSegmentBytesMax || end <= offset || page.header.entry_bytes > end - offset ||
          page.header.safe_version > store::kForeignVersionMax) {
        co_return Status::BadRequest;
      }
      status = takeEntries(segment, page, contents);
      if (status != Status::Ok) co_return status;
      // The chosen replica is gone from there: the backup found that it cannot be read, or never had all that it said.
      const bool is_short = done && page.header.next_offset_bytes < source.replica.length_bytes;
      if (is_short && !RC_MUTATION("read-a-shorter-replica")) co_return Status::NotFound;
      contents.safe_version = std::max(contents.safe_version, page.header.safe_version);
      if (!page.entries.empty()) contents.pages.push_back(std::move(page.entries));
      offset = end;
    }
  }
  co_return Status::Ok;
}

runtime::Task<Status> ReplicaReader::readPage(const Source& source, Patience patience, const Segment& segment,
                                              std::span<const Range> ranges, uint32_t offset_bytes, Page& page) {
  const auto bytes = static_cast<uint32_t>(sizeof(wire::ReadReplica::Request) + ranges.size_bytes());
  transport::TxMessage message = caller_.allocate(bytes);
  message.appendHead(wire::ReadReplica::Request{
      .header = {.opcode = wire::Opcode::ReadReplica, .target = ServerId(source.holder->address.id)},
      .master = segment.dead,
      .segment = segment.id,
      .replica = source.replica,
      .offset_bytes = offset_bytes,
      .response_bytes = kPageBytes,
      .range_count = static_cast<uint32_t>(ranges.size())});
  message.appendHead(std::as_bytes(ranges));
  const int64_t now_ns = executor_.clock().nowNs();
  patience.until_ns = now_ns + kPagePatienceNs;
  // A client of the dead server waits for this.
  const rpc::CallResult result = co_await caller_.call(executor_, source.holder->address, std::move(message),
                                                       {.deadline_ns = now_ns + kPageDeadlineNs,
                                                        .priority = runtime::Priority::Waited,
                                                        .is_hopeless = &Patience::isOver,
                                                        .context = &patience});
  source.holder->is_silent = result.response.head().empty();
  if (result.status != Status::Ok) co_return result.status;
  if (!wire::decode(result.response.head(), page.header) ||
      result.response.messageBytes() != sizeof(page.header) + uint64_t{page.header.entry_bytes}) {
    co_return Status::BadRequest;
  }
  const ByteSpan entries = result.response.head().subspan(sizeof(page.header));
  page.entries.reserve(page.header.entry_bytes);
  page.entries.assign(entries.begin(), entries.end());
  for (const ByteSpan& span : result.response.tail()) {
    page.entries.insert(page.entries.end(), span.begin(), span.end());
  }
  co_return Status::Ok;
}

Status ReplicaReader::takeEntries(const Segment& segment, const Page& page, SegmentContents& contents) {
  uint32_t count = 0;
  for (ByteSpan rest = page.entries; !rest.empty(); ++count) {
    log::EntryView entry;
    if (log::decodeEntry(rest, entry) != log::DecodeError::None) return Status::Corrupt;
    const auto hash = store::hashOfForeign(entry);
    const Range* const range = hash ? rangeOf(segment.ranges, entry.table(), *hash) : nullptr;
    if (range == nullptr || segment.id < range->first_segment) return Status::BadRequest;
    rest = rest.subspan(entry.alignedBytes());
    if (entry.type() == log::EntryType::Tombstone && entry.namedSegment() < range->first_segment &&
        !RC_MUTATION("believe-tombstones-of-before")) {
      // The entry that the tombstone keeps dead is of an earlier ownership, and is not read. The tombstone's version
      // counts: that ownership may have been a recovery that was given up, whose objects got versions of their own, and
      // these must not come again.
      contents.safe_version = std::max(contents.safe_version, entry.version());
      continue;
    }
    contents.entries.push_back({entry, static_cast<uint32_t>(range - segment.ranges.data())});
  }
  return count == page.header.entry_count ? Status::Ok : Status::BadRequest;
}

}  // namespace ramcore::master
