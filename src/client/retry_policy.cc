#include "client/retry_policy.h"

#include <algorithm>

#include "base/mutation.h"

namespace ramcore::client {

int64_t Backoff::nextNs(uint32_t retry_after_us, runtime::Random& random) {
  ++attempts_;
  const int64_t drawn_ns = pause_.nextNs(random);
  const int64_t asked_ns = std::min(int64_t{retry_after_us} * runtime::kNanosPerMicro, 2 * longest_ns_);
  return std::max(drawn_ns, asked_ns);
}

Reaction reactionTo(Status status) {
  switch (status) {
    case Status::WrongServer:
    case Status::StaleEpoch:
    case Status::WrongServerId:
    case Status::Unreachable:
    // The coordinator accepts this client, so a process that refuses it is none of its servers: the server has left.
    case Status::Refused:
    case Status::WrongCluster:
    case Status::SessionLost:
    case Status::Fenced:          // the server is dead and knows it; its tablets go elsewhere
    case Status::OutcomeUnknown:  // the server ended before the mutation was safe: the new owner knows the outcome
    case Status::Cancelled:       // the connection was dropped; the caller's own cancelling is looked at before
      return Reaction::Refresh;
    case Status::RetryLater:
    case Status::NoSpace:
    case Status::LeaseUnknown:
    case Status::NotLeader:
    case Status::TooFewReplicas:
    case Status::CoordinatorFull:
    case Status::StateBehind:
      return Reaction::Wait;
    case Status::LeaseExpired:
      return Reaction::Relapse;
    default:
      return Reaction::Finish;
  }
}

namespace {

/// True for the outcomes of a call on an object, which the owner of the object alone decides.
bool isOutcome(Status status) {
  switch (status) {
    case Status::Ok:
    case Status::NotFound:
    case Status::ObjectExists:
    case Status::WrongVersion:
    case Status::TypeMismatch:
      return true;
    default:
      return false;
  }
}

}  // namespace

Status besideTheCall(Status status) {
  return isOutcome(status) && status != Status::Ok && !RC_MUTATION("believe-anybody") ? Status::Corrupt : status;
}

Status finalStatus(Status last, bool is_mutation, bool may_have_happened) {
  // Only an answer to this very call says what became of an attempt whose own answer is missing.
  if (isOutcome(last)) return last;
  if (is_mutation && may_have_happened && !RC_MUTATION("deny-what-may-have-happened")) return Status::OutcomeUnknown;
  // A retryable status: there was no time for another attempt. A cause that may last keeps its own status.
  if (last == Status::NoSpace || last == Status::TooFewReplicas || last == Status::CoordinatorFull ||
      last == Status::StateBehind) {
    return last;
  }
  if (isRetryable(last) || last == Status::SessionLost || last == Status::Cancelled || last == Status::LeaseExpired ||
      last == Status::Fenced) {
    return Status::DeadlineExceeded;
  }
  return last;
}

}  // namespace ramcore::client
