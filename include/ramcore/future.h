#pragma once

#include <utility>

namespace ramcore {

namespace detail {
template <typename T>
struct Pending;
}  // namespace detail

/// The result of a call that was started and goes on while some thread polls the client: a thread that waits for this
/// or another future of the client, a thread in any other call of it, `Client::poll`, or its background thread
/// (ClientOptions::background_thread). Nothing goes on while none does, and then the timeout does not end the call
/// either.
///
/// Move-only. It must not outlive its client (checked: the process ends). Dropping it does not cancel the call: a
/// mutation may still happen. In a forked process a call that had not ended gives Forked; it goes on in the other
/// process. One thread at a time may use a future; different futures of a client may be used by different threads. See
/// "Futures" in docs/client.md.
template <typename T>
class [[nodiscard]] Future {
 public:
  /// A future without a call. It may only be asked whether it has one, assigned to, moved from and destroyed; so may
  /// one whose result was taken.
  Future() = default;
  /// For the library.
  explicit Future(detail::Pending<T>* pending) : pending_(pending) {}
  Future(Future&& other) noexcept : pending_(std::exchange(other.pending_, nullptr)) {}
  /// Drops the present call.
  Future& operator=(Future&& other) noexcept {
    if (this != &other) {
      drop();
      pending_ = std::exchange(other.pending_, nullptr);
    }
    return *this;
  }
  ~Future() { drop(); }

  /// @return true if there is a call whose result was not taken
  explicit operator bool() const { return pending_ != nullptr; }
  /// Does not poll: a loop over ready() alone does not make the call go on.
  /// @return true if get() does not have to wait. Only with a call
  bool ready() const;
  /// Blocks until the result is there, which is at the latest when the timeout of the call is over. Polls meanwhile,
  /// for all calls of the client, unless another thread does. Only with a call.
  void wait();
  /// Blocks as wait() does. Only with a call; afterwards the future has none.
  /// @return the result of the call
  T get();

 private:
  void drop() noexcept;

  detail::Pending<T>* pending_ = nullptr;
};

}  // namespace ramcore
