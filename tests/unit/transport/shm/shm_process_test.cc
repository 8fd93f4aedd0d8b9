// Two processes, as in real life; and what the operating system sees of them.
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>

#include "unit/transport/shm/shm_harness.h"
#include "unit/transport/traced_calls.h"

namespace ramcore::transport::shm {
namespace {

/// An echo server in a process of its own, which spins; killed at the end.
class ServerProcess {
 public:
  /// `yields`: gives way when there is nothing to do, for machines with fewer cores than spinning processes.
  explicit ServerProcess(const SocketFolder& folder, bool yields = true) {
    child_ = ::fork();
    if (child_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    Side server({}, Role::Server, 7);
    server.sink.on_request = [&server](RxMessage& request) { echo(*server.endpoint, request); };
    if (!server.endpoint->listen(folder.locator()).ok()) ::_exit(1);
    // The processor is not given up in every round, as a dispatch does not either: the endpoint looks at its sockets
    // every few thousand rounds, which would be seconds on a machine with much else to run.
    for (uint32_t idle_rounds = 0;;) {
      if (server.step() == 0 && yields && ++idle_rounds % 64 == 0) sched_yield();
    }
  }
  ~ServerProcess() { kill(); }
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = 0;
  }

 private:
  pid_t child_;
};

// Connects as soon as the server listens.
SessionId connectToServer(Side& client, const SocketFolder& folder) {
  const int64_t deadline_ns = client.clock.nowNs() + 20 * runtime::kNanosPerSecond;
  while (client.clock.nowNs() < deadline_ns) {
    const SessionId session = client.endpoint->connect(folder.locator(), 7, deadline_ns);
    const size_t lost_before = client.sink.lost.size();
    stepUntil({&client}, [&] { return !client.sink.opened.empty() || client.sink.lost.size() > lost_before; });
    if (!client.sink.opened.empty()) return session;
  }
  return {};
}

void roundTrips(Side& client, SessionId session, uint32_t count, uint32_t bytes, bool yields = true) {
  for (uint32_t i = 0; i < count; ++i) {
    TestCall call;
    TxMessage request = client.endpoint->allocate(bytes);
    std::memset(request.extendHead(bytes), static_cast<int>(i & 0xff), bytes);
    ASSERT_EQ(client.endpoint->call(session, request, {}, call), Status::Ok);
    client.endpoint->flush();
    while (call.completions == 0) {
      if (client.endpoint->poll(client.sink, 64) == 0 && yields) sched_yield();
    }
    ASSERT_EQ(call.status, Status::Ok);
    ASSERT_EQ(call.response.messageBytes(), bytes);
    ASSERT_EQ(call.response.head()[bytes - 1], std::byte{static_cast<uint8_t>(i)});
  }
}

TEST(ShmProcesses, EchoBetweenTwoProcesses) {
  SocketFolder folder;
  ServerProcess server(folder);
  Side client;
  const SessionId session = connectToServer(client, folder);
  ASSERT_TRUE(static_cast<bool>(session));
  EXPECT_EQ(client.endpoint->peer(session)->id, 7u);
  roundTrips(client, session, 5000, 100);
  roundTrips(client, session, 20, 200);
}

TEST(ShmProcesses, DeathOfTheServerCompletesTheCalls) {
  SocketFolder folder;
  ServerProcess server(folder);
  Side client;
  const SessionId session = connectToServer(client, folder);
  ASSERT_TRUE(static_cast<bool>(session));
  server.kill();
  TestCall call;
  TxMessage request = makeMessage(*client.endpoint, 100, 1);
  ASSERT_EQ(client.endpoint->call(session, request, {}, call), Status::Ok);
  client.sink.lost.clear();
  ASSERT_TRUE(stepUntil({&client}, [&] { return !client.sink.lost.empty(); }));
  EXPECT_EQ(client.sink.lost.back(), std::pair(session, Status::SessionLost));
  EXPECT_EQ(call.status, Status::SessionLost);
  EXPECT_EQ(call.completions, 1);
}

constexpr uint32_t kTracedRoundTrips = 200'000;

// Run by the next test below strace; the loop lies between two marks. Disabled by itself: without yielding it needs two
// processors of its own, and it checks nothing that the test of the echo does not.
TEST(ShmProcesses, DISABLED_LoopBetweenMarks) {
  SocketFolder folder;
  ServerProcess server(folder, false);
  Side client;
  const SessionId session = connectToServer(client, folder);
  ASSERT_TRUE(static_cast<bool>(session));
  roundTrips(client, session, 100, 100);
  markTrace();
  roundTrips(client, session, kTracedRoundTrips, 100, false);
  markTrace();
}

TEST(ShmProcesses, NoSystemCallInTheLoopWhileBothSidesAreAwake) {
  std::string reason;
  if (!canTrace(reason)) GTEST_SKIP() << reason;
  TracedCalls traced = traceTest("ShmProcesses.DISABLED_LoopBetweenMarks");
  ASSERT_TRUE(traced.is_complete);
  const std::string seen = traced.text();
  std::printf("system calls of the processes in %u round trips, %.2f s: %s\n", kTracedRoundTrips, traced.seconds,
              seen.c_str());
  // Each side looks at its sockets every 50 ms, and every 5 ms while it finds nothing because the other one is not
  // scheduled, which on a loaded machine may be most of the time. Nothing else, and never more often.
  for (const auto& [process, count] : traced.calls["epoll_wait"]) {
    EXPECT_LE(count, 2 + traced.seconds / 0.005) << seen;
  }
  traced.calls.erase("epoll_wait");
  EXPECT_TRUE(traced.calls.empty()) << seen;
}

}  // namespace
}  // namespace ramcore::transport::shm
