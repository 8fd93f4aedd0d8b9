#include "transport/tcp/tcp_session.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace ramcore::transport::tcp {
namespace {

// A peer whose machine has vanished is noticed after about a minute, also when nobody waits for it. While nothing is
// sent, probes notice it; otherwise bytes that are not acknowledged for kUnacknowledgedMs (by default the kernel sends
// them again for a quarter of an hour). This time holds for probes, too, so it is as long as all of them take together:
// otherwise one lost probe would end the session.
constexpr int kProbeAfterIdleS = 30;
constexpr int kProbeIntervalS = 10;
constexpr int kProbeCount = 3;
constexpr int kUnacknowledgedMs = (kProbeAfterIdleS + kProbeCount * kProbeIntervalS) * 1000;

// While calls wait for it, a peer counts as vanished after this time without an acknowledgement, if its bytes were sent
// again this often (hasPeerVanished). The kernel sends again after about 0.2 s, 0.6 s, 1.4 s, ...
constexpr uint32_t kVanishedMs = 500;
constexpr uint32_t kVanishedResends = 2;

bool setOption(int fd, int level, int option, int value) {
  return ::setsockopt(fd, level, option, &value, sizeof(value)) == 0;
}

}  // namespace

const uint32_t kReadEvents = EPOLLIN | EPOLLRDHUP;

std::string textOf(const Tcp::endpoint& address) {
  const std::string host = address.address().to_string();
  const std::string port = std::to_string(address.port());
  return address.address().is_v6() ? "[" + host + "]:" + port : host + ":" + port;
}

bool prepareSocket(int socket, int32_t kernel_send_bytes) {
  if (!setOption(socket, IPPROTO_TCP, TCP_NODELAY, 1)) return false;
  // The options below are improvements; setting them may fail.
  setOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  setOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, kProbeAfterIdleS);
  setOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, kProbeIntervalS);
  setOption(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbeCount);
  setOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnacknowledgedMs);
  if (kernel_send_bytes > 0) setOption(socket, SOL_SOCKET, SO_SNDBUF, kernel_send_bytes);
  return true;
}

// TCP_USER_TIMEOUT cannot tell this: it would also end sessions whose peer is alive and takes nothing for a while.
bool hasPeerVanished(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof(info);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return false;
  return info.tcpi_unacked > 0 && info.tcpi_retransmits >= kVanishedResends && info.tcpi_last_ack_recv >= kVanishedMs;
}

}  // namespace ramcore::transport::tcp
