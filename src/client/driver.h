#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "client/cluster_client.h"
#include "rpc/dispatch.h"
#include "rpc/spin_gauge.h"

namespace ramcore::client {

/// Lets the threads of a program share one dispatch: one of them at a time drives it, for itself and for the others.
///
/// If no thread drives, a thread starts its call itself and steps the dispatch until the call is over; that costs one
/// compare-and-swap more than a single-threaded client. If another thread drives, the thread posts its call to it and
/// waits until the call is over, or until no thread drives any more; then it drives itself.
///
/// Threads: any.
class Driver {
 public:
  /// A call that a thread of the program waits for, now or later.
  struct Waited : runtime::Job {
    explicit Waited(Run start) : Job(start) {}
    /// Set by the call's end, on the driving thread, through Driver::finished().
    std::atomic<bool> is_done{false};
    /// Set by calls that leave their deadline to the driver: runs now and then while a thread drives for this call.
    void (*look)(Waited&, int64_t now_ns) = nullptr;
    /// Set before the start if the thread that waits also drives, so that `look` will be called.
    bool is_driven_by_waiter = false;
  };

  Driver(rpc::Dispatch& dispatch, transport::Sleeper& sleeper, ClusterClient& client, int64_t spin_ns_max)
      : dispatch_(dispatch), sleeper_(sleeper), client_(client), gauge_(dispatch.clock(), spin_ns_max) {}

  /// Starts `call` (its run function, on the driving thread) and returns when it is done.
  void runToEnd(Waited& call);
  /// Starts `call` and returns. Some thread has to drive until the call is done.
  /// @param flush  true: the bytes of the call leave now, and not together with those of the calls that are started
  ///               next
  void start(Waited& call, bool flush);
  /// Drives until `call` is done.
  void wait(Waited& call);
  /// To be called when a call is done; nothing of the call may be touched afterwards.
  void finished(Waited& call);

  /// One step, unless another thread drives. True if there was anything to do.
  bool poll();
  /// Drives until stop(): the life of a background thread.
  void driveUntilStopped();
  void stop();

 private:
  bool tryEnter() {
    uint32_t free = 0;
    return is_driven_.load(std::memory_order_relaxed) == 0 &&
           is_driven_.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void leave();
  /// Sleeps until `is_done`, or until no thread drives; then it enters.
  /// @return true if it has entered: this thread drives
  bool waitForTurn(const std::atomic<bool>& is_done);
  /// Steps until `is_done`. The driving thread.
  void drive(const std::atomic<bool>& is_done, Waited* call);
  void look(Waited* call, bool is_idle);
  void sleep(int64_t until_ns);

  rpc::Dispatch& dispatch_;
  transport::Sleeper& sleeper_;
  ClusterClient& client_;

  alignas(64) std::atomic<uint32_t> is_driven_{0};
  alignas(64) std::atomic<uint32_t> waiters_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // only for waiting
  std::condition_variable turn_;
  // The driving thread's.
  rpc::SpinGauge gauge_;
  uint32_t rounds_ = 0;  // since the last look at the clock
  bool found_ = false;   // something, since then
};

}  // namespace ramcore::client
