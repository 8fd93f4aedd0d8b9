#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/random.h"
#include "runtime/sim/sim_clock.h"
#include "runtime/sim/sim_executor.h"
#include "runtime/sim/sim_scheduler.h"
#include "runtime/sim/sim_trace.h"

namespace ramcore::runtime {

/// One simulated process: its clock, trace, entropy and threads. What it runs gets these instead of the real ones.
///
/// A restarted process is a new SimNode with another name for its streams ("server2#3"), so that it does not repeat the
/// draws of its former incarnation.
class SimNode {
 public:
  /// @param name  unique in the run; names the random streams and stands in trace lines
  SimNode(SimScheduler& scheduler, SimTraceLog& log, std::string_view name, const SimClock::Options& clock_options);
  SimNode(const SimNode&) = delete;
  SimNode& operator=(const SimNode&) = delete;

  const std::string& name() const { return name_; }
  SimScheduler& scheduler() { return scheduler_; }
  SimClock& clock() { return clock_; }
  SimTrace& trace() { return trace_; }
  Entropy& entropy() { return entropy_; }
  /// A stream of this node for the component called `component`.
  Random stream(std::string_view component) const;

  /// One more thread; lives as long as the node.
  SimExecutor& makeExecutor(std::string_view name);
  SimExecutor& makeExecutor(std::string_view name, const SimExecutor::Delays& delays);

  /// As SIGSTOP and SIGCONT: no thread runs, messages wait in the buffers of the network, clocks go on.
  void pause();
  void resume();
  bool isPaused() const { return paused_; }
  /// The first half of kill -9: no thread runs ever again. See SimExecutor::kill and `drain`.
  void kill();
  /// Runs what is queued on all threads until none has anything left, out of simulated time; see SimExecutor::drain.
  /// @return false if `jobs_max` did not suffice
  bool drain(uint64_t jobs_max);

 private:
  SimScheduler& scheduler_;
  std::string name_;
  SimClock clock_;
  SimTrace trace_;
  SeededEntropy entropy_;
  std::vector<std::unique_ptr<SimExecutor>> executors_;
  bool paused_ = false;
};

}  // namespace ramcore::runtime
