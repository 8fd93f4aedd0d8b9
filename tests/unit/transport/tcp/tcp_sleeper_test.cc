#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "runtime/real/system_clock.h"
#include "transport/tcp/tcp_transport.h"

namespace {

thread_local bool no_socket_has_a_peer = false;

}  // namespace

// In the place of the C library's: what a socket says whose peer has reset it, at a moment that a test chooses.
extern "C" int getpeername(int fd, sockaddr* address, socklen_t* bytes) noexcept {
  if (no_socket_has_a_peer) {
    errno = ENOTCONN;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_getpeername, fd, address, bytes));
}

namespace ramcore::transport::tcp {
namespace {

constexpr int64_t kLong = 20 * runtime::kNanosPerSecond;

class TcpSleeper : public ::testing::Test {
 protected:
  TcpSleeper() { EXPECT_EQ(::pipe(pipe), 0); }
  ~TcpSleeper() override {
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
  // True if the sleep ended long before its deadline.
  bool endsEarly(int64_t length_ns = kLong) {
    const int64_t before_ns = clock.nowNs();
    sleeper.sleep(before_ns + length_ns);
    return clock.nowNs() - before_ns < length_ns / 2;
  }
  // Ends what earlier operations of the reactor may still have to say.
  void settle() {
    for (int i = 0; i < 10; ++i) sleeper.poll();
  }

  runtime::SystemClock clock;
  runtime::SystemEntropy entropy;
  AsioSleeper sleeper{clock};
  int pipe[2];
};

TEST_F(TcpSleeper, ADeadlineEndsTheSleepAndNeverTooEarly) {
  for (const int64_t length_ns : {0L, 100'000L, 5'000'000L, 30'000'000L}) {
    const int64_t deadline_ns = clock.nowNs() + length_ns;
    sleeper.sleep(deadline_ns);
    EXPECT_GE(clock.nowNs(), deadline_ns);
    EXPECT_LT(clock.nowNs(), deadline_ns + kLong);
  }
  EXPECT_EQ(sleeper.sleepCount(), 4u);
}

TEST_F(TcpSleeper, AWatchedDescriptorEndsEverySleepUntilItIsRead) {
  sleeper.watch(pipe[0]);
  EXPECT_FALSE(endsEarly(40 * runtime::kNanosPerMilli));
  ASSERT_EQ(::write(pipe[1], "x", 1), 1);
  EXPECT_TRUE(endsEarly());
  EXPECT_TRUE(endsEarly()) << "nobody has read it";
  char byte;
  ASSERT_EQ(::read(pipe[0], &byte, 1), 1);
  settle();
  EXPECT_FALSE(endsEarly(40 * runtime::kNanosPerMilli));
  ASSERT_EQ(::write(pipe[1], "x", 1), 1);
  EXPECT_TRUE(endsEarly());
}

TEST_F(TcpSleeper, AForgottenDescriptorIsNeitherWatchedNorClosed) {
  sleeper.watch(pipe[0]);
  sleeper.poll();
  sleeper.forget(pipe[0]);
  settle();
  ASSERT_EQ(::write(pipe[1], "x", 1), 1);
  EXPECT_FALSE(endsEarly(40 * runtime::kNanosPerMilli));
  char byte;
  EXPECT_EQ(::read(pipe[0], &byte, 1), 1);
  sleeper.watch(pipe[0]);
  ASSERT_EQ(::write(pipe[1], "x", 1), 1);
  EXPECT_TRUE(endsEarly());
}

struct Sink : MessageSink {
  void onRequests(std::span<RxMessage> requests) override { request_count += requests.size(); }
  void onSessionOpen(SessionId session) override { opened.push_back(session); }
  void onSessionLost(SessionId session, Status reason) override { lost.emplace_back(session, reason); }
  size_t request_count = 0;
  std::vector<SessionId> opened;
  std::vector<std::pair<SessionId, Status>> lost;
};

class TcpConnect : public TcpSleeper {
 protected:
  // Polls and sleeps as a dispatch thread does.
  bool until(const std::function<bool()>& condition) {
    const int64_t deadline_ns = clock.nowNs() + kLong;
    for (;;) {
      endpoint->poll(sink, 16);
      endpoint->flush();
      if (condition()) return true;
      if (endpoint->prepareSleep()) sleeper.sleep(deadline_ns);
      endpoint->awake();
      if (clock.nowNs() > deadline_ns) return false;
    }
  }
  Locator at(const std::string& host, uint16_t port) {
    Locator where;
    where.scheme = "tcp";
    where.host = host;
    where.port = port;
    return where;
  }

  Identity identity{.role = Role::Server, .id = 5, .cluster_name = "sleepy", .secret = {}};
  TcpTransport transport{TcpOptions{}, TcpContext{clock, entropy, silentTrace(), sleeper}};
  std::unique_ptr<Endpoint> endpoint = transport.makeEndpoint(identity);
  Sink sink;
};

TEST_F(TcpConnect, ANameIsLookedUpWithoutBlocking) {
  const Locator place = endpoint->listen(at("127.0.0.1", 0)).value();
  // In capitals it is not taken for the well-known name, which needs no look-up. It may have an IPv6 address too, where
  // nobody listens: then the next one is tried.
  endpoint->connect(at("LOCALHOST", place.port), 5, clock.nowNs() + kLong / 2);
  ASSERT_TRUE(until([&] { return sink.opened.size() == 2 || sink.lost.size() == 1; }));
  ASSERT_TRUE(sink.lost.empty()) << "this machine does not know the name localhost: /etc/hosts has to";
  EXPECT_EQ(endpoint->sessionCount(), 2u);
}

TEST_F(TcpConnect, ADeadlineOfConnectingEndsTheSleep) {
  // A listener that never answers: the kernel accepts, nobody does the handshake.
  tcp::AsioSleeper other_sleeper(clock);
  TcpTransport other({}, TcpContext{clock, entropy, silentTrace(), other_sleeper});
  const auto silent = other.makeEndpoint(identity);
  const Locator place = silent->listen(at("127.0.0.1", 0)).value();
  const int64_t before_ns = clock.nowNs();
  const SessionId session = endpoint->connect(place, 0, before_ns + 50 * runtime::kNanosPerMilli);
  ASSERT_TRUE(until([&] { return !sink.lost.empty(); }));
  EXPECT_EQ(sink.lost[0], std::pair(session, Status::Unreachable));
  EXPECT_GE(clock.nowNs() - before_ns, 50 * runtime::kNanosPerMilli);
  EXPECT_LT(clock.nowNs() - before_ns, kLong / 2);
}

TEST_F(TcpConnect, TheHandshakeTellsWhereTheProcessListens) {
  const Locator one = endpoint->listen(at("127.0.0.1", 0)).value();
  const auto second = transport.makeEndpoint(identity);
  const Locator two = second->listen(at("127.0.0.1", 0)).value();
  const SessionId session = endpoint->connect(one, 5, clock.nowNs() + kLong / 2);
  ASSERT_TRUE(until([&] { return sink.opened.size() == 2; }));
  EXPECT_EQ(endpoint->peer(session)->locators, (std::vector<Locator>{one, two}));
}

// The end is told together with the last bytes, and never again.
TEST_F(TcpConnect, AnEndBehindTheLastMessageIsNoticedBySleepers) {
  const Locator place = endpoint->listen(at("127.0.0.1", 0)).value();
  for (int round = 0; round < 20; ++round) {
    AsioSleeper other_sleeper(clock);
    TcpTransport other({}, TcpContext{clock, entropy, silentTrace(), other_sleeper});
    auto dying = other.makeEndpoint(identity);
    Sink other_sink;
    const SessionId session = dying->connect(place, 5, clock.nowNs() + kLong);
    while (other_sink.opened.empty()) {
      dying->poll(other_sink, 16);
      dying->flush();
      endpoint->poll(sink, 16);
      endpoint->flush();
    }
    ASSERT_TRUE(until([&] { return sink.opened.size() == static_cast<size_t>(round) + 1; }));
    while (!endpoint->prepareSleep()) endpoint->poll(sink, 16);
    PendingCall call([](PendingCall&, Status, RxMessage) {});
    TxMessage request = dying->allocate(100);
    std::memset(request.extendHead(100), round, 100);
    ASSERT_EQ(dying->call(session, request, {}, call), Status::Ok);
    dying->flush();
    dying.reset();  // without a word of farewell
    sleeper.sleep(clock.nowNs() + kLong);
    endpoint->awake();
    ASSERT_TRUE(until([&] { return sink.lost.size() == static_cast<size_t>(round) + 1; })) << "asleep beside the end";
    EXPECT_EQ(sink.request_count, static_cast<size_t>(round) + 1) << "what came before the end counts";
  }
}

// A process without a secret took a server that had just left for one on another machine, which it may not talk to: its
// clients gave up instead of asking where the tablet is now.
TEST_F(TcpConnect, WhetherAPeerIsLocalIsKnownAlsoWhenItHasLeft) {
  tcp::AsioSleeper other_sleeper(clock);
  TcpTransport other({}, TcpContext{clock, entropy, silentTrace(), other_sleeper});
  auto leaving = other.makeEndpoint(identity);
  const Locator place = leaving->listen(at("127.0.0.1", 0)).value();
  struct Guard {
    Guard() { no_socket_has_a_peer = true; }
    ~Guard() { no_socket_has_a_peer = false; }
  } guard;
  const SessionId session = endpoint->connect(place, 5, clock.nowNs() + kLong / 2);
  for (int i = 0; i < 100; ++i) endpoint->poll(sink, 16);  // connected, and nobody says a word
  EXPECT_TRUE(sink.lost.empty());
  leaving.reset();
  ASSERT_TRUE(until([&] { return !sink.lost.empty(); }));
  EXPECT_EQ(sink.lost[0], std::pair(session, Status::Unreachable));
}

// Linux takes the unspecified address to this machine, where nobody needs a secret.
TEST_F(TcpConnect, EveryAddressOfTheMachineIsAPlaceToConnectTo) {
  const Locator place = endpoint->listen(at("127.0.0.1", 0)).value();
  endpoint->connect(at("0.0.0.0", place.port), 5, clock.nowNs() + kLong / 2);
  ASSERT_TRUE(until([&] { return sink.opened.size() == 2 || !sink.lost.empty(); }));
  EXPECT_TRUE(sink.lost.empty());
}

TEST_F(TcpConnect, EveryAddressOfTheMachineIsNoPlaceToListenWithoutASecret) {
  for (const char* host : {"0.0.0.0", "::"}) {
    auto refused = endpoint->listen(at(host, 0));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().status, Status::BadConfig);
  }
}

TEST_F(TcpConnect, EveryAddressOfTheMachineIsAPlaceToListenForBothFamilies) {
  identity.secret = "a secret for this test";
  const Locator place = endpoint->listen(at("::", 0)).value();
  EXPECT_EQ(place.host, "::");
  endpoint->connect(at("127.0.0.1", place.port), 5, clock.nowNs() + kLong / 2);
  endpoint->connect(at("::1", place.port), 5, clock.nowNs() + kLong / 2);
  ASSERT_TRUE(until([&] { return sink.opened.size() == 4 || !sink.lost.empty(); }));
  EXPECT_TRUE(sink.lost.empty());
  for (const SessionId session : sink.opened) {
    EXPECT_EQ(endpoint->peer(session)->address.find("ffff"), std::string::npos) << endpoint->peer(session)->address;
  }
}

TEST_F(TcpConnect, WhyNoSessionOpensIsTold) {
  const Locator place = endpoint->listen(at("127.0.0.1", 0)).value();
  const auto attempt = [&](const Locator& where) {
    sink.lost.clear();
    endpoint->connect(where, 5, clock.nowNs() + kLong / 2);
    EXPECT_TRUE(until([&] { return !sink.lost.empty(); }));
    return endpoint->openFailure();
  };
  // Nobody listens at another address of this machine at the same port.
  const OpenFailure refused = attempt(at("127.0.0.9", place.port));
  EXPECT_EQ(refused.kind, OpenFailure::Kind::Unreachable);
  EXPECT_EQ(refused.text, "connection refused; check that it runs and listens there");
  // No name has a label of more than 63 bytes: no name service is asked.
  const OpenFailure unknown = attempt(at(std::string(64, 'x') + ".test", place.port));
  EXPECT_TRUE(unknown.isLasting());
  EXPECT_NE(unknown.text.find("xxx.test' is unknown"), std::string::npos) << unknown.text;
}

TEST_F(TcpConnect, TheHandshakeTellsWhatIsAdvertised) {
  const Locator place = endpoint->listen(at("127.0.0.1", 0)).value();
  identity.advertised = {at("one.test", 7777)};
  const SessionId session = endpoint->connect(place, 5, clock.nowNs() + kLong / 2);
  ASSERT_TRUE(until([&] { return sink.opened.size() == 2; }));
  EXPECT_EQ(endpoint->peer(session)->locators, identity.advertised);
}

}  // namespace
}  // namespace ramcore::transport::tcp
