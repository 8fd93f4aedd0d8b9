#include "coordinator/state/sqlite_export.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/id_text.h"
#include "coordinator/state/sqlite_format.h"

#include <sqlite3.h>

namespace ramcore::coordinator {
namespace {

struct Close {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
using Database = std::unique_ptr<sqlite3, Close>;

// A coordinator that starts or stops holds the file for a moment.
constexpr int kExportBusyMs = 10'000;

Failure cannotWrite(const std::string& file, const char* why) {
  return {Status::IoError, "cannot write '" + file + "' (" + why + "): name another file with --export"};
}

Failure cannotRead(sqlite3* database, const std::string& path) {
  const int code = sqlite3_errcode(database) & 0xff;
  const std::string cause = sqlite3_errmsg(database);
  if (code == SQLITE_FULL) return {Status::IoError, "no room for the copy of '" + path + "' (" + cause + ")"};
  const bool is_damaged = code == SQLITE_NOTADB || code == SQLITE_CORRUPT;
  return {is_damaged ? Status::Corrupt : Status::IoError, "cannot copy '" + path + "' (" + cause + ")"};
}

Failure openAt(const std::string& path, int flags, Database& out) {
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &opened, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  out.reset(opened);
  if (code != SQLITE_OK) return cannotRead(opened, path);
  sqlite3_busy_timeout(opened, kExportBusyMs);
  return {Status::Ok, {}};
}

bool readNumber(sqlite3* database, const char* key, uint64_t& value) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database, "SELECT value FROM state WHERE key = ?1", -1, &statement, nullptr) != SQLITE_OK) {
    return false;
  }
  sqlite3_bind_blob64(statement, 1, key, std::strlen(key), SQLITE_STATIC);
  bool found = false;
  if (sqlite3_step(statement) == SQLITE_ROW) {
    const auto* const bytes = static_cast<const char*>(sqlite3_column_blob(statement, 0));
    const auto count = static_cast<size_t>(sqlite3_column_bytes(statement, 0));
    found = bytes != nullptr && parseNumber(std::string(bytes, count), value);
  }
  sqlite3_finalize(statement);
  return found;
}

bool flushAt(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) return false;
  const bool flushed = ::fsync(fd) == 0;
  ::close(fd);
  return flushed;
}

// SQLite copies in one transaction, and flushes nothing of what it makes.
Failure copyInto(const std::string& path, const std::string& partial) {
  Database from;
  Failure failed = openAt(path, SQLITE_OPEN_READWRITE, from);
  if (failed.status != Status::Ok) return failed;
  sqlite3_stmt* statement = nullptr;
  int code = sqlite3_prepare_v2(from.get(), "VACUUM INTO ?1", -1, &statement, nullptr);
  if (code == SQLITE_OK) code = sqlite3_bind_text(statement, 1, partial.c_str(), -1, SQLITE_STATIC);
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  failed = code == SQLITE_DONE ? Failure{Status::Ok, {}} : cannotRead(from.get(), path);
  sqlite3_finalize(statement);
  return failed;
}

Failure describe(const std::string& file, ExportedState& exported) {
  Database copy;
  Failure failed = openAt(file, SQLITE_OPEN_READONLY, copy);
  if (failed.status != Status::Ok) return failed;
  uint64_t cluster = 0;
  if (!readNumber(copy.get(), kClusterKey, cluster) || cluster == 0) {
    return {Status::Corrupt, "what is there is no coordinator's state: it has no cluster id"};
  }
  exported.cluster = ClusterId(cluster);
  (void)readNumber(copy.get(), kChangesKey, exported.change_number);  // files of earlier versions have none
  return failed;
}

}  // namespace

Outcome<ExportedState> exportState(const std::string& directory, const std::string& file) {
  const std::string path = (std::filesystem::path(directory) / kFileName).string();
  if (!std::filesystem::exists(path)) {
    return Failure{Status::NotFound, "there is no coordinator's state in '" + directory + "': name its --storage"};
  }
  // The file is made here, under a name of its own: only its owner may read it, it replaces nothing, and another export
  // makes another one.
  std::string partial = file + ".partial-XXXXXX";
  std::error_code ignored;
  if (std::filesystem::exists(file)) {
    return Failure{Status::InUse, "'" + file + "' is there already: name another file with --export"};
  }
  const int made = ::mkostemp(partial.data(), O_CLOEXEC);
  if (made < 0) return cannotWrite(file, std::strerror(errno));
  ::close(made);
  ExportedState exported;
  Failure failed = copyInto(path, partial);
  if (failed.status == Status::Ok) failed = describe(partial, exported);
  if (failed.status == Status::Ok && !flushAt(partial, O_RDWR)) failed = cannotWrite(file, std::strerror(errno));
  // A link, not a rename, because a `file` that was made meanwhile must not be replaced.
  if (failed.status == Status::Ok && ::link(partial.c_str(), file.c_str()) != 0) {
    failed = cannotWrite(file, std::strerror(errno));
  }
  std::filesystem::remove(partial, ignored);
  if (failed.status != Status::Ok) return failed;
  const std::filesystem::path parent = std::filesystem::path(file).parent_path();
  if (!flushAt(parent.empty() ? "." : parent.string(), O_RDONLY | O_DIRECTORY)) {
    return cannotWrite(file, std::strerror(errno));
  }
  return exported;
}

}  // namespace ramcore::coordinator
