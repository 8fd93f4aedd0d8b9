#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "tools/rcnic/probes/probes.h"
#include "transport/locator.h"

namespace ramcore::rcnic {

/// A process that answers each request with 8 bytes, on a processor of its own, until this object is destroyed. (It is
/// a process of its own because the driver of memif does not survive both ends in one process.)
class Answerer {
 public:
  /// The process listens when this function returns. To be called before anything of DPDK is started in the calling
  /// process.
  /// Failure: that of the transport, as the process reports it.
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
