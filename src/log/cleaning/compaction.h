#pragma once

#include <vector>

#include "log/cleaning/shared_copy.h"
#include "log/log.h"

namespace ramcore::log {

/// Moves what is alive in some segments to less memory, each to a copy that takes its place. The segment stays what it
/// is to everybody else: id, replicas, tombstones that name it. So nothing is sent anywhere and no head is rolled; but
/// tombstones that name it stay, and its replicas go on taking as much storage.
///
/// Replicas hold what was alive when they were made, and perhaps more. Whichever of them a recovery reads, the state is
/// the same: what was left behind is held down by something that was flushed before the copy took the place of the
/// original, and goes on being held down as long as the segment is in the log, because what names it (an object that
/// took its place, a tombstone) is kept that long. As a pass, a compaction is never abandoned once it has moved an
/// entry.
///
/// Others may share the copying (SharedCopy::work).
///
/// Thread: one at a time, inside a read section of the log's Rcu.
class Compaction final {
 public:
  enum class Progress : uint8_t {
    Worked,   ///< call again as soon as convenient
    Waiting,  ///< for a flush, or for readers: call again when they have moved
    Done,
  };

  /// Both outlive the compaction. `copying` is used for nothing else while it is busy.
  Compaction(Log& log, SharedCopy& copying) : log_(log), copying_(copying) {}

  /// Begins with those of the segments that find memory for a copy.
  /// @param segments  cleanable ones (Log::listCleanable), no small heads, each worthwhile
  /// @return false: none does
  bool begin(std::span<Segment* const> segments);
  bool isBusy() const { return !pairs_.empty(); }
  /// @param bytes_max  to look at in this step
  Progress step(uint32_t bytes_max);

  /// What a compaction of the segment would probably give back, in bytes; 0 if that is not worth it, or if nothing has
  /// died since the last one.
  static uint64_t gainOf(const Segment& segment, const LogConfig& config);

 private:
  Progress copy(uint32_t bytes_max);
  void leaveBehind(const SharedCopy::Item& pair);
  Progress awaitDeaths();

  Log& log_;
  SharedCopy& copying_;
  std::vector<SharedCopy::Item> pairs_;
  bool is_copied_ = false;
  LogPosition deaths_end_;              ///< every death that was relied on is before this
  runtime::GraceTicket deaths_ticket_;  ///< and is known to the owner when this is over
};

}  // namespace ramcore::log
