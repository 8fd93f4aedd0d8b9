#pragma once

#include <sys/epoll.h>

#include <map>

#include "bench/support/peer_server.h"

namespace ramcore::bench {

/// Answers every `ask_bytes` received on a connection by `answer_bytes`: one recv, one send per connection and round,
/// and an epoll that never sleeps.
inline void serveEcho(int listener, size_t ask_bytes, size_t answer_bytes) {
  const int poller = ::epoll_create1(EPOLL_CLOEXEC);
  const auto watch = [&](int fd) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    ::epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
  };
  watch(listener);
  std::map<int, size_t> pending;
  std::vector<char> buffer(64 * 1024);
  const std::vector<char> answer(64 * 1024, 'e');
  for (;;) {
    epoll_event events[64];
    const int count = ::epoll_wait(poller, events, 64, 0);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == listener) {
        const int accepted = ::accept(listener, nullptr, nullptr);
        const int on = 1;
        ::setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        watch(accepted);
        continue;
      }
      const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) {
        ::close(fd);
        pending.erase(fd);
        continue;
      }
      size_t& bytes = pending[fd];
      bytes += got > 0 ? static_cast<size_t>(got) : 0;
      const size_t asks = bytes / ask_bytes;
      bytes %= ask_bytes;
      if (asks != 0) sendAll(fd, {answer.data(), std::min(asks * answer_bytes, answer.size())});
    }
  }
}

inline void PeerServer::startEcho(size_t ask_bytes, size_t answer_bytes) {
  const int listener = listenOnLoopback(port_);
  process_ = Child::fork([&] { serveEcho(listener, ask_bytes, answer_bytes); });
  ::close(listener);
}

}  // namespace ramcore::bench
