#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "log/memory/log_config.h"
#include "runtime/real/memory_limit.h"

namespace ramcore::tools {

/// The configuration of the log of a server that is given this much memory.
log::LogConfig logConfigOf(uint64_t memory_bytes);

/// What comes on top of the log's memory: the index, as large as objects of a hundred bytes make it, what the log keeps
/// of its segments and tombstones, and some for messages, sessions and other bookkeeping.
uint64_t bytesBeside(uint64_t memory_bytes);

/// Judges --memory before anything is mapped or touched.
/// @param wanted  nullopt: as much as fits into what is free
/// Returns the memory of the log. Failure: BadConfig.
Outcome<uint64_t> chooseMemory(std::optional<uint64_t> wanted, const runtime::MemoryLimit& limit);

}  // namespace ramcore::tools
