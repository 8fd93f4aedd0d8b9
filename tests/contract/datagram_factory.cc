#include "contract/transport_suite.h"
#include "runtime/sim/sim_clock.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/datagram/datagram_endpoint.h"
#include "transport/datagram/faulty_port.h"
#include "transport/sim/sim_ethernet.h"

namespace ramcore::transport::contract {
namespace {

constexpr uint64_t kSwitchSeed = 1;
// Simulated time between two rounds of all processes.
constexpr int64_t kSwitchStepNs = 2'000;
constexpr uint64_t kSwitchEventsMax = 100'000;

datagram::DatagramOptions optionsOf(const NodeOptions& node) {
  datagram::DatagramOptions options;
  options.slots_per_session = node.slots_per_session;
  options.sessions_max = node.sessions_max;
  options.idle_probe_ns = runtime::kNanosPerSecond / 10;
  return options;
}

/// The protocol of frames over a simulated switch, in simulated time.
class DatagramNode final : public Node {
 public:
  DatagramNode(SimEthernet& network, runtime::SimClock& clock, runtime::Entropy& entropy, int number,
               const datagram::FaultRates& rates, const NodeOptions& options, const Identity& identity,
               std::map<int, DatagramNode*>& nodes)
      : number_(number),
        nodes_(nodes),
        port_(network, {{2, 0, 0, 0, 0, static_cast<uint8_t>(number)}}, {}),
        faulty_(port_, rates, clock),
        endpoint_(optionsOf(options), {clock, entropy, silentTrace(), {}},
                  datagram::DatagramEndpoint::limitsOf(optionsOf(options)), {&faulty_}, identity) {
    nodes_[number_] = this;
  }
  ~DatagramNode() override { nodes_.erase(number_); }
  Endpoint& endpoint() override { return endpoint_; }
  datagram::FaultyPort& faults() { return faulty_; }

 private:
  const int number_;
  std::map<int, DatagramNode*>& nodes_;
  SimEthernetPort port_;
  datagram::FaultyPort faulty_;
  datagram::DatagramEndpoint endpoint_;
};

class DatagramWorld final : public World {
 public:
  explicit DatagramWorld(const datagram::FaultRates& rates)
      : rates_(rates),
        scheduler_(kSwitchSeed),
        clock_(scheduler_, "clock", {.offset_ns_max = 0, .wall_error_ns_max = 0, .drift_ppm_max = 0}),
        entropy_(kSwitchSeed),
        network_(scheduler_) {
    ChunkArena& arena = chunkArena();
    if (arena.base == nullptr) arena.base = static_cast<std::byte*>(std::aligned_alloc(2u << 20, ChunkArena::kBytes));
    arena.used_bytes = 0;
    arena.region = 1;
  }
  ~DatagramWorld() override { chunkArena().region = 0; }
  std::unique_ptr<Node> makeNode(const NodeOptions& options, const Identity& identity) override {
    // A process that is started anew has the address of the one before it.
    int number = 1;
    while (nodes_.contains(number)) ++number;
    rates_.seed = ++node_count_;
    return std::make_unique<DatagramNode>(network_, clock_, entropy_, number, rates_, options, identity, nodes_);
  }
  Locator placeToListen(Node&, int) override { return Locator::parse("dpdk://any@0").value(); }
  Locator emptyPlace() override { return Locator::parse("dpdk://02:00:00:00:00:ee@1").value(); }
  int64_t nowNs() override { return clock_.nowNs(); }
  void disturb() override {
    rates_.loss = 0.1;
    rates_.duplicate = 0.3;
    rates_.reorder = 0.3;
    rates_.corrupt = 0.05;
    for (const auto& [number, node] : nodes_) node->faults().setRates(rates_);
  }
  void passTime() override { scheduler_.runUntil(scheduler_.nowNs() + kSwitchStepNs, kSwitchEventsMax); }

 private:
  datagram::FaultRates rates_;
  runtime::SimScheduler scheduler_;
  runtime::SimClock clock_;
  runtime::SeededEntropy entropy_;
  SimEthernet network_;
  std::map<int, DatagramNode*> nodes_;
  uint64_t node_count_ = 0;
};

std::unique_ptr<World> makeCleanWorld() { return std::make_unique<DatagramWorld>(datagram::FaultRates{}); }
std::unique_ptr<World> makeBadWorld() {
  return std::make_unique<DatagramWorld>(
      datagram::FaultRates{.loss = 0.05, .duplicate = 0.02, .reorder = 0.05, .corrupt = 0.01});
}

constexpr Abilities kSwitchAbilities{};
const Registration kCleanSwitch({"datagram", &makeCleanWorld, kSwitchAbilities});
const Registration kBadSwitch({"datagram_bad_network", &makeBadWorld, kSwitchAbilities});

}  // namespace
}  // namespace ramcore::transport::contract
