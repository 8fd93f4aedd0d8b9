#include "transport/dpdk/dpdk_transport.h"

#include <algorithm>
#include <bit>

namespace ramcore::transport::dpdk {
namespace {

constexpr uint32_t kMtuMin = 576;
constexpr uint32_t kMtuMax = 9000;

}  // namespace

Outcome<std::unique_ptr<DpdkTransport>> DpdkTransport::open(const DpdkOptions& options,
                                                            const datagram::DatagramContext& context) {
  if (options.environment.ports.empty()) return Failure{Status::BadConfig, "dpdk has no ports; name one: --dpdk-port"};
  if (options.mtu < kMtuMin || options.mtu > kMtuMax) {
    return Failure{Status::BadConfig, "an MTU of " + std::to_string(options.mtu) + " is not between " +
                                          std::to_string(kMtuMin) + " and " + std::to_string(kMtuMax)};
  }
  RC_CHECK(std::has_single_bit(options.frame_count));
  auto environment = Environment::start(options.environment, context.trace);
  if (!environment.ok()) return std::move(environment).error();
  std::unique_ptr<DpdkTransport> transport(new DpdkTransport(options, context, **environment));
  auto pools = FramePools::make(options.frame_count, options.mtu + kEthernetHeaderBytes);
  if (!pools.ok()) return std::move(pools).error();
  transport->pools_ = std::move(pools).value();
  // Half of the frames may be borrowed; the rest is for what is sent and for what devices hold.
  const auto lendable = static_cast<uint32_t>(options.frame_count / (2 * options.environment.ports.size()));
  datagram::MacAddress address = options.address;
  for (const std::string& device : options.environment.ports) {
    auto port = DpdkPort::open({.device = device, .mtu = options.mtu, .address = address, .is_local = options.is_local},
                               *transport->pools_, lendable);
    if (!port.ok()) return std::move(port).error();
    address = (*port)->facts().address;
    transport->ports_.push_back(std::move(port).value());
    if (options.faults.isNothing()) continue;
    datagram::FaultRates rates = options.faults;
    rates.seed += transport->ports_.size();
    transport->faulty_.push_back(
        std::make_unique<datagram::FaultyPort>(*transport->ports_.back(), rates, context.clock));
  }
  return transport;
}

DpdkTransport::DpdkTransport(const DpdkOptions& options, const datagram::DatagramContext& context,
                             Environment& environment)
    : options_(options),
      context_(context),
      limits_(datagram::DatagramEndpoint::limitsOf(options.protocol)),
      environment_(environment) {}

DpdkTransport::~DpdkTransport() = default;

Outcome<RegionId> DpdkTransport::registerMemory(std::byte* base, size_t bytes, Access) {
  ++region_count_;  // also if it fails
  auto outcome = environment_.addMemory(base, bytes);
  for (const auto& port : ports_) {
    if (outcome.ok()) outcome = port->addRegion(base, bytes);
    if (!outcome.ok()) port->addUnregistered();
  }
  if (!outcome.ok()) return std::move(outcome).error();
  return region_count_;
}

std::unique_ptr<Endpoint> DpdkTransport::makeEndpoint(const Identity& identity) {
  RC_CHECK_MSG(!std::exchange(has_endpoint_, true), "ports of DPDK are one endpoint's");
  std::vector<datagram::FramePort*> ports;
  for (size_t i = 0; i < ports_.size(); ++i) {
    ports.push_back(faulty_.empty() ? static_cast<datagram::FramePort*>(ports_[i].get()) : faulty_[i].get());
  }
  return std::make_unique<datagram::DatagramEndpoint>(options_.protocol, context_, limits_, std::move(ports), identity);
}

std::string DpdkTransport::describe() const {
  std::string text = ports_.front()->facts().address.toString() + " at ";
  for (const auto& port : ports_) text += (port == ports_.front() ? "" : ", ") + port->describe();
  return text;
}

}  // namespace ramcore::transport::dpdk
