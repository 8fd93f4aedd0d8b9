#pragma once

#include <sys/epoll.h>

#include "bench/support/peer_server.h"

namespace ramcore::bench {

/// The requests that the load loop keeps in flight: on each connection `pipeline` requests for `keys` keys each are
/// sent together, and the next ones when all answers are there.
struct Shape {
  int connections = 1;
  int pipeline = 1;
  int keys = 1;

  int objectsPerTurn() const { return pipeline * keys; }
};

/// The load loop on sockets, for peers whose answers have known lengths. One thread, spinning: recv() on the only
/// connection, or epoll without waiting over several.
class SocketLoad {
 public:
  SocketLoad(const PeerServer& peer, const Shape& shape, Keys& keys, size_t ask_bytes, size_t answer_bytes)
      : kind_(peer.kind()), shape_(shape), keys_(keys), ask_(ask_bytes, 'a') {
    switch (kind_) {
      case PeerKind::Redis:
        turn_bytes_ = kRedisAnswerBytes * static_cast<size_t>(shape.pipeline);
        break;
      case PeerKind::Memcached:
        turn_bytes_ =
            (kMemcachedValueBytes * static_cast<size_t>(shape.keys) + 5) * static_cast<size_t>(shape.pipeline);
        break;
      case PeerKind::Echo:
        turn_bytes_ = answer_bytes * static_cast<size_t>(shape.pipeline);
        break;
    }
    poller_ = ::epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < shape.connections; ++i) {
      connections_.push_back({.fd = peer.connect()});
      epoll_event event{.events = EPOLLIN, .data = {.u32 = static_cast<uint32_t>(i)}};
      ::epoll_ctl(poller_, EPOLL_CTL_ADD, connections_.back().fd, &event);
    }
  }
  ~SocketLoad() {
    for (const Connection& connection : connections_) ::close(connection.fd);
    ::close(poller_);
  }
  SocketLoad(const SocketLoad&) = delete;
  SocketLoad& operator=(const SocketLoad&) = delete;

  /// Thousand objects a second.
  double run(double seconds) {
    for (Connection& connection : connections_) send(connection);
    const double begin_s = nowSeconds();
    double now_s = begin_s;
    double progress_s = begin_s;
    uint64_t seen = 0;
    while (now_s - begin_s < seconds) {
      for (int i = 0; i < 64; ++i) turn();
      now_s = nowSeconds();
      if (objects_ != seen) {
        seen = objects_;
        progress_s = now_s;
      } else if (now_s - progress_s > 10) {
        die(std::string(name(kind_)) + " does not answer any more");
      }
    }
    return static_cast<double>(objects_) / (now_s - begin_s) / 1000;
  }

 private:
  struct Connection {
    int fd = -1;
    size_t received = 0;
  };
  static constexpr size_t kRedisAnswerBytes = 6 + kValueBytes + 2;                     // $100, value
  static constexpr size_t kMemcachedValueBytes = 6 + kKeyBytes + 8 + kValueBytes + 2;  // VALUE key 0 100, value

  void turn() {
    if (connections_.size() == 1) return receive(connections_[0]);
    epoll_event events[64];
    const int count = ::epoll_wait(poller_, events, 64, 0);
    for (int i = 0; i < count; ++i) receive(connections_[events[i].data.u32]);
  }

  void send(Connection& connection) {
    request_.clear();
    for (int i = 0; i < shape_.pipeline; ++i) appendRequest();
    sendAll(connection.fd, request_);
  }
  void appendRequest() {
    switch (kind_) {
      case PeerKind::Redis:
        request_.append("*2\r\n$3\r\nGET\r\n$30\r\n").append(keys_.next()).append("\r\n");
        break;
      case PeerKind::Memcached:
        request_.append("get");
        for (int k = 0; k < shape_.keys; ++k) request_.append(" ").append(keys_.next());
        request_.append("\r\n");
        break;
      case PeerKind::Echo:
        request_.append(ask_);
        break;
    }
  }

  void receive(Connection& connection) {
    const ssize_t got = ::recv(connection.fd, buffer_, sizeof(buffer_), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) die(std::string(name(kind_)) + " closed a connection");
    if (got < 0) return;
    if (connection.received == 0 && kind_ != PeerKind::Echo &&
        std::memcmp(buffer_, kind_ == PeerKind::Redis ? "$100" : "VALU", 4) != 0) {
      die(std::string(name(kind_)) + " does not find a key: " + std::string(buffer_, static_cast<size_t>(got)));
    }
    connection.received += static_cast<size_t>(got);
    if (connection.received < turn_bytes_) return;
    if (connection.received > turn_bytes_) die(std::string(name(kind_)) + " answers more than was asked");
    connection.received = 0;
    objects_ += static_cast<uint64_t>(shape_.objectsPerTurn());
    send(connection);
  }

  const PeerKind kind_;
  const Shape shape_;
  Keys& keys_;
  const std::string ask_;
  size_t turn_bytes_ = 0;
  int poller_ = -1;
  std::vector<Connection> connections_;
  std::string request_;
  char buffer_[64 * 1024];
  uint64_t objects_ = 0;
};

}  // namespace ramcore::bench
