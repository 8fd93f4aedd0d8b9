#include "coordinator/request_gate.h"

#include <string>
#include <utility>

#include "base/mutation.h"

namespace ramcore::coordinator {
namespace {

using rpc::Request;
using transport::Role;

// What a caller ought to wait before it asks again for something that is in transition.
constexpr uint32_t kRetryAfterUs = 5'000;

}  // namespace

void refuse(Request request, Status status) {
  // Who asks again finds the coordinator that comes next.
  if (status == Status::Shutdown) status = Status::NotLeader;
  const bool soon = status == Status::RetryLater || status == Status::NotLeader || status == Status::OutcomeUnknown;
  request.reply(status, soon ? kRetryAfterUs : 0);
}

void replyStatus(Request request, Status status) {
  if (status != Status::Ok) return refuse(std::move(request), status);
  request.reply(Status::Ok);
}

// A state that was just read may be an older copy. What is handed out or given up with it can hardly be taken back, so
// most servers have their turn to say what they have heard, before. A server that asks has said it itself.
bool RequestGate::isReliable(const Request& request) const {
  const bool is_member = request.peerRole() == Role::Server && request.peerId() != 0;
  return membership_.isSettled() && (!is_member || membership_.hasSpoken(ServerId(request.peerId())));
}

// What became of it while somebody named a change that is not here: nobody may rely on that.
Status RequestGate::unlessBehind(Status status) const {
  return !is_open_ && closed_ == Status::StateBehind ? closed_ : status;
}

// The change was begun: where this coordinator has ended, it may nevertheless have been stored, and carried out.
Status RequestGate::ofChange(Status status) const {
  const Status told = unlessBehind(status);
  const bool is_over = status == Status::Shutdown || status == Status::NotLeader;
  const bool may_be =
      is_over || status == Status::Ok || status == Status::OutcomeUnknown || status == Status::CoordinatorFull;
  return is_over || (told == Status::StateBehind && may_be) ? Status::OutcomeUnknown : told;
}

Status RequestGate::checkMember(const rpc::Request& request, ClusterId cluster, uint64_t id) const {
  // Ids are those of one cluster: whoever has it in another one is not meant by what is known of it here.
  if (cluster != journal_.store().cluster()) {
    if (!RC_MUTATION("obey-another-cluster")) return Status::WrongCluster;
  }
  // A session that was opened before the enlistment proves no id.
  const bool is_own = request.peerId() == 0 || request.peerId() == id;
  return is_own ? Status::Ok : Status::BadRequest;
}

// Also when nobody is served any more: what else is named then counts after a restart.
Status RequestGate::checkHeard(ServerId server, ClusterId cluster, ChangeRef heard) {
  // A copy is not behind by more changes than anybody lives to see.
  constexpr uint64_t kMissingMax = uint64_t{1} << 48;
  const bool can_tell = is_open_ || closed_ == Status::StateBehind;
  if (!can_tell || cluster != journal_.store().cluster() || history_.has(heard)) return Status::Ok;
  const uint64_t own = journal_.store().changeNumber();
  if (heard.number > own && heard.number - own > kMissingMax) {
    if (!std::exchange(told_of_nonsense_, true)) {
      trace_.error("refusing server " + std::to_string(server.value) + ", which names change " +
                   std::to_string(heard.number) + " where the last one here is " + std::to_string(own) +
                   ": look at what its storage has been through; one like it is not told of again");
    }
    return Status::BadRequest;
  }
  on_missing_(server, heard);
  return Status::StateBehind;
}

}  // namespace ramcore::coordinator
