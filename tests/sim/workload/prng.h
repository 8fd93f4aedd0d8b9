#pragma once

#include <cstdint>

namespace ramcore::sim {

/// splitmix64: 8 bytes of state, so every client has a stream of its own that no other client's draws disturb. The same
/// numbers on every machine and with every standard library.
class Prng {
 public:
  explicit Prng(uint64_t seed) : state_(seed) {}
  /// The stream number `stream` of a seed.
  Prng(uint64_t seed, uint64_t stream) : state_(seed) { state_ = next() ^ (stream * 0xd1342543de82ef95); }

  uint64_t next() {
    uint64_t x = (state_ += 0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  /// Uniform in [0, bound), bound >= 1; the bias for bounds of a workload is below 2^-40.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  /// True in `permille` of 1000 draws.
  bool chance(uint32_t permille) { return below(1000) < permille; }

 private:
  uint64_t state_;
};

}  // namespace ramcore::sim
