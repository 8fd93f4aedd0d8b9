#include "master/replication/log_requests.h"

#include <algorithm>

namespace ramcore::master {

void LogRequests::add(const LogRequest& request) {
  using Kind = LogRequest::Kind;
  {
    SpinGuard guard(lock_);
    // Consecutive requests to wait for bytes of one segment become one: the one that waits for the most bytes.
    const bool waits = request.kind == Kind::Durable || request.kind == Kind::Flush;
    if (waits && !queued_.empty() && queued_.back().kind == request.kind && queued_.back().id == request.id) {
      queued_.back().bytes = std::max(queued_.back().bytes, request.bytes);
    } else {
      queued_.push_back(request);
    }
  }
  wake();
}

std::vector<LogRequest> LogRequests::take() {
  std::vector<LogRequest> taken;
  SpinGuard guard(lock_);
  taken.swap(queued_);
  return taken;
}

}  // namespace ramcore::master
