#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "base/trace.h"
#include "transport/locator.h"

namespace ramcore::tools {

/// The locators by which others are told to reach a process that listens at `bound` (transport/registry/advertising.h),
/// with a line for what nobody has named. What means this machine only is not told where the coordinator is on another
/// one, with a warning; it is an error where nothing else is left.
/// @param wanted        of --advertise
/// @param coordinators  whom a server asks; none: this is a coordinator, which is found by what people write
Outcome<std::vector<transport::Locator>> whatToAdvertise(std::span<const transport::Locator> bound,
                                                         std::span<const transport::Locator> wanted,
                                                         std::span<const transport::Locator> coordinators,
                                                         Trace& trace);

}  // namespace ramcore::tools
