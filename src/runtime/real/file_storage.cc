#include "runtime/real/file_storage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/hash.h"
#include "base/spin_lock.h"
#include "runtime/real/process_limits.h"

namespace ramcore::runtime {
namespace {

constexpr char kLockName[] = "lock";
// The end of the names of files that are being made: such a file was not finished when its process died. Callers cannot
// use such names.
constexpr std::string_view kUnfinishedSuffix = ".new";
constexpr size_t kVectorsMax = 64;

std::string describe(int error) { return std::string(std::strerror(error)) + " (errno " + std::to_string(error) + ")"; }

Failure badName(std::string_view name) {
  return Failure{Status::BadConfig, "'" + std::string(name) + "' cannot name a file of the storage"};
}

// The page cache lives as long as the kernel, and a kernel draws this id when it starts.
PowerEpoch readPowerEpoch() {
  const int descriptor = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return {};
  constexpr size_t kIdBytes = 36;
  std::array<std::byte, kIdBytes> id;
  ssize_t got = -1;
  do {
    got = ::read(descriptor, id.data(), id.size());
  } while (got < 0 && errno == EINTR);
  ::close(descriptor);
  return got == static_cast<ssize_t>(id.size()) ? PowerEpoch(fingerprint(id)) : PowerEpoch();
}

}  // namespace

/// The thread that flushes. Callers only queue their flushes.
class FileStorage::Flusher {
 public:
  explicit Flusher(Sync sync) : sync_(sync), thread_([this] { run(); }) {}
  ~Flusher() {
    {
      MutexGuard guard(mutex_);
      stop_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  void add(File& file, Flush& flush) RC_EXCLUDES(mutex_) {
    {
      MutexGuard guard(mutex_);
      waiting_.push_back({&file, &flush});
    }
    changed_.notify_one();
  }

 private:
  struct Entry {
    File* file;
    Flush* flush;
  };

  void run();
  std::vector<Entry> takeAll();
  void flushGroup(std::span<Entry> group);

  Sync sync_;
  Mutex mutex_;  // a leaf: guards the queue and nothing else is locked while it is held
  std::condition_variable changed_;
  std::vector<Entry> waiting_ RC_GUARDED_BY(mutex_);
  bool stop_ RC_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

class FileStorage::File final : public StorageFile {
 public:
  File(FileStorage& storage, std::string name, int descriptor, uint64_t bytes)
      : trace_(storage.trace_),
        flusher_(*storage.flusher_),
        name_(std::move(name)),
        descriptor_(descriptor),
        bytes_(bytes) {}
  ~File() override {
    RC_CHECK_MSG(flushes_.load() == 0, "a file was closed during its flush");
    ::close(descriptor_);
  }

  uint64_t bytes() const override { return bytes_; }
  bool isCondemned() const override { return condemned_.load(std::memory_order_acquire); }

  Status write(uint64_t offset_bytes, std::span<const ByteSpan> pieces) override {
    if (isCondemned()) return Status::IoError;
    uint64_t total = 0;
    for (const ByteSpan& piece : pieces) total += piece.size();
    if (offset_bytes > bytes_ || total > bytes_ - offset_bytes) return Status::BadRequest;
    while (!pieces.empty()) {
      const auto now = pieces.first(std::min(pieces.size(), kVectorsMax));
      const Status status = writeSome(offset_bytes, now);
      if (status != Status::Ok) return status;
      for (const ByteSpan& piece : now) offset_bytes += piece.size();
      pieces = pieces.subspan(now.size());
    }
    return Status::Ok;
  }

  // ru_nvcsw counts only waits: the system counts apart how often the thread was made to leave its processor.
  uint64_t threadWaits() const override {
    rusage usage{};
    return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? static_cast<uint64_t>(usage.ru_nvcsw) : 0;
  }

  Status read(uint64_t offset_bytes, MutableByteSpan out) override {
    if (offset_bytes > bytes_ || out.size() > bytes_ - offset_bytes) return Status::BadRequest;
    while (!out.empty()) {
      const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset_bytes));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return failed("cannot read", got < 0 ? describe(errno) : "it is shorter than when it was opened");
      out = out.subspan(static_cast<size_t>(got));
      offset_bytes += static_cast<uint64_t>(got);
    }
    return Status::Ok;
  }

  void forgetCached(uint64_t offset_bytes, uint64_t bytes) override {
    if (offset_bytes > bytes_ || bytes > bytes_ - offset_bytes) return;
    // A hint: a failure does no harm.
    ::posix_fadvise(descriptor_, static_cast<off_t>(offset_bytes), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
  }

  void flush(Flush& flush) override {
    flushes_.fetch_add(1, std::memory_order_relaxed);
    flusher_.add(*this, flush);
  }

  // Called by the flusher.
  Status sync(Sync sync) {
    if (isCondemned()) return Status::IoError;
    if (sync(descriptor_) == 0) return Status::Ok;
    const std::string reason = describe(errno);
    condemned_.store(true, std::memory_order_release);
    return failed("cannot flush", reason + "; it is not used any more");
  }
  void finish(Flush& flush, Status status) {
    flush.status = status;
    Executor& executor = flush.executor;
    const Priority priority = flush.priority;
    flushes_.fetch_sub(1, std::memory_order_release);  // first: the job may destroy this
    executor.post(flush, priority);
  }

 private:
  Status writeSome(uint64_t offset_bytes, std::span<const ByteSpan> pieces) {
    iovec vectors[kVectorsMax];
    size_t count = 0;
    for (const ByteSpan& piece : pieces) {
      if (!piece.empty()) vectors[count++] = {const_cast<std::byte*>(piece.data()), piece.size()};
    }
    iovec* first = vectors;
    while (count > 0) {
      const ssize_t wrote = ::pwritev(descriptor_, first, static_cast<int>(count), static_cast<off_t>(offset_bytes));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return failed("cannot write", describe(errno));
      offset_bytes += static_cast<uint64_t>(wrote);
      auto rest = static_cast<size_t>(wrote);
      while (count > 0 && rest >= first->iov_len) {
        rest -= first->iov_len;
        ++first;
        --count;
      }
      if (count > 0) {
        first->iov_base = static_cast<std::byte*>(first->iov_base) + rest;
        first->iov_len -= rest;
      }
    }
    return Status::Ok;
  }
  Status failed(std::string_view what, const std::string& reason) const {
    trace_.error("storage: " + std::string(what) + " file " + name_ + ": " + reason);
    return Status::IoError;
  }

  Trace& trace_;
  Flusher& flusher_;
  const std::string name_;
  const int descriptor_;
  const uint64_t bytes_;
  std::atomic<bool> condemned_{false};
  std::atomic<uint32_t> flushes_{0};
};

// ---- Flusher

// Not analysed, because the annotations do not know the lock that the condition variable needs.
std::vector<FileStorage::Flusher::Entry> FileStorage::Flusher::takeAll() RC_NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock<std::mutex> lock(mutex_.native());
  changed_.wait(lock, [this]() RC_NO_THREAD_SAFETY_ANALYSIS { return stop_ || !waiting_.empty(); });
  std::vector<Entry> taken;
  taken.swap(waiting_);
  return taken;
}

void FileStorage::Flusher::run() {
  for (;;) {
    std::vector<Entry> entries = takeAll();
    if (entries.empty()) return;
    std::span<Entry> rest(entries);
    while (!rest.empty()) {
      File* file = rest.front().file;
      const auto end =
          std::partition(rest.begin(), rest.end(), [file](const Entry& entry) { return entry.file == file; });
      const auto count = static_cast<size_t>(end - rest.begin());
      flushGroup(rest.first(count));
      rest = rest.subspan(count);
    }
  }
}

void FileStorage::Flusher::flushGroup(std::span<Entry> group) {
  const Status status = group.front().file->sync(sync_);
  for (const Entry& entry : group) entry.file->finish(*entry.flush, status);
}

// ---- FileStorage

FileStorage::FileStorage(std::string directory, int directory_descriptor, int lock_descriptor, Trace& trace,
                         std::unique_ptr<Flusher> flusher)
    : directory_(std::move(directory)),
      directory_descriptor_(directory_descriptor),
      lock_descriptor_(lock_descriptor),
      trace_(trace),
      power_epoch_(readPowerEpoch()),
      flusher_(std::move(flusher)) {}

FileStorage::~FileStorage() {
  flusher_.reset();
  ::close(lock_descriptor_);
  ::close(directory_descriptor_);
}

Outcome<std::unique_ptr<FileStorage>> FileStorage::open(const std::string& directory, Trace& trace) {
  return open(directory, trace, &::fdatasync);
}

Outcome<std::unique_ptr<FileStorage>> FileStorage::open(const std::string& directory, Trace& trace, Sync sync) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    const Status status = errno == ENOENT ? Status::NotFound : Status::IoError;
    return Failure{status, "cannot open the directory " + directory + ": " + describe(errno)};
  }
  const int lock = ::openat(descriptor, kLockName, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0 || ::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (lock >= 0) ::close(lock);
    ::close(descriptor);
    if (lock >= 0 && error == EWOULDBLOCK) {
      return Failure{Status::InUse, "the directory " + directory + " belongs to a running process: stop that first"};
    }
    return Failure{Status::IoError, "cannot lock the directory " + directory + ": " + describe(error)};
  }
  auto flusher = makeThreaded<Flusher>(sync);
  if (!flusher.ok()) {
    ::close(lock);
    ::close(descriptor);
    return std::move(flusher).error();
  }
  std::unique_ptr<FileStorage> storage(new FileStorage(directory, descriptor, lock, trace, std::move(flusher).value()));
  if (storage->removeUnfinished() != Status::Ok) return storage->ioError("clean up");
  return storage;
}

Failure FileStorage::ioError(const std::string& what) const {
  return Failure{Status::IoError, "cannot " + what + " in the directory " + directory_ + ": " + describe(errno)};
}

Status FileStorage::removeUnfinished() {
  DIR* directory = ::fdopendir(::openat(directory_descriptor_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory == nullptr) return Status::IoError;
  std::vector<std::string> unfinished;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name(entry->d_name);
    if (name.ends_with(kUnfinishedSuffix)) unfinished.emplace_back(name);
  }
  ::closedir(directory);
  for (const std::string& name : unfinished) {
    if (::unlinkat(directory_descriptor_, name.c_str(), 0) != 0) return Status::IoError;
  }
  return Status::Ok;
}

Outcome<std::unique_ptr<StorageFile>> FileStorage::create(std::string_view name, uint64_t bytes) {
  if (!isValidName(name) || name == kLockName) return badName(name);
  const std::string final_name(name);
  if (::faccessat(directory_descriptor_, final_name.c_str(), F_OK, 0) == 0) {
    return Failure{Status::InUse, "the file " + directory_ + "/" + final_name + " exists"};
  }
  const std::string unfinished = final_name + std::string(kUnfinishedSuffix);
  const int descriptor =
      ::openat(directory_descriptor_, unfinished.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor < 0) return ioError("create " + final_name);
  int error = bytes == 0 ? 0 : ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  if (error == 0 && ::fsync(descriptor) != 0) error = errno;
  if (error == 0 &&
      ::renameat(directory_descriptor_, unfinished.c_str(), directory_descriptor_, final_name.c_str()) != 0) {
    error = errno;
  }
  if (error == 0 && ::fsync(directory_descriptor_) != 0) error = errno;
  if (error != 0) {
    ::close(descriptor);
    ::unlinkat(directory_descriptor_, unfinished.c_str(), 0);
    if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
      const std::string limit = error == EFBIG ? fileSizeObstacle(bytes) : std::string();
      return Failure{Status::NoSpace, "no space for " + std::to_string(bytes) + " bytes in the directory " +
                                          directory_ + (limit.empty() ? "" : ": ") + limit};
    }
    errno = error;
    return ioError("create " + final_name);
  }
  return std::unique_ptr<StorageFile>(std::make_unique<File>(*this, final_name, descriptor, bytes));
}

Outcome<std::unique_ptr<StorageFile>> FileStorage::open(std::string_view name) {
  if (!isValidName(name) || name == kLockName) return badName(name);
  const std::string final_name(name);
  const int descriptor = ::openat(directory_descriptor_, final_name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0 && errno == ENOENT) {
    return Failure{Status::NotFound, "there is no file " + directory_ + "/" + final_name};
  }
  struct stat status{};
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    Failure failure = ioError("open " + final_name);
    if (descriptor >= 0) ::close(descriptor);
    return failure;
  }
  const auto bytes = static_cast<uint64_t>(status.st_size);
  return std::unique_ptr<StorageFile>(std::make_unique<File>(*this, final_name, descriptor, bytes));
}

Outcome<std::vector<std::string>> FileStorage::list() {
  DIR* directory = ::fdopendir(::openat(directory_descriptor_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory == nullptr) return ioError("list the files");
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory)) {
    if (isValidName(entry->d_name) && std::string_view(entry->d_name) != kLockName) names.emplace_back(entry->d_name);
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

Status FileStorage::remove(std::string_view name) {
  if (!isValidName(name) || name == kLockName) return Status::BadConfig;
  if (::unlinkat(directory_descriptor_, std::string(name).c_str(), 0) != 0) {
    if (errno == ENOENT) return Status::NotFound;
    trace_.error("storage: " + ioError("remove " + std::string(name)).message);
    return Status::IoError;
  }
  if (::fsync(directory_descriptor_) == 0) return Status::Ok;
  trace_.error("storage: " + ioError("flush the removal of " + std::string(name)).message);
  return Status::IoError;
}

Outcome<StorageCapacity> FileStorage::capacity() {
  struct statvfs status{};
  if (::fstatvfs(directory_descriptor_, &status) != 0) return ioError("measure the space");
  return StorageCapacity{.total_bytes = static_cast<uint64_t>(status.f_blocks) * status.f_frsize,
                         .free_bytes = static_cast<uint64_t>(status.f_bavail) * status.f_frsize};
}

}  // namespace ramcore::runtime
