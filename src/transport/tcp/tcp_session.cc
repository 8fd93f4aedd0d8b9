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

void setOption(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof(value)); }

}  // namespace

std::string textOf(const Tcp::endpoint& address) {
  const std::string host = address.address().to_string();
  const std::string port = std::to_string(address.port());
  return address.address().is_v6() ? "[" + host + "]:" + port : host + ":" + port;
}

bool prepareSocket(Tcp::socket& socket, int32_t kernel_send_bytes) {
  Error error;
  socket.non_blocking(true, error);
  if (error) return false;
  socket.set_option(Tcp::no_delay(true), error);
  if (error) return false;
  // What follows makes things better and may fail.
  const int fd = socket.native_handle();
  setOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  setOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kProbeAfterIdleS);
  setOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, kProbeIntervalS);
  setOption(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbeCount);
  if (kernel_send_bytes > 0) setOption(fd, SOL_SOCKET, SO_SNDBUF, kernel_send_bytes);
  return true;
}

}  // namespace ramcore::transport::tcp
