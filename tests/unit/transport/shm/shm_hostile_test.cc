// Peers that do what no honest one does: the session ends, a counter goes up, nobody else notices.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <csignal>

#include "transport/shm/greeting.h"
#include "transport/shm/ring.h"
#include "transport/shm/unix_socket.h"
#include "unit/transport/shm/shm_harness.h"
#include "wire/frame.h"

namespace ramcore::transport::shm {
namespace {

/// A client that has come through the handshake and holds the shared memory in its hands.
struct HostileClient {
  explicit HostileClient(const std::string& path) {
    auto connected = connectTo(path);
    if (connected.ok()) socket = std::move(connected).value();
    HandshakeOptions handshake;
    handshake.identity.cluster_name = "test";
    handshake.slot_count = 64;
    handshake.peer_is_local = true;
    greeting = std::make_unique<Greeting>(std::move(handshake), 0, runtime::kNever, entropy);
    greeting->start(socket.get());
  }
  bool isReady() {
    if (memory) return true;
    if (greeting->step(socket.get()) != Greeting::Step::Ready) return false;
    memory = greeting->takeMemory();
    return true;
  }
  RingWriter writer() { return {memory.control().to_server, memory.ringToServer(), memory.ringBytes()}; }

  runtime::SystemEntropy entropy;
  Descriptor socket;
  std::unique_ptr<Greeting> greeting;
  SharedMemory memory;
};

class ShmHostilePeer : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(server.endpoint->listen(folder.locator()).ok());
    server.sink.on_request = [this](RxMessage& request) { echo(*server.endpoint, request); };
    session = client.endpoint->connect(folder.locator(), 0, client.clock.nowNs() + 10 * runtime::kNanosPerSecond);
    ASSERT_TRUE(stepUntil({&server, &client}, [&] { return !client.sink.opened.empty(); }));
  }
  // No other session is harmed: the honest client is still served.
  void TearDown() override {
    exchange(500);
    EXPECT_TRUE(client.sink.lost.empty());
  }
  void exchange(uint32_t bytes) {
    TestCall call;
    TxMessage request = makeMessage(*client.endpoint, bytes, 5);
    ASSERT_EQ(client.endpoint->call(session, request, {}, call), Status::Ok);
    ASSERT_TRUE(stepUntil({&server, &client}, [&] { return call.completions != 0; }));
    ASSERT_TRUE(hasPattern(call.response, bytes, 5));
  }
  std::unique_ptr<HostileClient> connectHostile() {
    auto hostile = std::make_unique<HostileClient>(folder.socketPath());
    EXPECT_TRUE(stepUntil({&server}, [&] { return hostile->isReady(); }));
    return hostile;
  }
  // The server has closed the session last opened and counted it as bad.
  bool isCaught(uint64_t bad_before, size_t lost_before) {
    return stepUntil({&server}, [&] {
      return server.sink.lost.size() > lost_before && server.endpoint->badSessionCount() > bad_before;
    });
  }
  void expectCaught(const std::function<void(HostileClient&)>& mischief) {
    const uint64_t bad_before = server.endpoint->badSessionCount();
    const size_t lost_before = server.sink.lost.size();
    auto hostile = connectHostile();
    mischief(*hostile);
    ASSERT_TRUE(isCaught(bad_before, lost_before));
    EXPECT_EQ(server.sink.lost.back().second, Status::SessionLost);
  }

  SocketFolder folder;
  ShmOptions options{.ring_bytes = 16 * 1024,
                     .stall_copy_ns = 2 * runtime::kNanosPerMilli,
                     .stall_close_ns = 50 * runtime::kNanosPerMilli,
                     .stall_bytes_max = 4 * 1024 * 1024};
  Side server{options, Role::Server, 7};
  Side client{options};
  SessionId session;
};

wire::FrameHeader requestOf(uint32_t message_bytes, uint16_t slot) {
  wire::FrameHeader header{};
  header.message_bytes = message_bytes;
  header.head_bytes = std::min<uint32_t>(message_bytes, 8);
  header.sequence = 1;
  header.slot = slot;
  header.kind = wire::FrameKind::Request;
  header.response_bytes_max = UINT32_MAX;
  return header;
}

void writeFrame(RingWriter& writer, const wire::FrameHeader& header, size_t body_bytes) {
  const std::vector<std::byte> body(alignUp(body_bytes, 8), std::byte{1});
  writer.write(reinterpret_cast<const std::byte*>(&header), sizeof(header));
  writer.write(body.data(), body.size());
}

TEST_F(ShmHostilePeer, ImpossiblePositionsAreCaught) {
  for (const uint64_t position : {uint64_t{1}, uint64_t{12}, uint64_t{16 * 1024 + 8}, UINT64_MAX, uint64_t{1} << 63}) {
    expectCaught([&](HostileClient& hostile) { hostile.memory.control().to_server.produced.store(position); });
  }
}

TEST_F(ShmHostilePeer, ImpossibleReadPositionIsCaughtWhenTheServerNeedsRoom) {
  expectCaught([&](HostileClient& hostile) {
    // The answers fill the ring, so the server has to look where the reader is.
    hostile.memory.control().to_client.consumed.store(1 << 20);
    RingWriter writer = hostile.writer();
    for (uint16_t slot = 0; slot < 7; ++slot) writeFrame(writer, requestOf(2000, slot), 2000);
    writer.publish();
    const uint64_t requests = server.sink.request_count;
    ASSERT_TRUE(stepUntil({&server}, [&] { return server.sink.request_count == requests + 7; }));
    ASSERT_TRUE(writer.refresh());
    for (uint16_t slot = 7; slot < 10; ++slot) writeFrame(writer, requestOf(2000, slot), 2000);
    writer.publish();
  });
}

TEST_F(ShmHostilePeer, RandomIndicesAndBytesHarmNobody) {
  runtime::Random random(20);
  for (int round = 0; round < 300; ++round) {
    auto hostile = connectHostile();
    SharedControl& control = hostile->memory.control();
    for (size_t i = 0; i < hostile->memory.ringBytes(); i += 8)
      storeAs(hostile->memory.ringToServer() + i, random.next());
    const bool is_plausible = random.chance(0.5);
    for (int store = 0; store < 20; ++store) {
      const uint64_t value = is_plausible ? random.below(hostile->memory.ringBytes() / 8) * 8 : random.next();
      switch (random.below(6)) {
        case 0:
          control.to_server.produced.store(value);
          break;
        case 1:
          control.to_server.consumed.store(value);
          break;
        case 2:
          control.to_client.produced.store(value);
          break;
        case 3:
          control.to_client.consumed.store(value);
          break;
        case 4:
          control.server_wakefulness.store(static_cast<uint32_t>(value));
          break;
        case 5:
          control.client_wakefulness.store(static_cast<uint32_t>(value));
          break;
      }
      server.step();
    }
    if (round % 50 == 0) exchange(300);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(server.endpoint->badSessionCount(), 100u);
  ASSERT_TRUE(stepUntil({&server}, [&] { return server.endpoint->sessionCount() == 1; }));
}

TEST_F(ShmHostilePeer, HeadersThatMakeNoSenseAreCaught) {
  std::vector<wire::FrameHeader> headers(8, requestOf(16, 0));
  headers[0].message_bytes = wire::kMessageBytesMax + 1;
  headers[1].head_bytes = 17;
  headers[2].slot = 64;
  headers[3].kind = static_cast<wire::FrameKind>(0);
  headers[4].kind = static_cast<wire::FrameKind>(9);
  headers[5].priority = 4;
  headers[6].reserved = 1;
  headers[7].kind = wire::FrameKind::Close;
  for (const wire::FrameHeader& header : headers) {
    expectCaught([&](HostileClient& hostile) {
      RingWriter writer = hostile.writer();
      writeFrame(writer, header, 16);
      writer.publish();
    });
  }
}

TEST_F(ShmHostilePeer, TwoRequestsInOneSlotAreCaught) {
  server.sink.on_request = nullptr;  // not answered in between
  expectCaught([&](HostileClient& hostile) {
    RingWriter writer = hostile.writer();
    writeFrame(writer, requestOf(16, 3), 16);
    writeFrame(writer, requestOf(16, 3), 16);
    writer.publish();
  });
  server.sink.held.clear();
  server.sink.on_request = [this](RxMessage& request) { echo(*server.endpoint, request); };
}

TEST_F(ShmHostilePeer, BytesOnTheSocketOfAnOpenSessionAreCaught) {
  expectCaught([&](HostileClient& hostile) { ASSERT_EQ(::write(hostile.socket.get(), "hello", 5), 5); });
}

TEST_F(ShmHostilePeer, GarbageInsteadOfAHandshakeIsCaught) {
  for (const std::string& garbage :
       {std::string(4096, 'x'), std::string("GET / HTTP/1.1\r\n\r\nmore and more bytes"), std::string(64, '\0')}) {
    const uint64_t bad_before = server.endpoint->badSessionCount();
    auto connected = connectTo(folder.socketPath());
    ASSERT_TRUE(connected.ok());
    ASSERT_EQ(::write(connected.value().get(), garbage.data(), garbage.size()), static_cast<ssize_t>(garbage.size()));
    ASSERT_TRUE(stepUntil({&server}, [&] { return server.endpoint->badSessionCount() > bad_before; }));
  }
}

TEST_F(ShmHostilePeer, HandshakeCutShortIsCaught) {
  const uint64_t bad_before = server.endpoint->badSessionCount();
  {
    auto connected = connectTo(folder.socketPath());
    ASSERT_TRUE(connected.ok());
    HandshakeOptions handshake;
    handshake.identity.cluster_name = "test";
    handshake.peer_is_local = true;
    const Handshake started(handshake, client.entropy);
    ASSERT_EQ(::write(connected.value().get(), started.toSend().data(), 12), 12);
  }
  ASSERT_TRUE(stepUntil({&server}, [&] { return server.endpoint->badSessionCount() > bad_before; }));
}

TEST_F(ShmHostilePeer, ARecordedHandshakePlayedAgainIsCaught) {
  std::vector<std::byte> said;
  auto honest = connectTo(folder.socketPath());
  ASSERT_TRUE(honest.ok());
  HandshakeOptions options;
  options.identity.cluster_name = "test";
  options.slot_count = 64;
  options.peer_is_local = true;
  Handshake handshake(options, client.entropy);
  ASSERT_TRUE(stepUntil({&server}, [&] {
    said.insert(said.end(), handshake.toSend().begin(), handshake.toSend().end());
    size_t count = 0;
    EXPECT_TRUE(sendSome(honest.value().get(), handshake.toSend(), count));
    handshake.sent(count);
    std::byte bytes[wire::kHandshakeMessageBytesMax];
    const MutableByteSpan room(bytes, std::min<size_t>(handshake.wantedBytes(), sizeof(bytes)));
    if (receiveSome(honest.value().get(), room, count) == StreamLook::Bytes) {
      handshake.receive(ByteSpan(bytes, count));
    }
    return handshake.state() != Handshake::State::Running;
  }));
  ASSERT_EQ(handshake.state(), Handshake::State::Done) << handshake.failureText();
  const uint64_t bad_before = server.endpoint->badSessionCount();
  const size_t opened_before = server.sink.opened.size();
  auto again = connectTo(folder.socketPath());
  ASSERT_TRUE(again.ok());
  size_t count = 0;
  ASSERT_TRUE(sendSome(again.value().get(), said, count));
  ASSERT_EQ(count, said.size());
  ASSERT_TRUE(stepUntil({&server}, [&] { return server.endpoint->badSessionCount() > bad_before; }));
  EXPECT_EQ(server.sink.opened.size(), opened_before);
}

TEST_F(ShmHostilePeer, WrongSecretIsRefused) {
  const uint64_t bad_before = server.endpoint->badSessionCount();
  Side stranger(options);
  stranger.identity.secret = "not the cluster's";
  const SessionId id = stranger.endpoint->connect(folder.locator(), 0, client.clock.nowNs() + runtime::kNanosPerSecond);
  ASSERT_TRUE(stepUntil({&server, &stranger}, [&] { return !stranger.sink.lost.empty(); }));
  EXPECT_EQ(stranger.sink.lost[0], std::pair(id, Status::Refused));
  EXPECT_EQ(server.endpoint->badSessionCount(), bad_before + 1);
}

TEST_F(ShmHostilePeer, SilentConnectionIsClosedInTime) {
  ShmOptions impatient = options;
  impatient.greeting_timeout_ns = 5 * runtime::kNanosPerMilli;
  SocketFolder other;
  Side hasty(impatient, Role::Server, 8);
  ASSERT_TRUE(hasty.endpoint->listen(other.locator()).ok());
  auto connected = connectTo(other.socketPath());
  ASSERT_TRUE(connected.ok());
  std::byte byte;
  size_t count = 0;
  EXPECT_TRUE(stepUntil({&hasty}, [&] {
    return receiveSome(connected.value().get(), MutableByteSpan(&byte, 1), count) == StreamLook::Ended;
  }));
  EXPECT_EQ(hasty.endpoint->badSessionCount(), 1u);
}

TEST_F(ShmHostilePeer, HandshakeThatStopsInTheMiddleIsCounted) {
  ShmOptions impatient = options;
  impatient.greeting_timeout_ns = 5 * runtime::kNanosPerMilli;
  SocketFolder other;
  Side hasty(impatient, Role::Server, 8);
  ASSERT_TRUE(hasty.endpoint->listen(other.locator()).ok());
  auto connected = connectTo(other.socketPath());
  ASSERT_TRUE(connected.ok());
  HandshakeOptions handshake;
  handshake.identity.cluster_name = "test";
  handshake.peer_is_local = true;
  const Handshake started(handshake, client.entropy);
  ASSERT_EQ(::write(connected.value().get(), started.toSend().data(), 12), 12);
  EXPECT_TRUE(stepUntil({&hasty}, [&] { return hasty.endpoint->badSessionCount() == 1; }));
}

TEST_F(ShmHostilePeer, SilentConnectionsShutOutNobody) {
  ShmOptions patient = options;
  patient.greeting_timeout_ns = 3600 * runtime::kNanosPerSecond;
  patient.greetings_max = 3;
  SocketFolder other;
  Side full(patient, Role::Server, 8);
  ASSERT_TRUE(full.endpoint->listen(other.locator()).ok());
  std::vector<Descriptor> silent;
  for (int i = 0; i < 10; ++i) {
    auto connected = connectTo(other.socketPath());
    ASSERT_TRUE(connected.ok());
    silent.push_back(std::move(connected).value());
  }
  // The oldest hear why they have to go, and that they may come again.
  std::byte bytes[256];
  size_t count = 0;
  ASSERT_TRUE(stepUntil({&full}, [&] { return receiveSome(silent[0].get(), bytes, count) == StreamLook::Bytes; }));
  ASSERT_EQ(count, sizeof(wire::HandshakeRefused));
  EXPECT_EQ(loadAs<wire::HandshakeRefused>(bytes).reason, wire::HandshakeRefusal::Busy);
  Side pending(options);
  pending.endpoint->connect(other.locator(), 8, pending.clock.nowNs() + 10 * runtime::kNanosPerSecond);
  ASSERT_TRUE(stepUntil({&full, &pending}, [&] { return pending.sink.opened.size() + pending.sink.lost.size() == 1; }));
  EXPECT_EQ(pending.sink.opened.size(), 1u);
}

TEST_F(ShmHostilePeer, WhoFindsNoRoomMayTryAgain) {
  ShmOptions small = options;
  small.sessions_max = 1;
  SocketFolder other;
  Side full(small, Role::Server, 8);
  ASSERT_TRUE(full.endpoint->listen(other.locator()).ok());
  Side first(options);
  first.endpoint->connect(other.locator(), 8, first.clock.nowNs() + 10 * runtime::kNanosPerSecond);
  ASSERT_TRUE(stepUntil({&full, &first}, [&] { return full.sink.opened.size() == 1; }));
  Side second(options);
  second.endpoint->connect(other.locator(), 8, second.clock.nowNs() + 10 * runtime::kNanosPerSecond);
  ASSERT_TRUE(stepUntil({&full, &second}, [&] { return !second.sink.lost.empty(); }));
  EXPECT_EQ(second.sink.lost[0].second, Status::Unreachable);
}

// Half a long message is in the ring when the process is killed.
TEST_F(ShmHostilePeer, DeathInTheMiddleOfAMessageEndsTheSession) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const size_t opened_before = server.sink.opened.size();
  const pid_t child = ::fork();
  if (child == 0) {
    HostileClient dying(folder.socketPath());
    while (!dying.isReady()) {
      pollfd readable{.fd = dying.socket.get(), .events = POLLIN, .revents = 0};
      ::poll(&readable, 1, -1);
    }
    RingWriter writer = dying.writer();
    writeFrame(writer, requestOf(100'000, 0), 8'000);
    writer.publish();
    (void)!::write(ready[1], "r", 1);
    for (;;) ::pause();
  }
  ASSERT_TRUE(stepUntil({&server}, [&] { return server.sink.opened.size() > opened_before; }));
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  for (int i = 0; i < 100; ++i) server.step();
  ASSERT_TRUE(server.sink.lost.empty());
  const uint64_t bad_before = server.endpoint->badSessionCount();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(stepUntil({&server}, [&] { return server.sink.lost.size() == 1; }));
  EXPECT_EQ(server.sink.lost[0].second, Status::SessionLost);
  EXPECT_EQ(server.endpoint->badSessionCount(), bad_before + 1);
  ::close(ready[0]);
  ::close(ready[1]);
}

// Counts what is borrowed from it, as a log would.
struct CountingOwner final : ChunkOwner {
  void releaseChunk(uint64_t) noexcept override { --borrowed; }
  int borrowed = 0;
};

TEST_F(ShmHostilePeer, PeerThatNeverDrainsIsGivenUpAndPinsNothingMeanwhile) {
  CountingOwner owner;
  const std::vector<std::byte> value(30'000, std::byte{9});
  server.sink.on_request = [&](RxMessage& request) {
    TxMessage response = server.endpoint->allocate(8);
    ++owner.borrowed;
    response.appendChunk(Chunk{value.data(), static_cast<uint32_t>(value.size()), 0, &owner, 1});
    server.endpoint->reply(request.reply_to, std::move(response));
  };
  const uint64_t bad_before = server.endpoint->badSessionCount();
  const uint64_t requests_before = server.sink.request_count;
  auto hostile = connectHostile();
  RingWriter writer = hostile->writer();
  for (uint16_t slot = 0; slot < 10; ++slot) writeFrame(writer, requestOf(16, slot), 16);
  writer.publish();
  ASSERT_TRUE(stepUntil({&server}, [&] { return server.sink.request_count == requests_before + 10; }));
  EXPECT_GT(owner.borrowed, 0);
  ASSERT_TRUE(stepUntil({&server}, [&] { return owner.borrowed == 0; }));
  EXPECT_TRUE(server.sink.lost.empty());  // only copied out so far
  ASSERT_TRUE(isCaught(bad_before, 0));
  server.sink.on_request = [this](RxMessage& request) { echo(*server.endpoint, request); };
}

TEST_F(ShmHostilePeer, ASlowReaderThatGetsOnIsServedFromCopies) {
  ShmOptions borrowing = options;
  borrowing.stall_copy_ns = 3600 * runtime::kNanosPerSecond;
  borrowing.stall_close_ns = 3600 * runtime::kNanosPerSecond;
  borrowing.borrowed_ns_max = 30 * runtime::kNanosPerMilli;
  SocketFolder other;
  Side lender(borrowing, Role::Server, 8);
  CountingOwner owner;
  std::vector<std::byte> value(3'000'000, std::byte{9});
  lender.sink.on_request = [&](RxMessage& request) {
    TxMessage response = lender.endpoint->allocate(8);
    ++owner.borrowed;
    response.appendChunk(Chunk{value.data(), static_cast<uint32_t>(value.size()), 0, &owner, 1});
    lender.endpoint->reply(request.reply_to, std::move(response));
  };
  ASSERT_TRUE(lender.endpoint->listen(other.locator()).ok());
  Side slow(options);
  const SessionId to_lender =
      slow.endpoint->connect(other.locator(), 0, slow.clock.nowNs() + 10 * runtime::kNanosPerSecond);
  ASSERT_TRUE(stepUntil({&lender, &slow}, [&] { return !slow.sink.opened.empty(); }));
  TestCall call;
  TxMessage request = makeMessage(*slow.endpoint, 100, 5);
  ASSERT_EQ(slow.endpoint->call(to_lender, request, {}, call), Status::Ok);
  slow.endpoint->flush();
  ASSERT_TRUE(stepUntil({&lender}, [&] { return owner.borrowed == 1; }));
  const int64_t began_ns = lender.clock.nowNs();
  int64_t next_ns = 0;
  ASSERT_TRUE(stepUntil({&lender}, [&] {
    if (lender.clock.nowNs() >= next_ns) {
      slow.step();
      next_ns = lender.clock.nowNs() + runtime::kNanosPerMilli;
    }
    return owner.borrowed == 0;
  }));
  EXPECT_EQ(call.completions, 0) << "long before the peer had it all";
  EXPECT_GE(lender.clock.nowNs() - began_ns, borrowing.borrowed_ns_max - runtime::kNanosPerMilli);
  EXPECT_EQ(lender.endpoint->borrowedCounts().messages_copied_out, 1u);
  std::fill(value.begin(), value.end(), std::byte{0xee});  // it is used for something else
  ASSERT_TRUE(stepUntil({&lender, &slow}, [&] { return call.completions == 1; }));
  size_t foreign = 0;
  const auto look = [&](ByteSpan bytes) {
    for (const std::byte byte : bytes) foreign += byte != std::byte{9} ? 1 : 0;
  };
  look(call.response.head());
  for (const ByteSpan& span : call.response.tail()) look(span);
  EXPECT_EQ(foreign, 0u);
  EXPECT_TRUE(lender.sink.lost.empty());
}

TEST_F(ShmHostilePeer, WhoLeavesMoreThanMayBeCopiedIsDropped) {
  CountingOwner owner;
  const std::vector<std::byte> value(5'000'000, std::byte{9});  // of 4 MB
  const auto answer = std::exchange(server.sink.on_request, [&](RxMessage& request) {
    TxMessage response = server.endpoint->allocate(8);
    ++owner.borrowed;
    response.appendChunk(Chunk{value.data(), static_cast<uint32_t>(value.size()), 0, &owner, 1});
    server.endpoint->reply(request.reply_to, std::move(response));
  });
  expectCaught([&](HostileClient& hostile) {
    RingWriter writer = hostile.writer();
    writeFrame(writer, requestOf(16, 0), 16);
    writer.publish();
    ASSERT_TRUE(stepUntil({&server}, [&] { return owner.borrowed == 1; }));
  });
  EXPECT_EQ(owner.borrowed, 0);
  EXPECT_EQ(server.endpoint->borrowedCounts().sessions_dropped, 1u);
  server.sink.on_request = answer;
}

TEST_F(ShmHostilePeer, ATrickledMessageIsGivenUp) {
  expectCaught([&](HostileClient& hostile) {
    RingWriter writer = hostile.writer();
    writeFrame(writer, requestOf(1'000'000, 0), 8);
    writer.publish();
    const uint64_t bad_before = server.endpoint->badSessionCount();
    int64_t next_ns = 0;
    EXPECT_TRUE(stepUntil({&server}, [&] {
      if (server.clock.nowNs() >= next_ns) {
        const uint64_t eight = 0;
        if (writer.refresh() && writer.freeBytes() >= 8) {
          writer.write(reinterpret_cast<const std::byte*>(&eight), 8);
          writer.publish();
        }
        next_ns = server.clock.nowNs() + runtime::kNanosPerMilli;
      }
      return server.endpoint->badSessionCount() > bad_before;
    }));
  });
}

TEST_F(ShmHostilePeer, BeginningsOfMessagesGiveWayToWhoeverSendsWholeOnes) {
  ShmOptions narrow = options;
  narrow.held_bytes_max = 1'000'000;
  narrow.stall_close_ns = 3600 * runtime::kNanosPerSecond;
  narrow.stall_evict_ns = 20 * runtime::kNanosPerMilli;
  SocketFolder other;
  Side full(narrow, Role::Server, 8);
  full.sink.on_request = [&](RxMessage& request) { echo(*full.endpoint, request); };
  ASSERT_TRUE(full.endpoint->listen(other.locator()).ok());
  std::vector<std::unique_ptr<HostileClient>> hostile;
  for (int i = 0; i < 5; ++i) {
    hostile.push_back(std::make_unique<HostileClient>(other.socketPath()));
    ASSERT_TRUE(stepUntil({&full}, [&] { return hostile.back()->isReady(); }));
    RingWriter writer = hostile.back()->writer();
    writeFrame(writer, requestOf(800'000, 0), 100);
    writer.publish();
  }
  Side honest;  // with the usual patience
  const SessionId id =
      honest.endpoint->connect(other.locator(), 8, honest.clock.nowNs() + 10 * runtime::kNanosPerSecond);
  ASSERT_TRUE(stepUntil({&full, &honest}, [&] { return full.sink.opened.size() == 6; }));
  ASSERT_TRUE(stepUntil({&full, &honest}, [&] { return honest.sink.opened.size() == 1; }));
  TestCall call;
  TxMessage request = makeMessage(*honest.endpoint, 800'000, 5);
  ASSERT_EQ(honest.endpoint->call(id, request, {}, call), Status::Ok);
  ASSERT_TRUE(stepUntil({&full, &honest}, [&] { return call.completions != 0; }));
  EXPECT_TRUE(hasPattern(call.response, 800'000, 5));
  EXPECT_GE(full.endpoint->badSessionCount(), 1u);
}

TEST_F(ShmHostilePeer, TooMuchForAPeerThatStandsStillIsDropped) {
  CountingOwner owner;
  const std::vector<std::byte> value(1'000'000, std::byte{9});
  server.sink.on_request = [&](RxMessage& request) {
    TxMessage response = server.endpoint->allocate(8);
    ++owner.borrowed;
    response.appendChunk(Chunk{value.data(), static_cast<uint32_t>(value.size()), 0, &owner, 1});
    server.endpoint->reply(request.reply_to, std::move(response));
  };
  expectCaught([&](HostileClient& hostile) {
    RingWriter writer = hostile.writer();
    for (uint16_t slot = 0; slot < 10; ++slot) writeFrame(writer, requestOf(16, slot), 16);
    writer.publish();
  });
  EXPECT_EQ(owner.borrowed, 0);
  server.sink.on_request = [this](RxMessage& request) { echo(*server.endpoint, request); };
}

TEST_F(ShmHostilePeer, DeliveredMessageIsPrivate) {
  server.sink.on_request = nullptr;
  auto hostile = connectHostile();
  RingWriter writer = hostile->writer();
  writeFrame(writer, requestOf(1000, 0), 1000);
  writer.publish();
  ASSERT_TRUE(stepUntil({&server}, [&] { return server.sink.held.size() == 1; }));
  std::memset(hostile->memory.ringToServer(), 0xee, hostile->memory.ringBytes());
  const RxMessage& message = server.sink.held[0];
  EXPECT_TRUE(message.tail().empty());
  EXPECT_TRUE(std::all_of(message.head().begin(), message.head().end(), [](std::byte b) { return b == std::byte{1}; }));
  server.sink.held.clear();
  server.sink.on_request = [this](RxMessage& request) { echo(*server.endpoint, request); };
}

TEST(ShmSharedMemory, SizeIsSealed) {
  Descriptor descriptor;
  auto memory = SharedMemory::create(8192, descriptor);
  ASSERT_TRUE(memory.ok());
  EXPECT_NE(::ftruncate(descriptor.get(), 0), 0);
  EXPECT_NE(::ftruncate(descriptor.get(), 1 << 20), 0);
  EXPECT_NE(::fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(ShmSharedMemory, OffersThatLieAreRefused) {
  Descriptor descriptor;
  ASSERT_TRUE(SharedMemory::create(8192, descriptor).ok());
  SharedOffer offer;
  offer.ring_bytes = 8192;
  EXPECT_TRUE(SharedMemory::map(offer, descriptor).ok());
  for (const uint32_t ring_bytes : {0u, 1u, 4096u, 12288u, 16384u, 1u << 31}) {
    offer.ring_bytes = ring_bytes;
    EXPECT_EQ(SharedMemory::map(offer, descriptor).status(), Status::Refused) << ring_bytes;
  }
  offer.ring_bytes = 8192;
  const Descriptor unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), static_cast<off_t>(sharedBytes(8192))), 0);
  EXPECT_EQ(SharedMemory::map(offer, unsealed).status(), Status::Refused);
  const Descriptor no_memory(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(SharedMemory::map(offer, no_memory).status(), Status::Refused);
  offer.magic = 1;
  EXPECT_EQ(SharedMemory::map(offer, descriptor).status(), Status::Refused);
}

TEST(ShmUnixSocket, OnlyTheSameUserIsLetIn) {
  EXPECT_TRUE(isSameUser(ucred{1, 1000, 1000}, 1000));
  EXPECT_FALSE(isSameUser(ucred{1, 1000, 1000}, 0));
  EXPECT_FALSE(isSameUser(ucred{1, 0, 1000}, 1000));
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  std::string who;
  EXPECT_TRUE(peerIsSameUser(pair[0], who));
  EXPECT_EQ(who, "process " + std::to_string(::getpid()) + " of user " + std::to_string(::geteuid()));
  ::close(pair[0]);
  ::close(pair[1]);
}

}  // namespace
}  // namespace ramcore::transport::shm
