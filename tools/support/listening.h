#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "base/trace.h"
#include "runtime/random.h"
#include "transport/registry/listen_plan.h"
#include "transport/registry/registry.h"

namespace ramcore::tools {

/// Listens at what `wishes` come to in this process (transport/registry/listen_plan.h), and gives the locators that
/// came of it, that of tcp first if there is one. What `all://` cannot have is left out with a line, at the level of
/// info unless nobody could want it (debug) or somebody else is in the way (warning). Failure: of what is wanted by all
/// means.
Outcome<std::vector<transport::Locator>> listenAt(transport::TransportSet& network,
                                                  std::span<const transport::ListenWish> wishes, bool has_secret,
                                                  runtime::Entropy& entropy, Trace& trace);

}  // namespace ramcore::tools
