#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/bytes.h"
#include "base/check.h"

namespace ramcore::transport::datagram {

__extension__ using Wide = unsigned __int128;

/// NH (Black et al., UMAC, CRYPTO 1999, section 4.2) of 64-bit words: each word is added to one of the key, neighbours
/// are multiplied to 128 bits, and the products are added. If two different inputs of one length are chosen without
/// knowledge of the key, their hashes differ by any given amount with a probability of 2^-64. The multiplications do
/// not wait for each other.
template <size_t kCount>
Wide nh(const std::array<uint64_t, kCount>& words, const uint64_t* key) {
  static_assert(kCount % 2 == 0);
  Wide sum = 0;
  for (size_t i = 0; i < kCount; i += 2) sum += static_cast<Wide>(words[i] + key[i]) * (words[i + 1] + key[i + 1]);
  return sum;
}

/// NH of `bytes` bytes, a multiple of 16.
inline Wide nh(const std::byte* at, size_t bytes, const uint64_t* key) {
  Wide sum = 0;
  for (const std::byte* const end = at + bytes; at != end; at += 2 * sizeof(uint64_t), key += 2) {
    uint64_t low = loadAs<uint64_t>(at) + key[0];
    const uint64_t high = loadAs<uint64_t>(at + sizeof(uint64_t)) + key[1];
    // Without this, compilers add both at once in a vector register, where they cannot multiply. That takes twice the
    // instructions.
    asm("" : "+r"(low));
    sum += static_cast<Wide>(low) * high;
  }
  return sum;
}

/// The key of a UniversalHash, random words.
struct UniversalKey {
  static constexpr size_t kBlockBytes = 1024;
  static constexpr size_t kBytesMax = 9 * kBlockBytes;

  std::array<uint64_t, kBlockBytes / sizeof(uint64_t)> block{};
  std::array<uint64_t, 2 * kBytesMax / kBlockBytes> sums{};
};

/// The hash of bytes that come in pieces: NH of each block of 1 KB, under one key for all of them, and, if there is
/// more than one block, NH of these results. If two different inputs of one length are chosen without knowledge of the
/// key, their hashes differ by any given amount with a probability of 2^-64, or 2^-63 if they are longer than a block.
/// The caller has to tell lengths apart. Cost: 16 bytes in one to two cycles.
class UniversalHash {
 public:
  /// @param key  borrowed
  explicit UniversalHash(const UniversalKey& key) : key_(key) {}

  /// Adds a piece. All pieces together have at most UniversalKey::kBytesMax bytes (checked).
  void add(ByteSpan piece) {
    if (held_ != 0) {
      const size_t some = std::min(piece.size(), kPairBytes - held_);
      if (some == 0) return;
      std::memcpy(pair_.data() + held_, piece.data(), some);
      held_ += some;
      if (held_ < kPairBytes) return;
      held_ = 0;
      mix(pair_);
      piece = piece.subspan(some);
    }
    const size_t whole = piece.size() - piece.size() % kPairBytes;
    mix(piece.first(whole));
    held_ = piece.size() - whole;
    if (held_ != 0) std::memcpy(pair_.data(), piece.data() + whole, held_);
  }

  /// The hash of one piece that fits into a block: the most common case, which needs no state.
  static Wide ofShort(const UniversalKey& key, ByteSpan piece) {
    RC_DCHECK(piece.size() <= UniversalKey::kBlockBytes);
    const size_t rest = piece.size() % kPairBytes;
    const size_t whole = piece.size() - rest;
    const Wide sum = nh(piece.data(), whole, key.block.data());
    if (rest == 0) return sum;
    const std::byte* const last = piece.data() + whole;
    return sum + nh(whole != 0 ? lastPairBehind(last, rest) : lastPair(last, rest),
                    key.block.data() + whole / sizeof(uint64_t));
  }

  /// Adds the last piece and returns the hash.
  Wide finish(ByteSpan piece) {
    if (held_ != 0) {
      add(piece);
      if (held_ != 0) mixPair(lastPair(pair_.data(), held_));
    } else {
      const size_t rest = piece.size() % kPairBytes;
      mix(piece.first(piece.size() - rest));
      if (rest != 0) mixPair(lastPair(piece.data() + piece.size() - rest, rest));
    }
    if (block_ == 0) [[likely]]
      return sum_;
    if (at_ != 0) endBlock();
    return sums_;
  }

 private:
  static constexpr size_t kPairBytes = 2 * sizeof(uint64_t);
  using Pair = std::array<uint64_t, 2>;

  /// The last 1 to 15 bytes, padded with zeros. It copies nothing of a length that the compiler does not know: such
  /// copies are calls.
  static Pair lastPair(const std::byte* at, size_t bytes) {
    const auto upTo8 = [](const std::byte* from, size_t count) -> uint64_t {
      if (count >= 4) {
        const uint64_t high = loadAs<uint32_t>(from + count - 4);
        return loadAs<uint32_t>(from) | high << 8 * (count - 4);
      }
      uint64_t word = 0;
      for (size_t i = 0; i < count; ++i) word |= static_cast<uint64_t>(from[i]) << 8 * i;
      return word;
    };
    if (bytes < 8) return {upTo8(at, bytes), 0};
    return {loadAs<uint64_t>(at), upTo8(at + 8, bytes - 8)};
  }

  /// lastPair() where at least 16 bytes stand in front of them, which may be read.
  static Pair lastPairBehind(const std::byte* at, size_t bytes) {
    const std::byte* const from = at + bytes - kPairBytes;
    Wide pair = loadAs<uint64_t>(from) | static_cast<Wide>(loadAs<uint64_t>(from + sizeof(uint64_t))) << 64;
    pair >>= 8 * (kPairBytes - bytes);
    return {static_cast<uint64_t>(pair), static_cast<uint64_t>(pair >> 64)};
  }

  void mixPair(const Pair& pair) {
    if (at_ == key_.block.size()) endBlock();
    sum_ += nh(pair, key_.block.data() + at_);
    at_ += pair.size();
  }

  /// Mixes in whole pairs.
  void mix(ByteSpan pairs) {
    while (!pairs.empty()) {
      // A block ends only when more comes: most payloads have no more than one.
      if (at_ == key_.block.size()) endBlock();
      const size_t run = std::min(pairs.size(), (key_.block.size() - at_) * sizeof(uint64_t));
      sum_ += nh(pairs.data(), run, key_.block.data() + at_);
      at_ += run / sizeof(uint64_t);
      pairs = pairs.subspan(run);
    }
  }

  void endBlock() {
    RC_CHECK_MSG(block_ < key_.sums.size(), "a payload that is longer than any");
    const std::array<uint64_t, 2> made = {static_cast<uint64_t>(sum_), static_cast<uint64_t>(sum_ >> 64)};
    sums_ += nh(made, key_.sums.data() + block_);
    block_ += made.size();
    sum_ = 0;
    at_ = 0;
  }

  const UniversalKey& key_;
  Wide sum_ = 0;      // sum of this block
  size_t at_ = 0;     // words of this block
  Wide sums_ = 0;     // sum of the blocks before it
  size_t block_ = 0;  // words that these blocks made
  size_t held_ = 0;   // bytes that are no whole pair yet
  std::array<std::byte, kPairBytes> pair_;
};

}  // namespace ramcore::transport::datagram
