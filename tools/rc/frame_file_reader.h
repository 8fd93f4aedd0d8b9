#pragma once

#include <memory>
#include <string>

#include "backup/frame_inspection.h"
#include "base/result.h"

namespace ramcore::rc {

/// The frame file of a server that does not run, opened to be read. While this object lives no server can start on the
/// directory: the object has the directory's lock, shared with other readers. One thread at a time.
class FrameFileReader final : public backup::FrameBytes {
 public:
  /// @param path  of the file, or of a server's --storage directory. A file without a `lock` beside it is a copy.
  /// Failure, for a person: InUse (a server runs on it), NotFound, IoError.
  static Outcome<std::unique_ptr<FrameFileReader>> open(const std::string& path);
  FrameFileReader(const FrameFileReader&) = delete;
  FrameFileReader& operator=(const FrameFileReader&) = delete;
  ~FrameFileReader() override;

  /// The path of the file itself, also where a directory was given.
  const std::string& path() const { return path_; }
  uint64_t bytes() const override { return bytes_; }
  Status read(uint64_t offset_bytes, MutableByteSpan out) override;

 private:
  FrameFileReader(std::string path, int lock_descriptor) : path_(std::move(path)), lock_(lock_descriptor) {}
  Failure failed(const std::string& what) const;

  const std::string path_;
  const int lock_;  // -1: there is none
  int file_ = -1;
  uint64_t bytes_ = 0;
};

}  // namespace ramcore::rc
