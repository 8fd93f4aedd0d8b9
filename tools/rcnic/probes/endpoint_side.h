#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "runtime/real/system_clock.h"
#include "tools/rcnic/probes/probes.h"
#include "transport/shm/shm_transport.h"
#include "transport/tcp/asio_sleeper.h"
#include "transport/tcp/tcp_transport.h"

namespace ramcore::rcnic {

/// One end of what is measured over the product's own endpoints: a transport with one endpoint, which never sleeps.
///
/// Thread: the one that opened it, to the end.
class EndpointSide {
 public:
  /// @param choice  of DPDK: the two ports, the sender's first
  /// @param secret  that both ends have; empty: they stay on this machine
  /// Failure: BadConfig, NoSpace, IoError: of the transport.
  static Outcome<std::unique_ptr<EndpointSide>> open(const ProbeChoice& choice, const std::string& secret,
                                                     bool is_sender);
  EndpointSide(const EndpointSide&) = delete;
  EndpointSide& operator=(const EndpointSide&) = delete;

  transport::Endpoint& endpoint() { return *endpoint_; }
  runtime::Clock& clock() { return clock_; }
  /// The region that chunks in this memory name; 0 where chunks are sent from anywhere. The same memory has the same
  /// region.
  Outcome<transport::RegionId> regionOf(std::span<std::byte> memory);

 private:
  EndpointSide(std::string secret, bool is_sender);
  Outcome<bool> openDpdk(const transport::DpdkChoice& choice, size_t own);

  runtime::SystemClock clock_;
  runtime::SystemEntropy entropy_;
  transport::tcp::AsioSleeper sleeper_;
  transport::Identity identity_;
  std::optional<transport::shm::ShmTransport> shm_;
  std::optional<transport::tcp::TcpTransport> tcp_;
  std::unique_ptr<transport::Transport> dpdk_;
  std::map<const std::byte*, transport::RegionId> regions_;
  std::unique_ptr<transport::Endpoint> endpoint_;
};

/// The ports of DPDK that join sender and receiver, where none were named. @param socket  path of the memif
transport::DpdkChoice memifsAt(const std::string& socket, transport::DpdkChoice choice);
/// What is behind a port of DPDK: the name of its driver or adapter, and whether it is software.
std::string dpdkDeviceOf(const std::string& port);
bool isSoftwarePort(const std::string& port);

}  // namespace ramcore::rcnic
