#include <unistd.h>

#include <cstdlib>

#include "contract/transport_suite.h"
#include "runtime/real/system_clock.h"
#include "transport/os/epoll_sleeper.h"
#include "transport/shm/shm_transport.h"

namespace ramcore::transport::contract {
namespace {

class ShmNode final : public Node {
 public:
  ShmNode(runtime::Clock& clock, runtime::Entropy& entropy, const NodeOptions& options, const Identity& identity)
      : sleeper_(clock),
        transport_({.ring_bytes = 64 * 1024,
                    .slots_per_session = options.slots_per_session,
                    .sessions_max = options.sessions_max},
                   shm::ShmContext{clock, entropy, silentTrace(), &sleeper_}),
        endpoint_(transport_.makeEndpoint(identity)) {}
  Endpoint& endpoint() override { return *endpoint_; }
  Sleeper* sleeper() override { return &sleeper_; }

 private:
  EpollSleeper sleeper_;
  shm::ShmTransport transport_;
  std::unique_ptr<Endpoint> endpoint_;
};

class ShmWorld final : public World {
 public:
  ShmWorld() {
    char folder[] = "/tmp/rcshmXXXXXX";
    EXPECT_NE(::mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  ~ShmWorld() override { ::rmdir(folder_.c_str()); }

  std::unique_ptr<Node> makeNode(const NodeOptions& options, const Identity& identity) override {
    return std::make_unique<ShmNode>(clock_, entropy_, options, identity);
  }
  Locator placeToListen(Node&, int number) override {
    return Locator::parse("shm://" + folder_ + "/" + std::to_string(number)).value();
  }
  Locator emptyPlace() override { return Locator::parse("shm://" + folder_ + "/nobody").value(); }
  int64_t nowNs() override { return clock_.nowNs(); }

 private:
  runtime::SystemClock clock_;
  runtime::SystemEntropy entropy_;
  std::string folder_;
};

std::unique_ptr<World> makeShmWorld() { return std::make_unique<ShmWorld>(); }

const Registration kShmRegistration({"shm", &makeShmWorld, {.has_sleeper = true}});

}  // namespace
}  // namespace ramcore::transport::contract
