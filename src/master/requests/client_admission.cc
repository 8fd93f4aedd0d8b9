#include "master/requests/client_admission.h"

namespace ramcore::master {

runtime::Task<Status> ClientAdmission::confirm(runtime::Executor& executor, ClientId client) {
  const int64_t asked_ns = clock_.nowNs();
  CoordinatorLink::ClientCheck check = co_await link_.checkClients(executor, {client});
  if (check.status != Status::Ok) co_return Status::RetryLater;
  if (!check.valid.front()) co_return Status::LeaseExpired;
  const bool admitted = results_.admit(client, asked_ns, check.acknowledged.front());
  co_return admitted ? Status::Ok : Status::RetryLater;
}

}  // namespace ramcore::master
