#pragma once

#include <coroutine>
#include <optional>
#include <utility>

#include "base/check.h"
#include "runtime/frame_pool.h"

namespace ramcore::runtime {

template <typename T>
class Task;

namespace detail {

/// What promises of all result types share.
///
/// A Task is eager: the body runs at the call, until its first real suspension. When it ends while a coroutine awaits
/// it, the awaiter is resumed by a plain call from final_suspend, which touches nothing afterwards (the awaiter usually
/// destroys this very coroutine frame). So stack depth is bounded by the nesting of calls, without tail calls, in every
/// build.
class PromiseBase {
 public:
  static void* operator new(size_t bytes) { return allocateFrame(bytes); }
  static void operator delete(void* frame, size_t bytes) noexcept { freeFrame(frame, bytes); }

  std::suspend_never initial_suspend() noexcept { return {}; }

  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <typename Promise>
    void await_suspend(std::coroutine_handle<Promise> frame) noexcept {
      PromiseBase& promise = frame.promise();
      promise.done_ = true;
      if (promise.continuation_) {
        promise.continuation_.resume();
      } else if (promise.detached_) {
        frame.destroy();
      }
    }
    void await_resume() noexcept {}
  };
  FinalAwaiter final_suspend() noexcept { return {}; }

  /// Our code throws nothing; a library's exception ends at the call into the library. One that arrives here is a bug.
  void unhandled_exception() noexcept { checkFailed("no exception leaves a coroutine", __FILE__, __LINE__, ""); }

  bool done_ = false;
  bool detached_ = false;
  std::coroutine_handle<> continuation_;
};

template <typename T>
class Promise : public PromiseBase {
 public:
  Task<T> get_return_object() noexcept;
  template <typename U>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T take() { return std::move(*value_); }

 private:
  std::optional<T> value_;
};

template <>
class Promise<void> : public PromiseBase {
 public:
  Task<void> get_return_object() noexcept;
  void return_void() noexcept {}
  void take() {}
};

}  // namespace detail

/// The result of a coroutine that nothing waits for and that may end on another executor than it began on. So nothing
/// may look at its coroutine frame from outside: the coroutine frees it itself when it returns. Code that has to know
/// when such coroutines have ended counts them.
class Detached {
 public:
  struct promise_type {
    static void* operator new(size_t bytes) { return allocateFrame(bytes); }
    static void operator delete(void* frame, size_t bytes) noexcept { freeFrame(frame, bytes); }
    Detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { checkFailed("no exception leaves a coroutine", __FILE__, __LINE__, ""); }
  };
};

/// The result of a coroutine that runs on one executor (in between it may visit others). Move-only. Awaited at most
/// once, by a coroutine of the same executor; or detached; or finished before it is destroyed (checked: a suspended
/// coroutine ends only by its own return, so cancelling means resuming it with an error).
///
/// A task that finished without suspending costs its coroutine frame (pooled) and no resumption: `co_await` does not
/// suspend.
template <typename T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  explicit Task(Handle frame) : frame_(frame) {}
  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, {})) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      reset();
      frame_ = std::exchange(other.frame_, {});
    }
    return *this;
  }
  ~Task() { reset(); }

  /// True when the body has returned; its value can be taken.
  bool isDone() const { return frame_.promise().done_; }
  /// The value of a finished task (checked).
  T take() {
    RC_CHECK(isDone());
    return frame_.promise().take();
  }
  /// Lets the body run on by itself; its coroutine frame is freed when it returns. Only for a body that returns on the
  /// executor that calls this. A body that ends elsewhere might do so at this very moment, and is a Detached instead.
  void detach() {
    Handle frame = std::exchange(frame_, {});
    if (frame.promise().done_) {
      frame.destroy();
    } else {
      frame.promise().detached_ = true;
    }
  }

  bool await_ready() const noexcept { return frame_.promise().done_; }
  void await_suspend(std::coroutine_handle<> awaiter) noexcept { frame_.promise().continuation_ = awaiter; }
  T await_resume() { return frame_.promise().take(); }

 private:
  void reset() {
    if (!frame_) return;
    RC_CHECK_MSG(frame_.promise().done_, "a suspended coroutine was dropped");
    frame_.destroy();
    frame_ = {};
  }

  Handle frame_;
};

namespace detail {
template <typename T>
Task<T> Promise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace detail

}  // namespace ramcore::runtime
