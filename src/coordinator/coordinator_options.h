#pragma once

#include <cstdint>

#include "coordinator/members/client_leases.h"
#include "coordinator/members/membership.h"
#include "runtime/clock.h"

namespace ramcore::coordinator {

struct CoordinatorOptions {
  MembershipOptions membership;
  int64_t client_lease_ns = ClientLeases::kLeaseNsDefault;
  /// Time limit of one attempt of a call to a server.
  int64_t call_ns = runtime::kNanosPerSecond;
  /// How long a server may take to say how it is, for the cluster's status.
  int64_t status_call_ns = 300 * runtime::kNanosPerMilli;
  /// How long requests wait for work that takes several steps (creating, dropping, splitting) before they are told to
  /// come back; the work goes on.
  int64_t request_wait_ns = 5 * runtime::kNanosPerSecond;
  /// The highest change that the state lacks and that an operator gives up (ChangeHistory). 0: no change is given up.
  uint64_t given_up_change = 0;
};

}  // namespace ramcore::coordinator
