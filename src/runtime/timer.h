#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/clock.h"

namespace ramcore::runtime {

class TimerHeap;

/// One deadline, owned by the code that waits for it. Fires once, on the thread of its heap's executor. Destroying an
/// armed timer disarms it.
class Timer {
 public:
  using Fire = void (*)(Timer&);
  explicit Timer(Fire fire) : fire_(fire) {}
  ~Timer() { cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  bool isArmed() const { return heap_ != nullptr; }
  int64_t deadlineNs() const { return deadline_ns_; }
  /// Disarms; no effect when not armed. The heap's thread only.
  void cancel();

 private:
  friend class TimerHeap;
  Fire fire_;
  TimerHeap* heap_ = nullptr;
  size_t slot_ = 0;
  int64_t deadline_ns_ = 0;
};

/// The deadlines of one executor, earliest first. No tick: the executor sleeps until `earliestNs()`.
/// Thread: the executor's own.
class TimerHeap {
 public:
  TimerHeap() = default;
  ~TimerHeap();
  TimerHeap(const TimerHeap&) = delete;
  TimerHeap& operator=(const TimerHeap&) = delete;

  /// Arms (or re-arms) `timer` for `deadline_ns`.
  void arm(Timer& timer, int64_t deadline_ns);
  /// The next deadline; kNever if there is none.
  int64_t earliestNs() const { return heap_.empty() ? kNever : heap_.front().deadline_ns; }
  /// Fires what is due at `now_ns`, at most `fires_max` timers; returns how many.
  size_t fireDue(int64_t now_ns, size_t fires_max);
  size_t size() const { return heap_.size(); }

 private:
  friend class Timer;
  // The key is in the heap itself, so that sifting does not visit the timers.
  struct Entry {
    int64_t deadline_ns = 0;
    uint64_t order = 0;
    Timer* timer = nullptr;
  };
  static bool before(const Entry& a, const Entry& b) {
    return a.deadline_ns != b.deadline_ns ? a.deadline_ns < b.deadline_ns : a.order < b.order;
  }
  void place(size_t slot, const Entry& entry);
  void siftUp(size_t slot, int64_t deadline_ns, uint64_t order, Timer* timer);
  void siftDown(size_t slot);
  void remove(Timer& timer);

  std::vector<Entry> heap_;
  uint64_t next_order_ = 0;  // breaks ties by the order of arming, so that a simulated run repeats exactly
};

}  // namespace ramcore::runtime
