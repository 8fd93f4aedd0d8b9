#pragma once

#include "base/check.h"
#include "rpc/dispatch.h"
#include "runtime/sim/sim_executor.h"
#include "runtime/sim/sim_node.h"

namespace ramcore::sim {

/// Drives a process's rpc::Dispatch on a simulated thread: one step per event, asleep in between. Is the dispatch's
/// Sleeper: a wake schedules a step.
class SimDispatch final : public transport::Sleeper {
 public:
  SimDispatch(runtime::SimNode& node, const rpc::DispatchOptions& options)
      : SimDispatch(node, options, runtime::SimExecutor::Delays{}) {}
  SimDispatch(runtime::SimNode& node, const rpc::DispatchOptions& options, const runtime::SimExecutor::Delays& delays)
      : thread_(node.makeExecutor("dispatch", delays)),
        dispatch_(node.clock(), node.trace(), *this, options),
        step_(*this),
        deadline_(*this) {}
  ~SimDispatch() override { RC_CHECK_MSG(ended_, "end() comes before the endpoints go"); }
  /// The process ends: no more steps. While its endpoints still exist; before destruction (checked).
  void end() {
    if (asleep_) dispatch_.awake();
    asleep_ = false;
    dispatch_.finished();
    ended_ = true;
  }
  SimDispatch(const SimDispatch&) = delete;
  SimDispatch& operator=(const SimDispatch&) = delete;

  rpc::Dispatch& dispatch() { return dispatch_; }
  /// Some steps in the middle of a job of another thread of the process. False: there is none to be made now. One takes
  /// requests in, a later one carries them out.
  bool runBetween() {
    constexpr int kStepsMax = 8;
    int steps = 0;
    while (steps < kStepsMax && queued_ && !ended_ && thread_.drain(1) != 0) ++steps;
    return steps != 0;
  }
  /// Something may have come in: what the transport calls.
  void wake() override {
    if (queued_ || ended_) return;
    queued_ = true;
    thread_.post(step_);
  }
  /// Steps until nothing is left to do, out of simulated time: how the coroutines of a process that ended are unwound.
  /// @return false if `steps_max` did not suffice.
  bool drain(uint64_t steps_max) {
    if (asleep_) {
      asleep_ = false;
      dispatch_.awake();
    }
    for (uint64_t i = 0; i < steps_max; ++i) {
      if (!dispatch_.step()) return true;
    }
    return false;
  }

  /// Runs `action` on the dispatch, out of simulated time: how a process is told to end.
  template <typename Action>
  void runNow(Action action) {
    struct Once : runtime::Job {
      explicit Once(Action& what) : Job([](runtime::Job& job) { static_cast<Once&>(job).run_it(); }), action(what) {}
      void run_it() {
        action();
        has_run = true;
      }
      Action& action;
      bool has_run = false;
    };
    Once once(action);
    dispatch_.post(once, runtime::Priority::Membership);
    while (!once.has_run) {
      if (asleep_) dispatch_.awake();
      asleep_ = false;
      dispatch_.step();
    }
  }

  // The simulated thread sleeps by not being scheduled.
  void sleep(int64_t) override {}
  void watch(int) override {}
  void forget(int) override {}

 private:
  struct Step : runtime::Job {
    explicit Step(SimDispatch& owner)
        : Job([](runtime::Job& job) { static_cast<Step&>(job).owner.step(); }), owner(owner) {}
    SimDispatch& owner;
  };
  struct Deadline : runtime::Timer {
    explicit Deadline(SimDispatch& owner)
        : Timer([](runtime::Timer& timer) { static_cast<Deadline&>(timer).owner.onDeadline(); }), owner(owner) {}
    SimDispatch& owner;
  };
  void onDeadline() {
    if (!queued_) step();
  }
  void step() {
    if (ended_) return;
    queued_ = false;
    if (asleep_) {
      asleep_ = false;
      dispatch_.awake();
    }
    if (dispatch_.step() && !findsNothing()) return wake();
    if (!dispatch_.prepareSleep()) return wake();
    asleep_ = true;
    const int64_t earliest_ns = dispatch_.earliestNs();
    if (deadline_.isArmed() && deadline_.deadlineNs() == earliest_ns) return;
    deadline_.cancel();
    if (earliest_ns != runtime::kNever) thread_.arm(deadline_, earliest_ns);
  }
  // Only a round that finds nothing may be followed by sleep. Where nothing waits that one needs no event of its own:
  // whatever comes in between wakes the dispatch as well when it is asleep.
  bool findsNothing() {
    if (!dispatch_.prepareSleep()) return false;
    dispatch_.awake();
    return !dispatch_.step();
  }

  runtime::SimExecutor& thread_;
  rpc::Dispatch dispatch_;
  Step step_;
  Deadline deadline_;
  bool queued_ = false;
  bool asleep_ = false;
  bool ended_ = false;
};

}  // namespace ramcore::sim
