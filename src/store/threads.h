#pragma once

#include <deque>

#include "base/check.h"
#include "runtime/epoch.h"
#include "runtime/executor.h"
#include "runtime/pins.h"

namespace ramcore::store {

/// The executors of one master as readers of its RCU-protected structures, each with a pin slot of its own. Made before
/// the executors start; each registers itself by its hooks.
class Threads {
 public:
  /// @param rcu  outlives the executors.
  explicit Threads(runtime::Rcu& rcu) : rcu_(rcu) {}
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  static constexpr uint32_t kThreadsMax = 64;

  /// Reserves a place for an executor and returns the hooks to run it with. Not after executors have started.
  runtime::ExecutorHooks add() {
    RC_CHECK(slots_.size() < kThreadsMax);
    Slot& slot = slots_.emplace_back(rcu_);
    return {.context = &slot,
            .on_start = [](void* self) { static_cast<Slot*>(self)->start(); },
            .on_stop = [](void* self) { static_cast<Slot*>(self)->stop(); },
            .after_round = [](void* self) { static_cast<Slot*>(self)->quiescent(); },
            .before_sleep = [](void* self) { static_cast<Slot*>(self)->offline(); },
            .after_sleep = [](void* self) { static_cast<Slot*>(self)->online(); }};
  }
  /// Tells which executor got the hooks of the `index`-th add().
  void bind(uint32_t index, const runtime::Executor& executor) { slots_[index].executor = &executor; }
  /// The pin slot of an executor that was bound (checked). A handful of compares.
  uint32_t pinSlotOf(const runtime::Executor& executor) const {
    for (uint32_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].executor == &executor) return i;
    }
    checkFailed("the executor is one of the master's", __FILE__, __LINE__, "");
  }
  uint32_t count() const { return static_cast<uint32_t>(slots_.size()); }

 private:
  struct Slot {
    explicit Slot(runtime::Rcu& owner) : rcu(owner) {}
    runtime::Rcu& rcu;
    const runtime::Executor* executor = nullptr;
    runtime::RcuReader reader{};
    void start() { reader = rcu.registerThread(); }
    void stop() { rcu.unregisterThread(reader); }
    void quiescent() { rcu.quiescent(reader); }
    void offline() { rcu.offline(reader); }
    void online() { rcu.online(reader); }
  };

  runtime::Rcu& rcu_;
  std::deque<Slot> slots_;  // addresses stay: they are in the hooks
};

}  // namespace ramcore::store
