#include "runtime/await.h"

#include "base/check.h"

namespace ramcore::runtime {

Signal::~Signal() { RC_CHECK_MSG(first_ == nullptr, "a signal was destroyed under its waiters"); }

Signal::Wait::Wait(Signal& signal, int64_t deadline_ns)
    : Job([](Job& job) { static_cast<Wait&>(job).handle_.resume(); }),
      Timer([](Timer& timer) { static_cast<Wait&>(timer).finish(Status::DeadlineExceeded); }),
      signal_(signal),
      deadline_ns_(deadline_ns) {}

void Signal::Wait::await_suspend(std::coroutine_handle<> handle) {
  RC_DCHECK(signal_.executor_.isCurrent());
  handle_ = handle;
  previous_ = signal_.last_;
  (previous_ != nullptr ? previous_->next_wait_ : signal_.first_) = this;
  signal_.last_ = this;
  if (deadline_ns_ != kNever) signal_.executor_.arm(*this, deadline_ns_);
}

void Signal::Wait::finish(Status outcome) {
  RC_CHECK(!queued_);
  queued_ = true;
  outcome_ = outcome;
  signal_.unlink(*this);
  Timer::cancel();
  signal_.executor_.post(*this);
}

void Signal::unlink(Wait& wait) {
  (wait.previous_ != nullptr ? wait.previous_->next_wait_ : first_) = wait.next_wait_;
  (wait.next_wait_ != nullptr ? wait.next_wait_->previous_ : last_) = wait.previous_;
}

void Signal::failAll(Status outcome) {
  RC_DCHECK(executor_.isCurrent());
  while (first_ != nullptr) first_->finish(outcome);
}

}  // namespace ramcore::runtime
