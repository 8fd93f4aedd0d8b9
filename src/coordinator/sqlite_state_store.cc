#include "coordinator/sqlite_state_store.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/check.h"
#include "runtime/await.h"

#include <sqlite3.h>

namespace ramcore::coordinator {
namespace {

// "RCco": tells our files from other SQLite files.
constexpr int kApplicationId = 0x5243636f;
constexpr const char* kFileName = "coordinator.sqlite";

// Keys of the store itself; the coordinator's own never begin with '!'.
constexpr const char* kClusterKey = "!cluster";
constexpr const char* kClusterNameKey = "!cluster-name";
constexpr const char* kFormatKey = "!format";
constexpr const char* kLeadershipKey = "!leader";

Failure fine() { return {Status::Ok, {}}; }

bool parseNumber(const std::string& text, uint64_t& value) {
  if (text.empty() || text.size() > 19) return false;
  value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return true;
}

// The first key that is greater than every key with this prefix; empty if there is none.
std::string afterPrefix(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

void bindBlob(sqlite3_stmt* statement, int at, const std::string& bytes) {
  // Statements are stepped and reset before `bytes` goes out of scope. A blob never binds as NULL, also an empty one.
  sqlite3_bind_blob64(statement, at, bytes.empty() ? "" : bytes.data(), bytes.size(), SQLITE_STATIC);
}

std::string columnBytes(sqlite3_stmt* statement, int column) {
  const void* bytes = sqlite3_column_blob(statement, column);
  const int count = sqlite3_column_bytes(statement, column);
  return bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), static_cast<size_t>(count));
}

}  // namespace

Outcome<std::unique_ptr<SqliteStateStore>> SqliteStateStore::open(const std::string& directory,
                                                                  const std::string& cluster_name,
                                                                  runtime::Entropy& entropy, runtime::Executor& worker,
                                                                  Trace& trace) {
  std::unique_ptr<SqliteStateStore> store(new SqliteStateStore(worker, trace));
  Failure failed = store->prepareDirectory(directory);
  if (failed.status != Status::Ok) return failed;
  const std::string path = (std::filesystem::path(directory) / kFileName).string();
  failed = store->openDatabase(path);
  if (failed.status != Status::Ok) return failed;
  failed = store->openCluster(path, cluster_name, entropy);
  if (failed.status != Status::Ok) return failed;
  return store;
}

SqliteStateStore::~SqliteStateStore() {
  for (sqlite3_stmt* statement : {put_, remove_, get_, scan_}) sqlite3_finalize(statement);
  sqlite3_close(database_);
}

Failure SqliteStateStore::prepareDirectory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!std::filesystem::is_directory(directory)) {
    if (error == std::errc::not_a_directory || error == std::errc::file_exists || !error) {
      return {Status::BadConfig, "'" + directory + "' is not a directory: name another one with --storage"};
    }
    return {Status::IoError, "cannot make the directory '" + directory + "' (" + error.message() +
                                 "): name another one with --storage or change its permissions"};
  }
  return fine();
}

Failure SqliteStateStore::failure(int code, const std::string& path) const {
  const int system_error = sqlite3_system_errno(database_);
  std::string cause = sqlite3_errmsg(database_);
  if (system_error != 0) cause += std::string(", ") + std::strerror(system_error);
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {Status::InUse, "another coordinator has '" + path + "' open: stop it, or name another --storage"};
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return {Status::Corrupt,
              "'" + path + "' is damaged or no coordinator's file (" + cause + "): restore it from a backup"};
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return {Status::IoError,
              "cannot write '" + path + "' (" + cause + "): change its permissions or name another --storage"};
    default:
      return {Status::IoError, "cannot use '" + path + "' (" + cause + "): check the disk"};
  }
}

int SqliteStateStore::run(const char* sql) { return sqlite3_exec(database_, sql, nullptr, nullptr, nullptr); }

Failure SqliteStateStore::openDatabase(const std::string& path) {
  int code = sqlite3_open_v2(path.c_str(), &database_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                             nullptr);
  if (code != SQLITE_OK) return failure(code, path);
  sqlite3_extended_result_codes(database_, 1);
  // Exclusive before anything is read: the lock is then held until the file is closed, and no shared memory is needed.
  for (const char* sql : {"PRAGMA locking_mode=EXCLUSIVE", "PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL",
                          "BEGIN IMMEDIATE", "COMMIT"}) {
    code = run(sql);
    if (code != SQLITE_OK) return failure(code, path);
  }
  return fine();
}

Failure SqliteStateStore::openCluster(const std::string& path, const std::string& cluster_name,
                                      runtime::Entropy& entropy) {
  int code = run("CREATE TABLE IF NOT EXISTS state (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID");
  if (code != SQLITE_OK) return failure(code, path);
  const std::pair<const char*, sqlite3_stmt**> statements[] = {
      {"INSERT OR REPLACE INTO state (key, value) VALUES (?1, ?2)", &put_},
      {"DELETE FROM state WHERE key = ?1", &remove_},
      {"SELECT value FROM state WHERE key = ?1", &get_},
      {"SELECT key, value FROM state WHERE key >= ?1 AND (?2 = x'' OR key < ?2) ORDER BY key", &scan_}};
  for (const auto& [sql, statement] : statements) {
    code = sqlite3_prepare_v3(database_, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, nullptr);
    if (code != SQLITE_OK) return failure(code, path);
  }

  std::string text;
  if (!readValue(kFormatKey, text)) {
    Failure failed = makeCluster(path, cluster_name, entropy);
    if (failed.status != Status::Ok) return failed;
    (void)readValue(kFormatKey, text);
  }
  if (text != std::to_string(kFormatVersion)) {
    return {Status::WrongFormat, "'" + path + "' has format " + text + ", this program writes format " +
                                     std::to_string(kFormatVersion) + ": use the version of Ramcore that made it"};
  }
  (void)readValue(kClusterNameKey, cluster_name_);
  if (cluster_name_ != cluster_name) {
    return {Status::WrongCluster, "'" + path + "' belongs to cluster '" + cluster_name_ + "', not '" + cluster_name +
                                      "': change --cluster or name another --storage"};
  }
  uint64_t cluster = 0;
  (void)readValue(kClusterKey, text);
  if (!parseNumber(text, cluster) || cluster == 0) {
    return {Status::Corrupt, "'" + path + "' has no cluster id: restore it from a backup"};
  }
  cluster_ = ClusterId(cluster);

  uint64_t leadership = 0;
  (void)readValue(kLeadershipKey, text);
  (void)parseNumber(text, leadership);
  leadership_ = std::to_string(leadership + 1);
  code = writeValue(kLeadershipKey, leadership_);
  if (code != SQLITE_OK) return failure(code, path);
  return fine();
}

Failure SqliteStateStore::makeCluster(const std::string& path, const std::string& cluster_name,
                                      runtime::Entropy& entropy) {
  uint64_t cluster = 0;
  while (cluster == 0) cluster = entropy.next() >> 2;  // 62 bits: at most 19 digits
  Batch batch;
  batch.put(kClusterKey, std::to_string(cluster));
  batch.put(kClusterNameKey, cluster_name);
  batch.put(kLeadershipKey, "0");
  batch.put(kFormatKey, std::to_string(kFormatVersion));
  const std::string id = "PRAGMA application_id=" + std::to_string(kApplicationId);
  int code = run(id.c_str());
  if (code == SQLITE_OK) code = run("BEGIN IMMEDIATE");
  if (code == SQLITE_OK) code = writeBatch(batch);
  if (code == SQLITE_OK) code = run("COMMIT");
  return code == SQLITE_OK ? fine() : failure(code, path);
}

bool SqliteStateStore::readValue(const std::string& key, std::string& value) {
  value.clear();
  bindBlob(get_, 1, key);
  const bool found = sqlite3_step(get_) == SQLITE_ROW;
  if (found) value = columnBytes(get_, 0);
  sqlite3_reset(get_);
  return found;
}

int SqliteStateStore::writeValue(const std::string& key, const std::string& value) {
  bindBlob(put_, 1, key);
  bindBlob(put_, 2, value);
  const int code = sqlite3_step(put_);
  sqlite3_reset(put_);
  return code == SQLITE_DONE ? SQLITE_OK : code;
}

int SqliteStateStore::writeBatch(const Batch& batch) {
  for (const Batch::Change& change : batch.changes) {
    if (!change.is_delete) {
      const int code = writeValue(change.key, change.value);
      if (code != SQLITE_OK) return code;
      continue;
    }
    bindBlob(remove_, 1, change.key);
    const int code = sqlite3_step(remove_);
    sqlite3_reset(remove_);
    if (code != SQLITE_DONE) return code;
  }
  return SQLITE_OK;
}

Status SqliteStateStore::commitHere(const Batch& batch) {
  if (failed_) return Status::IoError;
  int code = run("BEGIN IMMEDIATE");
  std::string leader;
  if (code == SQLITE_OK) {
    (void)readValue(kLeadershipKey, leader);
    if (leader != leadership_) {
      run("ROLLBACK");
      return Status::NotLeader;
    }
    code = writeBatch(batch);
  }
  if (code == SQLITE_OK) code = run("COMMIT");
  if (code == SQLITE_OK) return Status::Ok;

  const std::string cause = sqlite3_errmsg(database_);
  if (sqlite3_get_autocommit(database_) == 0) run("ROLLBACK");
  if ((code & 0xff) == SQLITE_FULL) {
    trace_.error("the disk of the coordinator's storage is full: nothing can be changed until there is room");
    return Status::NoSpace;
  }
  // After a failed flush nobody knows what the disk has. Trying again could only hide that.
  failed_ = true;
  trace_.error("the coordinator's storage failed (" + cause + "): check the disk, then start the coordinator again");
  return Status::IoError;
}

Result<std::vector<KeyValue>> SqliteStateStore::readPrefixHere(const std::string& prefix) {
  const std::string end = afterPrefix(prefix);
  bindBlob(scan_, 1, prefix);
  bindBlob(scan_, 2, end);
  std::vector<KeyValue> found;
  int code = sqlite3_step(scan_);
  for (; code == SQLITE_ROW; code = sqlite3_step(scan_)) {
    KeyValue row{columnBytes(scan_, 0), columnBytes(scan_, 1)};
    if (!row.key.starts_with('!')) found.push_back(std::move(row));
  }
  sqlite3_reset(scan_);
  if (code != SQLITE_DONE) {
    trace_.error(std::string("cannot read the coordinator's storage (") + sqlite3_errmsg(database_) + ")");
    return (code & 0xff) == SQLITE_CORRUPT ? Status::Corrupt : Status::IoError;
  }
  return found;
}

runtime::Task<Result<std::vector<KeyValue>>> SqliteStateStore::readPrefix(runtime::Executor& executor,
                                                                          std::string prefix) {
  if (stopped_) co_return Status::Shutdown;
  co_await runtime::resumeOn(worker_);
  Result<std::vector<KeyValue>> found = readPrefixHere(prefix);
  co_await runtime::resumeOn(executor);
  co_return std::move(found);
}

runtime::Task<Status> SqliteStateStore::commit(runtime::Executor& executor, Batch batch) {
  RC_CHECK(!batch.changes.empty() && batch.changes.size() <= Batch::kChangesMax);
  if (stopped_) co_return Status::Shutdown;
  co_await runtime::resumeOn(worker_);
  const Status status = commitHere(batch);
  co_await runtime::resumeOn(executor);
  co_return status;
}

}  // namespace ramcore::coordinator
