#pragma once

#include <cstdint>

#include "log/memory/log_config.h"

namespace ramcore::tools {

/// Sizes that follow from --memory and --replicas. Pure.

/// Less memory holds next to nothing: a log keeps seven segments apart for its head and the cleaner, and segments
/// cannot be smaller than the largest entries allow.
inline constexpr uint64_t kMemoryBytesMin = uint64_t{48} << 20;

/// What a server's storage has to hold where all servers are alike, in bytes: the copies of as many segments as a full
/// memory has, in the three quarters that heads of writes may take of it. With less in all, a restart of all servers at
/// once may find no places for what it has to bring back.
uint64_t storageBytesNeeded(const log::LogConfig& log, uint32_t replicas);
/// What --storage-bytes is unless it is given: an eighth more than that, in steps of 64 MiB. Without replicas as with
/// one: others may keep theirs here.
uint64_t storageBytesDefault(const log::LogConfig& log, uint32_t replicas);

}  // namespace ramcore::tools
