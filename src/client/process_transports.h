#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/trace.h"
#include "runtime/clock.h"
#include "runtime/random.h"
#include "transport/transport.h"

namespace ramcore::client {

/// The real transports of one dispatch thread, put together: one endpoint each for tcp and shm, and the sleeper that
/// watches all of them.
class ProcessTransports {
 public:
  /// All borrowed; they outlive the object, as does the identity.
  ProcessTransports(runtime::Clock& clock, runtime::Entropy& entropy, Trace& trace,
                    const transport::Identity& identity);
  ~ProcessTransports();
  ProcessTransports(const ProcessTransports&) = delete;
  ProcessTransports& operator=(const ProcessTransports&) = delete;

  transport::Sleeper& sleeper();
  std::span<transport::Endpoint* const> endpoints() const;
  /// True if one of the endpoints can connect to `locator`.
  bool canReach(const transport::Locator& locator) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ramcore::client
