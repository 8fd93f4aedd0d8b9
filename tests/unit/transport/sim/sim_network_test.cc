#include "transport/sim/sim_network.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "sim_fixture.h"

namespace ramcore::transport {
namespace {

using runtime::kNanosPerMilli;
using runtime::kNanosPerSecond;
using runtime::SimScheduler;
using runtime::SimTraceLog;

constexpr uint64_t kEventsMax = 1'000'000;

Identity simIdentity(Role role, uint64_t id) {
  return Identity{.role = role, .id = id, .cluster_name = "test", .secret = "secret"};
}

/// A server and a client that share a network.
struct Pair {
  explicit Pair(SimMode mode, uint64_t seed = 1, const SimNetworkOptions* options = nullptr)
      : scheduler(seed), log(scheduler), network(scheduler, options != nullptr ? *options : networkOf(mode)) {
    server = std::make_unique<SimProcess>(scheduler, log, network, "server", simIdentity(Role::Server, 7));
    client = std::make_unique<SimProcess>(scheduler, log, network, "client", simIdentity(Role::Client, 9));
    EXPECT_TRUE(server->listen().ok());
  }
  SessionId open() {
    const size_t before = client->opened.size();
    const SessionId session = client->connect(*server);
    until([&] { return client->opened.size() > before; });
    EXPECT_EQ(client->opened.size(), before + 1);
    return session;
  }
  void until(const std::function<bool()>& done) { scheduler.runUntil(done, kEventsMax); }
  void run(int64_t for_ns) { scheduler.runUntil(scheduler.nowNs() + for_ns, kEventsMax); }

  SimScheduler scheduler;
  SimTraceLog log;
  SimNetwork network;
  std::unique_ptr<SimProcess> server;
  std::unique_ptr<SimProcess> client;
};

class SimNetworkModes : public testing::TestWithParam<SimMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, SimNetworkModes, testing::Values(SimMode::Stream, SimMode::Datagram, SimMode::Mixed),
                         [](const auto& info) {
                           return info.param == SimMode::Stream     ? "Stream"
                                  : info.param == SimMode::Datagram ? "Datagram"
                                                                    : "Mixed";
                         });

TEST_P(SimNetworkModes, AnswersCallsAndNamesThePeers) {
  Pair pair(GetParam());
  const SessionId session = pair.open();
  ASSERT_NE(pair.client->endpoint->peer(session), nullptr);
  EXPECT_EQ(pair.client->endpoint->peer(session)->id, 7u);
  EXPECT_EQ(pair.client->endpoint->peer(session)->role, Role::Server);
  ASSERT_EQ(pair.server->opened.size(), 1u);
  EXPECT_EQ(pair.server->endpoint->peer(pair.server->opened[0])->id, 9u);

  auto& call = pair.client->call(session, "hello");
  pair.until([&] { return call.completions > 0; });
  EXPECT_EQ(call.status, Status::Ok);
  EXPECT_EQ(call.answer, "hello");
  // The server may call on a session it accepted.
  auto& back = pair.server->call(pair.server->opened[0], "you there?");
  pair.until([&] { return back.completions > 0; });
  EXPECT_EQ(back.answer, "you there?");
  EXPECT_EQ(pair.client->received, std::vector<std::string>{"you there?"});
}

uint64_t busyRun(uint64_t seed, SimFaultCounts* counts = nullptr) {
  Pair pair(SimMode::Mixed, seed);
  pair.network.setRates({.lose_ppm = 5'000, .delay_ppm = 20'000, .reorder_ppm = 50'000, .duplicate_ppm = 20'000});
  std::vector<SessionId> sessions;
  for (int i = 0; i < 4; ++i) sessions.push_back(pair.open());
  for (int round = 0; round < 200; ++round) {
    for (const SessionId session : sessions) pair.client->call(session, std::to_string(round));
    pair.run(kNanosPerMilli / 10);
    if (round == 100) pair.network.partition("client", "server");
    if (round == 120) pair.network.healAll();
  }
  pair.run(10 * kNanosPerSecond);
  if (counts != nullptr) *counts = pair.network.counts();
  return pair.scheduler.traceHash();
}

TEST(SimNetwork, RepeatsARunExactlyFromItsSeed) {
  SimFaultCounts counts;
  const uint64_t first = busyRun(42, &counts);
  EXPECT_GT(counts.sent, 200u);
  EXPECT_GT(counts.delayed, 0u);
  EXPECT_EQ(busyRun(42), first);
  std::set<uint64_t> hashes;
  for (uint64_t seed = 0; seed < 10; ++seed) hashes.insert(busyRun(seed));
  EXPECT_EQ(hashes.size(), 10u);
}

TEST(SimNetwork, StreamKeepsTheOrderOfASession) {
  Pair pair(SimMode::Stream);
  pair.network.setRates({.delay_ppm = 300'000, .reorder_ppm = 300'000});
  const SessionId session = pair.open();
  std::vector<std::string> sent;
  for (int i = 0; i < 300; ++i) {
    sent.push_back(std::to_string(i));
    auto& call = pair.client->call(session, sent.back());
    ASSERT_EQ(call.status, Status::Ok);
    if (i % 10 == 9) pair.until([&] { return call.completions > 0; });
  }
  EXPECT_EQ(pair.server->received, sent);
  EXPECT_GT(pair.network.counts().delayed, 50u);
  EXPECT_EQ(pair.network.counts().reordered, 0u);
}

TEST(SimNetwork, DatagramsOvertakeEachOther) {
  Pair pair(SimMode::Datagram);
  pair.network.setRates({.reorder_ppm = 300'000});
  const SessionId session = pair.open();
  for (int i = 0; i < 30; ++i) pair.client->call(session, std::to_string(100 + i));
  pair.run(kNanosPerSecond);
  ASSERT_EQ(pair.server->received.size(), 30u);
  EXPECT_FALSE(std::is_sorted(pair.server->received.begin(), pair.server->received.end()));
  EXPECT_GT(pair.network.counts().reordered, 0u);
  for (const auto& call : pair.client->calls) EXPECT_EQ(call.answer, call.text);
}

TEST(SimNetwork, StreamDeliversAfterAShortPartition) {
  Pair pair(SimMode::Stream);
  const SessionId session = pair.open();
  pair.network.partition("client", "server");
  auto& call = pair.client->call(session, "held");
  pair.run(50 * kNanosPerMilli);
  EXPECT_EQ(call.completions, 0);
  EXPECT_TRUE(pair.server->received.empty());
  pair.network.heal("server", "client");
  pair.until([&] { return call.completions > 0; });
  EXPECT_EQ(call.status, Status::Ok);
  EXPECT_TRUE(pair.client->lost.empty());
  EXPECT_EQ(pair.network.counts().partitions, 1u);
}

TEST(SimNetwork, LongPartitionEndsTheSessionAndTheNextOneWorks) {
  Pair pair(SimMode::Stream);
  SessionId session = pair.open();
  pair.network.isolate("server");
  auto& call = pair.client->call(session, "never");
  pair.run(3 * kNanosPerSecond);
  EXPECT_EQ(call.completions, 1);
  EXPECT_EQ(call.status, Status::SessionLost);
  ASSERT_EQ(pair.client->lost.size(), 1u);
  EXPECT_EQ(pair.client->lost[0].reason, Status::SessionLost);
  EXPECT_TRUE(pair.server->received.empty());
  // The server cannot know yet; it hears it when it next uses the session.
  EXPECT_EQ(pair.server->endpoint->sessionCount(), 1u);
  pair.network.rejoin("server");
  auto& back = pair.server->call(pair.server->opened[0], "still there?");
  pair.until([&] { return back.completions > 0; });
  EXPECT_EQ(back.status, Status::SessionLost);

  session = pair.open();
  auto& again = pair.client->call(session, "again");
  pair.until([&] { return again.completions > 0; });
  EXPECT_EQ(again.status, Status::Ok);
}

TEST(SimNetwork, OneWayPartitionLetsTheOtherWayThrough) {
  Pair pair(SimMode::Stream);
  const SessionId session = pair.open();
  pair.network.partitionOneWay("server", "client");
  EXPECT_TRUE(pair.network.isBlocked("server", "client"));
  EXPECT_FALSE(pair.network.isBlocked("client", "server"));
  auto& call = pair.client->call(session, "request");
  pair.until([&] { return !pair.server->received.empty(); });
  pair.run(50 * kNanosPerMilli);
  EXPECT_EQ(pair.server->received.size(), 1u);
  EXPECT_EQ(call.completions, 0);
  pair.network.healAll();
  pair.until([&] { return call.completions > 0; });
  EXPECT_EQ(call.status, Status::Ok);
}

TEST(SimNetwork, LostDatagramEndsTheSessionWhenSomebodyKeepsWaiting) {
  Pair pair(SimMode::Datagram);
  const SessionId session = pair.open();
  pair.network.setRates({.lose_ppm = 1'000'000});
  auto& call = pair.client->call(session, "lost");
  pair.run(kNanosPerMilli);
  pair.network.setRates({});
  EXPECT_EQ(pair.network.counts().lost, 1u);
  EXPECT_TRUE(pair.server->received.empty());
  pair.until([&] { return call.completions > 0; });
  EXPECT_EQ(call.status, Status::SessionLost);
  EXPECT_GE(pair.scheduler.nowNs(), pair.network.options().give_up_ns_min);
}

TEST(SimNetwork, LostStreamMessageCutsTheSessionForBoth) {
  Pair pair(SimMode::Stream);
  const SessionId session = pair.open();
  pair.network.setRates({.lose_ppm = 1'000'000});
  auto& call = pair.client->call(session, "lost");
  pair.run(kNanosPerMilli);
  EXPECT_EQ(call.status, Status::SessionLost);
  EXPECT_EQ(pair.client->lost.size(), 1u);
  EXPECT_EQ(pair.server->lost.size(), 1u);
  EXPECT_EQ(pair.network.counts().cuts, 1u);
}

TEST_P(SimNetworkModes, CutOnCommandEndsSessionsOfTwoNodes) {
  Pair pair(GetParam());
  const SessionId session = pair.open();
  pair.server->answers = false;
  auto& call = pair.client->call(session, "request");
  pair.until([&] { return !pair.server->unanswered.empty(); });
  EXPECT_EQ(pair.network.cut("client", "nobody"), 0u);
  EXPECT_EQ(pair.network.cut("server", "client"), 1u);
  pair.run(kNanosPerMilli);
  EXPECT_EQ(call.status, Status::SessionLost);
  EXPECT_EQ(pair.client->endpoint->sessionCount(), 0u);
  EXPECT_EQ(pair.server->endpoint->sessionCount(), 0u);
  // An answer that comes too late is dropped.
  pair.server->endpoint->reply(pair.server->unanswered[0], pair.server->messageOf("late"));
  pair.server->endpoint->flush();
  pair.run(kNanosPerMilli);
  EXPECT_EQ(call.completions, 1);
}

TEST_P(SimNetworkModes, PausedProcessKeepsItsSessionsAndMessages) {
  Pair pair(GetParam());
  const SessionId session = pair.open();
  pair.server->node.pause();
  auto& call = pair.client->call(session, "wait");
  pair.run(20 * kNanosPerSecond);
  EXPECT_EQ(call.completions, 0);
  EXPECT_TRUE(pair.server->received.empty());
  pair.server->node.resume();
  pair.until([&] { return call.completions > 0; });
  EXPECT_EQ(call.status, Status::Ok);
  EXPECT_TRUE(pair.client->lost.empty());
}

TEST(SimNetwork, CopiesOfMessagesAreRecognisedByTheNumberOfTheirCall) {
  Pair pair(SimMode::Datagram);
  pair.network.setRates({.reorder_ppm = 300'000, .duplicate_ppm = 500'000, .duplicate_ns_max = kNanosPerMilli});
  const SessionId session = pair.open();
  std::vector<std::string> sent;
  for (int i = 0; i < 100; ++i) {
    sent.push_back(std::to_string(i));
    auto& call = pair.client->call(session, sent.back());
    pair.until([&] { return call.completions > 0; });
    EXPECT_EQ(call.answer, call.text);
  }
  pair.run(kNanosPerSecond);
  EXPECT_GT(pair.network.counts().duplicated, 50u) << "requests and answers";
  EXPECT_EQ(pair.network.counts().suppressed, pair.network.counts().duplicated);
  EXPECT_EQ(pair.server->received, sent);
  for (const auto& call : pair.client->calls) EXPECT_EQ(call.completions, 1);
}

TEST(SimNetwork, CopiesOfAnEndedSessionReachNobody) {
  Pair pair(SimMode::Datagram);
  pair.network.setRates({.duplicate_ppm = 1'000'000, .duplicate_ns_max = kNanosPerSecond / 100});
  const SessionId first = pair.open();
  for (int i = 0; i < 10; ++i) pair.client->call(first, "once " + std::to_string(i));
  pair.until([&] { return pair.server->received.size() == 10; });
  pair.client->endpoint->close(first);
  pair.open();
  pair.run(kNanosPerSecond);
  EXPECT_EQ(pair.server->received.size(), 10u);
  EXPECT_GE(pair.network.counts().suppressed, 10u);
}

TEST(SimNetwork, ALateRequestIsTakenAfterItsCallerGaveTheSessionUp) {
  Pair pair(SimMode::Datagram);
  const SessionId session = pair.open();
  pair.network.setRates({.late_ppm = 1'000'000, .lose_notice_ppm = 1'000'000, .late_ns_max = 60 * kNanosPerSecond});
  auto& call = pair.client->call(session, "late");
  pair.until([&] { return call.completions > 0; });
  EXPECT_EQ(call.status, Status::SessionLost);
  EXPECT_TRUE(pair.server->received.empty());
  pair.until([&] { return !pair.server->received.empty(); });
  EXPECT_EQ(pair.network.counts().given_up_late, 1u);
  EXPECT_EQ(call.completions, 1);
}

TEST(SimNetwork, AStalledPathDeliversRequestsWhenItIsFreeAgain) {
  Pair pair(SimMode::Datagram);
  const SessionId session = pair.open();
  pair.network.stall("client", "server");
  auto& call = pair.client->call(session, "stalled");
  pair.until([&] { return call.completions > 0; });
  EXPECT_EQ(call.status, Status::SessionLost);
  pair.run(10 * kNanosPerSecond);
  EXPECT_TRUE(pair.server->received.empty());
  EXPECT_EQ(pair.server->endpoint->sessionCount(), 1u) << "it has not heard of the end";
  pair.network.unstall();
  pair.until([&] { return !pair.server->received.empty(); });
  EXPECT_EQ(pair.network.counts().given_up_late, 1u);
}

TEST(SimNetwork, StreamsCarryEveryMessageOnce) {
  Pair pair(SimMode::Stream);
  pair.network.setRates({.duplicate_ppm = 1'000'000});
  const SessionId session = pair.open();
  auto& call = pair.client->call(session, "once");
  pair.until([&] { return call.completions > 0; });
  EXPECT_EQ(pair.network.counts().duplicated, 0u);
}

TEST(SimNetwork, HandshakeRefusesOthersAndTellsWhy) {
  Pair pair(SimMode::Mixed);
  SimProcess stranger(pair.scheduler, pair.log, pair.network, "stranger",
                      Identity{.role = Role::Client, .id = 1, .cluster_name = "test", .secret = "guess"});
  SimProcess foreigner(pair.scheduler, pair.log, pair.network, "foreigner",
                       Identity{.role = Role::Client, .id = 1, .cluster_name = "other", .secret = "secret"});
  stranger.connect(*pair.server);
  foreigner.connect(*pair.server);
  pair.client->connect(*pair.server, /*expected_id=*/8);
  stranger.connect(foreigner);  // nobody listens there
  pair.run(2 * kNanosPerSecond);
  ASSERT_EQ(stranger.lost.size(), 2u);
  std::set<Status> reasons = {stranger.lost[0].reason, stranger.lost[1].reason};
  EXPECT_EQ(reasons, (std::set<Status>{Status::Refused, Status::Unreachable}));
  ASSERT_EQ(foreigner.lost.size(), 1u);
  EXPECT_EQ(foreigner.lost[0].reason, Status::Refused);
  ASSERT_EQ(pair.client->lost.size(), 1u);
  EXPECT_EQ(pair.client->lost[0].reason, Status::WrongServerId);
  EXPECT_TRUE(pair.server->opened.empty());
  pair.client->lost.clear();

  pair.client->connect(*pair.server, /*expected_id=*/7);
  pair.run(kNanosPerSecond);
  EXPECT_EQ(pair.client->opened.size(), 1u);
}

TEST(SimNetwork, ConnectingThroughAPartitionEndsAtTheDeadline) {
  Pair pair(SimMode::Stream);
  pair.network.partition("client", "server");
  const int64_t start_ns = pair.client->node.clock().nowNs();
  const SessionId session = pair.client->connect(*pair.server, 0, 30 * kNanosPerMilli);
  pair.until([&] { return !pair.client->lost.empty(); });
  ASSERT_EQ(pair.client->lost.size(), 1u);
  EXPECT_EQ(pair.client->lost[0].session, session);
  EXPECT_EQ(pair.client->lost[0].reason, Status::Unreachable);
  EXPECT_GE(pair.client->node.clock().nowNs(), start_ns + 30 * kNanosPerMilli);
  pair.network.healAll();
  pair.run(kNanosPerSecond);
  EXPECT_EQ(pair.server->endpoint->sessionCount(), 0u);
}

TEST_P(SimNetworkModes, DeathOfAProcessIsHeardAndItsNodeCanListenAgain) {
  Pair pair(GetParam());
  const SessionId session = pair.open();
  pair.server->answers = false;
  auto& call = pair.client->call(session, "request");
  pair.until([&] { return !pair.server->unanswered.empty(); });
  pair.server.reset();
  pair.run(kNanosPerMilli);
  EXPECT_EQ(call.status, Status::SessionLost);
  EXPECT_EQ(pair.client->lost.size(), 1u);

  pair.server =
      std::make_unique<SimProcess>(pair.scheduler, pair.log, pair.network, "server", simIdentity(Role::Server, 8));
  ASSERT_TRUE(pair.server->listen().ok());
  pair.client->connect(*pair.server, 7);
  pair.run(kNanosPerSecond);
  ASSERT_EQ(pair.client->lost.size(), 2u);
  EXPECT_EQ(pair.client->lost[1].reason, Status::WrongServerId);
}

TEST(SimNetwork, TwoProcessesCannotListenAtOneName) {
  Pair pair(SimMode::Stream);
  const auto second = pair.client->endpoint->listen(pair.server->locator());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status(), Status::InUse);
}

TEST(SimNetwork, CloseInOrderIsToldAsShutdown) {
  Pair pair(SimMode::Stream);
  const SessionId session = pair.open();
  pair.client->endpoint->close(session);
  pair.run(kNanosPerMilli);
  ASSERT_EQ(pair.server->lost.size(), 1u);
  EXPECT_EQ(pair.server->lost[0].reason, Status::Shutdown);
  auto& call = pair.client->call(session, "too late");
  EXPECT_EQ(call.status, Status::SessionLost);
}

TEST(SimNetwork, SlotsAreTheCreditOfASession) {
  SimNetworkOptions options = networkOf(SimMode::Datagram);
  options.slots_per_session = 2;
  Pair pair(SimMode::Datagram, 1, &options);
  const SessionId session = pair.open();
  pair.server->answers = false;
  auto& first = pair.client->call(session, "1");
  auto& second = pair.client->call(session, "2");
  EXPECT_EQ(pair.client->call(session, "3").status, Status::RetryLater);
  pair.until([&] { return pair.server->unanswered.size() == 2; });
  // Abandoned: the slot is still the answer's.
  pair.client->endpoint->abandon(session, first);
  EXPECT_EQ(pair.client->call(session, "4").status, Status::RetryLater);
  for (const ReplyTo& to : pair.server->unanswered) pair.server->endpoint->reply(to, pair.server->messageOf("x"));
  pair.server->endpoint->flush();
  pair.until([&] { return second.completions > 0; });
  pair.run(kNanosPerMilli);
  EXPECT_EQ(first.completions, 0);
  EXPECT_EQ(pair.client->call(session, "5").status, Status::Ok);
  EXPECT_EQ(pair.client->call(session, "6").status, Status::Ok);
}

TEST(SimNetwork, SlotOfALostAndAbandonedCallIsUsableAgain) {
  SimNetworkOptions options = networkOf(SimMode::Datagram);
  options.slots_per_session = 1;
  Pair pair(SimMode::Datagram, 1, &options);
  const SessionId session = pair.open();
  pair.network.setRates({.lose_ppm = 1'000'000});
  auto& lost = pair.client->call(session, "lost");
  pair.run(kNanosPerMilli);
  pair.network.setRates({});
  EXPECT_EQ(pair.client->call(session, "busy").status, Status::RetryLater);
  pair.client->endpoint->abandon(session, lost);
  auto& next = pair.client->call(session, "next");
  pair.until([&] { return next.completions > 0; });
  EXPECT_EQ(next.answer, "next");
  pair.run(5 * kNanosPerSecond);
  EXPECT_TRUE(pair.client->lost.empty());
  EXPECT_EQ(lost.completions, 0);
}

struct CountingOwner : ChunkOwner {
  void releaseChunk(uint64_t token) noexcept override { released.push_back(token); }
  std::vector<uint64_t> released;
};

TEST(SimNetwork, ReadsChunksLaterAndReleasesTheirOwnersOnce) {
  Pair pair(SimMode::Stream);
  const SessionId session = pair.open();
  std::string bytes = "before";
  CountingOwner owner;
  TxMessage request = pair.client->messageOf("head ");
  request.appendChunk({.address = asBytes(bytes).data(), .bytes = 6, .owner = &owner, .token = 11});
  request.appendChunk({.address = asBytes(bytes).data(), .bytes = 0, .owner = &owner, .token = 12});
  SimProcess::Call call("");
  ASSERT_EQ(pair.client->endpoint->call(session, request, CallOptions{}, call), Status::Ok);
  pair.client->endpoint->flush();
  EXPECT_TRUE(owner.released.empty());
  bytes = "behind";  // nothing was read yet: the owner of borrowed bytes keeps them in place until the release
  pair.until([&] { return !owner.released.empty(); });
  bytes = "wiped!";
  pair.until([&] { return call.completions > 0; });
  EXPECT_EQ(call.answer, "head behind");
  EXPECT_EQ(owner.released, (std::vector<uint64_t>{11, 12}));
}

TEST(SimNetwork, AbandonedCallerTakesItsBytesBack) {
  Pair pair(SimMode::Stream);
  const SessionId session = pair.open();
  auto bytes = std::make_unique<std::string>("the caller's");
  TxMessage request = pair.client->messageOf("");
  request.appendChunk({.address = asBytes(*bytes).data(), .bytes = static_cast<uint32_t>(bytes->size())});
  SimProcess::Call call("");
  ASSERT_EQ(pair.client->endpoint->call(session, request, CallOptions{}, call), Status::Ok);
  pair.client->endpoint->abandon(session, call);
  bytes.reset();
  pair.client->endpoint->flush();
  pair.until([&] { return !pair.server->received.empty(); });
  EXPECT_EQ(pair.server->received, std::vector<std::string>{"the caller's"});
}

/// The first to end takes the other one with it.
struct Sibling : PendingCall {
  explicit Sibling(Endpoint& endpoint) : PendingCall(&Sibling::onComplete), endpoint(endpoint) {}
  static void onComplete(PendingCall& pending, Status, RxMessage) {
    Sibling& call = static_cast<Sibling&>(pending);
    ++call.completions;
    if (call.other != nullptr) call.endpoint.abandon(call.session, *call.other);
  }
  Endpoint& endpoint;
  SessionId session;
  Sibling* other = nullptr;
  int completions = 0;
};

TEST(SimNetwork, CallsOfAnEndingSessionMayAbandonEachOther) {
  for (const bool closes : {false, true}) {
    Pair pair(SimMode::Stream);
    const SessionId session = pair.open();
    Sibling a(*pair.client->endpoint);
    Sibling b(*pair.client->endpoint);
    a.other = &b;
    b.other = &a;
    for (Sibling* call : {&a, &b}) {
      call->session = session;
      TxMessage request = pair.client->messageOf("request");
      ASSERT_EQ(pair.client->endpoint->call(session, request, CallOptions{}, *call), Status::Ok);
    }
    if (closes) {
      pair.client->endpoint->close(session);
    } else {
      pair.network.cutAll("client");
      pair.run(kNanosPerMilli);
    }
    EXPECT_EQ(a.completions + b.completions, 1);
    EXPECT_FALSE(a.in_flight || b.in_flight);
  }
}

TEST_P(SimNetworkModes, GatherListsArriveWholeWithAContiguousHead) {
  Pair pair(GetParam(), 77);
  const SessionId session = pair.open();
  runtime::Random random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> pieces(random.below(TxBuffer::kChunkCountMax + 1));
    for (std::string& piece : pieces) piece = std::string(random.below(300), static_cast<char>('a' + random.below(26)));
    const std::string head(8 + random.below(2'000), 'h');
    TxMessage request = pair.client->endpoint->allocate(static_cast<uint32_t>(head.size()));
    request.appendHead(asBytes(head));
    std::string whole = head;
    for (const std::string& piece : pieces) {
      request.appendChunk({.address = asBytes(piece).data(), .bytes = static_cast<uint32_t>(piece.size())});
      whole += piece;
    }
    SimProcess::Call call("");
    ASSERT_EQ(pair.client->endpoint->call(session, request, CallOptions{}, call), Status::Ok);
    pair.client->endpoint->flush();
    pair.until([&] { return call.completions > 0; });
    ASSERT_EQ(call.answer, whole);
  }
}

TEST(SimNetwork, RefusesWhatIsTooLargeAndLeavesItToTheCaller) {
  Pair pair(SimMode::Stream);
  const SessionId session = pair.open();
  const std::vector<std::byte> large(pair.client->endpoint->limits().message_bytes_max + 1);
  TxMessage request = pair.client->messageOf("");
  request.appendChunk({.address = large.data(), .bytes = static_cast<uint32_t>(large.size())});
  SimProcess::Call call("");
  EXPECT_EQ(pair.client->endpoint->call(session, request, CallOptions{}, call), Status::TooLarge);
  EXPECT_TRUE(request);
  EXPECT_FALSE(call.in_flight);
}

}  // namespace
}  // namespace ramcore::transport
