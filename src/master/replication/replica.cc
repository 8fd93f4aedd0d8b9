#include "master/replication/replica.h"

#include <algorithm>

#include "master/replication/replica_sender.h"

namespace ramcore::master {

Replica::Retry::Retry(Replica& replica) : Timer(&ReplicaSender::retry), owner(replica) {}

Replica::Flush::Flush(Replica& replica) : OutgoingCall(&ReplicaSender::flushed), owner(replica) {}

Replica::Replica(ReplicaSender& owner, const Member& member, uint64_t replica_epoch)
    : OutgoingCall(&ReplicaSender::written),
      sender(owner),
      backup(member.id),
      address(member.address),
      epoch(replica_epoch),
      flushes{Flush(*this), Flush(*this)},
      retry(*this) {}

void Replica::giveUp(rpc::Caller& caller) {
  retry.cancel();
  given_up = true;
  if (busy) caller.connection(address).cancel(*this, Status::Cancelled);
  for (Flush& flush : flushes) {
    if (flush.busy) caller.connection(address).cancel(flush, Status::Cancelled);
  }
}

uint32_t Replica::askedBytes() const {
  uint32_t asked = flushed_bytes;
  for (const Flush& flush : flushes) {
    if (flush.busy && flush.epoch == certified_epoch) asked = std::max(asked, flush.to);
  }
  return asked;
}

}  // namespace ramcore::master
