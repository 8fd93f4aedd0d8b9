#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "base/trace.h"
#include "transport/locator.h"

namespace ramcore::tools {

/// The locators by which other processes are told to reach a process that listens at `bound`
/// (transport/registry/advertising.h), with a line in the log for those that nobody has named. If the coordinator is on
/// another machine, locators that mean this machine only are left out, with a warning; it is an error if nothing else
/// is left.
/// @param wanted        of --advertise
/// @param coordinators  that a server uses; none: this is a coordinator, which others find by what people configure
Outcome<std::vector<transport::Locator>> whatToAdvertise(std::span<const transport::Locator> bound,
                                                         std::span<const transport::Locator> wanted,
                                                         std::span<const transport::Locator> coordinators,
                                                         Trace& trace);

}  // namespace ramcore::tools
