#pragma once

#include <array>
#include <cstdint>
#include <memory>

struct evp_cipher_ctx_st;

namespace ramcore::transport::datagram {

/// AES-128 (FIPS 197) of single blocks under one key, as a pseudorandom permutation. It takes 14 instructions on
/// processors that have instructions for it (all that run servers since 2011). On others OpenSSL computes it, in about
/// 100 ns for one block.
///
/// (OpenSSL is not used everywhere: a call through its cipher interface takes as long as all other work for a packet.)
///
/// Thread: one at a time. Copies may share an OpenSSL context, so they belong to the same thread.
class AesBlock {
 public:
  using Key = std::array<uint8_t, 16>;
  using Block = std::array<uint64_t, 2>;  ///< bytes in the machine's order, the first eight first

  /// @param uses_instructions  false: OpenSSL computes it even if the processor has instructions; for tests.
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
