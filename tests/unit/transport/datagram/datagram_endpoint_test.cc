// What a DatagramEndpoint does with its own callers and ports. What peers do to it is in datagram_hostile_test.cc.
#include <algorithm>

#include "unit/transport/datagram/datagram_hand.h"

namespace ramcore::transport::datagram {
namespace {

TEST(DatagramEndpoint, PacketsCarryAMacIfEitherSideWantsOne) {
  for (const bool server_wants : {true, false}) {
    for (const bool peer_wants : {true, false}) {
      SCOPED_TRACE(::testing::Message() << "server " << server_wants << ", peer " << peer_wants);
      Lan lan;
      Station server(lan, 1, {.role = Role::Server, .options = {.wants_seal = server_wants}});
      server.listen();
      Hand peer(lan, 2);
      peer.wants_seal = peer_wants;
      ASSERT_TRUE(peer.greet(server));
      EXPECT_EQ(peer.peer_wants_seal, server_wants);
      const PacketSeal checksum(Handshake::Key{}, true, false);
      const PacketSeal checksum_back(Handshake::Key{}, false, false);
      const auto answersTo = [&](uint16_t slot, const PacketSeal& seal) {
        wire::PacketHeader header = peer.requestOf(slot, 1, 100);
        header.session = peer.session;
        peer.sendAs(peer.startOf(wire::PacketKind::Request), header, std::vector<std::byte>(100), &seal);
        std::vector<Hand::Packet> answers;
        for (int i = 0; i < 20; ++i) {
          server.step();
          lan.pass(5'000);
          for (Hand::Packet& packet : peer.take()) {
            if (packet.start.kind == wire::PacketKind::Response && packet.header.slot == slot) {
              answers.push_back(std::move(packet));
            }
          }
        }
        return answers;
      };
      // If one of the two sides wants seals, packets of a sender without the key are ignored: nobody can talk a session
      // out of seals.
      const bool is_sealed = server_wants || peer_wants;
      EXPECT_EQ(answersTo(0, checksum).empty(), is_sealed);
      const std::vector<Hand::Packet> answers = answersTo(1, *peer.seal_out);
      ASSERT_EQ(answers.size(), 1u);
      const auto hasSeal = [&](const PacketSeal& seal) {
        const ByteSpan payload(answers[0].payload);
        return seal.of(answers[0].start.version, answers[0].start.kind, answers[0].header, std::span(&payload, 1)) ==
               answers[0].header.seal;
      };
      EXPECT_TRUE(hasSeal(*peer.seal_in));
      EXPECT_EQ(hasSeal(checksum_back), !is_sealed);
    }
  }
}

// This holds however many sessions the endpoint is told to take.
TEST(DatagramEndpoint, PeersLeavePlacesForItsOwnConnects) {
  constexpr uint32_t kPlaces = 24;
  constexpr uint32_t kOwn = 8;
  Lan lan;
  Station server(
      lan, 1,
      {.role = Role::Server, .options = {.sessions_max = 1'000'000, .places_max = kPlaces, .own_places = kOwn}});
  Station peer(lan, 2, {.role = Role::Server});
  server.listen();
  peer.listen();
  for (uint32_t i = 0; i < kPlaces - kOwn; ++i) peer.open(server);
  peer.connect(server, 20 * kMilli);
  ASSERT_TRUE(runUntil(lan, {&server, &peer}, [&] { return !peer.lost.empty(); }));
  EXPECT_GT(server.trace.count("this process has as many sessions as it may"), 0u);
  EXPECT_EQ(server.endpoint->sessionCount(), kPlaces - kOwn);
  for (uint32_t i = 0; i < kOwn; ++i) server.open(peer);
  EXPECT_EQ(server.endpoint->sessionCount(), kPlaces);
}

TEST(DatagramEndpoint, ASecondLongMessageInASlotIsAsFastAsTheFirst) {
  Lan lan;
  Station server(lan, 1, {.role = Role::Server, .options = {.slots_per_session = 1}});
  Station client(lan, 2, {.options = {.slots_per_session = 1}});
  server.listen();
  const SessionId session = client.open(server);
  std::vector<int64_t> took_ns;
  for (uint32_t name = 1; name <= 2; ++name) {
    Asked asked;
    const int64_t begun_ns = lan.nowNs();
    ASSERT_EQ(client.call(session, asked, 4'000'000, name), Status::Ok);
    ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return asked.completions != 0; }));
    EXPECT_TRUE(hasContent(asked.response, 4'000'000, name));
    took_ns.push_back(lan.nowNs() - begun_ns);
  }
  EXPECT_LT(took_ns[1], 2 * took_ns[0]);
}

TEST(DatagramEndpoint, ACallThatCompletesWithItsSessionMayAbandonTheOthers) {
  Lan lan;
  Station server(lan, 1, {.role = Role::Server});
  Station client(lan, 2, {});
  server.listen();
  server.on_request = [&](RxMessage& request) { server.held.push_back(std::move(request)); };
  const SessionId session = client.open(server);
  std::vector<std::unique_ptr<Asked>> calls;
  int completed = 0;
  for (int i = 0; i < 4; ++i) calls.push_back(std::make_unique<Asked>());
  for (const auto& asked : calls) {
    asked->then = [&](Asked& self) {
      ++completed;
      for (auto& other : calls) {
        if (other == nullptr || other.get() == &self) continue;
        client.endpoint->abandon(session, *other);
        EXPECT_EQ(other->completions, 0);
        other.reset();
      }
    };
    ASSERT_EQ(client.call(session, *asked, 100, 1), Status::Ok);
  }
  ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return server.held.size() == 4; }));
  server.die();
  ASSERT_TRUE(runUntil(lan, {&client}, [&] { return !client.lost.empty(); }));
  EXPECT_EQ(completed, 1) << "the first one abandoned the others";
}

TEST(DatagramEndpoint, ACallThatCompletesMayCloseItsSessionAndOpenAnother) {
  Lan lan;
  Station server(lan, 1, {.role = Role::Server});
  Station client(lan, 2, {});
  server.listen();
  const SessionId session = client.open(server);
  Asked first;
  Asked second;
  SessionId other;
  first.then = [&](Asked& self) {
    EXPECT_EQ(self.status, Status::Ok);
    client.endpoint->close(session);
    EXPECT_EQ(second.status, Status::SessionLost);
    other = client.connect(server);
  };
  // Both answers arrive in one round.
  ASSERT_EQ(client.call(session, first, 100, 1), Status::Ok);
  ASSERT_EQ(client.call(session, second, 100'000, 2), Status::Ok);
  ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return std::ranges::count(client.opened, other) == 1; }));
  EXPECT_EQ(second.completions, 1);
  Asked third;
  ASSERT_EQ(client.call(other, third, 100'000, 3), Status::Ok);
  ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return third.completions != 0; }));
  EXPECT_TRUE(hasContent(third.response, 100'000, 3));
}

TEST(DatagramEndpoint, BytesComeBackInTimeThoughPortsAlwaysReadSomeOfThem) {
  // The wire is slower than bytes may be borrowed for.
  Lan lan(1, {.delay_ns_min = 20'000, .delay_ns_max = 40'000, .read_ns_max = 150'000});
  const DatagramOptions options{.borrowed_ns_max = 2 * kMilli};
  Station server(lan, 1, {.role = Role::Server});
  Station client(lan, 2, {.options = options});
  server.listen();
  const SessionId session = client.open(server);
  Asked asked;
  const int64_t begun_ns = lan.nowNs();
  ASSERT_EQ(client.call(session, asked, 8'000'000, 1, 300'000), Status::Ok);
  ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return asked.completions != 0; }));
  ASSERT_GT(lan.nowNs() - begun_ns, 4 * options.borrowed_ns_max) << "otherwise this shows nothing";
  EXPECT_TRUE(hasContent(asked.response, 8'000'000, 1));
  EXPECT_LT(client.lender.longestNs(), options.borrowed_ns_max + kMilli);
  EXPECT_EQ(client.endpoint->borrowedCounts().messages_copied_out, 1u);
}

TEST(DatagramEndpoint, APortThatTakesNothingKeepsNothing) {
  Lan lan;
  Station server(lan, 1, {.role = Role::Server});
  Station client(lan, 2, {});
  server.listen();
  const SessionId session = client.open(server);
  client.cut.is_cut = true;
  std::vector<Asked> calls(20);
  for (Asked& asked : calls) ASSERT_EQ(client.call(session, asked, 200'000, 1), Status::Ok);
  ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return client.lender.heldCount() == 0; }, kSecond));
  EXPECT_LT(client.lender.longestNs(), 130 * kMilli) << "two times 50 ms in frames that nobody took, and then no more";
  client.cut.is_cut = false;
  const auto all_done = [&] {
    return std::ranges::all_of(calls, [](const Asked& one) { return one.completions != 0; });
  };
  ASSERT_TRUE(runUntil(lan, {&server, &client}, all_done));
  for (const Asked& asked : calls) EXPECT_TRUE(hasContent(asked.response, 200'000, 1));
}

TEST(DatagramEndpoint, WhatNoPortReadsComesBackWhenTheSessionIsClosed) {
  Lan lan;
  Station server(lan, 1, {.role = Role::Server});
  Station client(lan, 2, {});
  server.listen();
  const SessionId session = client.open(server);
  Asked asked;
  ASSERT_EQ(client.call(session, asked, 200'000, 1), Status::Ok);
  client.endpoint->close(session);
  EXPECT_EQ(asked.status, Status::SessionLost);
  EXPECT_EQ(client.lender.heldCount(), 0u);
}

// A number comes once in a session: what was recorded under it could be sent again.
TEST(DatagramEndpoint, ASessionWhoseNumbersAreUsedUpEnds) {
  Lan lan;
  Station server(lan, 1, {.role = Role::Server});
  Station client(lan, 2, {.options = {.slots_per_session = 2, .slot_calls_max = 3}});
  server.listen();
  const SessionId session = client.open(server);
  server.on_request = [&](RxMessage& request) { server.held.push_back(std::move(request)); };
  Asked first;
  ASSERT_EQ(client.call(session, first, 100, 1), Status::Ok);
  ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return server.held.size() == 1; }));
  server.on_request = [&](RxMessage& request) { server.answer(request); };
  for (uint32_t i = 0; i < 3; ++i) {
    Asked asked;
    ASSERT_EQ(client.call(session, asked, 100, i), Status::Ok) << i;
    ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return asked.completions != 0; }));
    EXPECT_EQ(asked.status, Status::Ok);
  }
  Asked none;
  EXPECT_EQ(client.call(session, none, 100, 9), Status::RetryLater);
  // Calls that are under way are not lost by that.
  EXPECT_FALSE(runUntil(lan, {&server, &client}, [&] { return !client.lost.empty(); }, 50 * kMilli));
  server.answer(server.held[0]);
  server.held.clear();
  ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return !client.lost.empty(); }));
  EXPECT_EQ(first.status, Status::Ok);
  EXPECT_EQ(first.completions, 1u);
}

// Callers vouch for bytes without owner until the call completes: they are neither copied nor held by us.
TEST(DatagramEndpoint, RequestsInTheCallersOwnMemoryAreNotCountedAsOurs) {
  Lan lan;
  const DatagramOptions options{.borrowed_ns_max = kMilli, .stall_bytes_max = 100'000};
  Station server(lan, 1, {.role = Role::Server});
  Station client(lan, 2, {.options = options});
  server.listen();
  const SessionId session = client.open(server);
  const std::vector<std::byte> body(400'000, std::byte{7});
  std::vector<Asked> calls(8);
  for (Asked& asked : calls) {
    TxMessage request = client.make(50, 1);
    request.appendChunk({.address = body.data(), .bytes = 400'000});
    ASSERT_EQ(client.endpoint->call(session, request, {}, asked), Status::Ok);
  }
  const auto all_done = [&] {
    return std::ranges::all_of(calls, [](const Asked& one) { return one.completions != 0; });
  };
  ASSERT_TRUE(runUntil(lan, {&server, &client}, all_done));
  for (const Asked& asked : calls) EXPECT_EQ(asked.status, Status::Ok);
  EXPECT_EQ(client.endpoint->borrowedCounts().sessions_dropped, 0u);
}

TEST(DatagramEndpoint, WhoWaitsForItsGrantsIsNotToBlame) {
  Lan lan(1, {.delay_ns_min = 300'000, .delay_ns_max = 600'000});
  DatagramOptions options;
  options.granted_messages = 1;
  options.stall_close_ns = 15 * kMilli;
  Station server(lan, 1, {.role = Role::Server, .options = options});
  Station client(lan, 2, {});
  server.listen();
  const SessionId session = client.open(server);
  std::vector<Asked> calls(6);
  const int64_t begun_ns = lan.nowNs();
  for (Asked& asked : calls) ASSERT_EQ(client.call(session, asked, 2'000'000, 1), Status::Ok);
  const auto all_done = [&] {
    return std::ranges::all_of(calls, [](const Asked& one) { return one.completions != 0; });
  };
  ASSERT_TRUE(runUntil(lan, {&server, &client}, all_done));
  EXPECT_EQ(server.endpoint->badSessionCount(), 0u);
  for (const Asked& asked : calls) EXPECT_TRUE(hasContent(asked.response, 2'000'000, 1));
  EXPECT_GT(lan.nowNs() - begun_ns, 3 * options.stall_close_ns) << "otherwise this shows nothing";
}

// The last packet is lost, and so is the word of those before it: no hole shows that, only that they come once more.
TEST(DatagramEndpoint, WhoSendsAgainHearsHowFarItHasComeThoughNothingHasAHole) {
  Lan lan;
  Station server(lan, 1, {.role = Role::Server});
  server.listen();
  Hand hand(lan, 9);
  ASSERT_TRUE(hand.greet(server));
  const uint32_t bytes = 3 * hand.packet_bytes;
  for (uint32_t packet = 0; packet < 2; ++packet) hand.sendRequest(0, 1, bytes, packet * hand.packet_bytes);
  const std::vector<std::byte> payload(hand.packet_bytes);
  wire::PacketHeader again = hand.requestOf(0, 1, bytes);
  again.flags = wire::kPacketAgain;
  // More often than the server asks by itself.
  const auto hears = [&] {
    hand.send(wire::PacketKind::Request, again, payload);
    runUntil(lan, {&server}, [] { return false; }, RoundTrip::kLeastNs / 2);
    return std::ranges::any_of(hand.take(), [](const Hand::Packet& word) {
      return word.start.kind == wire::PacketKind::Grant &&
             loadAs<wire::GrantBody>(word.payload.data()).received_packets == 2;
    });
  };
  bool has_heard = false;
  for (int i = 0; i < 100 && !has_heard; ++i) has_heard = hears();
  EXPECT_TRUE(has_heard);
}

TEST(DatagramEndpoint, WhoWasAwayForLongTakesNobodyForDead) {
  Lan lan;
  Station server(lan, 1, {.role = Role::Server});
  Station client(lan, 2, {});
  server.listen();
  server.on_request = [&](RxMessage& request) { server.held.push_back(std::move(request)); };
  const SessionId session = client.open(server);
  Asked asked;
  ASSERT_EQ(client.call(session, asked, 100, 1), Status::Ok);
  ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return server.held.size() == 1; }));
  // The client's thread is stopped for longer than anybody may be silent.
  ASSERT_FALSE(runUntil(lan, {&server}, [&] { return !server.lost.empty(); }, 3 * kSecond, 50'000));
  ASSERT_FALSE(runUntil(lan, {&server, &client}, [&] { return !client.lost.empty(); }, kSecond, 50'000));
  server.answer(server.held[0]);
  ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return asked.completions != 0; }));
  EXPECT_EQ(asked.status, Status::Ok);
}

TEST(DatagramEndpoint, SilenceEndsASessionInTime) {
  Lan lan;
  Station server(lan, 1, {.role = Role::Server});
  Station client(lan, 2, {});
  server.listen();
  server.on_request = [&](RxMessage& request) { server.held.push_back(std::move(request)); };
  const SessionId session = client.open(server);
  Asked asked;
  ASSERT_EQ(client.call(session, asked, 100, 1), Status::Ok);
  ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return server.held.size() == 1; }));
  const int64_t since_ns = lan.nowNs();
  server.cut.is_cut = true;
  ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return asked.completions != 0; }, 3 * kSecond, 50'000));
  EXPECT_EQ(asked.status, Status::SessionLost);
  EXPECT_NEAR(static_cast<double>(lan.nowNs() - since_ns), 2e9, 1e8);
}

TEST(DatagramEndpoint, ManyShortChunksBehindALongOneAreOnePiece) {
  Lan lan;
  Station server(lan, 1, {.role = Role::Server});
  Station client(lan, 2, {});
  server.listen();
  const SessionId session = client.open(server);
  TxMessage request = client.make(10, 1);
  size_t at = 10;
  for (uint32_t i = 0; i < TxBuffer::kChunkCountMax; ++i) {
    const uint32_t bytes = i == 0 ? 600 : i % 7 == 3 ? 0 : 12;
    request.appendChunk(client.lender.borrow(bytes, 1, at));
    at += bytes;
  }
  Asked asked;
  ASSERT_EQ(client.endpoint->call(session, request, {}, asked), Status::Ok);
  ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return asked.completions != 0; }));
  EXPECT_TRUE(hasContent(asked.response, static_cast<uint32_t>(at), 1));
  EXPECT_EQ(client.endpoint->sendCounts().chunks_gathered, 1u);
}

/// An endpoint of a thread that sleeps whenever it can.
struct Sleepy final : MessageSink {
  explicit Sleepy(Lan& where)
      : lan(where),
        port(where.network, macOf(2), {}),
        endpoint({}, {where.clock, where.entropy, silentTrace(), [this](int64_t ns) { wake_ns = ns; }},
                 DatagramEndpoint::limitsOf({}), {&port}, identity) {}
  void onRequests(std::span<RxMessage>) override {}
  void onSessionOpen(SessionId) override {}
  void onSessionLost(SessionId, Status) override { ++lost_count; }
  void fallAsleep() {
    for (int rounds = 0; !endpoint.prepareSleep(); ++rounds) {
      ASSERT_LT(rounds, 10) << "it never sleeps";
      endpoint.awake();
      endpoint.poll(*this, 1);
      endpoint.flush();
    }
  }
  void sleep() {
    ASSERT_GT(wake_ns, lan.nowNs());
    lan.pass(wake_ns - lan.nowNs());
    endpoint.awake();
  }

  Lan& lan;
  const Identity identity{.role = Role::Client, .id = 2, .cluster_name = "test", .secret = "secret"};
  int64_t wake_ns = 0;
  int lost_count = 0;
  SimEthernetPort port;
  DatagramEndpoint endpoint;
};

TEST(DatagramEndpoint, WhatHasToBeSaidIsSaidBeforeTheSleep) {
  Lan lan;
  SimEthernetPort nobody(lan.network, macOf(1), {});
  Sleepy client(lan);
  const auto countHeard = [&] {
    lan.pass(100'000);
    std::array<InFrame, 8> frames;
    const uint32_t count = nobody.receive(frames);
    for (const InFrame& frame : std::span(frames).first(count)) nobody.release(frame);
    return count;
  };
  client.endpoint.connect(Locator::parse("dpdk://02:00:00:00:00:01@1").value(), 0, lan.nowNs() + kSecond);
  uint64_t heard = 0;
  const int64_t end_ns = lan.nowNs() + 200 * kMilli;
  for (client.fallAsleep(); lan.nowNs() < end_ns; client.sleep(), client.fallAsleep()) {
    heard += countHeard();
    ASSERT_EQ(heard, client.endpoint.packetCounts().sent) << "something waits for the end of the sleep";
  }
  EXPECT_GE(heard, 4u) << "whom it looks for is asked again and again";
  EXPECT_EQ(client.lost_count, 0);
  for (int i = 0; i < 200 && client.lost_count == 0; ++i) {
    client.sleep();
    client.fallAsleep();
  }
  EXPECT_EQ(client.lost_count, 1) << "nor does it sleep beyond its deadline";
  EXPECT_LT(lan.nowNs(), 2 * kSecond + 100 * kMilli) << "the clock began at 1 s";
}

TEST(DatagramEndpoint, CallsCompleteInRoundsAndNotOnTheWayToSleep) {
  Lan lan;
  Station server(lan, 1, {.role = Role::Server});
  Station client(lan, 2, {.wake_by = [](int64_t) {}});
  server.listen();
  server.on_request = [&](RxMessage& request) { server.held.push_back(std::move(request)); };
  const SessionId session = client.open(server);
  Asked asked;
  ASSERT_EQ(client.call(session, asked, 100, 1), Status::Ok);
  ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return server.held.size() == 1; }));
  server.cut.is_cut = true;
  // (In steps, so that it does not count as an absence of the client's.)
  for (int i = 0; i < 3000 && asked.completions == 0; ++i) {
    lan.pass(kMilli);
    client.endpoint->prepareSleep();
    ASSERT_EQ(asked.completions, 0);
    client.step();
  }
  EXPECT_EQ(asked.completions, 1);
}

TEST(DatagramEndpoint, NothingIsLeftWhenAllIsOver) {
  Lan lan;
  Station server(lan, 1, {.role = Role::Server});
  Station client(lan, 2, {});
  server.listen();
  for (int round = 0; round < 3; ++round) {
    const SessionId session = client.open(server);
    std::vector<Asked> calls(30);
    for (uint32_t i = 0; i < calls.size(); ++i) ASSERT_EQ(client.call(session, calls[i], i * 1000, i), Status::Ok);
    ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] {
      return std::ranges::all_of(calls, [](const Asked& one) { return one.completions != 0; });
    }));
    calls.clear();
    client.endpoint->close(session);
    ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] {
      return server.endpoint->heldCounts().sessions == 0 && server.endpoint->heldCounts().outgoing == 0;
    }));
    for (const Station* station : {&server, &client}) {
      const HeldCounts held = station->endpoint->heldCounts();
      EXPECT_EQ(held.blocks, 0u);
      EXPECT_EQ(held.frames, 0u);
      EXPECT_EQ(held.outgoing, 0u);
      EXPECT_EQ(held.sessions, 0u);
      EXPECT_EQ(station->lender.heldCount(), 0u);
      EXPECT_FALSE(station->lender.isAnyReleasedTwice());
    }
  }
}

}  // namespace
}  // namespace ramcore::transport::datagram
