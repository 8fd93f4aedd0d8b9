#pragma once

#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "rpc/caller.h"
#include "runtime/task.h"

namespace ramcore::backup {

/// What became of a master that has replicas here.
enum class Standing : uint8_t {
  Unknown,   ///< keep its replicas
  Alive,     ///< it knows which of its replicas it needs
  Needed,    ///< dead, and its log is not recovered: keep its replicas
  Released,  ///< nothing of its log is needed any more
};

/// Says which replicas can go. Coroutines on the executor of the store.
class ReplicaJudge {
 public:
  virtual ~ReplicaJudge() = default;

  struct Standings {
    Status status = Status::Ok;
    std::vector<Standing> standings;      ///< with status Ok: in the order asked
    std::vector<rpc::PeerAddress> alive;  ///< where the living masters can be reached
  };
  virtual runtime::Task<Standings> standings(std::vector<ServerId> masters) = 0;

  struct Needed {
    Status status = Status::Ok;
    std::vector<bool> needed;  ///< with status Ok: in the order asked
  };
  /// Asks a living master which of these segments it needs.
  virtual runtime::Task<Needed> needed(rpc::PeerAddress master, std::vector<SegmentId> segments) = 0;

  /// A closed replica of this life.
  struct Lost {
    SegmentId segment;
    uint64_t replica_epoch = 0;
  };
  /// Tells a living master that these replicas cannot be read any more. Ok: it has been told.
  virtual runtime::Task<Status> reportLost(rpc::PeerAddress master, std::vector<Lost> lost) = 0;
};

}  // namespace ramcore::backup
