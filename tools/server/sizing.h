#pragma once

#include <cstdint>

#include "log/memory/log_config.h"

namespace ramcore::tools {

/// Sizes that follow from --memory and --replicas. Pure.

/// Less memory holds next to nothing: a log keeps seven segments apart for its head and the cleaner, and segments
/// cannot be smaller than the largest entries allow.
inline constexpr uint64_t kMemoryBytesMin = uint64_t{48} << 20;

/// The storage, in bytes, that each server needs where all servers are alike: the replicas of as many segments as a
/// full memory has, in the three quarters of the storage that log heads for writes may take. With less in all, a
/// restart of all servers at once may find no storage frames for what it has to bring back.
uint64_t storageBytesNeeded(const log::LogConfig& log, uint32_t replicas);
/// The default of --storage-bytes: an eighth more than that, in steps of 64 MiB. Without replicas it is the same as
/// with one: other servers may keep theirs here.
uint64_t storageBytesDefault(const log::LogConfig& log, uint32_t replicas);

}  // namespace ramcore::tools
