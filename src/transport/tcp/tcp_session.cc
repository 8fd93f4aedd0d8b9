#include "transport/tcp/tcp_session.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace ramcore::transport::tcp {
namespace {

// A peer whose machine vanished is noticed after about a minute, also when nothing is sent.
constexpr int kProbeAfterIdleS = 30;
constexpr int kProbeIntervalS = 10;
constexpr int kProbeCount = 3;

bool setOption(int fd, int level, int option, int value) {
  return ::setsockopt(fd, level, option, &value, sizeof(value)) == 0;
}

}  // namespace

std::string textOf(const Tcp::endpoint& address) {
  const std::string host = address.address().to_string();
  const std::string port = std::to_string(address.port());
  return address.address().is_v6() ? "[" + host + "]:" + port : host + ":" + port;
}

bool prepareSocket(int socket, int32_t kernel_send_bytes) {
  if (!setOption(socket, IPPROTO_TCP, TCP_NODELAY, 1)) return false;
  // What follows makes things better and may fail.
  setOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  setOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, kProbeAfterIdleS);
  setOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, kProbeIntervalS);
  setOption(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbeCount);
  if (kernel_send_bytes > 0) setOption(socket, SOL_SOCKET, SO_SNDBUF, kernel_send_bytes);
  return true;
}

}  // namespace ramcore::transport::tcp
