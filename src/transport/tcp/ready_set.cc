#include "transport/tcp/ready_set.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "base/check.h"

namespace ramcore::transport::tcp {

ReadySet::ReadySet() : fd_(::epoll_create1(EPOLL_CLOEXEC)) {
  RC_CHECK_MSG(fd_ >= 0, "this process may open no more files; raise its limit (ulimit -n)");
}

ReadySet::~ReadySet() { ::close(fd_); }

bool ReadySet::add(int fd, uint32_t tag) {
  epoll_event event{.events = EPOLLIN, .data = {.u32 = tag}};
  return ::epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event) == 0;
}

void ReadySet::remove(int fd) {
  epoll_event unused{};
  ::epoll_ctl(fd_, EPOLL_CTL_DEL, fd, &unused);
}

std::span<const uint32_t> ReadySet::look() {
  std::array<epoll_event, std::tuple_size_v<decltype(ready_)>> events;
  const int count = ::epoll_wait(fd_, events.data(), static_cast<int>(events.size()), 0);
  size_t found = 0;
  for (; static_cast<int>(found) < count; ++found) ready_[found] = events[found].data.u32;
  return std::span(ready_).first(found);
}

}  // namespace ramcore::transport::tcp
