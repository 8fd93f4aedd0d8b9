#pragma once

#include <memory>
#include <string>

#include "base/trace.h"
#include "runtime/storage.h"

namespace ramcore::runtime {

/// Storage in a directory of the file system. A file `lock` in it is locked (flock) while the object lives, so the
/// directory is free again as soon as the process is dead. One thread does all flushes: those that were asked for while
/// it was busy share one fdatasync per file.
class FileStorage final : public Storage {
 public:
  /// How a file is flushed: fdatasync, or what a test puts in its place. Returns 0, or -1 with errno.
  using Sync = int (*)(int descriptor);

  /// Opens an existing directory. `trace` gets one line with errno for each IoError and outlives the storage.
  /// Failure: InUse, NotFound, IoError.
  static Outcome<std::unique_ptr<FileStorage>> open(const std::string& directory, Trace& trace);
  static Outcome<std::unique_ptr<FileStorage>> open(const std::string& directory, Trace& trace, Sync sync);
  ~FileStorage() override;

  Outcome<std::unique_ptr<StorageFile>> create(std::string_view name, uint64_t bytes) override;
  Outcome<std::unique_ptr<StorageFile>> open(std::string_view name) override;
  Outcome<std::vector<std::string>> list() override;
  Status remove(std::string_view name) override;
  Outcome<StorageCapacity> capacity() override;
  PowerEpoch powerEpoch() const override { return power_epoch_; }

 private:
  class File;
  class Flusher;

  FileStorage(std::string directory, int directory_descriptor, int lock_descriptor, Trace& trace,
              std::unique_ptr<Flusher> flusher);
  Failure ioError(const std::string& what) const;
  Status removeUnfinished();

  const std::string directory_;
  const int directory_descriptor_;
  const int lock_descriptor_;
  Trace& trace_;
  const PowerEpoch power_epoch_;
  std::unique_ptr<Flusher> flusher_;
};

}  // namespace ramcore::runtime
