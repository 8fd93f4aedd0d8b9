#pragma once

#include <poll.h>

#include <string>
#include <string_view>

#include "bench/support/bench_cluster.h"
#include "bench/support/raw_peers.h"
#include "bench/support/workload.h"

namespace ramcore::bench {

enum class PeerKind : uint8_t { Redis, Memcached, Echo };

inline std::string_view name(PeerKind kind) {
  return kind == PeerKind::Redis ? "redis" : kind == PeerKind::Memcached ? "memcached" : "echo";
}

inline void sendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) die("a peer closed the connection");
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

/// Exactly `count` bytes; a peer that says less within 30 s ends the program.
inline std::string receiveExactly(int fd, size_t count) {
  std::string bytes(count, '\0');
  for (size_t done = 0; done < count;) {
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    const ssize_t got = ::poll(&wait, 1, 30'000) == 1 ? ::recv(fd, bytes.data() + done, count - done, 0) : 0;
    if (got <= 0) die("a peer answers too little: " + bytes.substr(0, done));
    done += static_cast<size_t>(got);
  }
  return bytes;
}

/// An instance of a peer of our own, on a free port of loopback and on the server's core: nothing on disk, one thread.
/// Echo is the limit: it answers as many bytes as a small read has, and spins.
class PeerServer {
 public:
  /// @param answer_bytes, ask_bytes  of Echo.
  explicit PeerServer(PeerKind kind, size_t ask_bytes = 0, size_t answer_bytes = 0) : kind_(kind) {
    if (kind == PeerKind::Echo) {
      startEcho(ask_bytes, answer_bytes);
      return;
    }
    // Between closing the socket and the peer's bind the port could be taken by others; then the peer ends and so do
    // we.
    ::close(listenOnLoopback(port_));
    const std::string port = std::to_string(port_);
    if (kind == PeerKind::Redis) {
      process_ = Child::start({"redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly",
                               "no", "--daemonize", "no", "--dir", folder_ / ""},
                              folder_ / "redis.log");
    } else {
      process_ = Child::start(
          {"memcached", "-p", port, "-U", "0", "-l", "127.0.0.1", "-t", "1", "-m", "4096", "-u", "nobody", "-c", "256"},
          folder_ / "memcached.log");
    }
    // memcached does not say when it listens, so connecting is tried until it succeeds, for 20 s.
    for (const double end_s = nowSeconds() + 20; nowSeconds() < end_s; ::usleep(20'000)) {
      const int fd = connectToLoopback(port_);
      if (fd < 0) continue;
      ::close(fd);
      return;
    }
    die(std::string(name(kind)) + " does not start; tools/setup --bench installs it");
  }

  int connect() const {
    const int fd = connectToLoopback(port_);
    if (fd < 0) die("no connection to " + std::string(name(kind_)));
    return fd;
  }
  PeerKind kind() const { return kind_; }
  Child& process() { return process_; }

  static std::string setRequest(PeerKind kind, std::string_view key, std::string_view value) {
    std::string out;
    if (kind == PeerKind::Redis) {
      out.append("*3\r\n$3\r\nSET\r\n$30\r\n").append(key).append("\r\n$100\r\n").append(value).append("\r\n");
    } else {
      out.append("set ").append(key).append(" 0 0 100\r\n").append(value).append("\r\n");
    }
    return out;
  }

  void load(const Keys& keys) {
    constexpr uint64_t kPipeline = 256;
    const std::string value(kValueBytes, 'v');
    const std::string_view good = kind_ == PeerKind::Redis ? "+OK\r\n" : "STORED\r\n";
    const int fd = connect();
    for (uint64_t first = 0; first < keys.count(); first += kPipeline) {
      const uint64_t count = std::min(kPipeline, keys.count() - first);
      std::string requests;
      for (uint64_t i = 0; i < count; ++i) requests += setRequest(kind_, keys.at(first + i), value);
      sendAll(fd, requests);
      const std::string answers = receiveExactly(fd, good.size() * count);
      for (uint64_t i = 0; i < count; ++i) {
        if (answers.compare(i * good.size(), good.size(), good) != 0) die("a peer refuses to store: " + answers);
      }
    }
    ::close(fd);
  }

 private:
  void startEcho(size_t ask_bytes, size_t answer_bytes);

  const PeerKind kind_;
  ScratchFolder folder_;
  uint16_t port_ = 0;
  Child process_;
};

}  // namespace ramcore::bench

#include "bench/support/echo_server.h"  // IWYU pragma: export
