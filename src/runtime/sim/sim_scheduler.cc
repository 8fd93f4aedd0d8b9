#include "runtime/sim/sim_scheduler.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "runtime/clock.h"

namespace ramcore::runtime {

SimScheduler::SimScheduler(uint64_t seed) : seed_(seed), random_(seed), trace_hash_(seed) {}

SimScheduler::Call::Call(SimScheduler& scheduler, std::function<void()> action)
    : Timer([](Timer& timer) {
        Call& call = static_cast<Call&>(timer);
        std::list<Call> finished;  // the action may add calls, so this one leaves the list first
        finished.splice(finished.end(), call.scheduler.calls_, call.self);
        call.action();
      }),
      scheduler(scheduler),
      action(std::move(action)) {}

void SimScheduler::at(Timer& event, int64_t time_ns) { events_.arm(event, std::max(time_ns, now_ns_)); }

void SimScheduler::call(int64_t time_ns, std::function<void()> action) {
  Call& call = calls_.emplace_back(*this, std::move(action));
  call.self = std::prev(calls_.end());
  at(call, time_ns);
}

bool SimScheduler::step() {
  const int64_t next_ns = events_.earliestNs();
  if (next_ns == kNever) return false;
  now_ns_ = next_ns;
  ++event_count_;
  mix(static_cast<uint64_t>(now_ns_));
  events_.fireDue(now_ns_, 1);
  return true;
}

SimScheduler::Stop SimScheduler::runUntilIdle(uint64_t events_max) {
  for (uint64_t events = 0; events < events_max; ++events) {
    if (!step()) return Stop::Idle;
  }
  return Stop::EventLimit;
}

SimScheduler::Stop SimScheduler::runUntil(int64_t time_ns, uint64_t events_max) {
  for (uint64_t events = 0; events < events_max; ++events) {
    if (events_.earliestNs() > time_ns) {
      now_ns_ = std::max(now_ns_, time_ns);
      return Stop::Time;
    }
    step();
  }
  return Stop::EventLimit;
}

SimScheduler::Stop SimScheduler::runUntil(const std::function<bool()>& done, uint64_t events_max) {
  for (uint64_t events = 0; events < events_max; ++events) {
    if (done()) return Stop::Done;
    if (!step()) return Stop::Idle;
  }
  return done() ? Stop::Done : Stop::EventLimit;
}

void SimScheduler::mix(uint64_t word) {
  uint64_t z = (trace_hash_ ^ word) * 0x9E3779B97F4A7C15ULL;
  z ^= z >> 32;
  trace_hash_ = z * 0xD6E8FEB86659FD93ULL + 1;
}

void SimScheduler::mix(ByteSpan bytes) { mix(fingerprint(bytes)); }

}  // namespace ramcore::runtime
