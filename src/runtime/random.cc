#include "runtime/random.h"

#include <algorithm>
#include <bit>

#include "base/hash.h"

namespace ramcore::runtime {
namespace {

uint64_t splitMix(uint64_t& state) {
  uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(uint64_t seed) : seed_(seed) {
  uint64_t mixer = seed;
  for (uint64_t& word : state_) word = splitMix(mixer);
}

Random Random::stream(std::string_view name) const { return Random(fingerprint(asBytes(name), seed_)); }

uint64_t Random::next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint64_t Random::below(uint64_t bound) {
  auto product = static_cast<unsigned __int128>(next()) * bound;
  auto low = static_cast<uint64_t>(product);
  if (low < bound) {
    const uint64_t threshold = (0 - bound) % bound;
    while (low < threshold) {
      product = static_cast<unsigned __int128>(next()) * bound;
      low = static_cast<uint64_t>(product);
    }
  }
  return static_cast<uint64_t>(product >> 64);
}

void SeededEntropy::fill(MutableByteSpan out) {
  while (!out.empty()) {
    const uint64_t word = random_.next();
    const size_t now = std::min(out.size(), sizeof(word));
    std::memcpy(out.data(), &word, now);
    out = out.subspan(now);
  }
}

}  // namespace ramcore::runtime
