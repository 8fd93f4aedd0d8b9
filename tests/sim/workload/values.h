#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/checkers/history.h"

namespace ramcore::sim {

/// The bytes of a workload key, e.g. "key-00000000000000000012". Distinct keys give distinct bytes, at most 64 of them;
/// the length varies with the key.
std::string keyBytes(HistoryKey key);

/// The key that has these bytes, or nothing if no key of the workload does (an object from nowhere).
std::optional<HistoryKey> keyOfBytes(std::string_view bytes);

/// A value nobody else writes: begins with the id, the rest follows from it, so one wrong byte anywhere shows.
/// @param id          unique in the run.
/// @param value_bytes at least 9: values of 8 bytes are integers.
std::string uniqueValueBytes(uint64_t id, uint32_t value_bytes);

/// 8 bytes, little-endian.
std::string integerBytes(uint64_t number);

/// What the history records of a value: the integer if it has 8 bytes, else a 64-bit fingerprint of all its bytes.
ObservedValue observe(std::string_view value);

}  // namespace ramcore::sim
