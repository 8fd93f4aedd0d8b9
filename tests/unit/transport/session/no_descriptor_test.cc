// A listener whose process has no descriptor left: it refuses those who wait, and nobody else; it does not keep its
// thread awake; and it goes on once there are descriptors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "transport/session/accept_pause.h"
#include "transport/session/handshake.h"
#include "transport/session/open_failure.h"
#include "unit/transport/shm/shm_harness.h"
#include "unit/transport/tcp/tcp_harness.h"

namespace ramcore::transport {
namespace {

/// Takes every descriptor that this process may have.
class Exhaustion {
 public:
  Exhaustion() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &usual_), 0);
    rlimit few = usual_;
    few.rlim_cur = 200;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken_.push_back(fd);
    EXPECT_EQ(errno, EMFILE);
  }
  ~Exhaustion() {
    for (const int fd : taken_) ::close(fd);
    ::setrlimit(RLIMIT_NOFILE, &usual_);
  }

 private:
  rlimit usual_{};
  std::vector<int> taken_;
};

/// A connection of a test, made without a new descriptor.
class Knock {
 public:
  explicit Knock(int family) : fd_(::socket(family, SOCK_STREAM, 0)) {}
  Knock(Knock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Knock() {
    if (fd_ >= 0) ::close(fd_);
  }
  void connect(const sockaddr* address, socklen_t bytes) {
    ASSERT_EQ(::connect(fd_, address, bytes), 0) << std::strerror(errno);
    ::fcntl(fd_, F_SETFL, O_NONBLOCK);
  }
  /// True if the peer was told that there is no room, and the connection has ended.
  bool isRefused() {
    std::byte bytes[256];
    const ssize_t got = ::recv(fd_, bytes, sizeof(bytes), 0);
    if (got == static_cast<ssize_t>(sizeof(wire::HandshakeRefused))) {
      was_told_ = loadAs<wire::HandshakeRefused>(bytes).reason == wire::HandshakeRefusal::Busy;
    }
    return was_told_ && (got == 0 || (got < 0 && errno == ECONNRESET));
  }

 private:
  int fd_;
  bool was_told_ = false;
};

struct Tcp {
  Tcp() {
    auto listening = server.endpoint->listen(Locator::parse("tcp://127.0.0.1:0").value());
    EXPECT_TRUE(listening.ok());
    address.sin_family = AF_INET;
    address.sin_port = htons(listening->port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  static constexpr int kFamily = AF_INET;
  Locator locator() const {
    return Locator::parse("tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port))).value();
  }
  void step() { server.step(); }
  tcp::Side server{tcp::TcpOptions(), Role::Server, 7};
  sockaddr_in address{};
};

struct Shm {
  Shm() {
    EXPECT_TRUE(server.endpoint->listen(folder.locator()).ok());
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, folder.socketPath().c_str());
  }
  static constexpr int kFamily = AF_UNIX;
  Locator locator() const { return folder.locator(); }
  void step() { server.step(); }
  shm::SocketFolder folder;
  shm::Side server{shm::ShmOptions(), Role::Server, 7};
  sockaddr_un address{};
};

template <typename Place>
class NoDescriptor : public ::testing::Test {
 protected:
  bool until(const std::function<bool()>& condition) {
    const int64_t end_ns = place.server.clock.nowNs() + 20 * runtime::kNanosPerSecond;
    while (!condition()) {
      place.step();
      if (place.server.clock.nowNs() > end_ns) return false;
    }
    return true;
  }
  void knock(Knock& one) { one.connect(reinterpret_cast<const sockaddr*>(&place.address), sizeof(place.address)); }
  /// Whether the thread may sleep: nothing is to be done until a deadline, or until somebody comes.
  bool maySleep() {
    const bool may = place.server.endpoint->prepareSleep();
    place.server.endpoint->awake();
    return may;
  }

  Place place;
};
using Places = ::testing::Types<Tcp, Shm>;
TYPED_TEST_SUITE(NoDescriptor, Places);

TYPED_TEST(NoDescriptor, WhoWaitsIsToldAndTheThreadSleeps) {
  std::vector<Knock> knocks;
  for (int i = 0; i < 5; ++i) knocks.emplace_back(TypeParam::kFamily);
  const Exhaustion exhaustion;
  for (Knock& one : knocks) this->knock(one);
  for (Knock& one : knocks) EXPECT_TRUE(this->until([&] { return one.isRefused(); }));
  // No connection waits any more, although there is still no descriptor.
  EXPECT_TRUE(this->until([&] { return this->maySleep(); }));
}

TYPED_TEST(NoDescriptor, ThereIsAPauseAfterSoManyRefusals) {
  std::vector<Knock> knocks;
  for (int i = 0; i < AcceptPause::kRefusalsMax + 1; ++i) knocks.emplace_back(TypeParam::kFamily);
  const Exhaustion exhaustion;
  for (Knock& one : knocks) this->knock(one);
  EXPECT_TRUE(this->until([&] { return knocks[AcceptPause::kRefusalsMax - 1].isRefused(); }));
  const int64_t begun_ns = this->place.server.clock.nowNs();
  EXPECT_TRUE(this->maySleep()) << "one waits, and its turn comes later";
  EXPECT_TRUE(this->until([&] { return knocks.back().isRefused(); }));
  EXPECT_GT(this->place.server.clock.nowNs() - begun_ns, AcceptPause::kLeastNs / 2);
}

TYPED_TEST(NoDescriptor, WhoConnectsHearsWhatIsMissing) {
  auto& own = this->place.server;
  {
    const Exhaustion exhaustion;
    own.endpoint->connect(this->place.locator(), 7, own.clock.nowNs() + 10 * runtime::kNanosPerSecond);
    EXPECT_TRUE(this->until([&] { return !own.sink.lost.empty(); }));
  }
  EXPECT_EQ(own.sink.lost[0].second, Status::Unreachable);
  EXPECT_EQ(own.endpoint->openFailure().text, kNoDescriptor);
}

TYPED_TEST(NoDescriptor, WithDescriptorsItGoesOn) {
  Knock before(TypeParam::kFamily);
  {
    const Exhaustion exhaustion;
    this->knock(before);
    EXPECT_TRUE(this->until([&] { return before.isRefused(); }));
  }
  TypeParam* const place = &this->place;
  typename std::conditional_t<std::is_same_v<TypeParam, Tcp>, tcp::Side, shm::Side> client({}, Role::Client, 0);
  client.endpoint->connect(place->locator(), 7, client.clock.nowNs() + 10 * runtime::kNanosPerSecond);
  EXPECT_TRUE(this->until([&] {
    client.step();
    return !client.sink.opened.empty();
  }));
}

TEST(AcceptPause, GrowsAndIsForgotten) {
  AcceptPause pause;
  EXPECT_EQ(pause.untilNs(), runtime::kNever);
  int64_t now_ns = 1'000;
  int64_t length_ns = AcceptPause::kLeastNs;
  for (int i = 0; i < 10; ++i) {
    pause.begin(now_ns);
    EXPECT_EQ(pause.untilNs(), now_ns + length_ns);
    EXPECT_TRUE(pause.lasts(now_ns + length_ns - 1));
    now_ns += length_ns;
    EXPECT_FALSE(pause.lasts(now_ns));
    EXPECT_FALSE(pause.isOn());
    length_ns = std::min(2 * length_ns, AcceptPause::kLongestNs);
  }
  pause.forget();
  pause.begin(now_ns);
  EXPECT_EQ(pause.untilNs(), now_ns + AcceptPause::kLeastNs);
}

}  // namespace
}  // namespace ramcore::transport
