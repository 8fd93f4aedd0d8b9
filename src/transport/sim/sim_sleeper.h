#pragma once

#include <cstdint>
#include <functional>

#include "runtime/sim/sim_executor.h"
#include "transport/transport.h"

namespace ramcore::transport {

/// Drives the poll loop of a simulated process: each round is one job of its thread's executor, and between rounds that
/// find nothing the thread sleeps until a deadline or wake(). It takes the place of a real thread's Sleeper; a
/// SimTransport's `wake` calls wake() here.
///
/// Stays in place while a round is queued: stop the node or drain it before it is destroyed.
class SimSleeper final : public Sleeper, private runtime::Job, private runtime::Timer {
 public:
  /// Does one round and returns when the next one is wanted, by the executor's clock: a time that has passed means at
  /// once, kNever not before a wake().
  using Round = std::function<int64_t()>;

  /// @param executor  of the thread; outlives the sleeper
  SimSleeper(runtime::SimExecutor& executor, Round round);

  /// The first call starts the loop. Also from outside of the process.
  void wake() override;
  /// Not used: a simulated thread cannot block (checked).
  void sleep(int64_t deadline_ns) override;
  void watch(int) override {}
  void forget(int) override {}

 private:
  void runRound();

  runtime::SimExecutor& executor_;
  Round round_;
  bool queued_ = false;
};

}  // namespace ramcore::transport
