#pragma once

#include <map>
#include <memory>
#include <string>

#include "coordinator/state/state_store.h"
#include "runtime/await.h"
#include "runtime/random.h"

namespace ramcore::coordinator {

/// What a MemoryStateStore keeps. Like a disk, it outlives the simulated processes that open it.
class MemoryDisk {
 public:
  MemoryDisk(ClusterId cluster, std::string cluster_name) : cluster_(cluster), cluster_name_(std::move(cluster_name)) {}

  ClusterId cluster() const { return cluster_; }
  const std::string& clusterName() const { return cluster_name_; }
  /// Whether every commit from now on finds no room.
  void setFull(bool full) { full_ = full; }
  /// Writes a record without any coordinator, as damage does.
  void put(std::string key, std::string value) { contents_[std::move(key)] = std::move(value); }
  const std::map<std::string, std::string>& contents() const { return contents_; }
  uint64_t commitCount() const { return commit_count_; }
  uint64_t changeNumber() const { return change_number_; }
  /// An older copy of the same directory takes its place: what was stored since is not there. The leadership changes,
  /// so a store that is open has lost it.
  void putBack(const MemoryDisk& copy) {
    contents_ = copy.contents_;
    change_number_ = copy.change_number_;
    ++commit_count_;
    ++leadership_;
  }
  /// Commits that found no room.
  uint64_t refusedCount() const { return refused_count_; }

 private:
  friend class MemoryStateStore;
  ClusterId cluster_;
  std::string cluster_name_;
  std::map<std::string, std::string> contents_;
  uint64_t leadership_ = 0;
  uint64_t commit_count_ = 0;
  uint64_t change_number_ = 0;
  uint64_t refused_count_ = 0;
  bool full_ = false;
};

/// The simulator's store: a commit takes simulated time, and takes effect at some moment in it. So a commit that is in
/// progress when the process ends may or may not have happened, as on a real disk.
/// Thread: one executor.
class MemoryStateStore final : public StateStore {
 public:
  struct Options {
    int64_t commit_ns_min = 100 * runtime::kNanosPerMicro;
    int64_t commit_ns_max = 10 * runtime::kNanosPerMilli;
  };

  /// Opens the store: a process that had it open before is no longer the leader. The disk outlives the store.
  MemoryStateStore(MemoryDisk& disk, runtime::Executor& executor, runtime::Random random, const Options& options);

  ClusterId cluster() const override { return disk_.cluster_; }
  const std::string& clusterName() const override { return disk_.cluster_name_; }
  uint64_t changeNumber() const override { return change_number_; }
  runtime::Task<Result<std::vector<KeyValue>>> readPrefix(runtime::Executor& executor, std::string prefix) override;
  runtime::Task<Status> commit(runtime::Executor& executor, Batch batch) override;
  void stop() override;

 private:
  Status apply(const Batch& batch, uint64_t& number);

  MemoryDisk& disk_;
  runtime::Random random_;
  const Options options_;
  const uint64_t leadership_;
  runtime::Signal waiting_;
  bool stopped_ = false;
  uint64_t change_number_;
};

}  // namespace ramcore::coordinator
