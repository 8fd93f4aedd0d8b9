#pragma once

#include <cstdint>

#include "log/log_config.h"

namespace ramcore::log {

/// What a log takes on top of LogConfig::memory_bytes: for its segments and seglets, and for each two segments of which
/// one holds tombstones that name the other (TombstoneCounts); of those as many as there are if a sixteenth of the
/// memory is tombstones of objects from all over it. Never more for those than about what the tombstones take
/// themselves.
uint64_t bookkeepingBytes(const LogConfig& config);

}  // namespace ramcore::log
