#pragma once

#include "runtime/clock.h"
#include "runtime/job.h"
#include "runtime/timer.h"

namespace ramcore::runtime {

/// The order between background work, client calls and the cluster's own messages. Lower value first; every class has a
/// minimum share (see docs/threading.md).
enum class Priority : uint8_t {
  Membership = 0,  ///< leases, membership, fences
  Waited = 1,      ///< work that a client elsewhere already waits for: replica writes, priority pulls, recovery reads
  Client = 2,      ///< client operations
  Background = 3,  ///< repair, replay, bulk pulls, cleaning
};
inline constexpr size_t kPriorityCount = 4;

/// Functions that an executor calls around its work. With them a thread reports quiescent states for reclamation and
/// goes off line while it sleeps. Set before the executor runs. All are called on the executor's thread.
struct ExecutorHooks {
  void* context = nullptr;
  void (*on_start)(void*) = nullptr;     ///< before the first piece of work
  void (*on_stop)(void*) = nullptr;      ///< after the last one
  void (*after_round)(void*) = nullptr;  ///< nothing found in earlier pieces of work is held any more
  void (*before_sleep)(void*) = nullptr;
  void (*after_sleep)(void*) = nullptr;
};

/// Runs jobs one at a time, in an order of its own choosing within a priority. A coroutine belongs to one executor:
/// everything it awaits resumes it there. A real executor is the loop of a thread; a simulated one runs its jobs as
/// events that follow from a seed.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Queues `job`; it never runs inside this call. Any thread. The job must stay alive until it has run.
  virtual void post(Job& job, Priority priority) = 0;
  void post(Job& job) { post(job, Priority::Client); }

  /// True while the caller runs on this executor. Used by checks.
  virtual bool isCurrent() const = 0;

  /// Calls `timer` back on this executor at `deadline_ns`. From this executor only.
  virtual void arm(Timer& timer, int64_t deadline_ns) = 0;

  virtual Clock& clock() = 0;

  /// Changes whenever the thread has slept because there was no work. Between two calls with the same result the thread
  /// has waited only for what its own jobs made it wait for. From this executor only; a load of a word.
  virtual uint64_t sleeps() const = 0;
};

}  // namespace ramcore::runtime
