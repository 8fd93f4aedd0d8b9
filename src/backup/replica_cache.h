#pragma once

#include <list>
#include <memory>
#include <vector>

#include "backup/frame_store.h"

namespace ramcore::backup {

/// The replicas that recovery masters read last, so that a replica is read and verified only once while they page
/// through it.
/// Thread: the store's executor.
class ReplicaCache {
 public:
  /// More replicas would cost memory; with fewer, what several recovery masters ask for in turn would be read again.
  static constexpr size_t kReplicasMax = 4;

  struct Replica {
    log::Certificate certificate;
    std::vector<std::byte> bytes;  ///< the certified bytes
  };

  ReplicaCache(FrameStore& store, runtime::Executor& executor) : store_(store), loaded_(executor) {}

  /// The replica as FrameStore::load gives it; nullptr if there is none. Waits while kReplicasMax are being read.
  /// @param reader  executor that reads and verifies, if it has to be read
  runtime::Task<std::shared_ptr<const Replica>> get(ServerId master, SegmentId segment, runtime::Executor& reader);
  /// Drops what is kept of a master.
  void forget(ServerId master);

 private:
  struct Entry {
    ServerId master;
    SegmentId segment;
    bool loading = true;
    std::shared_ptr<const Replica> replica;
  };

  std::list<Entry>::iterator find(ServerId master, SegmentId segment);
  bool makeRoom();

  FrameStore& store_;
  runtime::Signal loaded_;
  std::list<Entry> entries_;  // the last used one is last
};

}  // namespace ramcore::backup
