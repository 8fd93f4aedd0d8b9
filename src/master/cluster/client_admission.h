#pragma once

#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "master/cluster/coordinator_link.h"
#include "runtime/clock.h"
#include "runtime/executor.h"
#include "runtime/task.h"
#include "store/result_table.h"

namespace ramcore::master {

/// Confirms clients that are new here. Any executor of this server.
class ClientAdmission {
 public:
  /// Everything is borrowed and outlives this.
  ClientAdmission(CoordinatorLink& link, store::ResultTable& results, runtime::Clock& clock)
      : link_(link), results_(results), clock_(clock) {}

  /// Asks the coordinator for the lease of a client, and admits the client to the table of results.
  /// @param executor  the caller's, on which it goes on
  /// @return Ok: its mutation may begin again, from the first check. LeaseExpired: its lease is over. RetryLater: the
  ///         coordinator did not answer, or the answer may be late
  runtime::Task<Status> confirm(runtime::Executor& executor, ClientId client);
  /// Admits those of `clients` whose leases are valid, with one question to the coordinator. Not Ok: it did not answer.
  runtime::Task<Status> confirmAll(runtime::Executor& executor, std::vector<ClientId> clients);

 private:
  CoordinatorLink& link_;
  store::ResultTable& results_;
  runtime::Clock& clock_;
};

}  // namespace ramcore::master
