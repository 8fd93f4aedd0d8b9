#pragma once

#include <atomic>

#include "base/ids.h"
#include "base/spin_lock.h"
#include "log/log.h"
#include "master/migration/source_calls.h"
#include "runtime/task.h"
#include "wire/migration_messages.h"

namespace ramcore::master {

/// Room in this server's log for a tablet that is to be handed over to it, held apart from clients' writes: for the
/// objects, for the second tombstone of each, and for the results of calls (docs/migration.md). So everything can
/// arrive however full the memory gets, and removes go on. Asks the source how much that is, and does not take more
/// from it.
///
/// What is still held is given back by the destructor. Executor: the background one, but for spend() and isExceeded(),
/// which any thread may call.
class RoomClaim {
 public:
  /// All outlive this.
  RoomClaim(log::Log& log, SourceCalls& source, const HashRange& range, runtime::Executor& background,
            const std::atomic<bool>& ended)
      : log_(log), source_(source), range_(range), background_(background), ended_(ended) {}
  RoomClaim(const RoomClaim&) = delete;
  RoomClaim& operator=(const RoomClaim&) = delete;
  ~RoomClaim();

  /// Asks what the tablet and its results take now. Ok, Cancelled, or as the source answers.
  runtime::Task<Status> measure();
  /// Nobody needs the outcome of measure() any more: it ends soon, with Cancelled.
  void giveUp() { is_given_up_ = true; }
  /// The bytes of objects of that.
  uint64_t measuredBytes() const { return measured_.object_bytes; }
  /// Holds what was measured. Ok; NoSpace: there is not that much room, see shortage().
  /// @param spare_bytes  that are held besides until all objects have arrived
  Status claim(uint64_t spare_bytes);
  /// Holds what the tablet may have grown by since measure(), and room for the results; to be called when it is frozen.
  /// Statuses as there.
  /// @param crowded  set with Ok: the hashes that several keys have at the source
  runtime::Task<Status> claimGrowth(store::CrowdedHashes::List& crowded);
  /// The bytes of objects that the source has announced.
  uint64_t objectBytes() const { return claimed_bytes_; }
  /// The bytes of results that the source has announced.
  uint64_t resultBytes() const { return result_bytes_; }
  /// The results have come: gives back what was held for them.
  void releaseResults();
  /// So many bytes of objects have arrived: gives back as much, at most what is held for objects.
  void spend(uint64_t bytes) RC_EXCLUDES(lock_);
  /// Whether the source has sent clearly more than it has announced.
  bool isExceeded() const {
    return spent_bytes_.load(std::memory_order_relaxed) > claimed_bytes_ + claimed_bytes_ / 16 + kSlackBytes;
  }
  /// Why a claim was answered with NoSpace.
  struct Shortage {
    uint64_t wanted_bytes = 0;
    uint64_t left_bytes = 0;
  };
  const Shortage& shortage() const { return shortage_; }

  /// Everything has arrived: gives back what was held for objects.
  void releaseObjects() RC_EXCLUDES(lock_);

 private:
  void giveBack(uint64_t object_bytes) RC_REQUIRES(lock_);
  runtime::Task<Status> ask(wire::MeasureTablet::Part part, KeyHash cursor, runtime::Priority priority,
                            SourceCalls::Measured& answer);
  /// What is held, or is to be.
  struct Parts {
    uint64_t object_bytes = 0;
    uint64_t large_bytes = 0;  ///< the part for large ones
    uint64_t tombstone_bytes = 0;
    uint64_t result_bytes = 0;
    uint64_t all() const { return object_bytes + tombstone_bytes + result_bytes; }
  };
  static constexpr uint64_t kSlackBytes = 64 * 1024;

  Status hold(const Parts& more) RC_EXCLUDES(lock_);

  log::Log& log_;
  SourceCalls& source_;
  const HashRange range_;  // of the tablet
  runtime::Executor& background_;
  const std::atomic<bool>& ended_;
  Parts measured_;
  bool is_given_up_ = false;
  SpinLock lock_;  // a leaf
  Parts held_ RC_GUARDED_BY(lock_);
  uint64_t result_bytes_ = 0;             // announced
  uint64_t claimed_bytes_ = 0;            // of objects
  std::atomic<uint64_t> spent_bytes_{0};  // of them
  Shortage shortage_;
  uint64_t appended_before_ = 0;  // by the source, when the first part was measured
};

}  // namespace ramcore::master
