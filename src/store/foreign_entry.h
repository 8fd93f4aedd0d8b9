#pragma once

#include <optional>

#include "base/ids.h"
#include "log/format/entry_view.h"

namespace ramcore::master {

/// Versions are counted up from what another server says: it may not put us near the end of the numbers.
inline constexpr Version kForeignVersionMax = kVersionMax / 2;

/// Where an entry that another server sent belongs: the hash of its key, or the one that a result record names. Nothing
/// if no master can have logged it as contents of a tablet (objects, tombstones, result records).
/// @param entry  verified (log::decodeEntry)
std::optional<KeyHash> hashOfForeign(const log::EntryView& entry);

}  // namespace ramcore::master
