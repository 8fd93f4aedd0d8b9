#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "tools/rcnic/probes/probes.h"
#include "transport/locator.h"

namespace ramcore::rcnic {

/// A process that answers each request with 8 bytes, on a processor of its own, until this is destroyed. (A process,
/// because the driver of memif does not survive both ends in one.)
class Answerer {
 public:
  /// It listens when this returns. Called before anything of DPDK is started here.
  /// Failure: of the transport, as the process says it.
  static Outcome<std::unique_ptr<Answerer>> start(const ProbeChoice& choice, const std::string& secret,
                                                  const transport::Locator& where);
  ~Answerer();
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

  const transport::Locator& place() const { return place_; }

 private:
  Answerer(pid_t process, transport::Locator place) : process_(process), place_(std::move(place)) {}

  const pid_t process_;
  const transport::Locator place_;
};

}  // namespace ramcore::rcnic
