#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ramcore::runtime {

class TimerHeap;

/// One deadline, owned by whoever waits for it. Fires once, on the thread of its heap's executor. Destroying an armed
/// timer disarms it.
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
  uint64_t order_ = 0;  // breaks ties by the order of arming, so that a simulated run repeats exactly
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
  int64_t earliestNs() const;
  /// Fires what is due at `now_ns`, at most `fires_max` timers; returns how many.
  size_t fireDue(int64_t now_ns, size_t fires_max);
  size_t size() const { return heap_.size(); }

 private:
  friend class Timer;
  bool before(const Timer& a, const Timer& b) const;
  void place(size_t slot, Timer* timer);
  void siftUp(size_t slot);
  void siftDown(size_t slot);
  void remove(Timer& timer);

  std::vector<Timer*> heap_;
  uint64_t next_order_ = 0;
};

}  // namespace ramcore::runtime
