#pragma once

#include <memory>

#include "base/result.h"
#include "tools/rcnic/probes/probes.h"

namespace ramcore::rcnic {

/// A probe over libibverbs itself: one reliable connected queue pair at each end, nothing of the product's protocol.
/// Failure: BadConfig: no device, or not the one asked for; NoSpace: the limit of locked memory; IoError.
Outcome<std::unique_ptr<Probe>> openVerbsProbe(const ProbeChoice& choice);
/// The devices of this machine, or why there are none.
TransportListing listVerbs();

}  // namespace ramcore::rcnic
