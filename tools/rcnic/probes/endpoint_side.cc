#include "tools/rcnic/probes/endpoint_side.h"

#include <string>
#include <utility>

#include "base/trace.h"
#ifdef RAMCORE_HAS_DPDK
#include "transport/dpdk/dpdk_transport.h"
#endif

namespace ramcore::rcnic {

EndpointSide::EndpointSide(std::string secret, bool is_sender)
    : sleeper_(clock_),
      identity_{.role = is_sender ? transport::Role::Client : transport::Role::Server,
                .id = 0,
                .cluster_name = "rcnic",
                .secret = std::move(secret)} {}

Outcome<std::unique_ptr<EndpointSide>> EndpointSide::open(const ProbeChoice& choice, const std::string& secret,
                                                          bool is_sender) {
  std::unique_ptr<EndpointSide> side(new EndpointSide(secret, is_sender));
  Trace& trace = stderrTrace("rcnic");
  if (choice.transport == "dpdk") {
    auto opened = side->openDpdk(choice.dpdk, is_sender ? 0 : 1);
    if (!opened.ok()) return std::move(opened).error();
  } else if (choice.transport == "shm") {
    side->shm_.emplace(
        transport::shm::ShmOptions{},
        transport::shm::ShmContext{
            .clock = side->clock_, .entropy = side->entropy_, .trace = trace, .sleeper = &side->sleeper_});
    side->endpoint_ = side->shm_->makeEndpoint(side->identity_);
  } else {
    side->tcp_.emplace(
        transport::tcp::TcpOptions{},
        transport::tcp::TcpContext{
            .clock = side->clock_, .entropy = side->entropy_, .trace = trace, .sleeper = side->sleeper_});
    side->endpoint_ = side->tcp_->makeEndpoint(side->identity_);
  }
  return side;
}

Outcome<transport::RegionId> EndpointSide::regionOf(std::span<std::byte> memory) {
  if (dpdk_ == nullptr) return transport::RegionId{0};
  if (const auto known = regions_.find(memory.data()); known != regions_.end()) return known->second;
  auto region = dpdk_->registerMemory(memory.data(), memory.size(), transport::Access::Local);
  if (region.ok()) regions_.emplace(memory.data(), *region);
  return region;
}

#ifdef RAMCORE_HAS_DPDK

Outcome<bool> EndpointSide::openDpdk(const transport::DpdkChoice& choice, size_t own) {
  transport::dpdk::DpdkOptions options;
  options.environment = {.ports = {choice.ports.at(own)},
                         .memory_mb = choice.memory_mb,
                         .huge_pages = choice.huge_pages,
                         .arguments = choice.arguments};
  options.mtu = choice.mtu;
  options.protocol.wants_seal = choice.seal;
  // Chunks in a region are gathered, whether that pays or not; chunks that are to be copied are in no region.
  options.protocol.gather.copy_below_bytes = 1;
  auto opened = transport::dpdk::DpdkTransport::open(
      options, {.clock = clock_, .entropy = entropy_, .trace = stderrTrace("rcnic"), .wake_by = {}});
  if (!opened.ok()) return std::move(opened).error();
  dpdk_ = std::move(opened).value();
  endpoint_ = dpdk_->makeEndpoint(identity_);
  return true;
}

transport::DpdkChoice memifsAt(const std::string& socket, transport::DpdkChoice choice) {
  choice.ports = {"net_memif0,role=client,id=0,socket-abstract=no,socket=" + socket,
                  "net_memif0,role=server,id=0,socket-abstract=no,socket=" + socket};
  return choice;
}

std::string dpdkDeviceOf(const std::string& port) { return transport::dpdk::DeviceName::split(port).driver(); }
bool isSoftwarePort(const std::string& port) { return transport::dpdk::Environment::isVirtual(port); }

#else

Outcome<bool> EndpointSide::openDpdk(const transport::DpdkChoice&, size_t) {
  return Failure{Status::BadConfig, "this build has no dpdk transport: build with RAMCORE_DPDK=ON"};
}
transport::DpdkChoice memifsAt(const std::string&, transport::DpdkChoice choice) { return choice; }
std::string dpdkDeviceOf(const std::string& port) { return port; }
bool isSoftwarePort(const std::string&) { return true; }

#endif

}  // namespace ramcore::rcnic
