#pragma once

#include <memory>
#include <string>

#include "base/trace.h"
#include "coordinator/state_store.h"
#include "runtime/random.h"

struct sqlite3;
struct sqlite3_stmt;

namespace ramcore::coordinator {

/// The embedded store: one SQLite file in a directory of its own, write-ahead log, synchronous=FULL, locked exclusively
/// for as long as it is open.
///
/// Calls wait for the disk on `worker`, never on the caller's executor.
class SqliteStateStore final : public StateStore {
 public:
  /// Opens `directory`, making it and a new cluster in it if there is none.
  ///
  /// @param cluster_name  must be the name the directory was made with
  /// @param entropy       a new cluster draws its id from it
  /// @param worker        where the disk is waited for; outlives the store, which is stopped and idle before it stops
  /// Failure, with cause and remedy: WrongCluster, WrongFormat, InUse (another process has it open), IoError (not
  /// writable, damaged), BadConfig (not a directory).
  static Outcome<std::unique_ptr<SqliteStateStore>> open(const std::string& directory, const std::string& cluster_name,
                                                         runtime::Entropy& entropy, runtime::Executor& worker,
                                                         Trace& trace);
  ~SqliteStateStore() override;

  ClusterId cluster() const override { return cluster_; }
  const std::string& clusterName() const override { return cluster_name_; }
  runtime::Task<Result<std::vector<KeyValue>>> readPrefix(runtime::Executor& executor, std::string prefix) override;
  runtime::Task<Status> commit(runtime::Executor& executor, Batch batch) override;
  void stop() override { stopped_ = true; }

 private:
  SqliteStateStore(runtime::Executor& worker, Trace& trace) : worker_(worker), trace_(trace) {}

  Failure prepareDirectory(const std::string& directory);
  Failure openDatabase(const std::string& path);
  Failure openCluster(const std::string& path, const std::string& cluster_name, runtime::Entropy& entropy);
  Failure makeCluster(const std::string& path, const std::string& cluster_name, runtime::Entropy& entropy);
  Failure failure(int code, const std::string& path) const;
  int run(const char* sql);
  bool readValue(const std::string& key, std::string& value);
  int writeValue(const std::string& key, const std::string& value);
  int writeBatch(const Batch& batch);
  Status commitHere(const Batch& batch);
  Result<std::vector<KeyValue>> readPrefixHere(const std::string& prefix);

  runtime::Executor& worker_;
  Trace& trace_;
  ClusterId cluster_;
  std::string cluster_name_;
  std::string leadership_;
  bool stopped_ = false;  // the callers' executor
  bool failed_ = false;   // the worker's: a commit failed in a way that leaves its outcome open
  sqlite3* database_ = nullptr;
  sqlite3_stmt* put_ = nullptr;
  sqlite3_stmt* remove_ = nullptr;
  sqlite3_stmt* get_ = nullptr;
  sqlite3_stmt* scan_ = nullptr;
};

}  // namespace ramcore::coordinator
