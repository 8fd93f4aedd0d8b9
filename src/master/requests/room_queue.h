#pragma once

#include <deque>

#include "rpc/request.h"
#include "runtime/executor.h"
#include "runtime/timer.h"

namespace ramcore::master {

/// Mutations for which the log had no room just now: the next head is not open yet, or the cleaner is about to give
/// memory back. Each begins again from its first check (a mutation that waits has no other way), and is refused with
/// RetryLater when it has waited for kWaitNs. A client that was refused at once would come back later than there is
/// room, and the later the longer it has been put off.
///
/// Those that wait are served in the order in which they came; one that comes meanwhile is tried at once and may be
/// served before them. Only the first one is tried at a time, so what waiting costs does not grow with how many wait.
/// How many there can be is bounded by the request slots of sessions, and those of sessions that have ended leave with
/// their next turn, or after kWaitNs.
///
/// Of one kind each: a mutation for which there may be room must not wait behind one for which there is none.
///
/// Thread: the dispatch's.
class RoomQueue : private runtime::Timer {
 public:
  static constexpr int64_t kWaitNs = 20 * runtime::kNanosPerMilli;
  /// Runs a request again, which may come back through park().
  using Run = void (*)(void* context, rpc::Request request);

  RoomQueue(runtime::Executor& dispatch, Run run, void* context)
      : Timer([](Timer& timer) { static_cast<RoomQueue&>(timer).tryAgain(); }),
        dispatch_(dispatch),
        run_(run),
        context_(context) {}
  ~RoomQueue();

  /// Takes the request, unless it has waited long enough, or the queue was stopped, or this is another thread.
  /// @return whether it was taken
  bool park(rpc::Request& request);
  /// Refuses all that wait, and takes no more.
  void stop();
  size_t size() const { return waiting_.size(); }

 private:
  void tryAgain();

  runtime::Executor& dispatch_;
  const Run run_;
  void* const context_;
  std::deque<rpc::Request> waiting_;
  bool is_trying_ = false;
  bool has_come_back_ = false;  ///< the one that was tried
  bool stop_ = false;
};

}  // namespace ramcore::master
