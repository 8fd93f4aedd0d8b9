#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/checkers/history.h"

namespace ramcore::sim {

/// The state of one key after every client has stopped and every call that may still run has run or been refused.
struct FinalObject {
  HistoryKey key = 0;
  bool present = false;
  ObservedValue value = {};  ///< default if absent
  uint64_t version = 0;      ///< 0 if absent
};

/// Checks that no call ran twice and that nothing appeared that no call made. Needs no search, so it also judges
/// histories on which the linearizability checker gives up, and it names the broken promise:
/// - every value read (or left at the end) was written by a call to this key, invoked before the read returned, that
/// was
///   not refused ("value from nowhere");
/// - one write made one version: the one it was told, and the same in every read ("ran twice");
/// - a version of a key belongs to one value and to one call;
/// - a key that only increments touched holds, at the end and in every read, at least what had been acknowledged and at
///   most that plus what may have run ("double increment", "lost increment").
///
/// @param final_objects  the end state of every key of the workload, or empty if it was not read. Reads of the end
/// state
///                       belong into the history too, so that the linearizability checker sees them.
/// @return one line for each violation, without its end; empty if all is well.
/// Requires that non-integer values are unique in the history. Cost: n log n.
std::vector<std::string> checkExactlyOnce(const History& history, const std::vector<FinalObject>& final_objects);

}  // namespace ramcore::sim
