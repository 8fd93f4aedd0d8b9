#include "client/driver.h"

#include <immintrin.h>

#include <algorithm>

namespace ramcore::client {
namespace {

// Rounds between two looks at the clock: about 10 us, by which a deadline may be overrun.
constexpr uint32_t kRoundsPerLook = 128;
constexpr auto kWait = rpc::SpinGauge::Wait::Answers;
constexpr int kSpinsBeforeWaiting = 2000;
// A call that leaves its deadline to the driver is looked at this often while the thread sleeps.
constexpr int64_t kSleepNsMax = 10 * runtime::kNanosPerMilli;

}  // namespace

void Driver::leave() {
  is_driven_.store(0, std::memory_order_seq_cst);
  // A waiter counts itself before it looks whether a thread drives, so either it or this thread sees the other.
  if (waiters_.load(std::memory_order_seq_cst) == 0) [[likely]]
    return;
  std::lock_guard guard(mutex_);
  turn_.notify_all();
}

void Driver::finished(Waited& call) {
  call.is_done.store(true, std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) == 0) [[likely]]
    return;
  std::lock_guard guard(mutex_);
  turn_.notify_all();
}

void Driver::runToEnd(Waited& call) {
  if (tryEnter()) [[likely]] {
    call.is_driven_by_waiter = true;
    call.run(call);
    drive(call.is_done, &call);
    leave();
    return;
  }
  dispatch_.post(call);
  wait(call);
}

void Driver::start(Waited& call, bool flush) {
  if (!tryEnter()) {
    dispatch_.post(call);
    return;
  }
  call.run(call);
  if (flush) {
    for (transport::Endpoint* endpoint : dispatch_.endpoints()) endpoint->flush();
  }
  leave();
}

void Driver::wait(Waited& call) {
  for (int spins = 0; spins < kSpinsBeforeWaiting; ++spins) {
    if (call.is_done.load(std::memory_order_acquire)) return;
    if (tryEnter()) {
      drive(call.is_done, &call);
      leave();
      return;
    }
    _mm_pause();
  }
  if (!waitForTurn(call.is_done)) return;
  drive(call.is_done, &call);
  leave();
}

bool Driver::waitForTurn(const std::atomic<bool>& is_done) {
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  bool drives = false;
  {
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return is_done.load(std::memory_order_seq_cst) || (drives = tryEnter()); });
  }
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
  return drives;
}

void Driver::drive(const std::atomic<bool>& is_done, Waited* call) {
  while (!is_done.load(std::memory_order_relaxed)) {
    // Rounds are counted over all calls: many short ones must not put the timers off for ever.
    const bool looks = ++rounds_ >= kRoundsPerLook || !gauge_.expectsSoon(kWait) || gauge_.isCrowded();
    found_ |= dispatch_.step(looks);
    if (!looks) continue;
    rounds_ = 0;
    look(call, !found_);
    found_ = false;
  }
}

void Driver::look(Waited* call, bool is_idle) {
  const int64_t now_ns = dispatch_.clock().nowNs();
  if (call != nullptr && call->look != nullptr && !call->is_done.load(std::memory_order_relaxed)) {
    call->look(*call, now_ns);
  }
  client_.tend(now_ns);
  if (!is_idle) {
    gauge_.found();
    return;
  }
  if (gauge_.expectsSoon(kWait) && gauge_.goesOn(kWait, now_ns)) {
    gauge_.offerCore(now_ns);  // cheap if no other thread wants the core; if one does, it may be the server's
    return;
  }
  if (call != nullptr && call->is_done.load(std::memory_order_relaxed)) return;
  const bool is_looked_at = call != nullptr && call->look != nullptr;
  gauge_.sleeps(kWait);
  sleep(is_looked_at ? now_ns + kSleepNsMax : runtime::kNever);
}

void Driver::sleep(int64_t until_ns) {
  if (!dispatch_.prepareSleep()) return;
  if (!stop_.load(std::memory_order_seq_cst)) {
    sleeper_.sleep(std::min({dispatch_.earliestNs(), client_.dueNs(), until_ns}));
  }
  dispatch_.awake();
}

bool Driver::poll() {
  if (!tryEnter()) return false;
  const bool found = dispatch_.step();
  client_.tend(dispatch_.clock().nowNs());
  leave();
  return found;
}

void Driver::driveUntilStopped() {
  if (tryEnter() || waitForTurn(stop_)) {
    drive(stop_, nullptr);
    leave();
  }
}

void Driver::stop() {
  stop_.store(true, std::memory_order_seq_cst);
  sleeper_.wake();
  std::lock_guard guard(mutex_);
  turn_.notify_all();
}

}  // namespace ramcore::client
