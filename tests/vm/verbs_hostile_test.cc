// What a peer that has the secret may send over its queue pair: it loses its own session, and nobody else notices.
#include <gtest/gtest.h>

#include <list>

#include "contract/transport_suite.h"
#include "vm/hostile_peer.h"
#include "wire/frame.h"

namespace ramcore::transport::contract {
/// Whose sessions are given up soon.
std::unique_ptr<World> makeImpatientVerbsWorld();
}  // namespace ramcore::transport::contract

namespace ramcore::transport::verbs {
namespace {

using contract::CountingOwner;
using contract::Process;
using contract::TestCall;
using wire::VerbsHeader;
using wire::VerbsKind;
using wire::VerbsPiece;

constexpr int64_t kSecond = runtime::kNanosPerSecond;

class VerbsHostile : public ::testing::Test {
 protected:
  VerbsHostile() {
    world = contract::makeImpatientVerbsWorld();
    server = std::make_unique<Process>(*world, Role::Server, 7);
    honest = std::make_unique<Process>(*world, Role::Client, 1);
    place = server->endpoint().listen(world->placeToListen(*server->node, 0)).value();
    server->echoRequests();
    session = honest->endpoint().connect(place, 0, world->nowNs() + 10 * kSecond);
    EXPECT_TRUE(until([&] { return honest->sink.opened.size() == 1; }));
  }
  ~VerbsHostile() override {
    expectHonestIsServed();
    EXPECT_TRUE(honest->sink.lost.empty());
    peer.reset();
    honest->die();
    server->die();
  }

  bool until(const std::function<bool()>& condition) {
    return contract::stepUntil(*world, {server.get(), honest.get()}, condition);
  }
  // Small and large, both ways.
  void expectHonestIsServed() {
    for (const uint32_t bytes : {100u, 300'000u}) {
      TestCall call;
      CountingOwner owner;
      TxMessage request = contract::makeMessage(honest->endpoint(), owner, bytes, 5);
      ASSERT_EQ(honest->endpoint().call(session, request, {}, call), Status::Ok);
      ASSERT_TRUE(until([&] { return call.completions == 1; }));
      EXPECT_EQ(call.status, Status::Ok);
      EXPECT_TRUE(contract::hasPattern(call.response, bytes, 5));
    }
  }
  void join(uint32_t receive_count = 64, bool says_ready = true) {
    peer = std::make_unique<HostilePeer>(
        place, Identity{.role = Role::Client, .id = 66, .cluster_name = "contract", .secret = {}}, receive_count);
    ASSERT_TRUE(peer->connect([&] { server->step(); }, says_ready));
    if (says_ready) ASSERT_TRUE(until([&] { return server->endpoint().sessionCount() == 2; }));
  }
  void expectClosed() {
    EXPECT_TRUE(until([&] { return server->endpoint().sessionCount() == 1; }));
    EXPECT_GT(server->endpoint().badSessionCount(), 0u);
  }
  static VerbsHeader header(VerbsKind kind, uint32_t message_bytes, uint16_t slot = 0, uint32_t sequence = 1) {
    VerbsHeader header{};
    header.kind = kind;
    header.message_bytes = message_bytes;
    header.slot = slot;
    header.sequence = sequence;
    header.response_bytes_max = UINT32_MAX;
    return header;
  }

  std::unique_ptr<contract::World> world;
  std::unique_ptr<Process> server;
  std::unique_ptr<Process> honest;
  std::unique_ptr<HostilePeer> peer;
  Locator place;
  SessionId session;
};

TEST_F(VerbsHostile, HeadersThatMakeNoSenseCloseTheirSession) {
  std::vector<VerbsHeader> headers(7, header(VerbsKind::Request, 0));
  headers[0].kind = static_cast<VerbsKind>(0);
  headers[1].kind = static_cast<VerbsKind>(200);
  headers[2].slot = 8;  // there are eight
  headers[3].priority = 200;
  headers[4].reserved = 1;
  headers[5].head_bytes = 1;
  headers[6].message_bytes = 1;  // of which none is there
  for (const VerbsHeader& one : headers) {
    join();
    peer->send(one);
    expectClosed();
  }
}

TEST_F(VerbsHostile, WordsThatNobodyAskedForCloseTheirSession) {
  const VerbsPiece piece{0x1000, 1, 100};
  const std::vector<std::pair<VerbsHeader, ByteSpan>> words = {
      {header(VerbsKind::ResponseOffer, 100), {}},    // only the side that was connected to offers answers
      {header(VerbsKind::ResponseWritten, 100), {}},  // nor has it been given a place
      {header(VerbsKind::ResponsePlace, 100), bytesOf(piece)},
      {header(VerbsKind::RequestOffer, 101), bytesOf(piece)},  // another length than its pieces
      {header(VerbsKind::RequestOffer, 0), {}},
      {header(VerbsKind::RequestOffer, wire::kMessageBytesMax + 1), bytesOf(piece)},
      {header(VerbsKind::Close, 0), bytesOf(piece)},
  };
  for (const auto& [word, body] : words) {
    join();
    peer->send(word, body);
    expectClosed();
  }
}

TEST_F(VerbsHostile, AnAnswerToNothingIsIgnored) {
  join();
  peer->send(header(VerbsKind::Response, 0, 3, 9));
  peer->send(header(VerbsKind::Request, 0));
  EXPECT_TRUE(until([&] { return !peer->receive().empty(); }));
  EXPECT_EQ(server->endpoint().sessionCount(), 2u);
}

TEST_F(VerbsHostile, TwoRequestsInOneSlotCloseTheirSession) {
  server->sink.on_request = nullptr;  // it answers none
  join();
  peer->send(header(VerbsKind::Request, 0, 2, 1));
  peer->send(header(VerbsKind::Request, 0, 2, 2));
  expectClosed();
  server->sink.held.clear();
  server->echoRequests();
}

TEST_F(VerbsHostile, ARequestAtAKeyThatDoesNotExistLosesItsSession) {
  join();
  const VerbsPiece piece{0x7fff00000000, 0x12345, 100'000};
  peer->send(header(VerbsKind::RequestOffer, piece.bytes), bytesOf(piece));
  EXPECT_TRUE(until([&] { return server->endpoint().sessionCount() == 1; }));
}

TEST_F(VerbsHostile, APlaceAtAKeyThatDoesNotExistLosesItsSession) {
  server->sink.on_request = [&](RxMessage& request) {
    TxMessage response = server->endpoint().allocate(100'000);
    static_cast<void>(response.extendHead(100'000));
    response->contiguous_bytes = 16;
    server->endpoint().reply(request.reply_to, std::move(response));
  };
  join();
  peer->send(header(VerbsKind::Request, 0));
  std::vector<std::byte> offer;
  ASSERT_TRUE(until([&] { return !(offer = peer->receive()).empty(); }));
  EXPECT_EQ(loadAs<VerbsHeader>(offer.data()).kind, VerbsKind::ResponseOffer);
  const VerbsPiece short_one{0x7fff00000000, 0x12345, 99'999};
  const VerbsPiece piece{0x7fff00000000, 0x12345, 100'000};
  peer->send(header(VerbsKind::ResponsePlace, 100'000), bytesOf(piece));
  EXPECT_TRUE(until([&] { return server->endpoint().sessionCount() == 1; }));
  join();
  peer->send(header(VerbsKind::Request, 0));
  ASSERT_TRUE(until([&] { return !peer->receive().empty(); }));
  peer->send(header(VerbsKind::ResponsePlace, 100'000), bytesOf(short_one));
  expectClosed();
  server->echoRequests();
}

TEST_F(VerbsHostile, NobodyReachesIntoTheServersMemory) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE}) {
    join();
    // The honest one's large message went by keys of this device: some of these exist.
    for (uint32_t key = 0; key < 64; ++key) {
      peer->transfer(opcode, reinterpret_cast<uint64_t>(contract::chunkArena().base), key << 8 | (key & 0xff));
      if (peer->isBroken()) break;
    }
    EXPECT_TRUE(until([&] { return peer->isBroken(); }));
    // Some devices break the queue pair at this end as well.
    peer->closeSocket();
    EXPECT_TRUE(until([&] { return server->endpoint().sessionCount() == 1; }));
  }
}

// It never posts a receive buffer, so not one answer is taken.
TEST_F(VerbsHostile, WhoAsksAndTakesNoAnswersIsClosed) {
  join(0);
  const int64_t begin_ns = world->nowNs();
  uint32_t sequence = 0;
  EXPECT_TRUE(until([&] {
    // The server frees the slot when it answers.
    if (sequence < 2000) peer->send(header(VerbsKind::Request, 0, 0, ++sequence));
    for (int i = 0; i < 20; ++i) server->step();
    return server->endpoint().sessionCount() == 1;
  }));
  EXPECT_LT(world->nowNs() - begin_ns, 20 * kSecond);
}

// The adapter tries again and again, and reads the values each time.
TEST_F(VerbsHostile, WhatTheAdapterHasStaysLentUntilItIsDone) {
  constexpr uint32_t kValues = 16;
  CountingOwner owner;
  server->sink.on_request = [&](RxMessage& request) {
    TxMessage response = server->endpoint().allocate(16);
    response.appendHead(uint64_t{5});
    for (uint32_t i = 0; i < kValues; ++i) response.appendChunk(owner.lend(1000, static_cast<uint8_t>(i)));
    server->endpoint().reply(request.reply_to, std::move(response));
  };
  join(0);
  peer->send(header(VerbsKind::Request, 0));
  ASSERT_TRUE(until([&] { return owner.lentCount() == kValues; }));
  // For longer than anything is lent that waits here.
  const int64_t begin_ns = world->nowNs();
  EXPECT_TRUE(until([&] { return world->nowNs() - begin_ns > kSecond / 4; }));
  EXPECT_EQ(owner.releasedOnce(), 0u) << "nothing has completed";
  EXPECT_EQ(server->endpoint().sessionCount(), 2u);
  peer->closeSocket();
  EXPECT_TRUE(until([&] { return owner.releasedOnce() == kValues; })) << "its queue pair has come to its end";
  EXPECT_EQ(server->endpoint().sessionCount(), 1u);
  server->echoRequests();
}

TEST_F(VerbsHostile, WhoNeverSaysThatItIsReadyKeepsNoBuffers) {
  for (int round = 0; round < 3; ++round) {
    join(64, false);
    for (uint32_t i = 0; i < 20; ++i) peer->send(header(VerbsKind::Request, 0, 0, i + 1));
    EXPECT_TRUE(until([&] { return server->endpoint().badSessionCount() > static_cast<uint64_t>(round); }));
    expectHonestIsServed();
  }
}

TEST_F(VerbsHostile, AFloodBeforeTheLastWordIsDeliveredInOrder) {
  server->sink.on_request = nullptr;
  join(64, false);
  for (uint16_t slot = 0; slot < 8; ++slot) peer->send(header(VerbsKind::Request, 0, slot, 1));
  const int64_t begin_ns = world->nowNs();
  EXPECT_TRUE(until([&] { return world->nowNs() - begin_ns > kSecond / 10; }));
  EXPECT_TRUE(server->sink.held.empty()) << "the session is not open";
  peer->sayReady();
  EXPECT_TRUE(until([&] { return server->sink.held.size() == 8; }));
  for (uint16_t slot = 0; slot < 8; ++slot) EXPECT_EQ(server->sink.held[slot].reply_to.slot, slot);
  server->sink.held.clear();
  server->echoRequests();
}

TEST_F(VerbsHostile, AnAddressThatSomebodyChangedIsRefused) {
  peer = std::make_unique<HostilePeer>(
      place, Identity{.role = Role::Client, .id = 66, .cluster_name = "contract", .secret = {}}, 64);
  peer->forge = [](wire::VerbsAddress& address) { address.queue_pair ^= 1; };
  EXPECT_FALSE(peer->connect([&] { server->step(); }));
  EXPECT_EQ(server->endpoint().badSessionCount(), 1u);
}

// Proven, and nonsense all the same.
TEST_F(VerbsHostile, AddressesThatMakeNoSenseAreRefused) {
  const std::vector<std::function<void(wire::VerbsAddress&)>> changes = {
      [](wire::VerbsAddress& address) { address.mtu = 9; },
      [](wire::VerbsAddress& address) { address.reads_max = 0; },
      [](wire::VerbsAddress& address) { address.queue_pair = 1u << 24; },
      [](wire::VerbsAddress& address) { address.receive_bytes = 10; },
  };
  uint64_t bad_count = 0;
  for (const auto& change : changes) {
    peer = std::make_unique<HostilePeer>(
        place, Identity{.role = Role::Client, .id = 66, .cluster_name = "contract", .secret = {}}, 64);
    peer->change = change;
    EXPECT_FALSE(peer->connect([&] { server->step(); }));
    EXPECT_EQ(server->endpoint().badSessionCount(), ++bad_count);
  }
}

}  // namespace
}  // namespace ramcore::transport::verbs
