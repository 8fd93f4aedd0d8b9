#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/spin_lock.h"

namespace ramcore::runtime {

/// A reader of RCU-protected structures: one thread, or one simulated executor. Small numbers, reused after
/// unregistering.
enum class RcuReader : uint32_t {};

/// Names a grace period that had not begun when the ticket was taken. `Rcu::elapsed(ticket)` is true when all readers
/// that could have seen what was unlinked before the ticket was taken have passed a quiescent state.
struct GraceTicket {
  uint64_t number = 0;
};

/// Work to be done after a grace period, embedded in what it frees (or in something that lives as long). Owned by the
/// caller; must stay in place until `run` is called, which may free it.
struct Deferred {
  void (*run)(Deferred& self) = nullptr;
  Deferred* next = nullptr;  // for Rcu only
  GraceTicket ticket;        // for Rcu only
};

/// Short read sections: what a reader finds in an RCU-protected structure stays readable until the reader's next
/// quiescent state. Reading costs nothing. A thread that unlinks something waits for a grace period before it uses the
/// memory again.
///
/// Quiescent-state based: a registered reader is inside a section from each quiescent state to the next, unless it is
/// off line. So nothing found by a lookup may be kept over the end of a poll round, a `co_await` or a sleep. What has
/// to be readable for longer takes a pin (PinRegistry).
///
/// Quiescent states belong to the whole thread: a thread registered with several objects must hold nothing of any of
/// them when it calls `quiescent` on one.
///
/// Exactly one thread or executor reclaims (calls `reclaim`). Implementations: real/urcu_epoch.h, sim/sim_epoch.h.
class Rcu {
 public:
  virtual ~Rcu() = default;
  Rcu(const Rcu&) = delete;
  Rcu& operator=(const Rcu&) = delete;

  /// Makes the calling thread (or, simulated, a new executor) a reader, on line. Not for hot paths.
  virtual RcuReader registerThread() = 0;
  /// Ends the registration. Called by the same thread, which holds nothing any more.
  virtual void unregisterThread(RcuReader reader) = 0;
  /// "I hold nothing that I found before." Once per poll round and between pieces of background work. About 1 ns.
  virtual void quiescent(RcuReader reader) = 0;
  /// Called before the reader sleeps or blocks. Until `online` it may not read, and no grace period waits for it.
  virtual void offline(RcuReader reader) = 0;
  virtual void online(RcuReader reader) = 0;

  /// Names the first grace period that begins after this call. Called after unlinking. Any thread; one locked
  /// instruction.
  GraceTicket ticket();
  /// True if that grace period is over: what was unlinked before the ticket was taken may be used again. Any thread.
  bool elapsed(GraceTicket ticket) const { return completed_.load(std::memory_order_acquire) >= ticket.number; }

  /// Has `work.run(work)` called by the reclaimer after a grace period that begins now. Any thread.
  void defer(Deferred& work) RC_EXCLUDES(deferred_lock_);

  /// True if a grace period is wanted or deferred work waits: the reclaimer should be scheduled.
  bool pending() const;

  /// One slice of the reclaimer: carries the current grace period on if one is wanted, and runs deferred work whose
  /// grace period is over.
  ///
  /// The real implementation blocks until every reader has passed a quiescent state (microseconds while all poll); the
  /// simulated one only looks. The caller holds nothing it found before. If the caller is a registered reader: the real
  /// implementation does not wait for it; a simulated executor passes its quiescent states itself, like any other.
  ///
  /// @param work_max  deferred pieces to run at most
  /// @return pieces run
  /// Thread: the reclaimer only, never holding a lock that a reader takes.
  size_t reclaim(size_t work_max) RC_EXCLUDES(deferred_lock_);

  /// Reclaims until nothing is pending: for shutdown, when the other readers are off line, unregistered or polling.
  void drain();

 protected:
  Rcu() = default;
  /// Begins a grace period. What is unlinked from now on is not covered by it.
  virtual void beginGracePeriod() = 0;
  /// True if every reader that was inside a section at the beginning has left it. May block if it is sure that this
  /// will happen.
  virtual bool finishGracePeriod() = 0;

 private:
  void advanceGracePeriod();
  Deferred* takeElapsed() RC_EXCLUDES(deferred_lock_);

  std::atomic<uint64_t> started_{0};
  std::atomic<uint64_t> wanted_{0};
  std::atomic<uint64_t> completed_{0};
  bool in_grace_period_ = false;  // the reclaimer's own

  mutable SpinLock deferred_lock_;  // a leaf: nothing is locked while it is held
  Deferred* deferred_first_ RC_GUARDED_BY(deferred_lock_) = nullptr;
  Deferred* deferred_last_ RC_GUARDED_BY(deferred_lock_) = nullptr;
};

}  // namespace ramcore::runtime
