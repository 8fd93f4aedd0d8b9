#pragma once

#include <atomic>
#include <memory>

#include "runtime/clock.h"
#include "transport/transport.h"

namespace boost::asio {
class io_context;
}

namespace ramcore::transport::tcp {

/// Sleeps in the reactor that the tcp endpoints of the thread use, so that a readable socket, a descriptor that another
/// transport asked to watch, and wake() all end the same sleep. Outlives those endpoints.
///
/// There is no tick: without a deadline, activity or wake() the thread does not run at all.
class AsioSleeper final : public Sleeper {
 public:
  explicit AsioSleeper(runtime::Clock& clock);
  ~AsioSleeper() override;

  void sleep(int64_t deadline_ns) override;
  void wake() override;
  void watch(int fd) override;
  void forget(int fd) override;

  /// Looks what is ready and runs its handlers; one system call. Returns how many ran. The own thread.
  size_t poll();
  boost::asio::io_context& ioContext();
  /// Sleeps that ended, for metrics. Any thread.
  uint64_t sleepCount() const { return sleep_count_.load(std::memory_order_relaxed); }

 private:
  enum class State : uint32_t { Awake, Asleep, Woken };
  struct Reactor;

  void armWatches();
  void armTimer(int64_t deadline_ns);
  void runUntil(int64_t deadline_ns);

  runtime::Clock& clock_;
  std::unique_ptr<Reactor> reactor_;
  std::atomic<State> state_{State::Awake};
  std::atomic<uint64_t> sleep_count_{0};
};

}  // namespace ramcore::transport::tcp
