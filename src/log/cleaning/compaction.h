#pragma once

#include <vector>

#include "log/cleaning/shared_copy.h"
#include "log/log.h"

namespace ramcore::log {

/// Moves what is alive in some segments to less memory: each segment gets a copy, which takes its place. For all other
/// components the segment stays what it is: its id, its replicas and the tombstones that name it do not change. So
/// nothing is sent anywhere and no head is rolled. But tombstones that name the segment stay, and its replicas go on
/// taking as much storage.
///
/// A replica holds what was alive when it was made, and perhaps more. Whichever replica a recovery reads, the state is
/// the same: what was left behind is kept dead by something that was flushed before the copy took the place of the
/// original. It stays dead as long as the segment is in the log, because entries that name the segment (an object that
/// replaced one of its entries, a tombstone) are kept that long. Like a pass, a compaction is never abandoned once it
/// has moved an entry.
///
/// Other workers may share the copying (SharedCopy::work).
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
  /// @param segments  cleanable ones (Log::listCleanable), no small heads, each worthwhile (gainOf)
  /// @return false: none of them finds memory
  bool begin(std::span<Segment* const> segments);
  bool isBusy() const { return !pairs_.empty(); }
  /// @param bytes_max  how many bytes to look at in this step
  Progress step(uint32_t bytes_max);

  /// The bytes that a compaction of the segment would probably give back. 0 if that is not worth it, or if less than
  /// two granules (LogConfig::granuleBytes) have died since the last one.
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
  runtime::GraceTicket deaths_ticket_;  ///< when it is over, all of these deaths are known to the owner
};

}  // namespace ramcore::log
