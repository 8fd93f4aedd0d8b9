#pragma once

#include <cstdint>

#include "log/memory/log_config.h"

namespace ramcore::log {

/// What a log takes on top of LogConfig::memory_bytes: for its segments and seglets, and for each two segments of which
/// one holds tombstones that name the other (TombstoneCounts); of those as many as there are if a sixteenth of the
/// memory is tombstones, written or due, of keys of 16 bytes, and every segment has some of every other one: what
/// overwriting small objects all over the memory comes to.
uint64_t bookkeepingBytes(const LogConfig& config);

}  // namespace ramcore::log
