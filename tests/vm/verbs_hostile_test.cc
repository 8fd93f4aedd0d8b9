// Faulty messages of a peer that has the secret, over its queue pair: its own session is closed, and no other one.
#include <gtest/gtest.h>

#include <algorithm>

#include "vm/hostile_fixture.h"
#include "wire/frame.h"

namespace ramcore::transport::verbs {
namespace {

using wire::VerbsHeader;
using wire::VerbsKind;
using wire::VerbsPiece;

class VerbsHostile : public HostileFixture {
 protected:
  void join(uint32_t receive_count = 64, bool says_ready = true) {
    peer = makePeer(receive_count);
    ASSERT_TRUE(peer->connect(place, [&] { server->step(); }, says_ready));
    if (says_ready) ASSERT_TRUE(until([&] { return server->endpoint().sessionCount() == 2; }));
  }
  static std::unique_ptr<HostilePeer> makePeer(uint32_t receive_count) {
    return std::make_unique<HostilePeer>(identityOf(Role::Client, 66), receive_count);
  }
  void expectClosed() {
    EXPECT_TRUE(until([&] { return server->endpoint().sessionCount() == 1; }));
    EXPECT_GT(server->endpoint().badSessionCount(), 0u);
  }
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

// The memory is registered with all rights, and its key is told: what keeps the peer out is the server's queue pair.
TEST_F(VerbsHostile, NobodyReachesIntoTheServersMemory) {
  constexpr std::byte kOwn{0x5a};
  std::vector<std::byte> memory(4096, kOwn);
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  auto region = partsOf(*server).device().registerMemory(memory.data(), memory.size(), kAccess);
  ASSERT_TRUE(region.ok());
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE}) {
    join();
    peer->transfer(opcode, reinterpret_cast<uint64_t>(memory.data()), (*region)->rkey);
    EXPECT_TRUE(until([&] { return peer->isBroken() || peer->transferCount() != 0; }));
    EXPECT_EQ(peer->transferCount(), 0u) << "a client has reached into the memory of a server";
    EXPECT_TRUE(peer->isBroken());
    // Some devices break the queue pair at this end as well.
    peer->closeSocket();
    EXPECT_TRUE(until([&] { return server->endpoint().sessionCount() == 1; }));
  }
  EXPECT_TRUE(std::ranges::all_of(memory, [](std::byte byte) { return byte == kOwn; }));
}

// The peer never posts a receive buffer, so no answer is delivered to it.
TEST_F(VerbsHostile, WhoAsksAndTakesNoAnswersIsClosed) {
  join(0);
  const int64_t begin_ns = world.nowNs();
  uint32_t sequence = 0;
  EXPECT_TRUE(until([&] {
    // The server frees the slot when it answers.
    if (sequence < 2000) peer->send(header(VerbsKind::Request, 0, 0, ++sequence));
    for (int i = 0; i < 20; ++i) server->step();
    return server->endpoint().sessionCount() == 1;
  }));
  EXPECT_LT(world.nowNs() - begin_ns, 20 * kSecond);
}

// The adapter tries again and again, and reads the values each time.
TEST_F(VerbsHostile, WhatTheAdapterHasStaysLentUntilItIsDone) {
  constexpr uint32_t kValues = 16;
  contract::CountingOwner owner;
  server->sink.on_request = [&](RxMessage& request) {
    TxMessage response = server->endpoint().allocate(16);
    response.appendHead(uint64_t{5});
    for (uint32_t i = 0; i < kValues; ++i) response.appendChunk(owner.borrow(1000, static_cast<uint8_t>(i)));
    server->endpoint().reply(request.reply_to, std::move(response));
  };
  join(0);
  peer->send(header(VerbsKind::Request, 0));
  ASSERT_TRUE(until([&] { return owner.borrowedCount() == kValues; }));
  // For longer than anything is borrowed that waits here.
  const int64_t begin_ns = world.nowNs();
  EXPECT_TRUE(until([&] { return world.nowNs() - begin_ns > kSecond / 4; }));
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
  const int64_t begin_ns = world.nowNs();
  EXPECT_TRUE(until([&] { return world.nowNs() - begin_ns > kSecond / 10; }));
  EXPECT_TRUE(server->sink.held.empty()) << "the session is not open";
  peer->sayReady();
  EXPECT_TRUE(until([&] { return server->sink.held.size() == 8; }));
  for (uint16_t slot = 0; slot < 8; ++slot) EXPECT_EQ(server->sink.held[slot].reply_to.slot, slot);
  server->sink.held.clear();
  server->echoRequests();
}

TEST_F(VerbsHostile, AnAddressThatSomebodyChangedIsRefused) {
  peer = makePeer(64);
  peer->forge = [](wire::VerbsAddress& address) { address.queue_pair ^= 1; };
  EXPECT_FALSE(peer->connect(place, [&] { server->step(); }));
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
    peer = makePeer(64);
    peer->change = change;
    EXPECT_FALSE(peer->connect(place, [&] { server->step(); }));
    EXPECT_EQ(server->endpoint().badSessionCount(), ++bad_count);
  }
}

}  // namespace
}  // namespace ramcore::transport::verbs
