#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "tools/rcnic/probes/probe.h"

namespace ramcore::rcnic {

/// A probe over the endpoints of `shm` or `tcp`, as the product uses them: a transmission is a call whose request
/// carries the pieces, and is done when the answer of 8 bytes is there. Chunks are lent where the mode is zero-copy
/// (what that saves is what the transport makes of it: both copy in the end), and one chunk stands in a transmit buffer
/// where it is copy-out.
/// Failure: IoError.
Outcome<std::unique_ptr<Probe>> openEndpointProbe(const std::string& transport);

}  // namespace ramcore::rcnic
