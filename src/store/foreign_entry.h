#pragma once

#include <optional>

#include "base/ids.h"
#include "log/format/entry_view.h"

namespace ramcore::store {

/// The highest version that is taken from another server. Versions are counted up from what another server says, so it
/// must not bring this server near the end of the numbers.
inline constexpr Version kForeignVersionMax = kVersionMax / 2;
/// A tablet with versions above this is not taken over by a move. Its new owner gives out higher ones from then on, and
/// they have to stay below kForeignVersionMax, or nobody would recover that server's log.
inline constexpr Version kMovedVersionMax = kForeignVersionMax - (Version{1} << 50);

/// The key hash of an entry that another server has sent: the hash of its key, or the one that a result record names.
/// Nothing if no master can have logged the entry as contents of a tablet (objects, tombstones, result records).
/// @param entry  verified (log::decodeEntry)
std::optional<KeyHash> hashOfForeign(const log::EntryView& entry);

}  // namespace ramcore::store
