#pragma once

#include <cstdint>
#include <optional>

#include "sim/checkers/history.h"

namespace ramcore::sim {

/// One key as the sequential specification sees it, including what can be known of the version the server chose.
///
/// The server may choose any version above all earlier ones of the key, also across remove and re-create. A call of
/// unknown outcome creates an unknown version: then only bounds are kept, which later answers make exact.
struct RegisterState {
  bool present = false;
  uint64_t version_min = 0;  ///< present: the version is at least this. Absent: the highest one ever is.
  uint64_t version_max = 0;  ///< present: the version is at most this. 0 while absent.
  ObservedValue value = {};  ///< default while absent

  bool operator==(const RegisterState&) const = default;
  bool isVersionKnown() const { return version_min == version_max; }
};

/// One step of the sequential specification: `operation` takes effect on `state` with the answer it got.
///
/// An operation with an unknown outcome takes effect with whatever answer fits, and is refused if it would change
/// nothing (leaving it out means the same).
/// @param created_version  the version a Write or Increment created; 0 if nobody knows.
/// @return the state after it, or nothing if the answer cannot be right in this state.
///
/// One wrong answer passes: a refusal of VersionEquals that does not name the present version, if the bounds of the
/// version alone do not show that it must have been the one asked for.
std::optional<RegisterState> apply(const RegisterState& state, const Operation& operation, uint64_t created_version);

}  // namespace ramcore::sim
