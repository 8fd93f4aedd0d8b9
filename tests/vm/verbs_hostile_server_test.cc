// Attacks of a server that has the secret on a client that has connected to it: the client closes that session, and no
// other one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <set>

#include "vm/hostile_fixture.h"
#include "wire/frame.h"

namespace ramcore::transport::verbs {
namespace {

using contract::CountingOwner;
using contract::hasPattern;
using contract::makeMessage;
using contract::TestCall;
using wire::VerbsHeader;
using wire::VerbsKind;
using wire::VerbsPiece;

constexpr uint32_t kLongBytes = 100'000;
constexpr uint32_t kPlaceBytes = std::bit_ceil(kLongBytes);  // that are registered
constexpr uint64_t kHostileId = 66;

/// The client has a second session, to a peer that the test speaks for.
class VerbsHostileServer : public HostileFixture {
 protected:
  VerbsHostileServer() {
    peer = makePeer();
    hostile_place = peer->listen();
    join();
  }

  static std::unique_ptr<HostilePeer> makePeer() {
    return std::make_unique<HostilePeer>(identityOf(Role::Server, kHostileId), 64);
  }
  /// Has the client connect to it, once more.
  void join() {
    const size_t opened = honest->sink.opened.size();
    bad_session = honest->endpoint().connect(hostile_place, kHostileId, world.nowNs() + 10 * kSecond);
    ASSERT_TRUE(peer->accept([&] { step(); }));
    ASSERT_TRUE(until([&] { return honest->sink.opened.size() == opened + 1; }));
  }
  void ask(TestCall& call, uint32_t bytes = 100, uint32_t response_bytes_max = UINT32_MAX) {
    TxMessage request = makeMessage(honest->endpoint(), owner, bytes, 5);
    ASSERT_EQ(honest->endpoint().call(bad_session, request, {.response_bytes_max = response_bytes_max}, call),
              Status::Ok);
  }
  /// The next message of the client.
  std::vector<std::byte> take() {
    std::vector<std::byte> message;
    EXPECT_TRUE(until([&] { return !(message = peer->receive()).empty(); }));
    if (message.size() < sizeof(VerbsHeader)) message.resize(sizeof(VerbsHeader));
    return message;
  }
  static VerbsHeader headerOf(const std::vector<std::byte>& message) { return loadAs<VerbsHeader>(message.data()); }
  static VerbsPiece pieceOf(const std::vector<std::byte>& message) {
    EXPECT_EQ(message.size(), sizeof(VerbsHeader) + sizeof(VerbsPiece));
    return loadAs<VerbsPiece>(message.data() + sizeof(VerbsHeader));
  }
  static VerbsHeader about(const TestCall& call, VerbsKind kind, uint32_t message_bytes) {
    return header(kind, message_bytes, call.slot, call.sequence);
  }
  /// Has the client make a place for an answer.
  VerbsPiece askForPlace(const TestCall& call, uint32_t bytes = kLongBytes) {
    peer->send(about(call, VerbsKind::ResponseOffer, bytes));
    const std::vector<std::byte> word = take();
    EXPECT_EQ(headerOf(word).kind, VerbsKind::ResponsePlace);
    return pieceOf(word);
  }
  void transfer(ibv_wr_opcode opcode, uint64_t address, uint32_t key, bool is_let_through) {
    const uint32_t before = peer->transferCount();
    peer->transfer(opcode, address, key);
    EXPECT_TRUE(until([&] { return peer->isBroken() || peer->transferCount() != before; }));
    EXPECT_EQ(peer->transferCount() != before, is_let_through);
  }
  /// All that the key of a place opens.
  std::vector<std::byte> readWhole(const VerbsPiece& place, uint32_t bytes) {
    constexpr uint32_t kAtOnce = 16 * 1024;
    std::vector<std::byte> all;
    for (uint32_t at = 0; at < bytes; at += kAtOnce) {
      const uint32_t before = peer->transferCount();
      peer->transfer(IBV_WR_RDMA_READ, place.address + at, place.key, kAtOnce);
      EXPECT_TRUE(until([&] { return peer->isBroken() || peer->transferCount() != before; }));
      EXPECT_FALSE(peer->isBroken());
      all.insert(all.end(), peer->lastRead().begin(), peer->lastRead().end());
    }
    EXPECT_EQ(all.size(), bytes);
    return all;
  }
  void expectLost(const TestCall& call) {
    ASSERT_TRUE(until([&] { return honest->endpoint().sessionCount() == 1 && !honest->sink.lost.empty(); }));
    EXPECT_EQ(call.completions, 1);
    EXPECT_EQ(call.status, Status::SessionLost);
    EXPECT_EQ(honest->sink.lost.back(), std::make_pair(bad_session, Status::SessionLost));
  }
  /// Because of what the peer said.
  void expectClosed(const TestCall& call) {
    expectLost(call);
    EXPECT_EQ(honest->endpoint().badSessionCount(), ++bad_count);
  }
  /// Expects that nothing of the peer's session is left.
  void expectDrained() {
    EXPECT_TRUE(until([&] { return partsOf(*honest).verbs().queuePairCount() == 1; }));
  }

  CountingOwner owner;
  Locator hostile_place;
  SessionId bad_session;
  uint64_t bad_count = 0;
};

/// As on adapters that have no memory windows.
class VerbsWithoutWindows : public HostileFixture {
 protected:
  static VerbsOptions options() {
    VerbsOptions options = impatientOptions();
    options.windows = VerbsOptions::Windows::Nowhere;
    return options;
  }
  VerbsWithoutWindows() : HostileFixture(options()) {}
};

TEST_F(VerbsWithoutWindows, LongMessagesGoBothWays) {
  for (int i = 0; i < 3; ++i) expectHonestIsServed({20'000, 3'000'000});
}

TEST_F(VerbsHostileServer, WordsThatNobodyAskedForCloseTheirSession) {
  constexpr uint32_t kTaken = 200'000;
  const VerbsPiece piece{0x1000, 1, kLongBytes};
  const auto words = [&](const TestCall& call) {
    VerbsHeader other_slot = about(call, VerbsKind::ResponseOffer, kLongBytes);
    other_slot.slot = static_cast<uint16_t>((call.slot + 1) % 8);
    VerbsHeader no_slot = other_slot;
    no_slot.slot = 8;
    VerbsHeader other_sequence = about(call, VerbsKind::ResponseOffer, kLongBytes);
    other_sequence.sequence += 1;
    return std::vector<std::pair<VerbsHeader, ByteSpan>>{
        {about(call, VerbsKind::ResponseOffer, kTaken + 1), {}},  // more than the caller takes
        {about(call, VerbsKind::ResponseOffer, wire::kMessageBytesMax + 1), {}},
        {about(call, VerbsKind::ResponseOffer, 0), {}},
        {other_slot, {}},
        {no_slot, {}},
        {other_sequence, {}},
        {about(call, VerbsKind::ResponseWritten, kLongBytes), {}},            // without a place
        {about(call, VerbsKind::ResponsePlace, kLongBytes), bytesOf(piece)},  // only who connected gives places
        {about(call, VerbsKind::RequestOffer, kLongBytes), bytesOf(piece)},   // and only the other one reads
        {about(call, VerbsKind::Response, 1), {}},
    };
  };
  const size_t count = words(TestCall()).size();
  for (size_t i = 0; i < count; ++i) {
    if (i != 0) join();
    TestCall call;
    ask(call, 100, kTaken);
    EXPECT_EQ(headerOf(take()).kind, VerbsKind::Request);
    const auto [word, body] = words(call)[i];
    peer->send(word, body);
    expectClosed(call);
  }
}

TEST_F(VerbsHostileServer, AnAnswerLongerThanTheCallerTakesClosesItsSession) {
  TestCall call;
  ask(call, 100, 1000);
  take();
  peer->send(about(call, VerbsKind::Response, 1001), std::vector<std::byte>(1001));
  expectClosed(call);
}

TEST_F(VerbsHostileServer, AnAnswerThatIsOfferedTwiceClosesItsSession) {
  TestCall call;
  ask(call);
  take();
  askForPlace(call);
  peer->send(about(call, VerbsKind::ResponseOffer, kLongBytes));
  expectClosed(call);
}

TEST_F(VerbsHostileServer, AnAnswerWrittenOtherwiseThanOfferedClosesItsSession) {
  const auto changes = std::to_array<void (*)(VerbsHeader&)>({
      [](VerbsHeader& written) { written.message_bytes -= 1; },
      [](VerbsHeader& written) { written.message_bytes += 1; },
      [](VerbsHeader& written) { written.head_bytes = written.message_bytes + 1; },
      [](VerbsHeader& written) { written.head_bytes = wire::kHeadBytesMax + 1; },
      [](VerbsHeader& written) { written.sequence += 1; },
      [](VerbsHeader& written) { written.slot = static_cast<uint16_t>((written.slot + 1) % 8); },
  });
  for (size_t i = 0; i < changes.size(); ++i) {
    if (i != 0) join();
    TestCall call;
    ask(call);
    take();
    askForPlace(call);
    VerbsHeader written = about(call, VerbsKind::ResponseWritten, kLongBytes);
    changes[i](written);
    peer->send(written);
    expectClosed(call);
  }
}

TEST_F(VerbsHostileServer, AnswersThatComeTwiceAreIgnored) {
  TestCall call;
  ask(call);
  take();
  for (int i = 0; i < 3; ++i) peer->send(about(call, VerbsKind::Response, 0));
  EXPECT_TRUE(until([&] { return call.completions == 1; }));
  EXPECT_EQ(call.status, Status::Ok);
  TestCall next;
  ask(next);
  take();
  peer->send(about(next, VerbsKind::Response, 0));
  EXPECT_TRUE(until([&] { return next.completions == 1; }));
  EXPECT_EQ(honest->endpoint().badSessionCount(), 0u);
  EXPECT_EQ(call.completions, 1);
}

// The server offers a long answer, gets a place for it, and then sends the answer in a message: that is accepted, too.
TEST_F(VerbsHostileServer, AnAnswerInAMessageInPlaceOfTheOneOfferedIsTaken) {
  TestCall call;
  ask(call);
  take();
  const VerbsPiece place = askForPlace(call);
  peer->send(about(call, VerbsKind::Response, 0));
  EXPECT_TRUE(until([&] { return call.completions == 1; }));
  EXPECT_EQ(call.status, Status::Ok);
  EXPECT_EQ(call.response.messageBytes(), 0u);
  // Which of the two it was is settled.
  TestCall next;
  ask(next);
  take();
  transfer(IBV_WR_RDMA_WRITE, place.address, place.key, true);
  peer->send(about(call, VerbsKind::ResponseWritten, kLongBytes));
  expectClosed(next);
}

TEST_F(VerbsHostileServer, NoTransferReachesBeyondItsPlace) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE}) {
    for (const bool is_before : {false, true}) {
      TestCall call;
      ask(call);
      take();
      const VerbsPiece place = askForPlace(call);
      transfer(opcode, place.address + kLongBytes - 64, place.key, true);
      transfer(opcode, is_before ? place.address - 32 : place.address + kPlaceBytes - 32, place.key, false);
      // Some devices break the queue pair at this end as well.
      peer->closeSocket();
      expectLost(call);
      join();
    }
  }
}

// More is registered than was announced.
TEST_F(VerbsHostileServer, NoPlaceTellsWhatItsMemoryHeldBefore) {
  constexpr uint32_t kSmallPlace = 64 * 1024;
  constexpr uint32_t kBytes = 20'000;
  constexpr size_t kPageBytes = 4096;
  const auto isClear = [](const std::vector<std::byte>& bytes, size_t from) {
    return std::ranges::all_of(bytes.begin() + static_cast<ptrdiff_t>(from), bytes.end(),
                               [](std::byte byte) { return byte == std::byte{0}; });
  };
  // The secrets of others.
  std::vector<void*> blocks(64);
  for (void*& block : blocks) {
    block = std::aligned_alloc(kPageBytes, kSmallPlace);
    std::memset(block, 0x5a, kSmallPlace);
    asm volatile("" : : "r"(block) : "memory");  // or nobody would see that it is written
  }
  const auto last = std::make_unique<std::array<std::byte, 1000>>();  // keeps them from going back to the system
  for (void* block : blocks) std::free(block);

  std::set<uint64_t> addresses;
  constexpr int kRounds = 3;
  for (int round = 0; round < kRounds; ++round) {
    TestCall call;
    ask(call, kBytes);
    const VerbsPiece request = pieceOf(take());
    EXPECT_TRUE(isClear(readWhole(request, kSmallPlace), kBytes));
    // While the first request keeps its place, another call gets a place of its own.
    TestCall other;
    ask(other);
    take();
    const VerbsPiece response = askForPlace(other, kBytes);
    // In one that was used before the same session's bytes may stand.
    EXPECT_TRUE(isClear(readWhole(response, kSmallPlace), round == 0 ? 0 : kBytes));
    addresses.insert({request.address, response.address});
    peer->send(about(other, VerbsKind::ResponseWritten, kBytes));
    peer->send(about(call, VerbsKind::Response, 0));
    ASSERT_TRUE(until([&] { return call.completions == 1 && other.completions == 1; }));
  }
  EXPECT_EQ(addresses.size(), 2u) << "which are used again";
}

TEST_F(VerbsHostileServer, TheKeyOfAPlaceOpensNothingElse) {
  // Memory that is registered as places are, but is none of this session's.
  std::vector<std::byte> memory(4096, std::byte{0x5a});
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  auto region = partsOf(*honest).device().registerMemory(memory.data(), memory.size(), kAccess);
  ASSERT_TRUE(region.ok());
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE}) {
    TestCall call;
    ask(call);
    take();
    const VerbsPiece place = askForPlace(call);
    transfer(opcode, reinterpret_cast<uint64_t>(memory.data()), place.key, false);
    peer->closeSocket();
    expectLost(call);
    join();
  }
  EXPECT_TRUE(std::ranges::all_of(memory, [](std::byte byte) { return byte == std::byte{0x5a}; }));
}

// The head is copied before it is looked at; each byte of the tail is read once.
TEST_F(VerbsHostileServer, WhatIsWrittenAfterTheAnswerChangesNoHead) {
  TestCall call;
  ask(call);
  take();
  const VerbsPiece place = askForPlace(call);
  VerbsHeader written = about(call, VerbsKind::ResponseWritten, kLongBytes);
  written.head_bytes = 64;
  peer->send(written);
  ASSERT_TRUE(until([&] { return call.completions == 1; }));
  const std::vector<std::byte> head(call.response.head().begin(), call.response.head().end());
  ASSERT_EQ(head.size(), 64u);
  transfer(IBV_WR_RDMA_WRITE, place.address, place.key, true);
  EXPECT_TRUE(std::ranges::equal(call.response.head(), head));
  call.response = RxMessage();
  // The place belongs to the session until that ends, and to none after that.
  transfer(IBV_WR_RDMA_WRITE, place.address, place.key, true);
  honest->endpoint().close(bad_session);
  expectDrained();
  join();
  transfer(IBV_WR_RDMA_WRITE, place.address, place.key, false);
}

TEST_F(VerbsHostileServer, KeysOfASessionThatHasEndedOpenNothing) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE}) {
    TestCall offered, announced;
    ask(offered);
    take();
    const VerbsPiece response = askForPlace(offered);
    ask(announced, kLongBytes);
    const VerbsPiece request = pieceOf(take());
    transfer(IBV_WR_RDMA_READ, request.address, request.key, true);
    honest->endpoint().abandon(bad_session, offered);
    honest->endpoint().close(bad_session);
    EXPECT_EQ(announced.status, Status::SessionLost);
    expectDrained();
    for (const VerbsPiece& piece : {response, request}) {
      join();
      transfer(opcode, piece.address, piece.key, false);
      peer->closeSocket();
      EXPECT_TRUE(until([&] { return honest->endpoint().sessionCount() == 1; }));
    }
    join();
  }
}

// The server knows address and key of the places of a call to another server that is under way.
TEST_F(VerbsHostileServer, TheKeyOfAnothersPlaceOpensNothing) {
  if (!partsOf(*honest).device().limits().has_windows) GTEST_SKIP() << "the device has no memory windows";
  std::unique_ptr<HostilePeer> other = std::move(peer);
  const SessionId other_session = bad_session;
  peer = makePeer();
  hostile_place = peer->listen();
  join();
  const auto asOther = [&](const auto& act) {
    std::swap(peer, other);
    act();
    std::swap(peer, other);
  };
  const auto expectRefused = [&](ibv_wr_opcode opcode, const VerbsPiece& place) {
    transfer(opcode, place.address, place.key, false);
    peer->closeSocket();
    ASSERT_TRUE(until([&] { return honest->endpoint().sessionCount() == 2; }));
    join();
  };
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE}) {
    TestCall call;
    TxMessage request = makeMessage(honest->endpoint(), owner, kLongBytes, 100);
    ASSERT_EQ(honest->endpoint().call(other_session, request, {}, call), Status::Ok);
    VerbsPiece asked{}, answer{};
    std::vector<std::byte> begun;
    asOther([&] {
      asked = pieceOf(take());
      transfer(IBV_WR_RDMA_READ, asked.address, asked.key, true);
      begun = peer->lastRead();
    });
    expectRefused(opcode, asked);
    asOther([&] {
      transfer(IBV_WR_RDMA_READ, asked.address, asked.key, true);
      EXPECT_EQ(peer->lastRead(), begun);
      answer = askForPlace(call);
    });
    expectRefused(opcode, answer);
    // The other session gets on.
    asOther([&] {
      transfer(IBV_WR_RDMA_WRITE, answer.address, answer.key, true);
      peer->send(about(call, VerbsKind::ResponseWritten, kLongBytes));
    });
    ASSERT_TRUE(until([&] { return call.completions == 1; }));
    EXPECT_EQ(call.status, Status::Ok);
  }
  EXPECT_TRUE(std::ranges::none_of(honest->sink.lost, [&](const auto& lost) { return lost.first == other_session; }));
}

TEST_F(VerbsHostileServer, KeysOfOneSessionAreNotToldToAnother) {
  std::unique_ptr<HostilePeer> other = std::move(peer);
  SessionId other_session = bad_session;
  peer = makePeer();
  hostile_place = peer->listen();
  join();
  std::array<std::set<uint32_t>, 2> keys;
  std::array<std::set<uint64_t>, 2> addresses;
  constexpr int kRounds = 6;
  for (int round = 0; round < kRounds; ++round) {
    for (const size_t who : {0, 1}) {
      std::swap(peer, other);
      std::swap(bad_session, other_session);
      TestCall call;
      ask(call, kLongBytes);
      const VerbsPiece request = pieceOf(take());
      const VerbsPiece response = askForPlace(call);
      peer->send(about(call, VerbsKind::ResponseWritten, kLongBytes));
      ASSERT_TRUE(until([&] { return call.completions == 1; }));
      keys[who].insert({request.key, response.key});
      addresses[who].insert({request.address, response.address});
    }
  }
  for (const size_t who : {0, 1}) EXPECT_LT(keys[who].size(), size_t{kRounds}) << "each has places that are used again";
  for (const uint32_t key : keys[0]) EXPECT_FALSE(keys[1].contains(key));
  for (const uint64_t address : addresses[0]) EXPECT_FALSE(addresses[1].contains(address));
}

// Until the call of a place is answered the peer may still read or write there, also if the caller has given the call
// up.
TEST_F(VerbsHostileServer, APlaceIsNotUsedAgainBeforeItsCallIsAnswered) {
  const auto isPattern = [&](uint8_t first) {
    uint8_t next = first;
    return std::ranges::all_of(peer->lastRead(), [&](std::byte byte) { return byte == std::byte{next++}; });
  };
  TestCall given_up, next, last;
  TxMessage request = makeMessage(honest->endpoint(), owner, kLongBytes, 100);
  ASSERT_EQ(honest->endpoint().call(bad_session, request, {}, given_up), Status::Ok);
  const uint16_t slot = given_up.slot;
  const uint32_t sequence = given_up.sequence;
  const VerbsPiece first_place = pieceOf(take());
  honest->endpoint().abandon(bad_session, given_up);
  ask(next, kLongBytes);
  EXPECT_NE(pieceOf(take()).address, first_place.address);
  transfer(IBV_WR_RDMA_READ, first_place.address, first_place.key, true);
  EXPECT_TRUE(isPattern(100)) << "it stands there as it was";

  // The same for answers. What was announced has been read when an answer is offered.
  peer->send(header(VerbsKind::ResponseOffer, kLongBytes, slot, sequence));
  const VerbsPiece second_place = pieceOf(take());
  EXPECT_NE(askForPlace(next).address, second_place.address);
  // No call waits for this answer.
  peer->send(header(VerbsKind::ResponseWritten, kLongBytes, slot, sequence));
  peer->send(about(next, VerbsKind::ResponseWritten, kLongBytes));
  ASSERT_TRUE(until([&] { return next.completions == 1; }));
  EXPECT_EQ(given_up.completions, 0);
  ask(last, kLongBytes);
  const VerbsPiece last_place = pieceOf(take());
  EXPECT_TRUE(last_place.address == first_place.address || last_place.address == second_place.address)
      << "and then it is";
  // An answer that is told twice is told for a call that is over.
  peer->send(header(VerbsKind::ResponseWritten, kLongBytes, slot, sequence));
  expectClosed(last);
}

TEST_F(VerbsHostileServer, WhoNeverAnswersKeepsItsSlotsOnly) {
  std::vector<std::unique_ptr<TestCall>> calls;
  for (int i = 0; i < 8; ++i) ask(*calls.emplace_back(std::make_unique<TestCall>()), kLongBytes);
  TestCall one_more;
  TxMessage request = makeMessage(honest->endpoint(), owner, kLongBytes, 5);
  EXPECT_EQ(honest->endpoint().call(bad_session, request, {}, one_more), Status::RetryLater);
  for (const auto& call : calls) honest->endpoint().abandon(bad_session, *call);
  EXPECT_EQ(honest->endpoint().call(bad_session, request, {}, one_more), Status::RetryLater);
  expectHonestIsServed();
}

TEST_F(VerbsHostileServer, AnAddressThatIsNotProvenIsRefused) {
  peer->forge = [](wire::VerbsAddress& address) { address.queue_pair ^= 1; };
  const SessionId refused = honest->endpoint().connect(hostile_place, kHostileId, world.nowNs() + 10 * kSecond);
  peer->accept([&] { step(); });
  EXPECT_TRUE(until([&] {
    const auto& lost = honest->sink.lost;
    return std::ranges::find(lost, std::make_pair(refused, Status::Refused)) != lost.end();
  }));
  EXPECT_EQ(honest->endpoint().badSessionCount(), 1u);
}

// Small requests may go both ways: the endpoint of a client takes them as a server's does.
TEST_F(VerbsHostileServer, RequestsBeyondItsSlotsCloseTheSession) {
  TestCall call;
  ask(call);
  take();
  for (uint16_t slot = 0; slot < 8; ++slot) peer->send(header(VerbsKind::Request, 0, slot, 1));
  EXPECT_TRUE(until([&] { return honest->sink.held.size() == 8; }));
  peer->send(header(VerbsKind::Request, 0, 0, 2));
  expectClosed(call);
  honest->sink.held.clear();
}

}  // namespace
}  // namespace ramcore::transport::verbs
