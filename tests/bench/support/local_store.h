#pragma once

#include <memory>
#include <utility>

#include "bench/support/child.h"
#include "log/log.h"
#include "log/memory/log_memory.h"
#include "runtime/clock.h"
#include "runtime/sim/sim_epoch.h"
#include "store/object_store.h"

namespace ramcore::bench {

/// Log, index and object store of one master in this process, without network and without a cleaner of its own, on one
/// thread unless another Rcu than the simulated one is given. All memory that a run will touch is touched before.
class LocalStore {
 public:
  static constexpr TableId kTable{1};

  static constexpr TabletEpoch kEpoch{1};

  LocalStore(uint64_t log_bytes, uint64_t objects_max) : LocalStore(configFor(log_bytes), objects_max) {}
  LocalStore(const log::LogConfig& config, uint64_t objects_max,
             std::unique_ptr<runtime::Rcu> rcu = std::make_unique<runtime::SimRcu>())
      : rcu_(std::move(rcu)),
        pins_(1),
        memory_(openMemory(config.memory_bytes)),
        index_(openIndex(objects_max)),
        tablets_(*rcu_),
        store_(*memory_),
        log_(config, {ClusterId(1), ServerId(1)}, *memory_, {store_, replicator_, *rcu_, pins_}) {
    results_.connect(log_);
    store_.connect({log_, *index_, tablets_, results_, lease_, clock_});
    lease_.renewed(clock_.nowNs(), runtime::kNever / 2);
    reader_ = rcu_->registerThread();
    log_.maintain();
    while (index_->maintainMemory() != 0) {
    }
  }
  ~LocalStore() {
    rcu_->unregisterThread(reader_);
    rcu_->drain();
  }
  LocalStore(const LocalStore&) = delete;
  LocalStore& operator=(const LocalStore&) = delete;

  store::ObjectStore& store() { return store_; }
  log::Log& log() { return log_; }
  index::HashIndex& index() { return *index_; }
  runtime::Rcu& rcu() { return *rcu_; }
  /// Lets `client` change objects of kTable. Once.
  void serve(ClientId client) {
    store::Tablet whole;
    whole.id = TabletId(1);
    whole.table = kTable;
    whole.epoch = kEpoch;
    whole.counters = std::make_shared<store::TabletCounters>();
    if (tablets_.add(whole) != Status::Ok) die("the tablet is not taken");
    results_.admit(client, clock_.nowNs());
  }
  /// Does what a worker does between two jobs.
  void turn() {
    rcu_->quiescent(reader_);
    rcu_->reclaim(64);
    index_->maintainMemory();
  }

 private:
  static log::LogConfig configFor(uint64_t bytes) {
    log::LogConfig config;
    config.memory_bytes = bytes;
    return config;
  }
  static std::unique_ptr<log::LogMemory> openMemory(uint64_t bytes) {
    auto memory = log::LogMemory::open(bytes);
    if (!memory) die(memory.error().message);
    while ((*memory)->prefaultNext()) {
    }
    return std::move(memory).value();
  }
  std::unique_ptr<index::HashIndex> openIndex(uint64_t objects_max) {
    index::IndexConfig config;
    config.initial_buckets_log2 = 16;
    config.reserve_bytes = std::max<uint64_t>(objects_max * 32, 64 << 20);
    auto index = index::HashIndex::open(config, *rcu_);
    if (!index) die(index.error().message);
    return std::move(index).value();
  }

  runtime::ManualClock clock_;
  std::unique_ptr<runtime::Rcu> rcu_;
  runtime::PinRegistry pins_;
  std::unique_ptr<log::LogMemory> memory_;
  std::unique_ptr<index::HashIndex> index_;
  log::NoReplicator replicator_;
  store::TabletTable tablets_;
  store::ResultTable results_;
  store::ServerLease lease_;
  store::ObjectStore store_;
  log::Log log_;
  runtime::RcuReader reader_{};
};

}  // namespace ramcore::bench
