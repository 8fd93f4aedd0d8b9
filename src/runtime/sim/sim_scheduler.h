#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string_view>

#include "base/bytes.h"
#include "runtime/random.h"
#include "runtime/timer.h"

namespace ramcore::runtime {

/// Simulated time, and the one queue of all events that are going to happen in it. Everything that a simulated cluster
/// does is an event here, so a run is a function of its seed.
///
/// An event is a Timer that its owner keeps: it is removed when it is cancelled or destroyed. Events of the same time
/// run in the order in which they were armed. One thread; no state outside the object.
class SimScheduler {
 public:
  /// Why a run came back.
  enum class Stop : uint8_t {
    Idle,        ///< nothing is going to happen any more
    Time,        ///< the time was reached
    Done,        ///< the predicate was true
    EventLimit,  ///< the bound on events was reached: a livelock, or the bound is too small
  };

  explicit SimScheduler(uint64_t seed);
  SimScheduler(const SimScheduler&) = delete;
  SimScheduler& operator=(const SimScheduler&) = delete;

  uint64_t seed() const { return seed_; }
  int64_t nowNs() const { return now_ns_; }
  /// Random numbers for the component called `name`: always the same for a seed and a name.
  Random stream(std::string_view name) const { return random_.stream(name); }

  /// Arms (or re-arms) `event`; a time that has passed means now.
  void at(Timer& event, int64_t time_ns);
  void after(Timer& event, int64_t delay_ns) { at(event, now_ns_ + delay_ns); }
  /// Calls `action` at `time_ns`: for the scripts of scenarios. What it refers to must live until then.
  void call(int64_t time_ns, std::function<void()> action);

  /// Runs the next event. False if there is none.
  bool step();
  /// Run until nothing is armed, or `time_ns` is reached (and becomes the time), or `done()` is true, which is checked
  /// before each event. Each runs at most `events_max` events.
  Stop runUntilIdle(uint64_t events_max);
  Stop runUntil(int64_t time_ns, uint64_t events_max);
  Stop runUntil(const std::function<bool()>& done, uint64_t events_max);

  uint64_t eventCount() const { return event_count_; }

  /// Adds to the fingerprint of the run. It covers the time of every event, bytes of messages and trace lines.
  void mix(uint64_t word);
  void mix(ByteSpan bytes);
  /// The fingerprint so far. Two runs of one seed are the same run if these are equal at the end.
  uint64_t traceHash() const { return trace_hash_; }

 private:
  struct Call : Timer {
    Call(SimScheduler& scheduler, std::function<void()> action);
    SimScheduler& scheduler;
    std::function<void()> action;
    std::list<Call>::iterator self;
  };

  uint64_t seed_;
  Random random_;
  int64_t now_ns_ = 0;
  uint64_t event_count_ = 0;
  uint64_t trace_hash_;
  std::list<Call> calls_;
  TimerHeap events_;
};

}  // namespace ramcore::runtime
