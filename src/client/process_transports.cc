#include "client/process_transports.h"

#include <array>

#include "transport/shm/shm_transport.h"
#include "transport/tcp/asio_sleeper.h"
#include "transport/tcp/tcp_transport.h"

namespace ramcore::client {

struct ProcessTransports::Parts {
  Parts(runtime::Clock& clock, runtime::Entropy& entropy, Trace& trace, const transport::Identity& identity)
      : sleeper(clock),
        shm({}, {.clock = clock, .entropy = entropy, .trace = trace, .sleeper = &sleeper}),
        tcp({}, {.clock = clock, .entropy = entropy, .trace = trace, .sleeper = sleeper}),
        shm_endpoint(shm.makeEndpoint(identity)),
        tcp_endpoint(tcp.makeEndpoint(identity)),
        endpoints{shm_endpoint.get(), tcp_endpoint.get()} {}

  transport::tcp::AsioSleeper sleeper;
  transport::shm::ShmTransport shm;
  transport::tcp::TcpTransport tcp;
  std::unique_ptr<transport::Endpoint> shm_endpoint;
  std::unique_ptr<transport::Endpoint> tcp_endpoint;
  std::array<transport::Endpoint*, 2> endpoints;
};

ProcessTransports::ProcessTransports(runtime::Clock& clock, runtime::Entropy& entropy, Trace& trace,
                                     const transport::Identity& identity)
    : parts_(std::make_unique<Parts>(clock, entropy, trace, identity)) {}

ProcessTransports::~ProcessTransports() = default;

transport::Sleeper& ProcessTransports::sleeper() { return parts_->sleeper; }

std::span<transport::Endpoint* const> ProcessTransports::endpoints() const { return parts_->endpoints; }

bool ProcessTransports::canReach(const transport::Locator& locator) const {
  for (const transport::Endpoint* endpoint : parts_->endpoints) {
    if (endpoint->limits().name == locator.scheme) return true;
  }
  return false;
}

}  // namespace ramcore::client
