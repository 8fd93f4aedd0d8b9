#pragma once

#include <utility>

namespace ramcore {

namespace detail {
template <typename T>
struct Pending;
}  // namespace detail

/// The result of a call that goes on by itself while somebody polls: the thread that waits for it, any thread in a call
/// of the same client, `Client::poll`, or the client's background thread.
///
/// Move-only. Does not outlive its client. Dropping it does not cancel the call: a mutation may still happen.
/// Threads: one at a time.
template <typename T>
class [[nodiscard]] Future {
 public:
  /// Without a call; only to be assigned to.
  Future() = default;
  explicit Future(detail::Pending<T>* pending) : pending_(pending) {}
  Future(Future&& other) noexcept : pending_(std::exchange(other.pending_, nullptr)) {}
  Future& operator=(Future&& other) noexcept {
    if (this != &other) {
      drop();
      pending_ = std::exchange(other.pending_, nullptr);
    }
    return *this;
  }
  ~Future() { drop(); }

  /// True if there is a call whose result was not taken.
  explicit operator bool() const { return pending_ != nullptr; }
  /// True if get() does not have to wait. Does not poll.
  bool ready() const;
  /// Polls until the result is there; every call ends by its timeout.
  void wait();
  /// Waits, and gives the result, once.
  T get();

 private:
  void drop() noexcept;

  detail::Pending<T>* pending_ = nullptr;
};

}  // namespace ramcore
