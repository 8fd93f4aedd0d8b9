#pragma once

#include "base/bytes.h"
#include "base/ids.h"

namespace ramcore {

/// The position of a key in the hash space of its table: XXH3-64 over the key, seeded with the table id. It decides the
/// tablet, the index bucket, the order of scans and the partition in a recovery, so it is a wire and disk format.
/// Cost: about 5 ns for a 30-byte key. Any thread.
KeyHash hashKey(TableId table, ByteSpan key);

/// XXH3-64 of bytes with a fixed seed; for fingerprints in tests and traces.
uint64_t fingerprint(ByteSpan bytes, uint64_t seed = 0);

}  // namespace ramcore
