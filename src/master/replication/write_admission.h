#pragma once

#include <atomic>

#include "base/trace.h"
#include "master/replication/backup_gauge.h"
#include "master/replication/replica_placement.h"
#include "runtime/clock.h"

namespace ramcore::master {

/// Whether writes are taken: enough servers keep replicas, heads find places on them, and this server is not declared
/// dead. Writes a trace line when that changes.
/// Threads: writeStatus(), removeStatus(), isShortOfPlaces(), isHeadStuck() and storagePercent() on any thread; the
/// rest on the dispatch thread.
class WriteAdmission {
 public:
  /// @param placement, clock, trace  borrowed
  /// @param backup  the gauge of the backup in this process; nullptr if there is none. Borrowed
  WriteAdmission(const ReplicaPlacement& placement, runtime::Clock& clock, Trace& trace, const BackupGauge* backup)
      : placement_(placement), clock_(clock), trace_(trace), backup_(backup) {}

  /// As log::Replicator's functions of these names.
  Status writeStatus() const { return write_status_.load(std::memory_order_relaxed); }
  Status removeStatus() const { return remove_status_.load(std::memory_order_relaxed); }
  bool isShortOfPlaces() const { return short_of_places_.load(std::memory_order_relaxed); }
  bool isHeadStuck() const { return head_stuck_.load(std::memory_order_relaxed); }
  uint32_t storagePercent() const { return storage_percent_.load(std::memory_order_relaxed); }

  /// Called when this server has got its id.
  void begin();
  /// Called when the members of the placement have changed.
  void membersChanged();
  /// Called when this server is declared dead, or has to stop: nothing is written any more.
  void fence();
  /// Called for a log head that lacks a place without which it can be neither opened nor closed.
  /// @param is_of_reserve  it is a small head
  void noteStuck(bool is_of_reserve);
  /// Called when all segments were looked at.
  /// @param is_stuck  noteStuck() was called for one of them
  void noteHeadStuck(bool is_stuck) { head_stuck_.store(is_stuck, std::memory_order_relaxed); }
  /// Called for a log head that has found places.
  void noteOpened(bool is_of_reserve);
  /// Called when all segments were looked at.
  /// @param all_heads_have_places  none of the open heads has too few storage frames, nor is isShortOfPlaces() true
  void notePlaces(bool all_heads_have_places);
  /// Publishes how full the storage is.
  void refreshStorage();

 private:
  void refresh();
  void tellIfTooFew();

  const ReplicaPlacement& placement_;
  runtime::Clock& clock_;
  Trace& trace_;
  const BackupGauge* const backup_;
  std::atomic<Status> write_status_{Status::TooFewReplicas};
  std::atomic<Status> remove_status_{Status::TooFewReplicas};
  std::atomic<bool> short_of_places_{false};
  std::atomic<bool> head_stuck_{false};
  std::atomic<uint32_t> storage_percent_{0};
  // Only for the dispatch thread.
  bool fenced_ = false;
  bool told_too_few_ = false;
  int64_t no_place_since_ns_ = 0;  // since when a log head finds too few servers that take it; 0: none does
};

}  // namespace ramcore::master
