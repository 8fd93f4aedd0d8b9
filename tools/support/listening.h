#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "base/trace.h"
#include "runtime/random.h"
#include "transport/registry/listen_plan.h"
#include "transport/registry/registry.h"

namespace ramcore::tools {

/// Listens at the places that `wishes` stand for in this process (transport/registry/listen_plan.h). Returns the
/// locators of these places, that of tcp first if there is one. A transport that `all://` cannot have is left out with
/// a line in the log. The level of this line is info, but debug if nobody can have wanted that transport, and warning
/// if somebody else may be in the way. Failure: that of a place that is a must.
Outcome<std::vector<transport::Locator>> listenAt(transport::TransportSet& network,
                                                  std::span<const transport::ListenWish> wishes, bool has_secret,
                                                  runtime::Entropy& entropy, Trace& trace);

}  // namespace ramcore::tools
