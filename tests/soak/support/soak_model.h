#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/random.h"
#include "store/object_store.h"

namespace ramcore::soak {

/// How long values are. Most of the bytes are never in objects near the largest size: those fit a segment badly
/// (docs/cleaning.md, "Limits").
enum class Sizes : uint8_t {
  Mixed,   ///< from tens of bytes to hundreds of kilobytes
  Small,   ///< 40 to 400 bytes
  Medium,  ///< 400 to 4000 bytes
  Broad,   ///< as Mixed, with ten times as many of tens of kilobytes
};
inline constexpr uint32_t kSizesCount = 4;

inline uint32_t drawBytes(Sizes sizes, uint32_t bytes_max, runtime::Random& random) {
  const uint64_t kind = random.below(1000);
  uint64_t bytes = random.between(40, 400);
  if (sizes == Sizes::Medium || (sizes != Sizes::Small && kind < 200)) bytes = random.between(400, 4000);
  if (sizes == Sizes::Broad && kind < 50) bytes = random.between(4'000, 64'000);
  if (sizes == Sizes::Mixed && kind < 5) bytes = random.between(4'000, 64'000);
  if ((sizes == Sizes::Mixed || sizes == Sizes::Broad) && kind < 1) bytes = random.between(64'000, 500'000);
  return static_cast<uint32_t>(std::min<uint64_t>(bytes, bytes_max));
}

/// Fills `out` with bytes that belong to `stamp` alone.
void fillValue(uint64_t stamp, MutableByteSpan out);
bool isValue(uint64_t stamp, ByteSpan bytes);

/// What the keys of one writer have to hold. One thread.
class SoakModel {
 public:
  struct Object {
    Version version = 0;  ///< the highest that the key ever had
    uint64_t stamp = 0;
    uint32_t bytes = 0;
    uint32_t place = 0;  ///< in order_
  };

  /// @param name  of the writer; two of them share no key
  SoakModel(std::string name, uint32_t key_count);

  uint32_t keyCount() const { return static_cast<uint32_t>(objects_.size()); }
  uint32_t presentCount() const { return present_count_; }
  uint32_t absentCount() const { return keyCount() - present_count_; }
  bool isPresent(uint32_t number) const { return objects_[number].place < present_count_; }
  const Object& at(uint32_t number) const { return objects_[number]; }
  std::string key(uint32_t number) const;
  /// Keys that are there, or are not; there has to be one. Some are drawn far more often than others.
  uint32_t drawPresent(runtime::Random& random) const;
  uint32_t drawAbsent(runtime::Random& random) const;
  /// Bytes that the log needs for the objects that are there.
  uint64_t entryBytes() const { return entry_bytes_; }

  void wrote(uint32_t number, Version version, uint64_t stamp, uint32_t bytes);
  void removed(uint32_t number);

  /// Empty, or what is wrong with what a store has under the key.
  std::string judge(uint32_t number, const store::Found& found) const;

 private:
  void moveTo(uint32_t number, uint32_t place);
  uint64_t entryBytesOf(uint32_t number) const;

  const std::string name_;
  std::vector<Object> objects_;
  std::vector<uint32_t> order_;  // those that are there come first
  uint32_t present_count_ = 0;
  uint64_t entry_bytes_ = 0;
};

}  // namespace ramcore::soak
