#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace ramcore::bench {

inline constexpr size_t kKeyBytes = 30;
inline constexpr size_t kValueBytes = 100;

/// Keys of 30 bytes in a random order without repetition, in memory one after the other: choosing one costs the client
/// nearly nothing, and for the server it is a uniform choice that meets no cache.
class Keys {
 public:
  explicit Keys(uint64_t count, uint64_t seed = 1) : bytes_(count * kStride), count_(count) {
    std::vector<uint32_t> order(count);
    for (uint64_t i = 0; i < count; ++i) order[i] = static_cast<uint32_t>(i);
    uint64_t state = seed;
    for (uint64_t i = count; i > 1; --i) std::swap(order[i - 1], order[next(state) % i]);
    for (uint64_t i = 0; i < count; ++i) write(order[i], &bytes_[i * kStride]);
  }
  uint64_t count() const { return count_; }
  std::string_view at(uint64_t i) const { return {&bytes_[i * kStride], kKeyBytes}; }
  /// The next of an endless walk.
  std::string_view next() {
    if (++at_ >= count_) at_ = 0;
    return at(at_);
  }

 private:
  static constexpr size_t kStride = 32;
  static uint64_t next(uint64_t& state) {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  static void write(uint64_t number, char* to) {
    std::memcpy(to, "object/0000000000000000000000000", kKeyBytes);
    for (char* digit = to + kKeyBytes - 1; number != 0; number /= 10) *digit-- = static_cast<char>('0' + number % 10);
  }

  std::vector<char> bytes_;
  uint64_t count_;
  uint64_t at_ = 0;
};

}  // namespace ramcore::bench
