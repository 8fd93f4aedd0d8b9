#include "coordinator/state/sqlite_state_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/id_text.h"
#include "coordinator/state/sqlite_format.h"
#include "runtime/await.h"
#include "runtime/real/private_directory.h"

#include <sqlite3.h>

namespace ramcore::coordinator {
namespace {

// Readers hold a lock for a moment only, but setting up the write-ahead log needs one.
constexpr int kBusyMs = 2'000;

constexpr int64_t kFullToldEveryNs = 60 * runtime::kNanosPerSecond;

Failure fine() { return {Status::Ok, {}}; }

Failure noCluster(const StateDirectory& directory) {
  const std::string there_is_none = "there is no cluster in '" + directory.path + "': name the --storage of ";
  if (directory.cluster) {
    return {Status::BadConfig, there_is_none + "cluster " + textOf(directory.cluster) +
                                   " (a volume that is not mounted looks like this), or leave out --cluster-id"};
  }
  return {Status::BadConfig, there_is_none + "the one that there is, or make a new cluster with --new-cluster"};
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

Outcome<std::unique_ptr<SqliteStateStore>> SqliteStateStore::open(const StateDirectory& directory,
                                                                  runtime::Entropy& entropy, runtime::Executor& worker,
                                                                  Trace& trace) {
  std::unique_ptr<SqliteStateStore> store(new SqliteStateStore(worker, trace));
  const std::string path = (std::filesystem::path(directory.path) / kFileName).string();
  // Checked before anything is made, so that a mistaken name leaves no trace.
  const bool may_make = directory.make != StateDirectory::Make::Never && !directory.cluster;
  if (!may_make && !std::filesystem::exists(path)) return noCluster(directory);
  Failure failed = store->prepareDirectory(directory.path);
  if (failed.status != Status::Ok) return failed;
  failed = store->lockDirectory(directory.path);
  if (failed.status != Status::Ok) return failed;
  failed = store->openDatabase(path);
  if (failed.status != Status::Ok) return failed;
  failed = store->openTable(path);
  if (failed.status != Status::Ok) return failed;
  failed = store->openCluster(path, directory, entropy);
  if (failed.status != Status::Ok) return failed;
  return store;
}

SqliteStateStore::~SqliteStateStore() {
  for (sqlite3_stmt* statement : {put_, remove_, get_, scan_}) sqlite3_finalize(statement);
  sqlite3_close(database_);
  if (lock_fd_ >= 0) ::close(lock_fd_);  // releases the lock
}

Failure SqliteStateStore::prepareDirectory(const std::string& directory) {
  const std::error_code error = runtime::makePrivateDirectory(directory);
  if (error) {
    if (error == std::errc::not_a_directory) {
      return {Status::BadConfig, "'" + directory + "' is not a directory: name another one with --storage"};
    }
    return {Status::IoError, "cannot make the directory '" + directory + "' (" + error.message() +
                                 "): name another one with --storage or change its permissions"};
  }
  return fine();
}

// The lock is held until the store is closed or the process ends, whatever becomes of the database file. It is not one
// of SQLite's locks, because those keep readers out, too.
Failure SqliteStateStore::lockDirectory(const std::string& directory) {
  const std::string path = (std::filesystem::path(directory) / kLockName).string();
  lock_fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_fd_ < 0) {
    return {Status::IoError, "cannot write '" + path + "' (" + std::strerror(errno) +
                                 "): change its permissions or name another --storage"};
  }
  if (::flock(lock_fd_, LOCK_EX | LOCK_NB) == 0) return fine();
  if (errno == EWOULDBLOCK) {
    return {Status::InUse, "another coordinator uses '" + directory + "': stop it, or name another --storage"};
  }
  return {Status::IoError, "cannot lock '" + path + "' (" + std::strerror(errno) + "): name another --storage"};
}

int SqliteStateStore::systemError(int code) const {
  if ((code & 0xff) != SQLITE_IOERR) return sqlite3_system_errno(database_);
  // Errors of writes are known only to the file itself: the database, or the log beside it.
  int error = 0;
  sqlite3_file_control(database_, "main", SQLITE_FCNTL_LAST_ERRNO, &error);
  sqlite3_file* log = nullptr;
  sqlite3_file_control(database_, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (error == 0 && log != nullptr && log->pMethods != nullptr) {
    log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &error);
  }
  return error;
}

std::string SqliteStateStore::causeOf(int code) const {
  const int system_error = systemError(code);
  std::string cause = sqlite3_errmsg(database_);
  if (system_error != 0) cause += std::string(", ") + std::strerror(system_error);
  if (system_error == EFBIG) cause += ": raise the limit of file sizes, ulimit -f";
  return cause;
}

Failure SqliteStateStore::failure(int code, const std::string& path) const {
  const std::string cause = causeOf(code);
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {Status::InUse, "another coordinator has '" + path + "' open: stop it, or name another --storage"};
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return {Status::Corrupt, "'" + path + "' is damaged or no coordinator's file (" + cause +
                                   "): put the newest copy of it into an empty directory (see --export)"};
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

// A copy that was made by exportState() has no log of its own yet (SQLite's file format, bytes 18 and 19). If there is
// one beside it, it belongs to the file that was here before. SQLite would mix old and new pages, and nobody would
// notice.
Failure SqliteStateStore::checkLog(const std::string& path) {
  const std::string log = path + "-wal";
  std::error_code error;
  const auto log_bytes = std::filesystem::file_size(log, error);
  if (error || log_bytes == 0) return fine();
  std::array<char, 20> head{};
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool is_read = fd >= 0 && ::read(fd, head.data(), head.size()) == static_cast<ssize_t>(head.size());
  if (fd >= 0) ::close(fd);
  constexpr char kWithLog = 2;
  if (is_read && head[18] == kWithLog && head[19] == kWithLog) return fine();
  return {Status::BadConfig, "'" + log + "' belongs to a file that was here before '" + path +
                                 "' was put in its place: copies go into an empty directory; remove " + kFileName +
                                 "-wal and " + kFileName + "-shm if this copy is meant"};
}

Failure SqliteStateStore::openDatabase(const std::string& path) {
  const Failure foreign = checkLog(path);
  if (foreign.status != Status::Ok) return foreign;
  // Files that SQLite makes beside the database get its permissions. A database of an older version may be readable for
  // others.
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0) {
    static_cast<void>(::fchmod(file, 0600));
    ::close(file);
    for (const char* beside : {"-wal", "-shm", "-journal"}) static_cast<void>(::chmod((path + beside).c_str(), 0600));
  }
  int code = sqlite3_open_v2(path.c_str(), &database_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                             nullptr);
  if (code != SQLITE_OK) return failure(code, path);
  sqlite3_extended_result_codes(database_, 1);
  sqlite3_busy_timeout(database_, kBusyMs);
  for (const char* sql : {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "BEGIN IMMEDIATE", "COMMIT"}) {
    code = run(sql);
    if (code != SQLITE_OK) return failure(code, path);
  }
  return fine();
}

Failure SqliteStateStore::openTable(const std::string& path) {
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
  return fine();
}

Failure SqliteStateStore::openCluster(const std::string& path, const StateDirectory& directory,
                                      runtime::Entropy& entropy) {
  std::string text;
  if (!readValue(kFormatKey, text)) {
    // A file without a format is one in which making the cluster did not end. It counts as none.
    if (directory.make == StateDirectory::Make::Never || directory.cluster) return noCluster(directory);
    Failure failed = makeCluster(path, directory, entropy);
    if (failed.status != Status::Ok) return failed;
    (void)readValue(kFormatKey, text);
  }
  if (text != std::to_string(kFormatVersion)) {
    return {Status::WrongFormat, "'" + path + "' has format " + text + ", this program writes format " +
                                     std::to_string(kFormatVersion) + ": use the version of Ramcore that made it"};
  }
  (void)readValue(kClusterNameKey, cluster_name_);
  uint64_t cluster = 0;
  (void)readValue(kClusterKey, text);
  if (!parseNumber(text, cluster) || cluster == 0) {
    return {Status::Corrupt,
            "'" + path + "' has no cluster id: put the newest copy of it into an empty directory (see --export)"};
  }
  cluster_ = ClusterId(cluster);
  Failure wrong = checkCluster(path, directory);
  if (wrong.status != Status::Ok) return wrong;
  if (readValue(kChangesKey, text) && !parseNumber(text, changes_here_)) {  // files of earlier versions have none
    return {Status::Corrupt, "'" + path +
                                 "' does not say how many changes it has: put the newest copy of it into an empty "
                                 "directory (see --export)"};
  }
  change_number_ = changes_here_;

  uint64_t leadership = 0;
  (void)readValue(kLeadershipKey, text);
  (void)parseNumber(text, leadership);
  leadership_ = std::to_string(leadership + 1);
  const int code = writeValue(kLeadershipKey, leadership_);
  if (code != SQLITE_OK) return failure(code, path);
  return fine();
}

Failure SqliteStateStore::checkCluster(const std::string& path, const StateDirectory& directory) const {
  if (cluster_name_ != directory.cluster_name) {
    return {Status::WrongCluster, "'" + path + "' belongs to cluster '" + cluster_name_ + "', not '" +
                                      directory.cluster_name + "': change --cluster or name another --storage"};
  }
  if (directory.cluster && directory.cluster != cluster_) {
    return {Status::WrongCluster, "'" + path + "' is of cluster " + textOf(cluster_) + ", and --cluster-id asks for " +
                                      textOf(directory.cluster) + ": name the right --storage"};
  }
  if (directory.make == StateDirectory::Make::Always && !made_cluster_) {
    return {Status::BadConfig, "there is cluster " + textOf(cluster_) + " in '" + directory.path +
                                   "' already: leave out --new-cluster, or name an empty --storage"};
  }
  return fine();
}

Failure SqliteStateStore::makeCluster(const std::string& path, const StateDirectory& directory,
                                      runtime::Entropy& entropy) {
  uint64_t cluster = 0;
  while (cluster == 0) cluster = entropy.next() >> 2;  // 62 bits: at most 19 digits
  Batch batch;
  batch.put(kClusterKey, std::to_string(cluster));
  batch.put(kClusterNameKey, directory.cluster_name);
  batch.put(kChangesKey, "0");
  batch.put(kLeadershipKey, "0");
  batch.put(kFormatKey, std::to_string(kFormatVersion));
  const std::string id = "PRAGMA application_id=" + std::to_string(kApplicationId);
  int code = run(id.c_str());
  if (code == SQLITE_OK) code = run("BEGIN IMMEDIATE");
  if (code == SQLITE_OK) code = writeBatch(batch);
  if (code == SQLITE_OK) code = run("COMMIT");
  made_cluster_ = code == SQLITE_OK;
  return made_cluster_ ? fine() : failure(code, path);
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

// Callers try to store again and again, so the line comes once a minute.
void SqliteStateStore::warnFull() {
  const int64_t now_ns = worker_.clock().nowNs();
  if (std::exchange(is_full_, true) && now_ns - full_told_ns_ < kFullToldEveryNs) return;
  full_told_ns_ = now_ns;
  trace_.error("the disk of the coordinator's storage is full: nothing can be changed until there is room");
}

Status SqliteStateStore::commitHere(const Batch& batch, uint64_t& number) {
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
    number = batch.is_unnumbered ? changes_here_ : std::max(changes_here_ + 1, batch.number_min);
    if (code == SQLITE_OK && number != changes_here_) code = writeValue(kChangesKey, std::to_string(number));
  }
  if (code == SQLITE_OK) code = run("COMMIT");
  if (code == SQLITE_OK) {
    changes_here_ = number;
    if (std::exchange(is_full_, false)) trace_.info("there is room again on the disk of the coordinator's storage");
    return Status::Ok;
  }

  const std::string cause = causeOf(code);
  // The end of a quota is met like that of the disk: in a write, before anything was flushed.
  const bool is_full = (code & 0xff) == SQLITE_FULL || (code == SQLITE_IOERR_WRITE && systemError(code) == EDQUOT);
  if (sqlite3_get_autocommit(database_) == 0) run("ROLLBACK");
  if (is_full) {
    warnFull();
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
  uint64_t number = 0;
  const Status status = commitHere(batch, number);
  co_await runtime::resumeOn(executor);
  // The worker makes one commit after the other, but the executor may see their ends in another order.
  if (status == Status::Ok) change_number_ = std::max(change_number_, number);
  co_return status;
}

}  // namespace ramcore::coordinator
