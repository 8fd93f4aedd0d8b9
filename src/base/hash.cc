#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ramcore {

KeyHash hashKey(TableId table, ByteSpan key) { return XXH3_64bits_withSeed(key.data(), key.size(), table.value); }

uint64_t fingerprint(ByteSpan bytes, uint64_t seed) { return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed); }

}  // namespace ramcore
