#include "master/replication/replica_freeing.h"

#include <deque>

#include "wire/replica_messages.h"

namespace ramcore::master {
namespace {

constexpr int64_t kFreeNs = runtime::kNanosPerSecond;
constexpr int64_t kFreePauseNs = 50 * runtime::kNanosPerMilli;

}  // namespace

/// One backup, and the call to it that is in flight.
struct ReplicaFreeing::Backup : rpc::OutgoingCall {
  struct Again : runtime::Timer {
    explicit Again(Backup& backup)
        : Timer([](runtime::Timer& timer) {
            Backup& due = static_cast<Again&>(timer).owner;
            due.freeing.tellNext(due);
          }),
          owner(backup) {}
    Backup& owner;
  };
  Backup(ReplicaFreeing& owner, rpc::PeerAddress peer)
      : OutgoingCall(&ReplicaFreeing::told), freeing(owner), address(std::move(peer)), again(*this) {}

  ReplicaFreeing& freeing;
  const rpc::PeerAddress address;
  std::deque<SegmentId> segments;
  bool busy = false;
  Again again;  // armed while it waits before it repeats
};

ReplicaFreeing::ReplicaFreeing(const ReplicaPlacement& placement, rpc::Dispatch& dispatch, rpc::Caller& caller)
    : placement_(placement), dispatch_(dispatch), caller_(caller) {}

ReplicaFreeing::~ReplicaFreeing() = default;

void ReplicaFreeing::free(ServerId backup, SegmentId segment) {
  const Member* const member = placement_.findMember(backup);
  if (member == nullptr) return;  // its next life asks us
  std::unique_ptr<Backup>& known = backups_[backup];
  if (known == nullptr) known = std::make_unique<Backup>(*this, member->address);
  known->segments.push_back(segment);
  if (!known->busy && !known->again.isArmed()) tell(*known);
}

void ReplicaFreeing::membersChanged() {
  for (auto at = backups_.begin(); at != backups_.end();) {
    if (placement_.isMember(at->first) || at->second->busy) {
      ++at;
    } else {
      at = backups_.erase(at);
    }
  }
}

void ReplicaFreeing::stop() {
  stopped_ = true;
  for (const auto& [id, backup] : backups_) {
    backup->again.cancel();
    if (backup->busy) caller_.connection(backup->address).cancel(*backup, Status::Cancelled);
  }
}

void ReplicaFreeing::tell(Backup& backup) {
  backup.busy = true;
  backup.request = caller_.allocate(sizeof(wire::FreeReplica::Request));
  backup.request.appendHead(
      wire::FreeReplica::Request{.header = {.opcode = wire::Opcode::FreeReplica, .target = ServerId(backup.address.id)},
                                 .master = placement_.self(),
                                 .segment = backup.segments.front()});
  backup.settings = {.deadline_ns = dispatch_.clock().nowNs() + kFreeNs, .priority = runtime::Priority::Background};
  caller_.connection(backup.address).start(backup);
}

void ReplicaFreeing::told(rpc::OutgoingCall& call) {
  auto& backup = static_cast<Backup&>(call);
  ReplicaFreeing& freeing = backup.freeing;
  backup.busy = false;
  if (freeing.stopped_) return;
  const Status status = backup.outcome();
  // A call that may not have arrived is repeated, for as long as the backup is a member (tellNext).
  const bool again = status == Status::DeadlineExceeded || status == Status::SessionLost ||
                     status == Status::Unreachable || status == Status::RetryLater;
  if (!again) backup.segments.pop_front();
  if (!again || status == Status::DeadlineExceeded) return freeing.tellNext(backup);
  freeing.dispatch_.arm(backup.again, freeing.dispatch_.clock().nowNs() + kFreePauseNs);
}

void ReplicaFreeing::tellNext(Backup& backup) {
  if (backup.segments.empty()) return;
  if (placement_.isMember(ServerId(backup.address.id))) return tell(backup);
  backup.segments.clear();
}

}  // namespace ramcore::master
