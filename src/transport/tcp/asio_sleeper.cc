#include "transport/tcp/asio_sleeper.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "transport/tcp/asio.h"

namespace ramcore::transport::tcp {
namespace {

// A timer that is set for longer could overflow the reactor's clock.
constexpr int64_t kTimerNsMax = 3600 * runtime::kNanosPerSecond;

struct Watch {
  explicit Watch(asio::io_context& io) : descriptor(io) {}
  asio::posix::stream_descriptor descriptor;
  bool is_armed = false;
};

}  // namespace

struct AsioSleeper::Reactor {
  asio::io_context io{1};
  // Without it the context stops as soon as nothing is registered.
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);
  std::map<int, std::shared_ptr<Watch>> watches;  // by descriptor; handlers hold them too
  asio::steady_timer timer{io};
  int64_t timer_deadline_ns = runtime::kNever;  // kNever: not set
  bool timer_spoke = false;                     // the last handler was the timer's
};

AsioSleeper::AsioSleeper(runtime::Clock& clock) : clock_(clock), reactor_(std::make_unique<Reactor>()) {}

AsioSleeper::~AsioSleeper() {
  while (!reactor_->watches.empty()) forget(reactor_->watches.begin()->first);
}

asio::io_context& AsioSleeper::ioContext() { return reactor_->io; }

size_t AsioSleeper::poll() { return reactor_->io.poll(); }

void AsioSleeper::sleep(int64_t deadline_ns) {
  armWatches();
  if (state_.exchange(State::Asleep, std::memory_order_seq_cst) != State::Woken) runUntil(deadline_ns);
  // A wake-up that came after the sleep had ended is no loss: the thread looks at everything now.
  state_.store(State::Awake, std::memory_order_seq_cst);
  sleep_count_.fetch_add(1, std::memory_order_relaxed);
}

// Not with run_one_until(): that one wakes up every second.
void AsioSleeper::runUntil(int64_t deadline_ns) {
  while (clock_.nowNs() < deadline_ns) {
    armTimer(deadline_ns);
    reactor_->timer_spoke = false;
    reactor_->io.run_one();
    if (!reactor_->timer_spoke) return;
  }
}

// One that is set for an earlier time stays: to set it is a system call, and most sleeps end before their deadline.
void AsioSleeper::armTimer(int64_t deadline_ns) {
  Reactor& reactor = *reactor_;
  if (deadline_ns >= reactor.timer_deadline_ns) return;
  reactor.timer_deadline_ns = deadline_ns;
  const int64_t rest_ns = std::clamp<int64_t>(deadline_ns - clock_.nowNs(), 0, kTimerNsMax);
  reactor.timer.expires_after(std::chrono::nanoseconds(rest_ns));
  reactor.timer.async_wait([&reactor](const Error& error) {
    reactor.timer_spoke = true;
    // An error means that it was set anew.
    if (!error) reactor.timer_deadline_ns = runtime::kNever;
  });
}

void AsioSleeper::wake() {
  if (state_.exchange(State::Woken, std::memory_order_seq_cst) == State::Asleep) asio::post(reactor_->io, [] {});
}

void AsioSleeper::watch(int fd) {
  auto watch = std::make_shared<Watch>(reactor_->io);
  Error error;
  watch->descriptor.assign(fd, error);
  RC_CHECK_MSG(!error, "a descriptor that the reactor does not take");
  RC_CHECK_MSG(reactor_->watches.emplace(fd, std::move(watch)).second, "a descriptor that is watched twice");
}

void AsioSleeper::forget(int fd) {
  const auto found = reactor_->watches.find(fd);
  if (found == reactor_->watches.end()) return;
  // Not closed: it belongs to whoever watched it.
  found->second->descriptor.release();
  reactor_->watches.erase(found);
}

// One wait ends with the first readiness; asking again looks at the descriptor's present state, so that bytes which
// nobody has read yet end the next sleep too.
void AsioSleeper::armWatches() {
  for (auto& [fd, watch] : reactor_->watches) {
    if (watch->is_armed) continue;
    watch->is_armed = true;
    watch->descriptor.async_wait(asio::posix::descriptor_base::wait_read,
                                 [watch = watch](const Error&) { watch->is_armed = false; });
  }
}

}  // namespace ramcore::transport::tcp
