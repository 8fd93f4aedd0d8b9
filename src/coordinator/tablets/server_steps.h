#pragma once

#include "coordinator/calls/master_calls.h"
#include "coordinator/members/membership.h"
#include "coordinator/state/journal.h"
#include "runtime/growing_pause.h"

namespace ramcore::coordinator {

/// Pauses between attempts at a step that has to succeed. They grow, and end early when the coordinator stops.
class Backoff {
 public:
  explicit Backoff(Journal& journal) : journal_(journal) {}
  /// False if the coordinator stops.
  runtime::Task<bool> pause() { co_return co_await journal_.sleepFor(pause_.nextNs()); }

 private:
  Journal& journal_;
  runtime::DoublingPause pause_{5 * runtime::kNanosPerMilli, 200 * runtime::kNanosPerMilli};
};

/// Whether a call may succeed when it is repeated: the server was not reached, or is not ready. A server that has
/// enlisted refuses no process of its cluster. So after Refused or WrongCluster, another process listens there.
constexpr bool mayPass(Status status) {
  switch (status) {
    case Status::Unreachable:
    case Status::Refused:
    case Status::WrongCluster:
    case Status::SessionLost:
    case Status::DeadlineExceeded:
    case Status::WrongServerId:
    case Status::RetryLater:
    case Status::LeaseUnknown:
    case Status::Cancelled:
    case Status::Shutdown:
      return true;
    default:
      return false;
  }
}

/// Whether a server does not answer for the tablet under the epoch that it was told to drop: it has dropped it, did not
/// hold it (NotFound), or holds it under a newer epoch (StaleEpoch).
constexpr bool isDropped(Status status) {
  return status == Status::Ok || status == Status::NotFound || status == Status::StaleEpoch;
}

}  // namespace ramcore::coordinator
