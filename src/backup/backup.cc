#include "backup/backup.h"

namespace ramcore::backup {

Outcome<std::unique_ptr<Backup>> Backup::open(const BackupConfig& config, const Environment& environment) {
  auto store = FrameStore::open(environment.storage,
                                {.storage_bytes = config.storage_bytes, .segment_bytes = config.segment_bytes},
                                environment.dispatch, environment.disk, config.write_thread);
  if (!store.ok()) return std::move(store).error();
  return std::unique_ptr<Backup>(new Backup(std::move(store).value(), config, environment));
}

Backup::Backup(std::unique_ptr<FrameStore> store, const BackupConfig& config, const Environment& environment)
    : trace_(environment.trace),
      store_(std::move(store)),
      judge_(environment.caller, environment.dispatch, environment.coordinator, environment.obeys),
      service_({*store_, environment.dispatch, environment.dispatch.backgroundExecutor(), judge_, environment.trace,
                environment.on_fence, environment.obeys}),
      scrubber_({store_->checker(), environment.dispatch, environment.dispatch.backgroundExecutor(), judge_,
                 environment.trace},
                config.scrub) {
  const StoreStats& stats = store_->stats();
  const uint64_t total = stats.frames_total.load();
  trace_.info("backup: " + std::to_string(total) + " frames of " + std::to_string(store_->frameBytes()) + " bytes, " +
              std::to_string(total - stats.frames_free.load()) + " with replicas of former lives");
  if (store_->doubtfulCount() != 0) {
    trace_.warning(
        "backup: the machine has lost its power since the storage was used, or may have; replicas in up to " +
        std::to_string(store_->doubtfulCount()) + " frames may be short");
  }
}

runtime::Task<Status> Backup::begin(ServerId id, ClusterId cluster) {
  beginning_ = true;
  const Status status = co_await store_->begin(id, cluster);
  beginning_ = false;
  if (status == Status::Ok && !stop_) {
    service_.start();
    scrubber_.start();
  }
  co_return status;
}

void Backup::stop() {
  if (stop_) return;
  stop_ = true;
  service_.stop();
  scrubber_.stop();
  if (store_->hasBegun()) close().detach();
}

runtime::Task<void> Backup::close() {
  closing_ = true;
  const Status closed = co_await store_->close();
  if (closed != Status::Ok) {
    trace_.warning("backup: the storage could not be flushed; its next life will take the ends of replicas for short");
  }
  closing_ = false;
}

}  // namespace ramcore::backup
