#include "server/server.h"

#include <utility>

namespace ramcore::server {

Server::Server(const Environment& environment) : environment_(environment) {
  environment_.threads.bind(0, environment_.dispatch);
  uint32_t index = 1;
  for (const runtime::Executor* worker : environment_.dispatch.workers()) environment_.threads.bind(index++, *worker);
}

Outcome<bool> Server::openBackup(const backup::BackupConfig& config, runtime::Storage& storage, runtime::Executor& disk,
                                 uint64_t bytes_needed) {
  auto backup = backup::Backup::open(config, {.storage = storage,
                                              .clock = environment_.clock,
                                              .trace = environment_.trace,
                                              .dispatch = environment_.dispatch,
                                              .disk = disk,
                                              .caller = environment_.caller,
                                              .coordinator = environment_.coordinator,
                                              .on_fence = [this] { master_->refreshMembers(); },
                                              .obeys = [this](uint64_t start) { return master_->obeys(start); }});
  if (!backup.ok()) return std::move(backup).error();
  backup_ = std::move(backup).value();
  backup_->addTo(environment_.dispatch.services());
  gauge_.emplace(backup_->store(), bytes_needed);
  environment_.identity.cluster = backup_->store().cluster().value;
  return true;
}

Outcome<bool> Server::openMaster(master::MasterConfig config, const MasterResources& resources) {
  master::ServerDescription& self = config.self;
  self.memory_bytes = config.log.memory_bytes;
  self.former = backup_ != nullptr ? backup_->formerServer() : ServerId();
  self.former_cluster = backup_ != nullptr ? backup_->store().cluster() : ClusterId();
  self.keeps_replicas = backup_ != nullptr;
  self.drawn_storage = environment_.entropy.next();
  self.nonce = environment_.entropy.next();
  config.coordinator = environment_.coordinator;
  auto master = master::Master::open(config,
                                     {.clock = environment_.clock,
                                      .trace = environment_.trace,
                                      .dispatch = environment_.dispatch,
                                      .caller = environment_.caller,
                                      .rcu = environment_.rcu,
                                      .threads = environment_.threads,
                                      .memory = resources.memory,
                                      .replicator = resources.replicator,
                                      .seed = environment_.entropy.next(),
                                      .backup = gauge_ ? &*gauge_ : nullptr,
                                      .storage = resources.storage,
                                      .has_one_processor = resources.has_one_processor},
                                     *this);
  if (!master.ok()) return std::move(master).error();
  master_ = std::move(master).value();
  return true;
}

void Server::stop(bool goodbye) {
  master_->stop(goodbye);
  if (backup_ != nullptr) backup_->stop();
}

runtime::Task<Status> Server::prepareServing(ServerId id, ClusterId cluster) {
  // Others address this process as `id` from now on, its backup included.
  environment_.identity.id = id.value;
  environment_.identity.cluster = cluster.value;
  if (backup_ == nullptr) co_return Status::Ok;
  co_return co_await backup_->begin(id, cluster);
}

}  // namespace ramcore::server
