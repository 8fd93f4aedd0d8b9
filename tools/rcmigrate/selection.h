#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/tablet_map.h"
#include "tools/rcmigrate/plan.h"

namespace ramcore::rcmigrate {

/// Which part of a table is to be moved.
struct Selection {
  std::optional<HashRange> range;  ///< nothing: the whole table
  ServerId from{};                 ///< only what is there; none: wherever it is
  /// By hashes: above 0, at most 1. Of what is at `from` now; without that, how much of all is to be at the
  /// destination, with what is there already.
  double fraction = 1;
};

/// Reads a key hash, as 0x8000000000000000, or as a decimal number. Nothing if the text is none.
std::optional<KeyHash> parseHash(const std::string& text);
/// Reads "FIRST-LAST", two key hashes as 'rcmigrate list' shows them. Failure: BadConfig, in one line.
Outcome<HashRange> parseRange(const std::string& text);

/// What has to be cut and moved so that this part of the table is at a server. Where it ends inside of a tablet, that
/// is cut. No steps if all of it is there. Pure.
std::vector<PlanStep> stepsFor(const client::TableMap& table, const Selection& selection, ServerId to);

}  // namespace ramcore::rcmigrate
