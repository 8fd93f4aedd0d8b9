#pragma once

#include <algorithm>
#include <coroutine>

#include "base/durability.h"
#include "log/log.h"
#include "runtime/executor.h"

namespace ramcore::store {

/// How far the log has to be durable before an answer may be given: one position for each durability of tables.
struct ShowAfter {
  LogPosition durable;  ///< the position for what the answer shows of buffered tables
  LogPosition flushed;  ///< the position for what the answer shows of sync tables

  static ShowAfter at(Durability level, LogPosition position) {
    return level == Durability::Sync ? ShowAfter{{}, position} : ShowAfter{position, {}};
  }
  /// For an answer that shows an entry.
  static ShowAfter of(const log::Log& log, Durability level, log::EntryRef ref) {
    return isAt(log, level, ref) ? ShowAfter{} : at(level, log.durability().endOf(ref));
  }
  /// Whether an answer may show the entry, or, for a tombstone, that there is no object.
  static bool isAt(const log::Log& log, Durability level, log::EntryRef ref) {
    return level == Durability::Sync ? log.durability().isFlushed(ref) : log.durability().isDurable(ref);
  }
  void add(const ShowAfter& other) {
    durable = std::max(durable, other.durable);
    flushed = std::max(flushed, other.flushed);
  }
  /// Cost: one load and compare for what is shown of buffered tables.
  bool isReached(const log::Log& log) const {
    return log.durability().isDurable(durable) && (!flushed.segment || log.durability().isFlushed(flushed));
  }
};

/// Suspends the coroutine until the log is durable, or flushed, up to a position; gives Ok, or why that will never be.
/// `auto status = co_await Reached(log, executor, level, position);` on `executor`.
class Reached : private log::DurableWaiter, private runtime::Job {
 public:
  Reached(log::Log& log, runtime::Executor& executor, Durability level, LogPosition wanted)
      : Job([](runtime::Job& job) { static_cast<Reached&>(job).handle_.resume(); }),
        log_(log),
        executor_(executor),
        flushed_(level == Durability::Sync),
        wanted_(wanted) {}
  bool await_ready() const noexcept {
    return flushed_ ? log_.durability().isFlushed(wanted_) : log_.durability().isDurable(wanted_);
  }
  bool await_suspend(std::coroutine_handle<> handle) {
    handle_ = handle;
    DurableWaiter::run = [](log::DurableWaiter& waiter, Status status) {
      auto& self = static_cast<Reached&>(waiter);
      self.outcome_ = status;
      self.executor_.post(self, runtime::Priority::Waited);
    };
    return flushed_ ? log_.durability().notifyFlushed(wanted_, *this) : log_.durability().notifyDurable(wanted_, *this);
  }
  Status await_resume() const noexcept { return outcome_; }

 private:
  log::Log& log_;
  runtime::Executor& executor_;
  const bool flushed_;
  const LogPosition wanted_;
  Status outcome_ = Status::Ok;
  std::coroutine_handle<> handle_;
};

}  // namespace ramcore::store
