#include "transport/shm/socket_set.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>

#include "runtime/clock.h"

namespace ramcore::transport::shm {
namespace {

constexpr uint64_t kTimerKey = UINT64_MAX;

}  // namespace

SocketSet::SocketSet(Sleeper* sleeper)
    : sleeper_(sleeper),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      timer_(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!isUsable()) return;
  watch(timer_.get(), kTimerKey);
  if (sleeper_ != nullptr) sleeper_->watch(epoll_.get());
}

SocketSet::~SocketSet() {
  if (isUsable() && sleeper_ != nullptr) sleeper_->forget(epoll_.get());
}

void SocketSet::watch(int fd, uint64_t key) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = key;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void SocketSet::forget(int fd) { (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

std::span<const uint64_t> SocketSet::readable() {
  epoll_event events[kReadableMax];
  const int found = ::epoll_wait(epoll_.get(), events, kReadableMax, 0);
  size_t count = 0;
  for (int i = 0; i < found; ++i) {
    if (events[i].data.u64 != kTimerKey) {
      keys_[count++] = events[i].data.u64;
      continue;
    }
    uint64_t expirations = 0;
    (void)!::read(timer_.get(), &expirations, sizeof(expirations));
  }
  return {keys_, count};
}

void SocketSet::wakeAfter(int64_t delay_ns) {
  delay_ns = std::clamp<int64_t>(delay_ns, 1, 3600 * runtime::kNanosPerSecond);
  itimerspec when{};
  when.it_value.tv_sec = delay_ns / runtime::kNanosPerSecond;
  when.it_value.tv_nsec = delay_ns % runtime::kNanosPerSecond;
  (void)::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

}  // namespace ramcore::transport::shm
