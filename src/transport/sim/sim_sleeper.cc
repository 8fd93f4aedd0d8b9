#include "transport/sim/sim_sleeper.h"

#include <utility>

#include "base/check.h"

namespace ramcore::transport {

SimSleeper::SimSleeper(runtime::SimExecutor& executor, Round round)
    : Job([](Job& job) { static_cast<SimSleeper&>(job).runRound(); }),
      Timer([](Timer& timer) { static_cast<SimSleeper&>(timer).wake(); }),
      executor_(executor),
      round_(std::move(round)) {}

void SimSleeper::wake() {
  if (queued_) return;
  queued_ = true;
  executor_.post(*this, runtime::Priority::Membership);
}

void SimSleeper::sleep(int64_t) { RC_CHECK_MSG(false, "a simulated thread does not block: it is driven by rounds"); }

void SimSleeper::runRound() {
  queued_ = false;
  const int64_t next_ns = round_();
  Timer::cancel();
  if (next_ns == runtime::kNever) return;
  if (next_ns <= executor_.clock().nowNs()) {
    wake();
  } else if (!queued_) {
    executor_.arm(*this, next_ns);
  }
}

}  // namespace ramcore::transport
