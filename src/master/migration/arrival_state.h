#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "base/ids.h"
#include "base/status.h"
#include "base/trace.h"
#include "store/arriving_range.h"
#include "store/intake_attempts.h"

namespace ramcore::master {

/// How far the pull of a tablet is, in this order.
enum class PullPhase : uint8_t { Preparing, Prepared, Adopting, Adopted, Arriving, Arrived, Joined, Settling };

/// Where the time of arrivals goes. Sums over partitions, which run beside each other.
struct ArrivalTimes {
  std::atomic<uint64_t> source_wait_ns{0};  ///< partitions waited for a slice, with nothing to replay
  std::atomic<uint64_t> replay_ns{0};       ///< slices were checked, and taken into log and index
  std::atomic<uint64_t> room_wait_ns{0};    ///< a slice waited for the cleaner
};

/// Sums over all moves to this server.
struct ArrivalStats {
  std::atomic<uint64_t> priority_pulls{0};   ///< requests for the hashes that calls wait for
  std::atomic<uint64_t> objects_arrived{0};  ///< objects that were pulled
  std::atomic<uint64_t> early_writes{0};     ///< writes of keys that had not arrived, by moves that are over
  ArrivalTimes times;
};

/// What those share that bring the contents of one tablet: its partitions, and the pull of what calls wait for. Any
/// executor of the master, but for the constructor and `arriving`, which is set before the phase is Prepared.
class ArrivalState {
 public:
  /// Those that bring something, each with a problem of its own: the partitions by number, and this.
  static constexpr size_t kForCalls = store::ArrivingRange::kPartitionsMax;

  /// @param source  server id, for the trace
  /// @param ended   nothing of it is wanted any more
  /// Everything is borrowed and outlives this.
  ArrivalState(uint64_t source, store::IntakeAttempt::Part& part, const std::atomic<bool>& ended, ArrivalStats& stats,
               Trace& trace)
      : source_(source), part_(part), ended_(ended), stats_(stats), trace_(trace) {}

  /// True if nothing is to be pulled any more.
  bool isOver() const { return ended_ || is_interrupted; }
  /// True if the tablet is here to stay: what was pulled is not given up.
  bool isTaken() const { return phase.load() >= PullPhase::Arriving || is_interrupted; }
  /// Keeps why some of the contents do not come, or that they do. Traces a reason that is not the one traced last.
  void note(size_t who, Status problem);
  /// Why some of the contents do not come. From the phase Prepared on. Corrupt: the source has lost objects, and there
  /// is no other reason.
  Status problem() const;
  void addObjects(uint64_t count) {
    part_.objects.fetch_add(count, std::memory_order_relaxed);
    stats_.objects_arrived.fetch_add(count, std::memory_order_relaxed);
  }
  void addBytes(uint64_t count) { part_.bytes.fetch_add(count, std::memory_order_relaxed); }
  /// Counts time from `begin_ns` to `end_ns` (runtime::Clock), for this tablet and for all.
  void countTime(std::atomic<uint64_t> ArrivalTimes::* what, int64_t begin_ns, int64_t end_ns) {
    (times_.*what).fetch_add(static_cast<uint64_t>(end_ns - begin_ns), std::memory_order_relaxed);
    (stats_.times.*what).fetch_add(static_cast<uint64_t>(end_ns - begin_ns), std::memory_order_relaxed);
  }
  /// Traces that everything has arrived, after so long a time.
  void traceArrived(int64_t duration_ns);

  std::atomic<PullPhase> phase{PullPhase::Preparing};
  std::atomic<bool> is_interrupted{false};         ///< the source is dead
  std::shared_ptr<store::ArrivingRange> arriving;  ///< what has arrived

 private:
  void trace(Status problem);
  bool hasLost() const { return arriving != nullptr && !arriving->lost().isEmpty(); }

  const uint64_t source_;
  store::IntakeAttempt::Part& part_;
  const std::atomic<bool>& ended_;
  ArrivalStats& stats_;
  ArrivalTimes times_;
  Trace& trace_;
  std::array<std::atomic<Status>, kForCalls + 1> problems_{};
  // The problems that were traced last. One for each, because each may be told again and again.
  std::array<std::atomic<Status>, kForCalls + 1> traced_{};
  std::atomic<bool> lost_traced_{false};
};

}  // namespace ramcore::master
