#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "runtime/storage.h"

namespace ramcore::sim {

/// One file that can be read and nothing else, over bytes that somebody else owns: what a process that started now
/// would find. Outlives what is opened.
class PeekStorage final : public runtime::Storage {
 public:
  PeekStorage(ByteSpan bytes, runtime::PowerEpoch power_epoch) : bytes_(bytes), power_epoch_(power_epoch) {}

  ramcore::Outcome<std::unique_ptr<runtime::StorageFile>> open(std::string_view) override {
    if (bytes_.empty()) return Failure{Status::NotFound, "no such file"};
    return std::unique_ptr<runtime::StorageFile>(std::make_unique<File>(bytes_));
  }
  ramcore::Outcome<std::unique_ptr<runtime::StorageFile>> create(std::string_view, uint64_t) override {
    return refused();
  }
  ramcore::Outcome<std::vector<std::string>> list() override { return refused(); }
  Status remove(std::string_view) override { return Status::IoError; }
  ramcore::Outcome<runtime::StorageCapacity> capacity() override { return refused(); }
  runtime::PowerEpoch powerEpoch() const override { return power_epoch_; }

 private:
  class File final : public runtime::StorageFile {
   public:
    explicit File(ByteSpan bytes) : bytes_(bytes) {}
    uint64_t bytes() const override { return bytes_.size(); }
    bool isCondemned() const override { return false; }
    Status write(uint64_t, std::span<const ByteSpan>) override { return Status::IoError; }
    Status read(uint64_t offset_bytes, MutableByteSpan out) override {
      if (offset_bytes > bytes_.size() || out.size() > bytes_.size() - offset_bytes) return Status::BadRequest;
      std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset_bytes), out.size(), out.begin());
      return Status::Ok;
    }
    void flush(runtime::Flush&) override { RC_CHECK_MSG(false, "nothing is written here"); }

   private:
    ByteSpan bytes_;
  };
  static Failure refused() { return Failure{Status::IoError, "only for reading"}; }

  ByteSpan bytes_;
  runtime::PowerEpoch power_epoch_;
};

}  // namespace ramcore::sim
