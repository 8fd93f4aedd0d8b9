#pragma once

#include <memory>

#include "base/result.h"
#include "tools/rcnic/probes/probe.h"
#include "tools/rcnic/probes/probes.h"

namespace ramcore::rcnic {

/// A probe over the endpoints of `shm`, `tcp` or `dpdk`, as the product uses them: a transmission is a call whose
/// request carries the pieces, and is done when the answer of 8 bytes is there. Chunks are lent where the mode is
/// zero-copy (what that saves is what the transport makes of it: shm and tcp copy in the end). Where it is copy-out,
/// one chunk stands in a transmit buffer; but over dpdk the endpoint copies up to 32 of them into its frames, which
/// copyCycles() does not see.
/// Failure: BadConfig: ports; NoSpace, IoError.
Outcome<std::unique_ptr<Probe>> openEndpointProbe(const ProbeChoice& choice);

}  // namespace ramcore::rcnic
