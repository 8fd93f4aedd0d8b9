#include "master/cluster/client_admission.h"

namespace ramcore::master {

runtime::Task<Status> ClientAdmission::confirm(runtime::Executor& executor, ClientId client) {
  const int64_t asked_ns = clock_.nowNs();
  CoordinatorLink::ClientCheck check = co_await link_.checkClients(executor, {client});
  if (check.status != Status::Ok) co_return Status::RetryLater;
  if (!check.valid.front()) co_return Status::LeaseExpired;
  const bool admitted = results_.admit(client, asked_ns, check.acknowledged.front());
  co_return admitted ? Status::Ok : Status::RetryLater;
}

runtime::Task<Status> ClientAdmission::confirmAll(runtime::Executor& executor, std::vector<ClientId> clients) {
  const int64_t asked_ns = clock_.nowNs();
  const CoordinatorLink::ClientCheck check = co_await link_.checkClients(executor, clients);
  if (check.status != Status::Ok) co_return check.status;
  for (size_t i = 0; i < clients.size(); ++i) {
    if (check.valid[i]) results_.admit(clients[i], asked_ns, check.acknowledged[i]);
  }
  co_return Status::Ok;
}

}  // namespace ramcore::master
