#pragma once

#include <array>
#include <optional>
#include <span>

#include "base/result.h"
#include "log/format/entry_writer.h"
#include "log/live_counts.h"
#include "log/live_limit.h"
#include "log/log_heads.h"

namespace ramcore::log {

/// What an append is for; decides what it may use when memory is short.
enum class AppendClass : uint8_t {
  Write,   ///< refused with NoSpace at the limit of live bytes
  Remove,  ///< groups that reduce the live bytes (tombstones): accepted at the limit too, and in the small heads of the
           ///< reserve
};

/// The outcome of an append.
struct Appended {
  /// The position behind the group. The group is durable when the log is durable up to this position.
  LogPosition end;
  /// Where the entries lie, in the order of the group.
  std::array<EntryRef, kGroupEntriesMax> refs{};
};

/// Appends groups of entries at the head of a log. This is the hot path of every write: what it needs of the other
/// parts is inline, and it takes the lock of the log once, or twice for a group that is copied outside of it.
///
/// Threads: any, inside a read section.
class LogAppender {
 public:
  /// Everything passed by reference outlives this object.
  LogAppender(SegmentPool& pool, LogStats& stats, Replicator& replicator, LogDurability& durability, LiveLimit& limit,
              LiveCounts& counts, LogHeads& heads, LogLock& lock)
      : pool_(pool),
        memory_(pool.memory()),
        stats_(stats),
        replicator_(replicator),
        durability_(durability),
        at_once_(durability.isAtOnce()),
        limit_(limit),
        counts_(counts),
        heads_(heads),
        lock_(lock) {}
  LogAppender(const LogAppender&) = delete;
  LogAppender& operator=(const LogAppender&) = delete;

  /// As Log::append().
  std::optional<Result<Appended>> append(std::span<const EntryInput> group, AppendClass append_class, LockWait wait)
      RC_EXCLUDES(kLogLock);

 private:
  struct Prepared;
  struct Reservation;

  std::optional<Result<Appended>> tryAppend(std::span<const EntryInput> group, const Prepared& prepared,
                                            AppendClass append_class, const std::byte* staged, LockWait wait)
      RC_EXCLUDES(kLogLock);
  Status reserve(const Prepared& prepared, AppendClass append_class, const std::byte* staged,
                 std::span<const EntryInput> group, Reservation& reservation) RC_REQUIRES(kLogLock);
  void countGroup(Segment& segment, std::span<const EntryInput> group, const Prepared& prepared) RC_REQUIRES(kLogLock);
  void finish(Reservation& reservation, std::span<const EntryInput> group) RC_EXCLUDES(kLogLock);

  SegmentPool& pool_;
  const LogMemory& memory_;
  LogStats& stats_;
  Replicator& replicator_;
  LogDurability& durability_;
  const bool at_once_;
  LiveLimit& limit_;
  LiveCounts& counts_;
  LogHeads& heads_;
  LogLock& lock_;
};

}  // namespace ramcore::log
