#include "transport/shm/poll_sleeper.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "base/check.h"

namespace ramcore::transport::shm {

PollSleeper::PollSleeper(runtime::Clock& clock) : clock_(clock), wake_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  RC_CHECK_MSG(static_cast<bool>(wake_event_), "no file descriptor left for the sleeper");
}

void PollSleeper::sleep(int64_t deadline_ns) {
  std::vector<pollfd> fds{{wake_event_.get(), POLLIN, 0}};
  for (const int fd : watched_) fds.push_back({fd, POLLIN, 0});
  timespec timeout{};
  const int64_t left_ns = deadline_ns == runtime::kNever ? 0 : std::max<int64_t>(deadline_ns - clock_.nowNs(), 0);
  timeout.tv_sec = left_ns / runtime::kNanosPerSecond;
  timeout.tv_nsec = left_ns % runtime::kNanosPerSecond;
  (void)::ppoll(fds.data(), fds.size(), deadline_ns == runtime::kNever ? nullptr : &timeout, nullptr);
  uint64_t count = 0;
  if ((fds[0].revents & POLLIN) != 0) (void)!::read(wake_event_.get(), &count, sizeof(count));
}

void PollSleeper::wake() {
  const uint64_t one = 1;
  (void)!::write(wake_event_.get(), &one, sizeof(one));
}

void PollSleeper::watch(int fd) { watched_.push_back(fd); }
void PollSleeper::forget(int fd) { std::erase(watched_, fd); }

}  // namespace ramcore::transport::shm
