#include "contract/transport_suite.h"
#include "runtime/sim/sim_clock.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/sim/sim_network.h"
#include "transport/sim/sim_transport.h"

namespace ramcore::transport::contract {
namespace {

constexpr uint64_t kSeed = 1;
// Simulated time between two rounds of all processes.
constexpr int64_t kStepNs = 2'000;
constexpr uint64_t kEventsMax = 100'000;

class SimulatedNode final : public Node {
 public:
  SimulatedNode(SimNetwork& network, runtime::SimClock& clock, int number, const NodeOptions& options,
                const Identity& identity)
      : name_("node" + std::to_string(number)),
        transport_(
            network, clock, name_, [] {}, options.slots_per_session),
        endpoint_(transport_.makeEndpoint(identity)) {}
  Endpoint& endpoint() override { return *endpoint_; }
  const std::string& name() const { return name_; }

 private:
  const std::string name_;
  SimTransport transport_;
  std::unique_ptr<Endpoint> endpoint_;
};

/// A network that is quiet until a test disturbs it. One clock for all, because the suite asks for one time.
class SimulatedWorld final : public World {
 public:
  explicit SimulatedWorld(SimMode mode)
      : scheduler_(kSeed),
        clock_(scheduler_, "clock", {.offset_ns_max = 0, .wall_error_ns_max = 0, .drift_ppm_max = 0}),
        network_(scheduler_, {.mode = mode}) {}
  std::unique_ptr<Node> makeNode(const NodeOptions& options, const Identity& identity) override {
    return std::make_unique<SimulatedNode>(network_, clock_, ++node_count_, options, identity);
  }
  Locator placeToListen(Node&, int number) override {
    return Locator::parse("sim://place" + std::to_string(number)).value();
  }
  Locator emptyPlace() override { return Locator::parse("sim://nowhere").value(); }
  int64_t nowNs() override { return clock_.nowNs(); }
  void disturb() override {
    network_.setRates({.delay_ppm = 200'000,
                       .reorder_ppm = 300'000,
                       .duplicate_ppm = 500'000,
                       .delay_ns_max = 100'000,
                       .duplicate_ns_max = 500'000});
  }
  void setReading(Node& node, bool reads) override {
    const std::string& name = static_cast<SimulatedNode&>(node).name();
    if (reads) {
      network_.resumeReading(name);
    } else {
      network_.stopReading(name);
    }
  }
  void passTime() override { scheduler_.runUntil(scheduler_.nowNs() + kStepNs, kEventsMax); }

 private:
  runtime::SimScheduler scheduler_;
  runtime::SimClock clock_;
  SimNetwork network_;
  int node_count_ = 0;
};

std::unique_ptr<World> makeStreamWorld() { return std::make_unique<SimulatedWorld>(SimMode::Stream); }
std::unique_ptr<World> makeDatagramWorld() { return std::make_unique<SimulatedWorld>(SimMode::Datagram); }

constexpr Abilities kAbilities{.any_thread_release = false, .has_sessions_max = false};
const Registration kStream({"sim_stream", &makeStreamWorld, kAbilities});
const Registration kDatagram({"sim_datagram", &makeDatagramWorld, kAbilities});

}  // namespace
}  // namespace ramcore::transport::contract
