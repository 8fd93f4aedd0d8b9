#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "runtime/executor.h"
#include "runtime/task.h"

namespace ramcore::coordinator {

/// What is written in one step: all of it or nothing.
struct Batch {
  /// Engines that are weaker than SQLite take no more in one step. A larger change is a stored intent, steps that can
  /// be repeated, and a stored end.
  static constexpr size_t kChangesMax = 100;

  struct Change {
    std::string key;
    std::string value;
    bool is_delete = false;
  };
  std::vector<Change> changes;
  /// No process outside of this coordinator will rely on it: it has no number (StateStore::changeNumber).
  bool is_unnumbered = false;
  /// The number of the commit is at least this.
  uint64_t number_min = 0;

  void put(std::string key, std::string value) { changes.push_back({std::move(key), std::move(value), false}); }
  void remove(std::string key) { changes.push_back({std::move(key), {}, true}); }
};

struct KeyValue {
  std::string key;
  std::string value;
};

/// Where the coordinator keeps what it must not forget. Deliberately as weak as the weakest engine that we want to use:
/// reads by prefix, and one batch of changes that takes effect only while this process is the leader.
///
/// An open store leads: opening it takes the leadership away from the process that had it, whose later commits fail.
/// Thread: the executor passed to the calls, always the same one.
class StateStore {
 public:
  static constexpr uint32_t kFormatVersion = 1;

  virtual ~StateStore() = default;

  virtual ClusterId cluster() const = 0;
  virtual const std::string& clusterName() const = 0;
  /// The number of the latest numbered commit whose end the executor has seen. It is counted in the same step as the
  /// commit, since the cluster was created. It continues over restarts, and never goes back unless an older copy is put
  /// in place.
  virtual uint64_t changeNumber() const = 0;

  /// All keys that begin with `prefix`, ascending by bytes.
  virtual runtime::Task<Result<std::vector<KeyValue>>> readPrefix(runtime::Executor& executor, std::string prefix) = 0;

  /// Writes 1..Batch::kChangesMax changes (checked) under the next number, durable before the result. The executor goes
  /// on meanwhile. Commits that are in progress together take effect in any order. Failure: NoSpace: nothing was
  /// changed; NotLeader: nothing was changed, and nothing ever will be; Shutdown, IoError: the changes may or may not
  /// be there, only a restart tells.
  virtual runtime::Task<Status> commit(runtime::Executor& executor, Batch batch) = 0;

  /// Ends what is in progress, and everything later, with Shutdown.
  virtual void stop() = 0;
};

}  // namespace ramcore::coordinator
