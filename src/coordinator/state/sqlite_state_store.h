#pragma once

#include <memory>
#include <string>

#include "base/trace.h"
#include "coordinator/state/state_store.h"
#include "runtime/random.h"

struct sqlite3;
struct sqlite3_stmt;

namespace ramcore::coordinator {

/// Which cluster a directory has to belong to.
struct StateDirectory {
  std::string path;          ///< created if it does not exist
  std::string cluster_name;  ///< must be the name that the cluster was created with
  ClusterId cluster = {};    ///< if not none: it must be this cluster, and none is created
  /// What happens to a directory without a cluster in it, and to one with a cluster.
  enum class Make : uint8_t {
    Never,   ///< there has to be a cluster
    IfNone,  ///< a cluster is created if there is none
    Always,  ///< there must be no cluster
  };
  Make make = Make::IfNone;
};

/// The embedded store: one SQLite file in a directory of its own, write-ahead log, synchronous=FULL. A lock file keeps
/// other coordinators out for as long as the store is open; other processes may read it meanwhile (sqlite_export.h).
///
/// Calls wait for the disk on `worker`, never on the caller's executor.
class SqliteStateStore final : public StateStore {
 public:
  /// Opens a directory.
  ///
  /// @param entropy       the id of a new cluster is drawn from it
  /// @param worker        where the disk is waited for; outlives the store, which is stopped and idle before it stops
  /// Failure, with cause and remedy: WrongCluster, WrongFormat, InUse (another process has it open), IoError (not
  /// writable, damaged), BadConfig (not a directory, no cluster in it, or a cluster that should not be there).
  static Outcome<std::unique_ptr<SqliteStateStore>> open(const StateDirectory& directory, runtime::Entropy& entropy,
                                                         runtime::Executor& worker, Trace& trace);

  ~SqliteStateStore() override;

  ClusterId cluster() const override { return cluster_; }
  const std::string& clusterName() const override { return cluster_name_; }
  uint64_t changeNumber() const override { return change_number_; }
  /// True if the cluster was created by this open().
  bool madeCluster() const { return made_cluster_; }
  runtime::Task<Result<std::vector<KeyValue>>> readPrefix(runtime::Executor& executor, std::string prefix) override;
  runtime::Task<Status> commit(runtime::Executor& executor, Batch batch) override;
  void stop() override { stopped_ = true; }

 private:
  SqliteStateStore(runtime::Executor& worker, Trace& trace) : worker_(worker), trace_(trace) {}

  Failure prepareDirectory(const std::string& directory);
  Failure lockDirectory(const std::string& directory);
  static Failure checkLog(const std::string& path);
  Failure openDatabase(const std::string& path);
  Failure openTable(const std::string& path);
  Failure openCluster(const std::string& path, const StateDirectory& directory, runtime::Entropy& entropy);
  Failure checkCluster(const std::string& path, const StateDirectory& directory) const;
  Failure makeCluster(const std::string& path, const StateDirectory& directory, runtime::Entropy& entropy);
  Failure failure(int code, const std::string& path) const;
  /// The errno behind it; 0: unknown.
  int systemError(int code) const;
  std::string causeOf(int code) const;
  void warnFull();
  int run(const char* sql);
  bool readValue(const std::string& key, std::string& value);
  int writeValue(const std::string& key, const std::string& value);
  int writeBatch(const Batch& batch);
  Status commitHere(const Batch& batch, uint64_t& number);
  Result<std::vector<KeyValue>> readPrefixHere(const std::string& prefix);

  runtime::Executor& worker_;
  Trace& trace_;
  ClusterId cluster_;
  std::string cluster_name_;
  std::string leadership_;
  bool made_cluster_ = false;
  int lock_fd_ = -1;
  bool stopped_ = false;        // for the callers' executor
  uint64_t change_number_ = 0;  // likewise
  uint64_t changes_here_ = 0;   // for the worker
  bool failed_ = false;         // for the worker: a commit failed in a way that leaves its outcome open
  bool is_full_ = false;        // for the worker: the last commit found no room
  int64_t full_told_ns_ = 0;
  sqlite3* database_ = nullptr;
  sqlite3_stmt* put_ = nullptr;
  sqlite3_stmt* remove_ = nullptr;
  sqlite3_stmt* get_ = nullptr;
  sqlite3_stmt* scan_ = nullptr;
};

}  // namespace ramcore::coordinator
