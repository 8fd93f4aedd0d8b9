#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "bench/support/child.h"

namespace ramcore::bench {

/// The lower bound of a round trip: both processes spin, copy the bytes in and out of shared memory, and do nothing
/// else. A word in a line of its own tells that a message is there, as in any ring.
class RawShm {
 public:
  RawShm(size_t request_bytes, size_t response_bytes) : request_bytes_(request_bytes), response_bytes_(response_bytes) {
    void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("mmap failed");
    shared_ = new (memory) Shared{};
    server_ = Child::fork([this] { serve(); });
    pause();
  }
  ~RawShm() {
    server_.stop();
    ::munmap(shared_, sizeof(Shared));
  }
  RawShm(const RawShm&) = delete;
  RawShm& operator=(const RawShm&) = delete;

  /// The server spins between resume() and pause() only.
  void resume() { server_.resume(); }
  void pause() { server_.pause(); }
  void roundTrip() {
    std::memcpy(shared_->to_server.payload, buffer_, request_bytes_);
    shared_->to_server.sequence.store(++sequence_, std::memory_order_release);
    while (shared_->to_client.sequence.load(std::memory_order_acquire) != sequence_) {
    }
    std::memcpy(buffer_, shared_->to_client.payload, response_bytes_);
  }

 private:
  static constexpr size_t kPayloadMax = 4096;
  struct alignas(128) Direction {
    std::atomic<uint64_t> sequence;
    std::byte pad[56];
    std::byte payload[kPayloadMax];
  };
  struct Shared {
    Direction to_server;
    Direction to_client;
  };

  void serve() {
    for (uint64_t next = 1;; ++next) {
      while (shared_->to_server.sequence.load(std::memory_order_acquire) != next) {
      }
      std::memcpy(buffer_, shared_->to_server.payload, request_bytes_);
      std::memcpy(shared_->to_client.payload, buffer_, response_bytes_);
      shared_->to_client.sequence.store(next, std::memory_order_release);
    }
  }

  const size_t request_bytes_;
  const size_t response_bytes_;
  Shared* shared_ = nullptr;
  uint64_t sequence_ = 0;
  std::byte buffer_[kPayloadMax] = {};
  Child server_;
};

/// A listening socket of loopback on a free port.
inline int listenOnLoopback(uint16_t& port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(listener, 256) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    die("no listening socket");
  }
  port = ntohs(address.sin_port);
  return listener;
}

/// Connected to a port of loopback, or -1.
inline int connectToLoopback(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(fd);
    return -1;
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

/// The same over one connection of TCP: both processes spin on recv() without waiting, unless the server is to sleep
/// until something comes.
class RawTcp {
 public:
  enum class Server : uint8_t { Spins, Sleeps };

  RawTcp(size_t request_bytes, size_t response_bytes, Server server = Server::Spins)
      : request_(request_bytes), response_(response_bytes) {
    uint16_t port = 0;
    const int listener = listenOnLoopback(port);
    server_ = Child::fork([&] {
      const int fd = ::accept(listener, nullptr, nullptr);
      const int on = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      const auto wait = [&] {
        pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
        return server == Server::Spins || ::poll(&readable, 1, -1) == 1;
      };
      while (wait() && receive(fd, request_) && send(fd, response_)) {
      }
    });
    ::close(listener);
    client_ = connectToLoopback(port);
    if (client_ < 0) die("the raw server is not there");
    if (server == Server::Spins) pause();
  }
  ~RawTcp() {
    ::close(client_);
    server_.stop();
  }
  RawTcp(const RawTcp&) = delete;
  RawTcp& operator=(const RawTcp&) = delete;

  /// The server spins between resume() and pause() only.
  void resume() { server_.resume(); }
  void pause() { server_.pause(); }
  void roundTrip() {
    if (!send(client_, request_) || !receive(client_, response_)) die("the raw server is gone");
  }

 private:
  static bool send(int fd, const std::vector<char>& bytes) {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::send(fd, bytes.data() + done, bytes.size() - done, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) done += static_cast<size_t>(n);
      if (n < 0 && errno != EAGAIN) return false;
    }
    return true;
  }
  static bool receive(int fd, std::vector<char>& bytes) {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::recv(fd, bytes.data() + done, bytes.size() - done, MSG_DONTWAIT);
      if (n > 0) done += static_cast<size_t>(n);
      if (n == 0 || (n < 0 && errno != EAGAIN)) return false;
    }
    return true;
  }

  std::vector<char> request_;
  std::vector<char> response_;
  int client_ = -1;
  Child server_;
};

}  // namespace ramcore::bench
