#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "bench/support/local_store.h"
#include "bench/support/machine.h"
#include "bench/support/workload.h"
#include "log/cleaning/cleaner.h"
#include "runtime/random.h"
#include "runtime/real/urcu_epoch.h"

namespace ramcore::bench {

/// How fast cleaners copy in a memory that was filled and overwritten before, as long as a pass gains. No other thread
/// works meanwhile.
struct CopyingRate {
  double seconds = 0;
  uint64_t copied_bytes = 0;
  uint64_t shared_bytes = 0;  ///< of them, by other cleaners than the first
  double mbPerSecond() const { return static_cast<double>(copied_bytes) / seconds / 1e6; }
  double sharedPercent() const {
    return copied_bytes == 0 ? 0 : 100 * static_cast<double>(shared_bytes) / static_cast<double>(copied_bytes);
  }
};

/// Threads that share the passes of one cleaner, over a store of values of 100 B.
class CopyingRun {
 public:
  /// @param live_percent  of the memory, taken by objects; it is overwritten until cleaning is due
  CopyingRun(const log::LogConfig& config, uint32_t live_percent, uint32_t cleaners)
      : objects_(config.memory_bytes / 100 * live_percent / log::alignedEntryBytes(kKeyBytes, kValueBytes, false)),
        keys_(objects_, 3),
        store_(config, objects_, runtime::makeUrcu()),
        cleaner_(store_.log(), store_.store(), store_.log().replicator(), cleaners) {
    store_.serve(kClient);
    for (uint64_t i = 0; i < objects_; ++i) write(i);
    runtime::Random random(7);
    while (!cleaner_.isNeeded()) write(random.below(objects_));
  }

  CopyingRate measure() {
    const log::LogStats& stats = store_.log().stats();
    std::vector<std::thread> helpers;
    for (uint32_t i = 1; i < cleaner_.workersMax(); ++i) {
      helpers.emplace_back([this, i] { help(i); });
    }
    const double begin_s = nowSeconds();
    uint64_t now_ns = 0;
    for (uint32_t idle = 0; idle < kIdleMax;) {
      idle = cleaner_.step(kSliceBytes) == log::Cleaner::Progress::Idle ? idle + 1 : 0;
      store_.turn();
      store_.log().reclaim(++now_ns);
    }
    const CopyingRate rate{.seconds = nowSeconds() - begin_s,
                           .copied_bytes = stats.cleaner_bytes_copied.load(),
                           .shared_bytes = stats.cleaner_bytes_shared.load()};
    is_over_.store(true);
    for (std::thread& helper : helpers) helper.join();
    return rate;
  }

 private:
  static constexpr ClientId kClient{1};
  static constexpr uint32_t kSliceBytes = 64 * 1024;
  static constexpr uint32_t kIdleMax = 4;  // what was just closed is looked at, too

  void help(uint32_t number) {
    pinTo(number % 2 == 1 ? kServerCore : kClientCore);
    runtime::Rcu& rcu = store_.rcu();
    const runtime::RcuReader reader = rcu.registerThread();
    while (!is_over_.load()) {
      if (!cleaner_.help(number, kSliceBytes)) std::this_thread::yield();
      rcu.quiescent(reader);
    }
    rcu.unregisterThread(reader);
  }

  void write(uint64_t number) {
    const std::string_view key = keys_.at(number);
    const ByteSpan value = asBytes(value_);
    store::Mutation mutation;
    mutation.opcode = wire::Opcode::Write;
    mutation.identity = {kClient, Sequence(sequence_), Sequence(sequence_ - 1)};
    mutation.epoch = LocalStore::kEpoch;
    mutation.table = LocalStore::kTable;
    mutation.key = asBytes(key);
    mutation.hash = hashKey(LocalStore::kTable, mutation.key);
    mutation.value = std::span(&value, 1);
    const store::Answer answer = *store_.store().apply(mutation, store::ObjectStore::Locking::Wait);
    if (answer.status != Status::Ok) die("a write was answered " + std::string(name(answer.status)));
    ++sequence_;
    store_.turn();
  }

  const uint64_t objects_;
  const Keys keys_;
  const std::string value_ = std::string(kValueBytes, 'v');
  uint64_t sequence_ = 1;
  LocalStore store_;
  log::Cleaner cleaner_;
  std::atomic<bool> is_over_{false};
};

}  // namespace ramcore::bench
