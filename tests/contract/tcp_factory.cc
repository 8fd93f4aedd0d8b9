#include "contract/transport_suite.h"
#include "runtime/real/system_clock.h"
#include "transport/tcp/tcp_transport.h"

namespace ramcore::transport::contract {
namespace {

class TcpNode final : public Node {
 public:
  TcpNode(runtime::Clock& clock, runtime::Entropy& entropy, const NodeOptions& options, const Identity& identity)
      : sleeper_(clock),
        transport_({.slots_per_session = options.slots_per_session, .sessions_max = options.sessions_max},
                   tcp::TcpContext{clock, entropy, silentTrace(), sleeper_}),
        endpoint_(transport_.makeEndpoint(identity)) {}
  Endpoint& endpoint() override { return *endpoint_; }
  Sleeper* sleeper() override { return &sleeper_; }

 private:
  tcp::AsioSleeper sleeper_;
  tcp::TcpTransport transport_;
  std::unique_ptr<Endpoint> endpoint_;
};

class TcpWorld final : public World {
 public:
  std::unique_ptr<Node> makeNode(const NodeOptions& options, const Identity& identity) override {
    return std::make_unique<TcpNode>(clock_, entropy_, options, identity);
  }
  Locator placeToListen(Node&, int) override { return Locator::parse("tcp://127.0.0.1:0").value(); }
  Locator emptyPlace() override { return Locator::parse("tcp://127.0.0.1:1").value(); }
  int64_t nowNs() override { return clock_.nowNs(); }

 private:
  runtime::SystemClock clock_;
  runtime::SystemEntropy entropy_;
};

std::unique_ptr<World> makeTcpWorld() { return std::make_unique<TcpWorld>(); }

const Registration kTcpRegistration({"tcp", &makeTcpWorld, {.has_sleeper = true}});

}  // namespace
}  // namespace ramcore::transport::contract
