#include "accounting/log_recount.h"

#include <map>

namespace ramcore::accounting {
namespace {

using log::EntryRef;
using log::EntryType;
using log::EntryView;
using log::Segment;
using log::SegmentKind;
using log::SegmentState;

constexpr size_t kDifferencesMax = 10;

struct Sums {
  int64_t live_bytes = 0;
  int64_t result_bytes = 0;
  int64_t large_bytes = 0;
  std::map<uint32_t, int64_t> tombstones;  ///< bytes by the slot of the segment they name
};

class Walk {
 public:
  Walk(const log::Log& log, const Refers& refers, const Awaits& awaits) : log_(log), refers_(refers), awaits_(awaits) {}

  Recount run() {
    result_.is_quiet = isQuiet();
    if (!result_.is_quiet) return result_;
    Sums all;
    std::vector<int64_t> named_bytes(log_.pool().slotCount());
    succeeded_bytes_.assign(log_.pool().slotCount(), 0);
    for (uint32_t i = 0; i < log_.pool().slotCount(); ++i) {
      const Segment& segment = log_.pool().slot(i);
      if (segment.state() == SegmentState::Free) continue;
      const Sums sums = walk(segment);
      compareSegment(segment, sums);
      all.live_bytes += sums.live_bytes;
      all.result_bytes += sums.result_bytes;
      all.large_bytes += sums.large_bytes;
      for (const auto& [slot, bytes] : sums.tombstones) named_bytes[slot] += bytes;
    }
    compareNamed(named_bytes);
    int64_t tombstone_bytes = 0;
    int64_t succeeded_bytes = 0;
    for (const int64_t bytes : named_bytes) tombstone_bytes += bytes;
    for (const int64_t bytes : succeeded_bytes_) succeeded_bytes += bytes;
    const log::LogStats& stats = log_.stats();
    equal("live bytes of the log", stats.live_bytes.load(), all.live_bytes);
    equal("bytes of result records in the log", stats.result_bytes.load(), all.result_bytes);
    equal("bytes of large objects in the log", stats.large_bytes.load(), all.large_bytes);
    equal("bytes of tombstones that may come in the log", stats.succeeded_bytes.load(), succeeded_bytes);
    equal("bytes of tombstones in the log", stats.tombstone_bytes.load(), tombstone_bytes);
    return result_;
  }

 private:
  // During a pass or a compaction an entry lies in two places, a side log counts what it copied later than it copied
  // it, and what an unlinked segment held is counted out in slices.
  bool isQuiet() const {
    for (uint32_t i = 0; i < log_.pool().slotCount(); ++i) {
      const Segment& segment = log_.pool().slot(i);
      const SegmentState state = segment.state();
      if (state == SegmentState::Free) continue;
      if (state == SegmentState::Leaving || state == SegmentState::Unlinked) return false;
      // Survivors, side segments, and copies that are still being made, also of former heads.
      if (!segment.isListed() && (!segment.isHeadKind() || segment.compactionCount() != 0)) return false;
      if (segment.committedBytes() != segment.cursor().offset) return false;
    }
    return true;
  }

  Sums walk(const Segment& segment) {
    ++result_.segments;
    Sums sums;
    for (uint32_t offset = 0; offset < segment.committedBytes();) {
      const EntryRef ref = segment.refAt(offset);
      const EntryView entry = log_.view(ref);
      ++result_.entries;
      count(segment, ref, entry, sums);
      offset += entry.alignedBytes();
    }
    return sums;
  }

  void count(const Segment& segment, EntryRef ref, const EntryView& entry, Sums& sums) {
    const int64_t bytes = entry.alignedBytes();
    const Segment* const named = entry.namesSegment() ? log_.pool().find(entry.namedSegment()) : nullptr;
    switch (entry.type()) {
      case EntryType::Object:
      case EntryType::ResultRecord: {
        const bool is_live = entry.state() != log::EntryState::Superseded && entry.state() != log::EntryState::Freed;
        judgeState(segment, ref, entry, is_live);
        const int64_t tombstone_bytes = log::alignedTombstoneBytes(entry.keyBytes());
        if (!is_live) return named != nullptr ? countTombstone(*named, tombstone_bytes, sums) : void();
        if (named != nullptr) succeeded_bytes_[named->slot()] += tombstone_bytes;
        const int64_t carried_bytes = entry.resultBytes();
        const bool carries = entry.carriesResult() && !entry.isAcknowledged();
        if (entry.carriesResult()) judgeCarried(segment, ref, entry, carries);
        const int64_t own_bytes = bytes - (carries ? 0 : carried_bytes);
        result_.results += carries || entry.type() == EntryType::ResultRecord ? 1 : 0;
        sums.live_bytes += own_bytes;
        if (entry.type() == EntryType::ResultRecord) sums.result_bytes += own_bytes;
        if (carries) sums.result_bytes += carried_bytes;
        const bool is_large = bytes > log_.config().smallEntryBytesMax();
        if (entry.type() == EntryType::Object && is_large) sums.large_bytes += own_bytes;
        return;
      }
      case EntryType::Tombstone:
        if (named != nullptr) countTombstone(*named, bytes, sums);
        return;
      default:
        return;
    }
  }

  // Counts a tombstone that is written, or that the cleaner has to write when it meets the dead object.
  static void countTombstone(const Segment& named, int64_t bytes, Sums& sums) {
    sums.live_bytes += bytes;
    sums.tombstones[named.slot()] += bytes;
  }

  void judgeState(const Segment& segment, EntryRef ref, const EntryView& entry, bool is_live) {
    if (is_live == refers_(ref, entry)) return;
    fail("segment " + std::to_string(segment.id().value) + ": an entry of type " +
         std::to_string(static_cast<int>(entry.type())) + ", version " + std::to_string(entry.version()) +
         (is_live ? ", is marked as alive and nobody is led to it" : ", is marked as dead and still referred to"));
  }

  void judgeCarried(const Segment& segment, EntryRef ref, const EntryView& entry, bool carries) {
    if (carries == awaits_(ref, entry.carriedResult())) return;
    fail("segment " + std::to_string(segment.id().value) + ": an object of version " + std::to_string(entry.version()) +
         (carries ? " carries a result as if it were needed, and nobody is led to it"
                  : " carries a result that is marked as acknowledged, and still referred to"));
  }

  void compareSegment(const Segment& segment, const Sums& sums) {
    const std::string name = " of segment " + std::to_string(segment.id().value);
    equal("live bytes" + name, segment.live().bytes(), sums.live_bytes);
    equal("bytes of result records" + name, segment.live().resultBytes(), sums.result_bytes);
    equal("bytes of large objects" + name, segment.live().largeBytes(), sums.large_bytes);
    for (uint32_t i = 0; i < log_.pool().slotCount(); ++i) {
      const Segment& named = log_.pool().slot(i);
      const auto found = sums.tombstones.find(i);
      equal("bytes of tombstones for segment " + std::to_string(named.id().value) + name,
            log_.pool().tombstoneBytes(named, segment), found == sums.tombstones.end() ? 0 : found->second);
    }
  }

  void compareNamed(const std::vector<int64_t>& named_bytes) {
    for (uint32_t i = 0; i < log_.pool().slotCount(); ++i) {
      const Segment& named = log_.pool().slot(i);
      if (named.state() == SegmentState::Free) continue;
      equal("bytes of tombstones that name segment " + std::to_string(named.id().value),
            static_cast<int64_t>(named.live().namedByTombstoneBytes()), named_bytes[i]);
      equal("bytes of tombstones that may come to name segment " + std::to_string(named.id().value),
            named.live().succeededBytes(), succeeded_bytes_[i]);
    }
  }

  void equal(const std::string& what, int64_t counted, int64_t found) {
    if (counted == found) return;
    fail(what + ": counted " + std::to_string(counted) + ", there are " + std::to_string(found));
  }
  void fail(const std::string& what) {
    if (result_.differences.size() < kDifferencesMax) result_.differences.push_back(what);
  }

  const log::Log& log_;
  const Refers& refers_;
  const Awaits& awaits_;
  std::vector<int64_t> succeeded_bytes_;  ///< by the slot of the segment that objects name
  Recount result_;
};

}  // namespace

Recount recount(const log::Log& log, const Refers& refers, const Awaits& awaits) {
  return Walk(log, refers, awaits).run();
}

}  // namespace ramcore::accounting
