#pragma once

#include <memory>

#include "base/result.h"
#include "tools/rcnic/probes/probe.h"
#include "tools/rcnic/probes/probes.h"

namespace ramcore::rcnic {

/// A probe over the endpoints of `shm`, `tcp` or `dpdk`, as the product uses them. A transmission is a call whose
/// request carries the pieces, and is done when the answer of 8 bytes is there. In the mode zero-copy the message
/// borrows the chunks (what that saves depends on the transport: shm and tcp copy in the end). In the mode copy-out the
/// message has one chunk, in a transmit buffer; but over dpdk the endpoint copies up to 32 chunks into its Ethernet
/// frames, which copyCycles() does not see.
/// Failure: BadConfig: ports; NoSpace, IoError.
Outcome<std::unique_ptr<Probe>> openEndpointProbe(const ProbeChoice& choice);

}  // namespace ramcore::rcnic
