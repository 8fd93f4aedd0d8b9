#include <cstdlib>

#include "contract/transport_suite.h"
#include "runtime/real/system_clock.h"
#include "transport/os/epoll_sleeper.h"
#include "transport/verbs/verbs_transport.h"

namespace ramcore::transport::contract {
namespace {

// The server's device and the client's, as the machine with the software devices tells them.
std::string deviceOf(Role role) {
  const char* device = std::getenv(role == Role::Server ? "RDMA_DEV0" : "RDMA_DEV1");
  return device == nullptr ? "" : device;
}

class VerbsNode final : public Node {
 public:
  VerbsNode(runtime::Clock& clock, runtime::Entropy& entropy, const NodeOptions& options, const Identity& identity,
            uint32_t receive_buffers_max)
      : sleeper_(clock) {
    verbs::VerbsOptions verbs;
    verbs.receive_buffers_max = receive_buffers_max;
    verbs.device = deviceOf(identity.role);
    verbs.slots_per_session = options.slots_per_session;
    verbs.sessions_max = options.sessions_max;
    verbs.ack_timeout = 18;  // emulated machines are slow
    verbs.windows = verbs::VerbsOptions::Windows::Everywhere;
    auto transport = verbs::VerbsTransport::open(
        verbs, {.clock = clock, .entropy = entropy, .trace = stderrTrace("contract"), .sleeper = &sleeper_});
    RC_CHECK_MSG(transport.ok(), transport.error().message.c_str());
    transport_ = std::move(transport).value();
    const auto region = transport_->registerMemory(chunkArena().base, ChunkArena::kBytes, Access::Local);
    RC_CHECK_MSG(region.ok(), region.error().message.c_str());
    chunkArena().region = *region;
    endpoint_ = transport_->makeEndpoint(identity);
  }
  Endpoint& endpoint() override { return *endpoint_; }
  Sleeper* sleeper() override { return &sleeper_; }

 private:
  EpollSleeper sleeper_;
  std::unique_ptr<verbs::VerbsTransport> transport_;
  std::unique_ptr<Endpoint> endpoint_;
};

class VerbsWorld final : public World {
 public:
  explicit VerbsWorld(uint32_t receive_buffers_max) : receive_buffers_max_(receive_buffers_max) {
    ChunkArena& arena = chunkArena();
    if (arena.base == nullptr) arena.base = static_cast<std::byte*>(std::aligned_alloc(2u << 20, ChunkArena::kBytes));
    arena.used_bytes = 0;
  }
  std::unique_ptr<Node> makeNode(const NodeOptions& options, const Identity& identity) override {
    return std::make_unique<VerbsNode>(clock_, entropy_, options, identity, receive_buffers_max_);
  }
  Locator placeToListen(Node&, int) override { return Locator::parse("verbs://127.0.0.1:0").value(); }
  Locator emptyPlace() override { return Locator::parse("verbs://127.0.0.1:1").value(); }
  int64_t nowNs() override { return clock_.nowNs(); }

 private:
  const uint32_t receive_buffers_max_;
  runtime::SystemClock clock_;
  runtime::SystemEntropy entropy_;
};

template <uint32_t kReceiveBuffersMax>
std::unique_ptr<World> makeWorld() {
  return std::make_unique<VerbsWorld>(kReceiveBuffersMax);
}

const Registration kVerbsRegistration({"verbs", &makeWorld<4096>, {.has_sleeper = true}});
// Two sessions have more slots than that, and senders wait.
const Registration kFewBuffersRegistration({"verbs_few_buffers", &makeWorld<16>, {.has_sleeper = true}});

}  // namespace

}  // namespace ramcore::transport::contract
