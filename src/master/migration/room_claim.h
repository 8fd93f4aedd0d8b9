#pragma once

#include <atomic>

#include "base/ids.h"
#include "log/log.h"
#include "master/migration/source_calls.h"
#include "runtime/task.h"
#include "wire/migration_messages.h"

namespace ramcore::master {

/// Room in this server's log for a tablet that is to be handed over to it, held apart from clients' writes: for the
/// objects, and for the second tombstone of each (docs/migration.md). So everything can arrive however full the memory
/// gets, and removes go on. Asks the source how much that is.
///
/// What is still held is given back by the destructor. Executor: the background one.
class RoomClaim {
 public:
  /// All outlive this.
  RoomClaim(log::Log& log, SourceCalls& source, const HashRange& range, runtime::Executor& background,
            const std::atomic<bool>& ended)
      : log_(log), source_(source), range_(range), background_(background), ended_(ended) {}
  RoomClaim(const RoomClaim&) = delete;
  RoomClaim& operator=(const RoomClaim&) = delete;
  ~RoomClaim();

  /// Holds what the tablet takes now. NoSpace: there is not that much room, see shortage(); Cancelled; or as the
  /// source answers.
  runtime::Task<Status> claim();
  /// Holds what the tablet may have grown by since claim(); to be called when it is frozen. Statuses as there.
  /// @param crowded  set with Ok: the hashes that several keys have at the source
  runtime::Task<Status> claimGrowth(store::CrowdedHashes::List& crowded);
  /// Gives back as much as has arrived, at most what is held for objects.
  void spend(uint64_t bytes);
  /// Why a claim was answered with NoSpace.
  struct Shortage {
    uint64_t wanted_bytes = 0;
    uint64_t left_bytes = 0;
  };
  const Shortage& shortage() const { return shortage_; }

  /// Everything has arrived: gives back what was held for objects.
  void spendAll() { spend(object_bytes_); }

 private:
  runtime::Task<Status> ask(uint32_t window, runtime::Priority priority, SourceCalls::Measured& answer);
  Status hold(uint64_t object_bytes, uint64_t large_bytes, uint64_t tombstone_bytes);

  log::Log& log_;
  SourceCalls& source_;
  const HashRange range_;  // of the tablet
  runtime::Executor& background_;
  const std::atomic<bool>& ended_;
  uint64_t object_bytes_ = 0;     // held for objects
  uint64_t large_bytes_ = 0;      // the part for large ones
  uint64_t tombstone_bytes_ = 0;  // held for tombstones
  Shortage shortage_;
  uint64_t appended_before_ = 0;  // by the source, when the first part was measured
};

}  // namespace ramcore::master
