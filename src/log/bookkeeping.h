#pragma once

#include <cstdint>

#include "log/memory/log_config.h"

namespace ramcore::log {

/// The memory, in bytes, that a log takes on top of LogConfig::memory_bytes: for its segments and seglets, and for each
/// pair of segments of which one holds tombstones that name the other (TombstoneCounts). The number of pairs is
/// computed for a memory of which a sixteenth is tombstones, written or due, for keys of 16 bytes, and in which every
/// segment holds tombstones that name every other segment. Overwriting small objects all over the memory leads to this
/// state.
uint64_t bookkeepingBytes(const LogConfig& config);

}  // namespace ramcore::log
