#pragma once

#include <emmintrin.h>

#include <vector>

#include "bench/support/workload.h"
#include "log/format/entry_writer.h"

namespace ramcore::bench {

/// The bytes of a segment full of objects, as a backup keeps them.
class SegmentImage {
 public:
  static constexpr size_t kSegmentBytes = 8 << 20;

  /// Objects `first`, `first` + 1, ... of `keys`, as many as fit.
  SegmentImage(const Keys& keys, uint64_t first, TableId table, uint64_t value_bytes = kValueBytes) {
    bytes_.resize(kSegmentBytes);
    const std::vector<std::byte> value(value_bytes, std::byte{'v'});
    const ByteSpan payload(value);
    size_t at = 0;
    for (uint64_t number = first; number < keys.count(); ++number) {
      const log::EntryInput input{.type = log::EntryType::Object,
                                  .table = table,
                                  .version = number + 1,
                                  .key = asBytes(keys.at(number)),
                                  .payload = std::span(&payload, 1)};
      if (at + input.alignedBytes() > bytes_.size()) break;
      log::writeEntry(bytes_.data() + at, input, false, {});
      at += input.alignedBytes();
      ++objects_;
    }
    bytes_.resize(at);
  }
  ByteSpan bytes() const { return bytes_; }
  uint64_t objects() const { return objects_; }

  /// Out of all caches, as it is when it comes from a disk or another machine.
  void cool() const {
    for (size_t i = 0; i < bytes_.size(); i += 64) _mm_clflush(bytes_.data() + i);
    _mm_mfence();
  }

 private:
  std::vector<std::byte> bytes_;
  uint64_t objects_ = 0;
};

}  // namespace ramcore::bench
