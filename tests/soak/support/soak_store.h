#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>

#include "log/cleaning/cleaner.h"
#include "log/log.h"
#include "log/memory/log_memory.h"
#include "runtime/clock.h"
#include "store/maintenance.h"
#include "store/object_store.h"

namespace ramcore::soak {

inline constexpr TableId kTable{1};
inline constexpr TabletEpoch kEpoch{1};

/// Log, index, objects and cleaner of one master with one table, without network and without copies. Threads, and
/// whoever runs the Maintenance, are the caller's.
class SoakStore {
 public:
  /// `rcu` and `clock` outlive the store; at the end no reader is left, and the caller drains `rcu` before it goes.
  SoakStore(const log::LogConfig& config, ServerId id, uint64_t objects_max, runtime::Rcu& rcu, runtime::Clock& clock)
      : rcu_(rcu),
        clock_(clock),
        pins_(1),
        memory_(log::LogMemory::open(config.memory_bytes).value()),
        index_(index::HashIndex::open({.reserve_bytes = std::max<uint64_t>(objects_max * 32, 64 << 20)}, rcu).value()),
        tablets_(rcu),
        store_(*memory_),
        log_(config, {ClusterId(1), id}, *memory_, {store_, replicator_, rcu, pins_}),
        cleaner_(log_, store_, replicator_, 2) {
    results_.connect(log_);
    store_.connect({log_, *index_, tablets_, results_, lease_, clock_});
    lease_.renewed(clock_.nowNs(), runtime::kNever / 2);
    Tablet whole;
    whole.id = TabletId(1);
    whole.table = kTable;
    whole.epoch = kEpoch;
    whole.counters = std::make_shared<store::TabletCounters>();
    RC_CHECK(tablets_.add(whole) == Status::Ok);
    log_.maintain();
  }
  SoakStore(const SoakStore&) = delete;
  SoakStore& operator=(const SoakStore&) = delete;

  store::Maintenance::Parts maintenanceParts() { return {log_, cleaner_, store_, *index_, rcu_}; }
  store::ObjectStore& store() { return store_; }
  const store::ObjectStore& store() const { return store_; }
  store::ResultTable& results() { return results_; }
  log::Log& log() { return log_; }
  const log::Log& log() const { return log_; }
  const log::LogStats& stats() const { return log_.stats(); }
  log::Replicator& replicator() { return replicator_; }
  void admit(ClientId client) { results_.admit(client, clock_.nowNs()); }

  store::Found find(std::string_view key) const {
    return store_.lookup(kTable, hashKey(kTable, asBytes(key)), asBytes(key));
  }
  /// Does what Maintenance does between two slices of cleaning, because this store has no Maintenance. The caller is
  /// the reclaimer.
  void turn(runtime::RcuReader self) {
    rcu_.quiescent(self);
    rcu_.reclaim(1000);
    index_->maintainMemory();
    log_.reclaim(static_cast<uint64_t>(clock_.nowNs()));
    log_.maintain();
    store_.tombstones().reap(1000);
  }

 private:
  using Tablet = store::Tablet;

  runtime::Rcu& rcu_;
  runtime::Clock& clock_;
  runtime::PinRegistry pins_;
  const std::unique_ptr<log::LogMemory> memory_;
  const std::unique_ptr<index::HashIndex> index_;
  store::ServerLease lease_;
  store::TabletTable tablets_;
  store::ResultTable results_;
  store::ObjectStore store_;
  log::NoReplicator replicator_;
  log::Log log_;
  log::Cleaner cleaner_;
};

/// The mutations of one client, which has seen the answer of each before it makes the next one.
class SoakClient {
 public:
  SoakClient(SoakStore& store, ClientId id) : store_(store), id_(id) { store.admit(id); }

  /// One attempt: with RetryLater or NoSpace nothing has happened, and the same or another mutation may follow.
  store::Answer write(std::string_view key, ByteSpan value) {
    return apply(wire::Opcode::Write, key, std::span(&value, 1));
  }
  store::Answer remove(std::string_view key) { return apply(wire::Opcode::Remove, key, {}); }

 private:
  store::Answer apply(wire::Opcode opcode, std::string_view key, std::span<const ByteSpan> value) {
    store::Mutation mutation;
    mutation.opcode = opcode;
    mutation.identity = {id_, Sequence(sequence_), Sequence(sequence_ - 1)};
    mutation.epoch = kEpoch;
    mutation.table = kTable;
    mutation.key = asBytes(key);
    mutation.hash = hashKey(kTable, mutation.key);
    mutation.value = value;
    const store::Answer answer = *store_.store().apply(mutation, store::ObjectStore::Locking::Wait);
    if (answer.status == Status::Ok) ++sequence_;
    return answer;
  }

  SoakStore& store_;
  const ClientId id_;
  uint64_t sequence_ = 1;
};

}  // namespace ramcore::soak
