#pragma once

#include <array>
#include <cstdint>
#include <memory>

struct evp_cipher_ctx_st;

namespace ramcore::transport::datagram {

/// AES-128 (FIPS 197) of single blocks under one key: a pseudorandom permutation for 14 instructions, where processors
/// have some for it (all that run servers since 2011). Elsewhere it is OpenSSL's, which takes about 100 ns for one
/// block.
///
/// (Not OpenSSL's everywhere: going through its interface for ciphers takes as long as all the rest of a packet.)
///
/// Thread: one at a time. Copies may share what OpenSSL's needs, so they belong to the same thread.
class AesBlock {
 public:
  using Key = std::array<uint8_t, 16>;
  using Block = std::array<uint64_t, 2>;  ///< bytes in the machine's order, the first eight first

  /// @param uses_instructions  false: OpenSSL's, also where processors have instructions; for tests.
  explicit AesBlock(const Key& key, bool uses_instructions = hasInstructions());
  static bool hasInstructions();

  Block encrypt(const Block& block) const { return cipher_ == nullptr ? encryptHere(block) : encryptElsewhere(block); }

 private:
  static constexpr int kRounds = 10;

  Block encryptHere(const Block& block) const;
  Block encryptElsewhere(const Block& block) const;

  alignas(16) std::array<std::array<uint8_t, 16>, kRounds + 1> round_keys_{};
  std::shared_ptr<evp_cipher_ctx_st> cipher_;
};

}  // namespace ramcore::transport::datagram
