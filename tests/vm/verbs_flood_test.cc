// Many who ask for as much as the rules let them, and more: what a server holds for them is bounded, an honest client
// gets on, and what had to wait is served when there is memory again.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>

#include "vm/hostile_fixture.h"

namespace ramcore::transport::verbs {
namespace {

using contract::CountingOwner;
using contract::hasPattern;
using contract::makeMessage;
using contract::TestCall;
using wire::VerbsHeader;
using wire::VerbsKind;

constexpr uint32_t kLarge = 8u << 20;
constexpr uint32_t kLargeBlock = 16u << 20;  // that it takes: its header does not fit into half of that
constexpr uint32_t kShort = 1u << 20;
constexpr uint64_t kHeldMax = 40u << 20;
constexpr uint32_t kLargeHeldMax = 3;  // begun while less than the bound is held
constexpr uint16_t kSlots = 8;

VerbsOptions floodOptions() {
  VerbsOptions options = impatientOptions();
  options.held_bytes_max = kHeldMax;
  options.stall_bytes_max = 16u << 20;
  options.stall_evict_ns = 20 * kSecond;  // the software devices lose packets, and miss them after a second
  options.stall_close_ns = 20 * kSecond;
  return options;
}

/// As a process that the limit of locked memory binds: not as root, who has a capability that lifts it. Devices that
/// are opened with it must not be used without it, and the other way round.
class BoundByLimit {
 public:
  BoundByLimit() {
    EXPECT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before_), 0);
    const rlimit all{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &all), 0);
    mayLock(false);
  }
  BoundByLimit(const BoundByLimit&) = delete;
  BoundByLimit& operator=(const BoundByLimit&) = delete;
  ~BoundByLimit() {
    mayLock(true);
    EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &before_), 0);
  }
  /// The process may register `more_bytes` more memory than it has registered, and no more.
  static void limit(uint64_t more_bytes) { setLimit(pinnedBytes() + more_bytes); }
  static void lift() { setLimit(RLIM_INFINITY); }

 private:
  static void setLimit(rlim_t bytes) {
    const rlimit wanted{.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &wanted), 0);
  }
  static uint64_t pinnedBytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmPin:")) return std::stoull(line.substr(6)) * 1024;
    }
    ADD_FAILURE() << "the system does not say how much is pinned";
    return 0;
  }
  static void mayLock(bool may) {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    std::array<__user_cap_data_struct, 2> data{};
    ASSERT_EQ(::syscall(SYS_capget, &header, data.data()), 0);
    constexpr uint32_t kBit = 1u << CAP_IPC_LOCK;
    data[0].effective = may ? data[0].effective | kBit : data[0].effective & ~kBit;
    ASSERT_EQ(::syscall(SYS_capset, &header, data.data()), 0);
  }

  rlimit before_{};
};

/// The server answers all requests but those of kLarge and kShort: they are kept, as by a service that is slow.
class VerbsFlood : public HostileFixture {
 protected:
  explicit VerbsFlood(const VerbsOptions& options = floodOptions()) : HostileFixture(options) {
    server->sink.on_request = [this, echo = server->sink.on_request](RxMessage& request) {
      if (request.messageBytes() == kLarge || request.messageBytes() == kShort) {
        server->sink.held.push_back(std::move(request));
      } else {
        echo(request);
      }
    };
  }
  ~VerbsFlood() override {
    server->sink.held.clear();
    peers.clear();
  }

  HostilePeer& join() {
    auto one = std::make_unique<HostilePeer>(identityOf(Role::Client, 66), 64);
    const uint32_t before = server->endpoint().sessionCount();
    EXPECT_TRUE(one->connect(place, [&] { step(); }));
    EXPECT_TRUE(until([&] { return server->endpoint().sessionCount() == before + 1; }));
    return *peers.emplace_back(std::move(one));
  }
  static void announce(HostilePeer& one, uint32_t bytes, uint16_t slot, uint32_t piece_count = 16,
                       uint32_t sequence = 1) {
    const std::vector<wire::VerbsPiece> pieces = one.announce(bytes, piece_count);
    one.send(header(VerbsKind::RequestOffer, bytes, slot, sequence), bytesOfPieces(pieces));
  }
  uint64_t heldBytes() { return partsOf(*server).verbs().heldBytes(); }
  size_t keptCount() const { return server->sink.held.size(); }
  /// Steps, and looks at how much is held each time.
  bool untilBounded(const std::function<bool()>& condition) {
    return until([&] {
      held_most = std::max(held_most, heldBytes());
      return condition();
    });
  }
  void answerKept(size_t number = 0) {
    const auto kept = server->sink.held.begin() + static_cast<ptrdiff_t>(number);
    const RxMessage request = std::move(*kept);
    server->sink.held.erase(kept);
    server->endpoint().reply(request.reply_to, server->endpoint().allocate(0));
  }
  void callOf(TestCall& call, uint32_t bytes) {
    TxMessage request = makeMessage(honest->endpoint(), owner, bytes, 5, 1u << 20);
    ASSERT_EQ(honest->endpoint().call(session, request, {}, call), Status::Ok);
  }

  CountingOwner owner;
  std::vector<std::unique_ptr<HostilePeer>> peers;
  uint64_t held_most = 0;
};

TEST_F(VerbsFlood, WhatIsAnnouncedBeyondTheBoundWaitsAndIsServed) {
  constexpr size_t kPeers = 2;
  for (size_t i = 0; i < kPeers; ++i) join();
  for (const auto& one : peers) {
    for (uint16_t slot = 0; slot < kSlots; ++slot) announce(*one, kLarge, slot);
  }
  ASSERT_TRUE(untilBounded([&] { return keptCount() == kLargeHeldMax; }));
  // A call that needs memory waits with them; calls that need none do not.
  TestCall long_one;
  callOf(long_one, 300'000);
  expectHonestIsServed({100, 10'000});
  go(kSecond / 2);
  EXPECT_EQ(keptCount(), kLargeHeldMax);
  EXPECT_EQ(long_one.completions, 0);

  size_t answered = 0;
  EXPECT_TRUE(untilBounded([&] {
    if (keptCount() != 0) {
      answerKept();
      ++answered;
    }
    return answered == kPeers * kSlots && long_one.completions == 1;
  }));
  EXPECT_EQ(long_one.status, Status::Ok);
  EXPECT_TRUE(hasPattern(long_one.response, 300'000, 5));
  // A request that is begun below the bound may exceed it by the unused rest of its block.
  EXPECT_LE(held_most, kHeldMax + kLargeBlock - kLarge);
  EXPECT_GE(held_most, kHeldMax) << "the flood was one";
  EXPECT_EQ(heldBytes(), 0u);
  EXPECT_EQ(server->endpoint().sessionCount(), 1u + kPeers) << "nobody broke a rule";
}

// Shorter ones that would find memory wait behind it, or it might wait for ever.
TEST_F(VerbsFlood, ALongRequestIsNotOvertakenForEver) {
  constexpr size_t kLargeKept = 2;
  HostilePeer& slow = join();
  for (uint16_t slot = 0; slot < kLargeKept; ++slot) announce(slow, kLarge, slot);
  ASSERT_TRUE(untilBounded([&] { return keptCount() == kLargeKept; }));
  HostilePeer& busy = join();
  for (uint16_t slot = 0; slot < kSlots; ++slot) announce(busy, kShort, slot, 1);
  // The service answers one when it has all that there is memory for, and else when no other one has come for a while.
  constexpr size_t kShortKept = (kHeldMax - kLargeKept * kLargeBlock) / (2 * kShort);
  uint64_t answered = 0;
  int64_t answered_ns = world.nowNs();
  const auto goOn = [&] {
    const std::vector<std::byte> answer = busy.receive();
    if (!answer.empty()) {
      const auto of = loadAs<VerbsHeader>(answer.data());
      announce(busy, kShort, of.slot, 1, of.sequence + 1);
    }
    if (keptCount() == kLargeKept) return;
    if (keptCount() < kLargeKept + kShortKept && world.nowNs() - answered_ns < kSecond / 5) return;
    answerKept(kLargeKept);
    ++answered;
    answered_ns = world.nowNs();
  };
  ASSERT_TRUE(untilBounded([&] {
    goOn();
    return answered == 10;
  }));
  TestCall long_one;
  callOf(long_one, 5u << 20);
  EXPECT_TRUE(untilBounded([&] {
    goOn();
    return long_one.completions == 1;
  }));
  EXPECT_EQ(long_one.status, Status::Ok);
  EXPECT_EQ(server->endpoint().sessionCount(), 3u) << "nobody had to give way";
  EXPECT_LE(held_most, kHeldMax + kLargeBlock - kLarge);
}

TEST_F(VerbsFlood, AnAnnouncerThatDiesWhileItWaitsForMemoryLeavesNothing) {
  HostilePeer& first = join();
  for (uint16_t slot = 0; slot < kLargeHeldMax; ++slot) announce(first, kLarge, slot);
  ASSERT_TRUE(until([&] { return keptCount() == kLargeHeldMax; }));
  HostilePeer& second = join();
  for (uint16_t slot = 0; slot < kSlots; ++slot) announce(second, kLarge, slot);
  expectHonestIsServed({100, 10'000});
  second.fallSilent();
  second.closeSocket();
  EXPECT_TRUE(until([&] { return server->endpoint().sessionCount() == 2; }));
  expectHonestIsServed({100, 10'000});
  for (uint32_t i = 0; i < kLargeHeldMax; ++i) answerKept();
  EXPECT_TRUE(until([&] { return partsOf(*server).verbs().queuePairCount() == 2; }));
  go(kSecond / 5);
  EXPECT_EQ(keptCount(), 0u) << "of the one that is dead";
  EXPECT_EQ(heldBytes(), 0u);
}

/// In which memory may not be short for long.
class VerbsEvictingFlood : public VerbsFlood {
 protected:
  VerbsEvictingFlood() : VerbsFlood(evicting()) {}
  static VerbsOptions evicting() {
    VerbsOptions options = floodOptions();
    options.stall_evict_ns = 3 * kSecond;
    return options;
  }
};

// Requests that a peer has announced are being read, and their bytes do not come: their memory is given up.
TEST_F(VerbsEvictingFlood, WhoAnnouncesAndCannotBeReadGivesWay) {
  HostilePeer& silent = join();
  for (uint16_t slot = 0; slot < kLargeHeldMax; ++slot) announce(silent, kLarge, slot);
  ASSERT_TRUE(until([&] { return heldBytes() > kHeldMax; }));
  silent.fallSilent();
  ASSERT_LT(keptCount(), kLargeHeldMax) << "it was quicker than we";
  TestCall long_one;
  callOf(long_one, 300'000);
  const int64_t begin_ns = world.nowNs();
  EXPECT_TRUE(until([&] { return long_one.completions == 1; }));
  EXPECT_EQ(long_one.status, Status::Ok);
  EXPECT_GE(world.nowNs() - begin_ns, 2 * kSecond);
  EXPECT_EQ(server->endpoint().sessionCount(), 1u);
  server->sink.held.clear();
  EXPECT_TRUE(until([&] { return heldBytes() == 0 && partsOf(*server).verbs().queuePairCount() == 1; }));
}

/// In which the system may refuse memory, too.
class VerbsLimitedFlood : private BoundByLimit, public VerbsEvictingFlood {
 protected:
  static constexpr uint64_t kTooLittle = kLargeBlock - (1u << 20);  // for a large one

  using BoundByLimit::lift;
  using BoundByLimit::limit;
};

// The one that waits first does so for memory that there will never be: others must not wait for that.
TEST_F(VerbsLimitedFlood, WhoseRequestNoMemoryCanBeRegisteredForGivesWay) {
  expectHonestIsServed();
  HostilePeer& greedy = join();
  const std::vector<wire::VerbsPiece> pieces = greedy.announce(kLarge, 16);  // registered before there is a limit
  limit(kTooLittle);
  greedy.send(header(VerbsKind::RequestOffer, kLarge), bytesOfPieces(pieces));
  go(kSecond / 5);
  TestCall long_one;
  callOf(long_one, 300'000);
  const int64_t begin_ns = world.nowNs();
  EXPECT_TRUE(until([&] { return long_one.completions == 1; }));
  EXPECT_EQ(long_one.status, Status::Ok);
  EXPECT_GE(world.nowNs() - begin_ns, 2 * kSecond) << "it had its time";
  EXPECT_EQ(server->endpoint().sessionCount(), 1u);
  EXPECT_EQ(server->endpoint().badSessionCount(), 0u) << "it broke no rule";
  EXPECT_EQ(keptCount(), 0u);
  lift();
}

// A request that is refused only for a while is served later, and no other one is given up for it.
TEST_F(VerbsLimitedFlood, ARequestThatNoMemoryCanBeRegisteredForNowIsServedLater) {
  HostilePeer& one = join();
  const std::vector<wire::VerbsPiece> pieces = one.announce(kLarge, 16);
  limit(kTooLittle);
  one.send(header(VerbsKind::RequestOffer, kLarge), bytesOfPieces(pieces));
  go(kSecond);
  EXPECT_EQ(heldBytes(), 0u) << "the system refused it";
  lift();
  EXPECT_TRUE(until([&] { return keptCount() == 1; }));
  EXPECT_EQ(server->endpoint().sessionCount(), 2u);
}

/// In which one long message is more than may be held.
class VerbsTightFlood : public VerbsFlood {
 protected:
  VerbsTightFlood() : VerbsFlood(tight()) {}
  static VerbsOptions tight() {
    VerbsOptions options = floodOptions();
    options.held_bytes_max = kLarge / 2;
    return options;
  }
};

TEST_F(VerbsTightFlood, ARequestLongerThanTheBoundIsServedAlone) {
  HostilePeer& one = join();
  for (uint16_t slot = 0; slot < 2; ++slot) announce(one, kLarge, slot);
  ASSERT_TRUE(untilBounded([&] { return keptCount() == 1; }));
  TestCall long_one;
  callOf(long_one, 300'000);
  go(kSecond / 2);
  EXPECT_EQ(keptCount(), 1u);
  EXPECT_EQ(long_one.completions, 0);
  answerKept();
  ASSERT_TRUE(untilBounded([&] { return keptCount() == 1; }));
  answerKept();
  EXPECT_TRUE(untilBounded([&] { return long_one.completions == 1; }));
  EXPECT_EQ(long_one.status, Status::Ok);
  EXPECT_LE(held_most, kLargeBlock);
  EXPECT_EQ(server->endpoint().sessionCount(), 2u);
}

/// With the bounds of a real server.
class VerbsWideFlood : public VerbsFlood {
 protected:
  VerbsWideFlood() : VerbsFlood(impatientOptions()) {}
};

// In so many pieces that one of them fills the send queue: the others stand there with their memory when it leaves.
TEST_F(VerbsWideFlood, WhoAnnouncesAllItMayAndLeavesLeavesNothing) {
  for (int round = 0; round < 3; ++round) {
    HostilePeer& one = join();
    for (uint16_t slot = 0; slot < kSlots; ++slot) announce(one, kLarge, slot, wire::kVerbsPiecesMax);
    ASSERT_TRUE(until([&] { return heldBytes() > uint64_t{kLargeBlock} * (kSlots - 1); }));
    one.closeSocket();
    EXPECT_TRUE(until([&] { return server->endpoint().sessionCount() == 1; }));
    server->sink.held.clear();
    EXPECT_TRUE(until([&] { return heldBytes() == 0 && partsOf(*server).verbs().queuePairCount() == 1; }));
  }
}

// Values of the log are borrowed by them for as long as they wait: copies, and then the end.
TEST_F(VerbsFlood, WhoAsksForLongAnswersAndGivesNoPlaceIsClosed) {
  constexpr uint32_t kAnswer = 4u << 20;
  CountingOwner values;
  server->sink.on_request = [&, echo = server->sink.on_request](RxMessage& request) {
    if (request.messageBytes() != 0) return echo(request);
    server->endpoint().reply(request.reply_to, makeMessage(server->endpoint(), values, kAnswer, 9, 1u << 20));
  };
  HostilePeer& one = join();
  for (uint16_t slot = 0; slot < kSlots; ++slot) one.send(header(VerbsKind::Request, 0, slot));
  EXPECT_TRUE(until([&] { return server->endpoint().borrowedCounts().sessions_dropped == 1; }));
  EXPECT_TRUE(until([&] { return server->endpoint().sessionCount() == 1; }));
  EXPECT_TRUE(until([&] { return values.borrowedCount() != 0 && values.releasedOnce() == values.borrowedCount(); }));
  expectHonestIsServed();
  server->echoRequests();
}

/// With fewer receive buffers than slots.
class VerbsNarrowFlood : public VerbsFlood {
 protected:
  VerbsNarrowFlood() : VerbsFlood(narrow()) {}
  static VerbsOptions narrow() {
    VerbsOptions options = floodOptions();
    options.receive_buffers_max = 16;
    return options;
  }
};

TEST_F(VerbsNarrowFlood, WordsThatNobodyWaitsForKeepNoReceiveBuffers) {
  server->sink.on_request = [this, echo = server->sink.on_request](RxMessage& request) {
    if (request.messageBytes() != 0) return echo(request);
    server->sink.held.push_back(std::move(request));
  };
  for (int i = 0; i < 2; ++i) join();
  for (const auto& one : peers) {
    for (uint16_t slot = 0; slot < kSlots; ++slot) one->send(header(VerbsKind::Request, 0, slot));
  }
  EXPECT_TRUE(until([&] { return keptCount() == 2u * kSlots; })) << "all buffers there are";
  for (int round = 0; round < 20; ++round) {
    for (const auto& one : peers) {
      for (uint32_t i = 0; i < 20; ++i) one->send(header(VerbsKind::Response, 0, 3, i));
    }
    expectHonestIsServed({100, 10'000});
  }
  expectHonestIsServed();
  EXPECT_EQ(server->endpoint().sessionCount(), 3u);
  EXPECT_EQ(keptCount(), 2u * kSlots);
}

}  // namespace
}  // namespace ramcore::transport::verbs
