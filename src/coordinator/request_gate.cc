#include "coordinator/request_gate.h"

#include <string>
#include <utility>

#include "base/mutation.h"

namespace ramcore::coordinator {
namespace {

using rpc::Request;
using transport::Role;

// How long a caller ought to wait before it repeats a request that may succeed soon.
constexpr uint32_t kRetryAfterUs = 5'000;

}  // namespace

void refuse(Request request, Status status) {
  // A caller that asks again finds the coordinator that comes next.
  if (status == Status::Shutdown) status = Status::NotLeader;
  const bool soon = status == Status::RetryLater || status == Status::NotLeader || status == Status::OutcomeUnknown;
  request.reply(status, soon ? kRetryAfterUs : 0);
}

void replyStatus(Request request, Status status) {
  if (status != Status::Ok) return refuse(std::move(request), status);
  request.reply(Status::Ok);
}

// A state that was just read may be an older copy. What is handed out or given up with it can hardly be taken back. So
// first most servers get the time to name the changes that they have heard of, and a server that asks has to have done
// so itself.
bool RequestGate::isReliable(const Request& request) const {
  const bool is_member = request.peerRole() == Role::Server && request.peerId() != 0;
  return membership_.isSettled() && (!is_member || membership_.hasSpoken(ServerId(request.peerId())));
}

// If a server has named a missing change meanwhile, nobody may rely on the outcome.
Status RequestGate::unlessBehind(Status status) const {
  return !is_open_ && closed_ == Status::StateBehind ? closed_ : status;
}

// The change was begun. If this coordinator has ended, it may have been stored and carried out all the same.
Status RequestGate::ofChange(Status status) const {
  const Status told = unlessBehind(status);
  const bool is_over = status == Status::Shutdown || status == Status::NotLeader;
  const bool may_be =
      is_over || status == Status::Ok || status == Status::OutcomeUnknown || status == Status::CoordinatorFull;
  return is_over || (told == Status::StateBehind && may_be) ? Status::OutcomeUnknown : told;
}

Status RequestGate::checkMember(const rpc::Request& request, ClusterId cluster, uint64_t id) const {
  // A server id is valid in one cluster only. The server with this id in another cluster is not the one that is known
  // here.
  if (cluster != journal_.store().cluster()) {
    if (!RC_MUTATION("obey-another-cluster")) return Status::WrongCluster;
  }
  // A session that was opened before the enlistment proves no id.
  const bool is_own = request.peerId() == 0 || request.peerId() == id;
  return is_own ? Status::Ok : Status::BadRequest;
}

// Changes are also checked after the gate was closed with StateBehind: a further missing change that a server names is
// stored, so that it counts after a restart.
Status RequestGate::checkHeard(ServerId server, ClusterId cluster, ChangeRef heard) {
  // No real state lacks more changes than this. A larger number is nonsense.
  constexpr uint64_t kMissingMax = uint64_t{1} << 48;
  const bool can_tell = is_open_ || closed_ == Status::StateBehind;
  if (!can_tell || cluster != journal_.store().cluster() || history_.has(heard)) return Status::Ok;
  const uint64_t own = journal_.store().changeNumber();
  if (heard.number > own && heard.number - own > kMissingMax) {
    if (!std::exchange(told_of_nonsense_, true)) {
      trace_.error("refusing server " + std::to_string(server.value) + ", which names change " +
                   std::to_string(heard.number) + " where the last one here is " + std::to_string(own) +
                   ": its storage may be damaged; further servers like it are refused without a message");
    }
    return Status::BadRequest;
  }
  on_missing_(server, heard);
  return Status::StateBehind;
}

}  // namespace ramcore::coordinator
