#include "transport/datagram/aes_block.h"

#include <cstring>

#include <openssl/evp.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/check.h"

namespace ramcore::transport::datagram {

#if defined(__x86_64__)
namespace {

// The constant of a round is a part of the instruction.
template <int kConstant>
__attribute__((target("aes,sse4.1"))) __m128i nextRoundKey(__m128i key) {
  const __m128i assist = _mm_shuffle_epi32(_mm_aeskeygenassist_si128(key, kConstant), 0xff);
  key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
  key = _mm_xor_si128(key, _mm_slli_si128(key, 8));
  return _mm_xor_si128(key, assist);
}

// FIPS 197, section 5.2.
__attribute__((target("aes,sse4.1"))) void expandKey(const AesBlock::Key& key, std::array<uint8_t, 16>* round_keys) {
  __m128i round = _mm_loadu_si128(reinterpret_cast<const __m128i*>(key.data()));
  const auto keep = [&] { _mm_store_si128(reinterpret_cast<__m128i*>((round_keys++)->data()), round); };
  keep();
  round = nextRoundKey<0x01>(round), keep();
  round = nextRoundKey<0x02>(round), keep();
  round = nextRoundKey<0x04>(round), keep();
  round = nextRoundKey<0x08>(round), keep();
  round = nextRoundKey<0x10>(round), keep();
  round = nextRoundKey<0x20>(round), keep();
  round = nextRoundKey<0x40>(round), keep();
  round = nextRoundKey<0x80>(round), keep();
  round = nextRoundKey<0x1b>(round), keep();
  round = nextRoundKey<0x36>(round), keep();
}

}  // namespace

bool AesBlock::hasInstructions() {
  static const bool has = __builtin_cpu_supports("aes") != 0;
  return has;
}

__attribute__((target("aes,sse4.1"))) AesBlock::Block AesBlock::encryptHere(const Block& block) const {
  const auto* const keys = reinterpret_cast<const __m128i*>(round_keys_.data());
  __m128i state = _mm_xor_si128(_mm_set_epi64x(static_cast<int64_t>(block[1]), static_cast<int64_t>(block[0])),
                                _mm_load_si128(keys));
  for (int round = 1; round < kRounds; ++round) state = _mm_aesenc_si128(state, _mm_load_si128(keys + round));
  state = _mm_aesenclast_si128(state, _mm_load_si128(keys + kRounds));
  return {static_cast<uint64_t>(_mm_cvtsi128_si64(state)), static_cast<uint64_t>(_mm_extract_epi64(state, 1))};
}
#else
namespace {

void expandKey(const AesBlock::Key&, std::array<uint8_t, 16>*) {}

}  // namespace

bool AesBlock::hasInstructions() { return false; }

AesBlock::Block AesBlock::encryptHere(const Block& block) const { return encryptElsewhere(block); }
#endif

AesBlock::AesBlock(const Key& key, bool uses_instructions) {
  if (uses_instructions && hasInstructions()) {
    expandKey(key, round_keys_.data());
    return;
  }
  cipher_.reset(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  RC_CHECK_MSG(cipher_ != nullptr &&
                   EVP_EncryptInit_ex(cipher_.get(), EVP_aes_128_ecb(), nullptr, key.data(), nullptr) == 1 &&
                   EVP_CIPHER_CTX_set_padding(cipher_.get(), 0) == 1,
               "the crypto library cannot compute AES-128");
}

AesBlock::Block AesBlock::encryptElsewhere(const Block& block) const {
  Block out{};
  int bytes = 0;
  const int done = EVP_EncryptUpdate(cipher_.get(), reinterpret_cast<unsigned char*>(out.data()), &bytes,
                                     reinterpret_cast<const unsigned char*>(block.data()), sizeof(block));
  RC_CHECK(done == 1 && bytes == sizeof(block));
  return out;
}

}  // namespace ramcore::transport::datagram
