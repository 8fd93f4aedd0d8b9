#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/storage.h"

namespace ramcore::runtime {

/// A storage each of whose writes first calls a function of the test, which may note the write, delay it, or refuse it.
class WatchedStorage final : public Storage {
 public:
  /// Gets the offset of a write before it is done. Anything but Ok is returned in place of the write. Runs on the
  /// thread that writes.
  using OnWrite = std::function<Status(uint64_t offset_bytes)>;
  /// Answers StorageFile::threadWaits() in place of the file.
  using ThreadWaits = std::function<uint64_t()>;

  WatchedStorage(std::unique_ptr<Storage> storage, OnWrite on_write, ThreadWaits thread_waits = {})
      : storage_(std::move(storage)), on_write_(std::move(on_write)), thread_waits_(std::move(thread_waits)) {}

  Outcome<std::unique_ptr<StorageFile>> create(std::string_view name, uint64_t bytes) override {
    return watched(storage_->create(name, bytes));
  }
  Outcome<std::unique_ptr<StorageFile>> open(std::string_view name) override { return watched(storage_->open(name)); }
  Outcome<std::vector<std::string>> list() override { return storage_->list(); }
  Status remove(std::string_view name) override { return storage_->remove(name); }
  Outcome<StorageCapacity> capacity() override { return storage_->capacity(); }
  PowerEpoch powerEpoch() const override { return storage_->powerEpoch(); }

 private:
  class File final : public StorageFile {
   public:
    File(std::unique_ptr<StorageFile> file, const WatchedStorage& storage)
        : file_(std::move(file)), on_write_(storage.on_write_), thread_waits_(storage.thread_waits_) {}
    uint64_t bytes() const override { return file_->bytes(); }
    Status write(uint64_t offset_bytes, std::span<const ByteSpan> pieces) override {
      const Status status = on_write_(offset_bytes);
      return status == Status::Ok ? file_->write(offset_bytes, pieces) : status;
    }
    uint64_t threadWaits() const override { return thread_waits_ ? thread_waits_() : file_->threadWaits(); }
    Status read(uint64_t offset_bytes, MutableByteSpan out) override { return file_->read(offset_bytes, out); }
    void forgetCached(uint64_t offset_bytes, uint64_t bytes) override { file_->forgetCached(offset_bytes, bytes); }
    void flush(Flush& flush) override { file_->flush(flush); }
    bool isCondemned() const override { return file_->isCondemned(); }

   private:
    const std::unique_ptr<StorageFile> file_;
    const OnWrite& on_write_;
    const ThreadWaits& thread_waits_;
  };

  Outcome<std::unique_ptr<StorageFile>> watched(Outcome<std::unique_ptr<StorageFile>> file) {
    if (!file.ok()) return file;
    return std::unique_ptr<StorageFile>(std::make_unique<File>(std::move(file).value(), *this));
  }

  const std::unique_ptr<Storage> storage_;
  const OnWrite on_write_;
  const ThreadWaits thread_waits_;
};

}  // namespace ramcore::runtime
