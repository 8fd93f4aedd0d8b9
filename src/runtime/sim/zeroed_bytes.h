#pragma once

#include <cstddef>
#include <utility>

#include "base/check.h"

namespace ramcore::runtime {

/// The bytes of a simulated disk: a fixed number, all zero at first. Pages that were never written cost neither time
/// nor memory, and most of a simulated disk is never written.
class ZeroedBytes {
 public:
  ZeroedBytes() = default;
  ZeroedBytes(const ZeroedBytes&) = delete;
  ZeroedBytes(ZeroedBytes&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  ZeroedBytes& operator=(const ZeroedBytes&) = delete;
  ZeroedBytes& operator=(ZeroedBytes&&) = delete;
  ~ZeroedBytes();

  /// Sets the number of bytes; called once.
  void resize(size_t size);
  size_t size() const { return size_; }
  std::byte* begin() { return bytes_; }
  const std::byte* begin() const { return bytes_; }
  std::byte& operator[](size_t at) { return bytes_[at]; }

 private:
  std::byte* bytes_ = nullptr;
  size_t size_ = 0;
};

}  // namespace ramcore::runtime
