#include "transport/verbs/side_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

namespace ramcore::transport::verbs {
namespace {

constexpr int kBacklog = 1024;

const sockaddr* rawOf(const SocketAddress& address) { return reinterpret_cast<const sockaddr*>(&address.bytes); }

std::vector<SocketAddress> addressesOf(const addrinfo* found) {
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.bytes, one->ai_addr, one->ai_addrlen);
    address.length = one->ai_addrlen;
  }
  return addresses;
}

addrinfo hintsFor(int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  return hints;
}

// The connection carries nothing while all is well: without these options the loss of the other machine would not show.
void prepareSocket(int socket) {
  const int on = 1;
  const int idle_s = 10;
  const int interval_s = 5;
  const int count = 3;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

}  // namespace

std::string SocketAddress::host() const {
  char text[INET6_ADDRSTRLEN] = "?";
  if (bytes.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(bytes).sin_addr, text, sizeof(text));
  } else if (bytes.ss_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(bytes).sin6_addr, text, sizeof(text));
  }
  return text;
}

uint16_t SocketAddress::port() const {
  if (bytes.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(bytes).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(bytes).sin_port);
}

std::string SocketAddress::toString() const {
  const std::string text = bytes.ss_family == AF_INET6 ? "[" + host() + "]" : host();
  return text + ":" + std::to_string(port());
}

bool SocketAddress::isLoopback() const {
  if (bytes.ss_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(bytes).sin6_addr);
  return ntohl(reinterpret_cast<const sockaddr_in&>(bytes).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

// ---- names

/// What the C library needs during a look-up; it must stay where it is until that has ended.
struct HostLookup::Request {
  std::string host;
  std::string service;
  addrinfo hints{};
  gaicb control{};
};

HostLookup::HostLookup() = default;

HostLookup::~HostLookup() {
  if (request_ == nullptr) return;
  gaicb* const one = &request_->control;
  if (::gai_cancel(one) == EAI_NOTCANCELED) {
    // The name is being looked up just now. That ends by itself and needs the request, which is not freed therefore.
    static_cast<void>(request_.release());
  } else if (one->ar_result != nullptr) {
    ::freeaddrinfo(one->ar_result);
  }
}

bool HostLookup::take(int error, addrinfo* found) {
  if (error == 0) addresses_ = addressesOf(found);
  if (found != nullptr) ::freeaddrinfo(found);
  if (error == 0 && !addresses_.empty()) return true;
  failure_text_ = error != 0 ? ::gai_strerror(error) : "it has no address";
  is_unknown_ = error == 0 || error == EAI_NONAME || error == EAI_NODATA;
  return false;
}

void HostLookup::start(const std::string& host, uint16_t port) {
  const std::string numeric = host == "localhost" ? "127.0.0.1" : host;
  const std::string service = std::to_string(port);
  const addrinfo hints = hintsFor(AI_NUMERICHOST);
  addrinfo* found = nullptr;
  if (::getaddrinfo(numeric.c_str(), service.c_str(), &hints, &found) == 0) {
    static_cast<void>(take(0, found));
    return;
  }
  request_ = std::make_unique<Request>();
  request_->host = host;
  request_->service = service;
  request_->hints = hintsFor(0);
  request_->control.ar_name = request_->host.c_str();
  request_->control.ar_service = request_->service.c_str();
  request_->control.ar_request = &request_->hints;
  gaicb* one = &request_->control;
  const int error = ::getaddrinfo_a(GAI_NOWAIT, &one, 1, nullptr);
  if (error == 0) return;
  failure_text_ = ::gai_strerror(error);
  request_.reset();
}

HostLookup::State HostLookup::look() {
  if (request_ != nullptr) {
    const int error = ::gai_error(&request_->control);
    if (error == EAI_INPROGRESS) return State::Running;
    static_cast<void>(take(error, std::exchange(request_->control.ar_result, nullptr)));
    request_.reset();
  }
  return addresses_.empty() ? State::Failed : State::Found;
}

// ---- sockets

Outcome<Descriptor> listenAt(const Locator& where, SocketAddress& bound) {
  const std::string text = "cannot listen at " + where.toString() + ": ";
  HostLookup lookup;
  lookup.start(where.host, where.port);
  pollfd nothing{};
  while (lookup.look() == HostLookup::State::Running) ::poll(&nothing, 0, 1);  // at start, where nobody waits
  if (lookup.addresses().empty()) {
    return Failure{Status::BadConfig, text + "host '" + where.host + "' is unknown (" + lookup.failureText() +
                                          "); write an address of this machine"};
  }
  const SocketAddress& address = lookup.addresses().front();
  Descriptor socket(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  const int off = 0;
  // A socket that listens at all addresses of IPv6 accepts IPv4 too, whatever the system's default is.
  if (socket && where.host == "::") ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(socket.get(), rawOf(address), address.length) != 0 || ::listen(socket.get(), kBacklog) != 0) {
    if (errno == EADDRINUSE) {
      return Failure{Status::InUse, text + "another process uses the port; stop it or choose another one (0 = any)"};
    }
    return Failure{Status::IoError,
                   text + std::strerror(errno) + "; choose an address of this machine and a port this user may take"};
  }
  bound.length = sizeof(bound.bytes);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound.bytes), &bound.length) != 0) {
    return Failure{Status::IoError, text + std::strerror(errno)};
  }
  return socket;
}

Accepted acceptFrom(int listener, Descriptor& socket, SocketAddress& peer) {
  peer.length = sizeof(peer.bytes);
  const Accepted accepted = acceptNext(listener, socket, reinterpret_cast<sockaddr*>(&peer.bytes), &peer.length);
  if (accepted == Accepted::Yes) prepareSocket(socket.get());
  return accepted;
}

Descriptor startConnecting(const SocketAddress& address) {
  Descriptor socket(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return socket;
  prepareSocket(socket.get());
  if (::connect(socket.get(), rawOf(address), address.length) != 0 && errno != EINPROGRESS) socket.reset();
  return socket;
}

int connectError(int socket) {
  pollfd ready{socket, POLLOUT, 0};
  if (::poll(&ready, 1, 0) == 0) return EINPROGRESS;
  int error = 0;
  socklen_t bytes = sizeof(error);
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) return errno;
  return error;
}

}  // namespace ramcore::transport::verbs
