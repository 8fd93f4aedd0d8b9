#pragma once

#include <deque>

#include "rpc/request.h"
#include "runtime/executor.h"
#include "runtime/timer.h"

namespace ramcore::master {

/// Holds mutations that cannot be carried out just now: the log has no room, because the next log head is not open yet
/// or the cleaner is about to give memory back; or the tablet is about to be handed over. Each is run again from its
/// first check (a waiting mutation has no other way to go on), and is refused with RetryLater when it has waited for
/// kWaitNs. A client that was refused at once would come back later than need be, and the later the more often it was
/// refused.
///
/// Mutations that wait are served in the order in which they came. A mutation that arrives meanwhile is tried at once,
/// and may be served before them. Only the first one is tried again at a time, so the cost of waiting does not grow
/// with the number that waits. That number is bounded by the request slots of sessions. Requests of sessions that have
/// ended leave the queue at their next turn, or after kWaitNs.
///
/// Each queue is for one kind of mutation: a mutation for which there may be room must not wait behind one for which
/// there is none.
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

  /// Takes the request, unless it has waited long enough, the queue was stopped, or the caller is not on the dispatch
  /// thread.
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
  bool has_come_back_ = false;  ///< the request that was tried is back in the queue
  bool stop_ = false;
};

}  // namespace ramcore::master
