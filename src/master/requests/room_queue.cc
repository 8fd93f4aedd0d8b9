#include "master/requests/room_queue.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace ramcore::master {
namespace {

// Memory comes back within some milliseconds, and a look costs less than a microsecond.
constexpr int64_t kLookNs = 100 * runtime::kNanosPerMicro;
// Other work of the dispatch thread gets its turn after this many.
constexpr int kRunsMax = 64;

}  // namespace

RoomQueue::~RoomQueue() { RC_CHECK_MSG(waiting_.empty(), "requests still wait for room"); }

bool RoomQueue::park(rpc::Request& request) {
  if (!dispatch_.isCurrent() || stop_) return false;
  const int64_t now_ns = dispatch_.clock().nowNs();
  if (now_ns - request.arrivalNs() >= kWaitNs) return false;
  if (is_trying_) {
    has_come_back_ = true;
    waiting_.push_front(std::move(request));
    return true;
  }
  waiting_.push_back(std::move(request));
  if (!isArmed()) dispatch_.arm(*this, now_ns + kLookNs);
  return true;
}

void RoomQueue::tryAgain() {
  is_trying_ = true;
  has_come_back_ = false;
  for (int i = 0; i < kRunsMax && !waiting_.empty() && !has_come_back_; ++i) {
    rpc::Request first = std::move(waiting_.front());
    waiting_.pop_front();
    if (first.isSessionOpen()) {
      run_(context_, std::move(first));
    } else {
      first.reply(Status::RetryLater);
    }
  }
  is_trying_ = false;
  if (!waiting_.empty()) dispatch_.arm(*this, dispatch_.clock().nowNs() + (has_come_back_ ? kLookNs : 0));
}

void RoomQueue::stop() {
  stop_ = true;
  cancel();
  while (!waiting_.empty()) {
    waiting_.front().reply(Status::RetryLater);
    waiting_.pop_front();
  }
}

}  // namespace ramcore::master
