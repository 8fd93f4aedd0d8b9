#pragma once

#include <coroutine>

#include "log/log.h"
#include "runtime/executor.h"

namespace ramcore::master {

/// Suspends the coroutine until the log is durable up to a position; gives Ok, or why that will never be.
/// `auto status = co_await Durable(log, executor, position);` on `executor`.
class Durable : private log::DurableWaiter, private runtime::Job {
 public:
  Durable(log::Log& log, runtime::Executor& executor, LogPosition wanted)
      : Job([](runtime::Job& job) { static_cast<Durable&>(job).handle_.resume(); }),
        log_(log),
        executor_(executor),
        wanted_(wanted) {}
  bool await_ready() const noexcept { return log_.isDurable(wanted_); }
  bool await_suspend(std::coroutine_handle<> handle) {
    handle_ = handle;
    DurableWaiter::run = [](log::DurableWaiter& waiter, Status status) {
      auto& self = static_cast<Durable&>(waiter);
      self.outcome_ = status;
      self.executor_.post(self, runtime::Priority::Waited);
    };
    return log_.notifyDurable(wanted_, *this);
  }
  Status await_resume() const noexcept { return outcome_; }

 private:
  log::Log& log_;
  runtime::Executor& executor_;
  const LogPosition wanted_;
  Status outcome_ = Status::Ok;
  std::coroutine_handle<> handle_;
};

}  // namespace ramcore::master
