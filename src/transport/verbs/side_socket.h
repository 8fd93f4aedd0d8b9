#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/locator.h"
#include "transport/os/descriptor.h"
#include "transport/session/accepting.h"

namespace ramcore::transport::verbs {

/// Address of a TCP socket.
struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t length = 0;

  /// "10.0.0.1:1100"
  std::string toString() const;
  std::string host() const;
  uint16_t port() const;
  bool isLoopback() const;
};

/// Looks a host up. Numeric addresses are there at once; names are asked for by the C library in a thread of its own.
class HostLookup {
 public:
  enum class State : uint8_t { Running, Found, Failed };

  HostLookup();
  HostLookup(const HostLookup&) = delete;
  HostLookup& operator=(const HostLookup&) = delete;
  ~HostLookup();

  void start(const std::string& host, uint16_t port);
  State look();
  /// Once Found; in the order in which they are to be tried.
  const std::vector<SocketAddress>& addresses() const { return addresses_; }
  /// Once Failed, for a person.
  const std::string& failureText() const { return failure_text_; }
  /// Once Failed: true if there is no such host; false if nobody could tell.
  bool isUnknown() const { return is_unknown_; }

 private:
  struct Request;
  bool take(int error, addrinfo* found);

  std::unique_ptr<Request> request_;
  std::vector<SocketAddress> addresses_;
  std::string failure_text_;
  bool is_unknown_ = false;
};

/// Makes a socket that listens; the socket never blocks, but the look-up of the host does. Port 0: any free one.
/// Failure: InUse, BadConfig, IoError, with cause and remedy.
Outcome<Descriptor> listenAt(const Locator& where, SocketAddress& bound);
/// Accepts the next connection that waits.
Accepted acceptFrom(int listener, Descriptor& socket, SocketAddress& peer);
/// Begins to connect; none: this system cannot (errno).
Descriptor startConnecting(const SocketAddress& address);
/// What has become of the connecting: 0: connected; EINPROGRESS: it goes on; otherwise why it failed (errno).
int connectError(int socket);

}  // namespace ramcore::transport::verbs
