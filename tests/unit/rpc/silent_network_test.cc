// Calls over tcp while a network swallows packets and says nothing: two network namespaces with a bridge between them
// that is taken away. Needs a user who may make namespaces, and iproute2.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "rpc/caller.h"
#include "runtime/real/system_clock.h"
#include "transport/tcp/tcp_transport.h"

namespace ramcore::rpc {
namespace {

constexpr int64_t kMilli = runtime::kNanosPerMilli;
constexpr int64_t kSecond = runtime::kNanosPerSecond;
// A call has to be answered this soon after the network is back. The kernel by itself would take seconds: it waits
// twice as long before each retransmission.
constexpr int64_t kSoonNs = 600 * kMilli;
constexpr uint64_t kServerId = 5;

bool run(const std::string& command) { return std::system((command + " 2>/dev/null").c_str()) == 0; }

/// The thread is in the one namespace; a server may be made in the other one.
class TwoNetworks {
 public:
  TwoNetworks() : own_(::open("/proc/thread-self/ns/net", O_RDONLY)) {
    if (::unshare(CLONE_NEWNET) != 0) return;
    here_ = ::open("/proc/thread-self/ns/net", O_RDONLY);
    if (::unshare(CLONE_NEWNET) != 0) return;
    there_ = ::open("/proc/thread-self/ns/net", O_RDONLY);
    ::setns(here_, CLONE_NEWNET);
    // The neighbours' addresses are set for good, so the network itself is silent (no ARP).
    const std::string path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(there_);
    is_ready_ = run("ip link add br0 address 02:00:00:00:00:01 type bridge") &&
                run("ip link add a0 type veth peer name a1 address 02:00:00:00:00:02") &&
                run("ip link set a1 netns " + path) && run("ip addr add 10.99.0.1/24 dev br0") &&
                run("ip link set a0 master br0") && run("ip link set br0 up") && run("ip link set a0 up") &&
                run("ip neigh replace 10.99.0.2 lladdr 02:00:00:00:00:02 nud permanent dev br0");
    visit([this] {
      is_ready_ = is_ready_ && run("ip addr add 10.99.0.2/24 dev a1") && run("ip link set a1 up") &&
                  run("ip neigh replace 10.99.0.1 lladdr 02:00:00:00:00:01 nud permanent dev a1");
    });
  }
  ~TwoNetworks() {
    if (own_ >= 0) ::setns(own_, CLONE_NEWNET);
    for (const int fd : {own_, here_, there_}) {
      if (fd >= 0) ::close(fd);
    }
  }
  bool isReady() const { return is_ready_; }
  template <typename Visit>
  void visit(Visit visit) {
    ::setns(there_, CLONE_NEWNET);
    visit();
    ::setns(here_, CLONE_NEWNET);
  }
  void cut() { ASSERT_TRUE(run("ip link set a0 nomaster")); }
  void heal() { ASSERT_TRUE(run("ip link set a0 master br0")); }

 private:
  int own_;
  int here_ = -1;
  int there_ = -1;
  bool is_ready_ = false;
};

struct Process {
  Process(runtime::Clock& clock, runtime::Entropy& entropy, transport::Role role, uint64_t id)
      : identity{.role = role, .id = id, .cluster_name = "test", .secret = "secret"},
        sleeper(clock),
        transport({}, {clock, entropy, silentTrace(), sleeper}),
        endpoint(transport.makeEndpoint(identity)),
        dispatch(clock, silentTrace(), sleeper, {}) {
    dispatch.addEndpoint(*endpoint);
    dispatch.setOwnId(id);
  }
  transport::Identity identity;
  transport::tcp::AsioSleeper sleeper;
  transport::tcp::TcpTransport transport;
  std::unique_ptr<transport::Endpoint> endpoint;
  Dispatch dispatch;
};

struct Echo {
  void answer(Request request) { request.reply(Status::Ok); }
};

struct Waited : OutgoingCall {
  Waited() : OutgoingCall([](OutgoingCall& call) { static_cast<Waited&>(call).is_over = true; }) {}
  bool is_over = false;
};

class SilentNetwork : public ::testing::Test {
 protected:
  void SetUp() override {
    networks.emplace();
    if (!networks->isReady()) GTEST_SKIP() << "this user may make no network namespaces, or there is no ip";
    server.emplace(clock, entropy, transport::Role::Server, kServerId);
    networks->visit([this] {
      const auto locator = server->endpoint->listen(transport::Locator::parse("tcp://10.99.0.2:0").value());
      ASSERT_TRUE(locator.ok());
      address = {.id = kServerId, .locators = {*locator}};
    });
    server->dispatch.services().add<&Echo::answer>(wire::Opcode::Read, echo,
                                                   {.roles = allow({transport::Role::Client})});
    client.emplace(clock, entropy, transport::Role::Client, 0);
    caller.emplace(client->dispatch);
  }
  bool runUntil(const std::function<bool()>& done, int64_t longest_ns) {
    const int64_t until_ns = clock.nowNs() + longest_ns;
    while (!done()) {
      client->dispatch.step();
      server->dispatch.step();
      if (clock.nowNs() >= until_ns) return done();
    }
    return true;
  }
  void runFor(int64_t ns) {
    runUntil([] { return false; }, ns);
  }
  /// The call's status after at most `longest_ns`.
  Status call(int64_t longest_ns) {
    Waited waited;
    waited.request = caller->allocate(sizeof(wire::RequestHeader));
    waited.request.appendHead(wire::RequestHeader{.opcode = wire::Opcode::Read, .target = ServerId(kServerId)});
    waited.settings.deadline_ns = clock.nowNs() + longest_ns;
    caller->connection(address).start(waited);
    runUntil([&] { return waited.is_over; }, longest_ns + kSecond);
    return waited.outcome();
  }
  /// Calls again and again, as a server does that renews its lease, until a call is answered. Returns how long that
  /// took.
  int64_t untilAnsweredNs() {
    const int64_t begun_ns = clock.nowNs();
    while (call(kSecond) != Status::Ok && clock.nowNs() - begun_ns < 20 * kSecond) runFor(100 * kMilli);
    return clock.nowNs() - begun_ns;
  }

  runtime::SystemClock clock;
  runtime::SystemEntropy entropy;
  std::optional<TwoNetworks> networks;
  Echo echo;
  std::optional<Process> server;
  std::optional<Process> client;
  std::optional<Caller> caller;
  PeerAddress address;
};

// A call was sent while packets were lost, and the kernel waits twice as long before each retransmission of it.
TEST_F(SilentNetwork, ALaterCallIsNotTheHostageOfTheOneBefore) {
  ASSERT_EQ(call(5 * kSecond), Status::Ok);
  networks->cut();
  EXPECT_NE(call(300 * kMilli), Status::Ok);
  runFor(7 * kSecond);  // sent again after 0.2 s, 0.6 s, 1.4 s, 3 s, 6.2 s; next after 12.6 s
  networks->heal();
  EXPECT_LT(untilAnsweredNs(), kSoonNs);
}

TEST_F(SilentNetwork, WhoCallsAllTheWhileGetsThroughSoon) {
  ASSERT_EQ(call(5 * kSecond), Status::Ok);
  networks->cut();
  const int64_t heal_ns = clock.nowNs() + 5 * kSecond;
  while (clock.nowNs() < heal_ns) {
    EXPECT_NE(call(500 * kMilli), Status::Ok);
    runFor(100 * kMilli);
  }
  networks->heal();
  EXPECT_LT(untilAnsweredNs(), kSoonNs);
}

// One call that waits as long as it takes.
TEST_F(SilentNetwork, ACallInFlightHearsThatItsPeerHasVanished) {
  ASSERT_EQ(call(5 * kSecond), Status::Ok);
  networks->cut();
  const int64_t begun_ns = clock.nowNs();
  EXPECT_EQ(call(60 * kSecond), Status::SessionLost);
  EXPECT_LT(clock.nowNs() - begun_ns, 2 * kSecond);
  networks->heal();
}

// A connection that is begun while packets are lost: the kernel tries again after 1 s, 2 s, 4 s.
TEST_F(SilentNetwork, AConnectionIsMadeSoonAfterTheNetworkIsBack) {
  networks->cut();
  Waited waited;
  waited.request = caller->allocate(sizeof(wire::RequestHeader));
  waited.request.appendHead(wire::RequestHeader{.opcode = wire::Opcode::Read, .target = ServerId(kServerId)});
  caller->connection(address).start(waited);
  runFor(1'100 * kMilli);
  EXPECT_FALSE(waited.is_over);
  networks->heal();
  const int64_t healed_ns = clock.nowNs();
  ASSERT_TRUE(runUntil([&] { return waited.is_over; }, 10 * kSecond));
  EXPECT_EQ(waited.outcome(), Status::Ok);
  EXPECT_LT(clock.nowNs() - healed_ns, kSoonNs);
}

}  // namespace
}  // namespace ramcore::rpc
