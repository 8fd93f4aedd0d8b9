#include "tools/rc/frame_file_reader.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace ramcore::rc {
namespace {

// The names that runtime::FileStorage and backup::FrameFile give to these files.
constexpr char kLockName[] = "lock";
constexpr char kFrameFileName[] = "frames";

Failure because(const std::string& what, int error) {
  return {error == ENOENT ? Status::NotFound : Status::IoError, what + ": " + std::strerror(error)};
}

// Takes the lock of the directory, shared with other readers; -1 if there is no lock file.
Outcome<int> lockDirectory(const std::string& directory) {
  const std::string path = directory + "/" + kLockName;
  const int lock = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (lock < 0 && errno == ENOENT) return -1;
  if (lock < 0) return because("cannot open " + path + ", which says whether a server runs", errno);
  if (::flock(lock, LOCK_SH | LOCK_NB) == 0) return lock;
  const int error = errno;
  ::close(lock);
  if (error != EWOULDBLOCK) return because("cannot lock " + path, error);
  return Failure{Status::InUse, "the directory " + directory +
                                    " belongs to a running server, which writes to this file: stop it first"};
}

}  // namespace

Outcome<std::unique_ptr<FrameFileReader>> FrameFileReader::open(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path given(path);
  const bool is_directory = std::filesystem::is_directory(given, ignored);
  const std::filesystem::path file = is_directory ? given / kFrameFileName : given;
  const std::string directory = is_directory ? path : file.has_parent_path() ? file.parent_path().string() : ".";
  const auto lock = lockDirectory(directory);
  if (!lock.ok()) return lock.error();
  std::unique_ptr<FrameFileReader> reader(new FrameFileReader(file.string(), *lock));
  reader->file_ = ::open(reader->path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (reader->file_ < 0) return reader->failed("open");
  struct stat status{};
  if (::fstat(reader->file_, &status) != 0) return reader->failed("look at");
  if (!S_ISREG(status.st_mode)) return Failure{Status::IoError, reader->path_ + " is no file"};
  reader->bytes_ = static_cast<uint64_t>(status.st_size);
  return reader;
}

FrameFileReader::~FrameFileReader() {
  if (file_ >= 0) ::close(file_);
  if (lock_ >= 0) ::close(lock_);
}

Failure FrameFileReader::failed(const std::string& what) const {
  return because("cannot " + what + " the frame file " + path_, errno);
}

Status FrameFileReader::read(uint64_t offset_bytes, MutableByteSpan out) {
  while (!out.empty()) {
    const ssize_t got = ::pread(file_, out.data(), out.size(), static_cast<off_t>(offset_bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Status::IoError;
    out = out.subspan(static_cast<size_t>(got));
    offset_bytes += static_cast<uint64_t>(got);
  }
  return Status::Ok;
}

}  // namespace ramcore::rc
