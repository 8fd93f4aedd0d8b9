#pragma once

#include <string>
#include <vector>

#include "durability/call.h"

namespace durability {

/// Judges the calls of one key. It gives a line for each thing that no correct store can have answered; empty: none.
///
/// A call was carried out at one moment between its start and its end; an unanswered call at any moment after its
/// start, or never; a refused call never. A *look* is a call whose answer shows a value, a version or that the key is
/// absent. "Before" below means: ended before the other one started. From this follow the rules:
///
/// A look that finds something (a read; a condition that failed or held; what a remove removed), as value, version or
/// both:
///  1. Its producer, the write or increment that made it, was called, started before the answer came and was not
///     refused. A value has one producer, because every write has a value of its own.
///  2. No acknowledged mutation lies between: started after the producer was acknowledged and ended before the look
///     started. So only the last acknowledged value is accepted, or one whose call overlaps it or is unanswered.
///  3. One version has one value, one value one version: also that of an unanswered write, once it was seen.
///  4. Versions do not go back: it is not lower than any version that was known before the look.
///  5. A value that was gone does not come back: its version is higher than every version that was known before the key
///     was found absent, or that a remove removed, if that was before the look.
/// A mutation that made a version:
///  6. The version is higher than every version known before the mutation started, and no other mutation has it.
/// A look that finds the key absent:
///  7. It was never there before, or some remove started before the answer came that is unanswered, or that took a
///     version not lower than every version known before the look.
/// Counters, which only grow by one:
///  8. A value is at least the number of increments acknowledged before the look, and at most the number of those that
///     started before the answer came and were not refused. A higher version has a higher value.
std::vector<std::string> checkKey(const std::vector<Call>& calls);

}  // namespace durability
