#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>

#include "transport/session/handshake.h"
#include "unit/transport/tcp/tcp_harness.h"
#include "wire/frame.h"

namespace ramcore::transport::tcp {
namespace {

constexpr uint16_t kHostileSlots = 4;

// Peers with plain sockets that send whatever they like, beside an honest client that must not notice.

class TcpHostile : public ::testing::Test {
 protected:
  explicit TcpHostile(const TcpOptions& options = makeOptions()) : server(options, Role::Server, 7) {}
  static TcpOptions makeOptions() {
    TcpOptions options;
    options.slots_per_session = kHostileSlots;
    return options;
  }
  void SetUp() override {
    auto listening = server.endpoint->listen(Locator::parse("tcp://127.0.0.1:0").value());
    ASSERT_TRUE(listening.ok());
    place = listening.value();
    server.sink.on_request = [this](RxMessage& request) {
      TxMessage response = server.endpoint->allocate(request.messageBytes());
      response.appendHead(request.head());
      server.endpoint->reply(request.reply_to, std::move(response));
    };
    honest_session = honest.endpoint->connect(place, 7, honest.clock.nowNs() + 10 * runtime::kNanosPerSecond);
    ASSERT_TRUE(until([&] { return honest.sink.opened.size() == 1 && server.sink.opened.size() == 1; }));
  }
  void TearDown() override {
    // Whatever happened: the honest client's session goes on.
    Call call;
    TxMessage request = honest.endpoint->allocate(100);
    request.appendHead(asBytes("still there?"));
    ASSERT_EQ(honest.endpoint->call(honest_session, request, {}, call), Status::Ok);
    ASSERT_TRUE(until([&] { return call.completions == 1; }));
    EXPECT_EQ(asText(call.response.head()), "still there?");
  }
  bool until(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      server.step();
      honest.step();
      if (std::chrono::steady_clock::now() > deadline) return false;
    }
    return true;
  }

  // A plain connection that does not block.
  int dial() {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    if (receive_bytes != 0) ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(place.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
  }
  static bool put(int fd, ByteSpan bytes) {
    return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  // True once the server has closed the connection; what came before is appended to `received`.
  bool isClosed(int fd) {
    std::byte bytes[4096];
    const ssize_t count = ::recv(fd, bytes, sizeof(bytes), 0);
    if (count > 0) received.insert(received.end(), bytes, bytes + count);
    return count == 0 || (count < 0 && errno == ECONNRESET);
  }
  void expectClosedAsBad(int fd) {
    const uint64_t before = bad_before;
    EXPECT_TRUE(until([&] { return isClosed(fd); }));
    EXPECT_EQ(server.endpoint->badSessionCount(), before + 1);
    bad_before = server.endpoint->badSessionCount();
    ::close(fd);
  }
  // A connection that has proven who it is and may send frames. `said` gets what it sent.
  int enter(std::vector<std::byte>* said = nullptr) {
    const int fd = dial();
    HandshakeOptions options;
    options.identity = server.identity;
    options.identity.role = Role::Client;
    options.slot_count = slots;
    Handshake handshake(options, server.entropy);
    EXPECT_TRUE(until([&] {
      if (!handshake.toSend().empty()) {
        if (said != nullptr) said->insert(said->end(), handshake.toSend().begin(), handshake.toSend().end());
        EXPECT_TRUE(put(fd, handshake.toSend()));
        handshake.sent(handshake.toSend().size());
      }
      std::byte bytes[256];
      const ssize_t count = ::recv(fd, bytes, std::min<size_t>(sizeof(bytes), handshake.wantedBytes()), 0);
      if (count > 0) handshake.receive(ByteSpan(bytes, static_cast<size_t>(count)));
      return handshake.state() != Handshake::State::Running;
    }));
    EXPECT_EQ(handshake.state(), Handshake::State::Done) << handshake.failureText();
    return fd;
  }
  static wire::FrameHeader request(uint16_t slot, uint32_t message_bytes) {
    wire::FrameHeader header{};
    header.kind = wire::FrameKind::Request;
    header.slot = slot;
    header.sequence = 1;
    header.message_bytes = message_bytes;
    return header;
  }

  Side server;
  Side honest{makeOptions(), Role::Client, 3};
  SessionId honest_session;
  Locator place;
  std::vector<std::byte> received;
  uint64_t bad_before = 0;
  uint16_t slots = kHostileSlots;  // of enter()
  int receive_bytes = 0;           // that the kernel may hold for dial(); 0 = as it likes
};

TEST_F(TcpHostile, GarbageInsteadOfAHandshake) {
  for (const std::string_view text : {"GET / HTTP/1.1\r\nHost: ramcore\r\n\r\n", "                        ",
                                      "\xff\xff\xff\xff"
                                      "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    const int fd = dial();
    ASSERT_TRUE(put(fd, asBytes(text)));
    expectClosedAsBad(fd);
  }
  EXPECT_EQ(server.sink.opened.size(), 1u);
}

TEST_F(TcpHostile, AHandshakeThatEndsInTheMiddle) {
  std::vector<std::byte> said;
  ::close(enter(&said));
  for (size_t bytes = 1; bytes < said.size(); bytes += 13) {
    const int fd = dial();
    ASSERT_TRUE(put(fd, ByteSpan(said).first(bytes)));
    ::shutdown(fd, SHUT_WR);
    expectClosedAsBad(fd);
  }
  EXPECT_TRUE(until([&] { return server.endpoint->sessionCount() == 1; }));
  EXPECT_EQ(server.sink.opened.size(), 2u);
}

TEST_F(TcpHostile, ARecordedHandshakePlayedAgain) {
  std::vector<std::byte> said;
  const int first = enter(&said);
  const int fd = dial();
  ASSERT_TRUE(put(fd, said));
  expectClosedAsBad(fd);
  EXPECT_EQ(server.sink.opened.size(), 2u);
  ::close(first);
}

TEST_F(TcpHostile, FramesOutOfRange) {
  const auto expectBad = [this](wire::FrameHeader header) {
    const int fd = enter();
    ASSERT_TRUE(put(fd, bytesOf(header)));
    expectClosedAsBad(fd);
  };
  expectBad(request(kHostileSlots, 8));
  expectBad(request(0xffff, 8));
  expectBad(request(0, wire::kMessageBytesMax + 1));
  expectBad(request(0, 0xffffffff));
  wire::FrameHeader header = request(0, 8);
  header.head_bytes = 9;
  expectBad(header);
  header = request(0, 8);
  header.priority = 200;
  expectBad(header);
  header = request(0, 8);
  header.kind = static_cast<wire::FrameKind>(77);
  expectBad(header);
  header = request(0, 8);
  header.reserved = 1;
  expectBad(header);
}

TEST_F(TcpHostile, TwoRequestsInOneSlot) {
  const auto echo = std::exchange(server.sink.on_request, [](RxMessage&) {});
  const int fd = enter();
  const wire::FrameHeader header = request(2, 0);
  ASSERT_TRUE(put(fd, bytesOf(header)));
  ASSERT_TRUE(put(fd, bytesOf(header)));
  expectClosedAsBad(fd);
  server.sink.on_request = echo;
}

TEST_F(TcpHostile, ResponsesThatNobodyAskedForAreIgnored) {
  const int fd = enter();
  wire::FrameHeader header = request(1, 8);
  header.kind = wire::FrameKind::Response;
  for (uint32_t sequence : {0u, 1u, 77u}) {
    header.sequence = sequence;
    ASSERT_TRUE(put(fd, bytesOf(header)));
    ASSERT_TRUE(put(fd, asBytes("12345678")));
  }
  // The session may go on.
  ASSERT_TRUE(put(fd, bytesOf(request(0, 8))));
  ASSERT_TRUE(put(fd, asBytes("question")));
  received.clear();
  EXPECT_TRUE(until([&] {
    EXPECT_FALSE(isClosed(fd));
    return received.size() == wire::frameBytes(8);
  }));
  EXPECT_EQ(asText(ByteSpan(received).subspan(sizeof(wire::FrameHeader))), "question");
  EXPECT_EQ(server.endpoint->badSessionCount(), 0u);
  ::close(fd);
}

TEST_F(TcpHostile, AFrameThatEndsInTheMiddle) {
  for (const size_t bytes : {1u, 23u, 24u, 100u}) {
    const int fd = enter();
    std::vector<std::byte> frame(1000);
    storeAs(frame.data(), request(0, 900));
    ASSERT_TRUE(put(fd, ByteSpan(frame).first(bytes)));
    ::shutdown(fd, SHUT_WR);
    expectClosedAsBad(fd);
  }
  EXPECT_TRUE(until([&] { return server.endpoint->sessionCount() == 1; }));
}

TEST_F(TcpHostile, WithoutASecretItListensToThisMachineOnly) {
  Side open({}, Role::Server, 9);
  open.identity.secret.clear();
  auto refused = open.endpoint->listen(Locator::parse("tcp://10.1.2.3:0").value());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().status, Status::BadConfig);
  EXPECT_NE(refused.error().message.find("secret"), std::string::npos);
  EXPECT_TRUE(open.endpoint->listen(Locator::parse("tcp://127.0.0.1:0").value()).ok());
}

class TcpSlowHandshakes : public TcpHostile {
 protected:
  TcpSlowHandshakes() : TcpHostile(slowOptions()) {}
  static TcpOptions slowOptions() {
    TcpOptions options = makeOptions();
    options.handshake_timeout_ns = 200 * runtime::kNanosPerMilli;
    options.handshakes_max = 3;
    return options;
  }
};

TEST_F(TcpSlowHandshakes, OneThatNeverFinishesIsClosedAfterItsTime) {
  const int fd = dial();
  ASSERT_TRUE(put(fd, asBytes("RCHANDSH")));
  expectClosedAsBad(fd);
}

TEST_F(TcpSlowHandshakes, TheirNumberIsBounded) {
  std::vector<int> fds;
  for (int i = 0; i < 10; ++i) fds.push_back(dial());
  // The oldest hear at once that there are too many: that is no reason to give up.
  EXPECT_TRUE(until([&] { return isClosed(fds.front()); }));
  ASSERT_GE(received.size(), sizeof(wire::HandshakeRefused));
  EXPECT_EQ(loadAs<wire::HandshakeRefused>(received.data()).reason, wire::HandshakeRefusal::Busy);
  // The other connections are closed with time.
  EXPECT_TRUE(until([&] { return isClosed(fds.back()); }));
  for (const int fd : fds) ::close(fd);
  ::close(enter());
}

class TcpPatientHandshakes : public TcpHostile {
 protected:
  TcpPatientHandshakes() : TcpHostile(patientOptions()) {}
  static TcpOptions patientOptions() {
    TcpOptions options = makeOptions();
    options.handshake_timeout_ns = 3600 * runtime::kNanosPerSecond;
    options.handshakes_max = 3;
    return options;
  }
};

TEST_F(TcpPatientHandshakes, SilentConnectionsShutOutNobody) {
  std::vector<int> fds;
  for (int i = 0; i < 10; ++i) fds.push_back(dial());
  EXPECT_TRUE(until([&] { return isClosed(fds[6]); }));
  ::close(enter());
  Side pending(makeOptions(), Role::Client, 4);
  pending.endpoint->connect(place, 7, pending.clock.nowNs() + 10 * runtime::kNanosPerSecond);
  EXPECT_TRUE(until([&] {
    pending.step();
    return pending.sink.opened.size() + pending.sink.lost.size() == 1;
  }));
  EXPECT_EQ(pending.sink.opened.size(), 1u);
  for (const int fd : fds) ::close(fd);
}

class TcpFull : public TcpHostile {
 protected:
  TcpFull() : TcpHostile(fullOptions()) {}
  static TcpOptions fullOptions() {
    TcpOptions options = makeOptions();
    options.sessions_max = 1;  // the honest one
    return options;
  }
};

TEST_F(TcpFull, WhoFindsNoRoomMayTryAgain) {
  Side pending(makeOptions(), Role::Client, 4);
  pending.endpoint->connect(place, 7, pending.clock.nowNs() + 10 * runtime::kNanosPerSecond);
  ASSERT_TRUE(until([&] {
    pending.step();
    return !pending.sink.lost.empty();
  }));
  EXPECT_EQ(pending.sink.lost[0].second, Status::Unreachable);
}

class TcpFullOfClients : public TcpHostile {
 protected:
  TcpFullOfClients() : TcpHostile(fullOptions()) {}
  static TcpOptions fullOptions() {
    TcpOptions options = makeOptions();
    options.sessions_max = 8;
    return options;
  }
  /// True if the side gets a session.
  bool entersAs(Side& side) {
    side.endpoint->connect(place, 7, side.clock.nowNs() + 10 * runtime::kNanosPerSecond);
    EXPECT_TRUE(until([&] {
      side.step();
      return side.sink.opened.size() + side.sink.lost.size() == 1;
    }));
    return side.sink.opened.size() == 1;
  }
};

// Beside the honest client of the fixture.
TEST_F(TcpFullOfClients, ThereIsStillRoomForAServer) {
  std::vector<std::unique_ptr<Side>> clients;
  for (uint64_t id = 10; id < 16; ++id) {
    clients.push_back(std::make_unique<Side>(makeOptions(), Role::Client, id));
    EXPECT_TRUE(entersAs(*clients.back()));
  }
  Side one_more(makeOptions(), Role::Client, 16);
  EXPECT_FALSE(entersAs(one_more));
  EXPECT_EQ(one_more.sink.lost.front().second, Status::Unreachable) << "it tries again";
  Side another_server(makeOptions(), Role::Server, 17);
  EXPECT_TRUE(entersAs(another_server));
  // A client that leaves makes room.
  clients.clear();
  Side late(makeOptions(), Role::Client, 18);
  EXPECT_TRUE(until([&] { return server.endpoint->sessionCount() == 2; }));
  EXPECT_TRUE(entersAs(late));
}

// This holds however many connections are open that have not said who they are.
TEST_F(TcpFullOfClients, UnknownPeersLeaveRoomForItsOwnConnects) {
  std::vector<int> fds;
  for (int i = 0; i < 8; ++i) fds.push_back(dial());
  ASSERT_TRUE(until([&] { return isClosed(fds[0]); })) << "for the last one";
  Side other(makeOptions(), Role::Server, 8);
  const Locator there = other.endpoint->listen(Locator::parse("tcp://127.0.0.1:0").value()).value();
  server.endpoint->connect(there, 8, server.clock.nowNs() + 10 * runtime::kNanosPerSecond);
  EXPECT_TRUE(until([&] {
    other.step();
    return server.sink.opened.size() == 2 || !server.sink.lost.empty();
  }));
  EXPECT_EQ(server.sink.opened.size(), 2u);
  EXPECT_TRUE(until([&] { return isClosed(fds[1]); })) << "the oldest of them made room";
  for (const int fd : fds) ::close(fd);
}

class TcpSlowReaders : public TcpHostile {
 protected:
  TcpSlowReaders() : TcpHostile(slowOptions()) {}
  static TcpOptions slowOptions() {
    TcpOptions options = makeOptions();
    options.stall_copy_ns = 10 * runtime::kNanosPerMilli;
    options.stall_close_ns = 500 * runtime::kNanosPerMilli;
    options.kernel_send_bytes = 16 * 1024;
    return options;
  }
};

struct SlotOwner final : ChunkOwner {
  void releaseChunk(uint64_t) noexcept override { ++releases; }
  int releases = 0;
};

TEST_F(TcpSlowReaders, LentBytesAreCopiedOutAndTheSessionIsClosed) {
  std::vector<std::byte> memory(6'000'000);
  SlotOwner owner;
  const auto echo = server.sink.on_request;
  server.sink.on_request = [&](RxMessage& message) {
    TxMessage response = server.endpoint->allocate(0);
    response.appendChunk(Chunk{memory.data(), static_cast<uint32_t>(memory.size()), 0, &owner, 0});
    server.endpoint->reply(message.reply_to, std::move(response));
  };
  const int fd = enter();
  ASSERT_TRUE(put(fd, bytesOf(request(0, 0))));
  ASSERT_TRUE(until([&] { return owner.releases == 1; }));
  EXPECT_EQ(server.endpoint->sessionCount(), 2u) << "copied out long before it is given up";
  ASSERT_TRUE(until([&] { return server.endpoint->sessionCount() == 1; }));
  EXPECT_EQ(owner.releases, 1);
  ::close(fd);
  server.sink.on_request = echo;
}

class TcpDeadlines : public TcpHostile {
 protected:
  explicit TcpDeadlines(const TcpOptions& options = pinningOptions()) : TcpHostile(options) {}
  // With these options no session counts as standing still.
  static TcpOptions pinningOptions() {
    TcpOptions options = makeOptions();
    options.stall_copy_ns = 3600 * runtime::kNanosPerSecond;
    options.stall_close_ns = 3600 * runtime::kNanosPerSecond;
    options.borrowed_ns_max = 30 * runtime::kNanosPerMilli;
    options.kernel_send_bytes = 16 * 1024;
    return options;
  }
  // Answers every request with `memory`.
  void borrowMemory() {
    server.sink.on_request = [this](RxMessage& message) {
      TxMessage response = server.endpoint->allocate(0);
      response.appendChunk(Chunk{memory.data(), static_cast<uint32_t>(memory.size()), 0, &owner, 0});
      server.endpoint->reply(message.reply_to, std::move(response));
    };
  }

  std::vector<std::byte> memory = std::vector<std::byte>(3'000'000, std::byte{7});
  SlotOwner owner;
};

TEST_F(TcpDeadlines, ASlowPeerThatGetsOnIsServedFromCopies) {
  const auto echo = server.sink.on_request;
  borrowMemory();
  receive_bytes = 4096;
  const int fd = enter();
  const int64_t began_ns = server.clock.nowNs();
  ASSERT_TRUE(put(fd, bytesOf(request(0, 0))));
  size_t total = 0;
  size_t foreign = 0;
  std::vector<std::byte> bytes(64 * 1024);
  const auto readSome = [&] {
    const ssize_t count = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (count <= 0) return;
    // The frame's header is in front.
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      foreign += total + i >= sizeof(wire::FrameHeader) && bytes[i] != std::byte{7} ? 1 : 0;
    }
    total += static_cast<size_t>(count);
  };
  // 64 KB every few milliseconds.
  int64_t next_ns = 0;
  ASSERT_TRUE(until([&] {
    if (server.clock.nowNs() >= next_ns) {
      readSome();
      next_ns = server.clock.nowNs() + 2 * runtime::kNanosPerMilli;
    }
    return owner.releases == 1;
  }));
  EXPECT_LT(total, wire::frameBytes(3'000'000)) << "long before the peer had it all";
  EXPECT_GE(server.clock.nowNs() - began_ns, pinningOptions().borrowed_ns_max);
  EXPECT_EQ(server.endpoint->borrowedCounts().messages_copied_out, 1u);
  std::fill(memory.begin(), memory.end(), std::byte{0xee});  // it is used for something else
  ASSERT_TRUE(until([&] {
    readSome();
    return total == wire::frameBytes(3'000'000);
  }));
  EXPECT_EQ(foreign, 0u);
  EXPECT_EQ(server.endpoint->sessionCount(), 2u);
  EXPECT_EQ(server.endpoint->borrowedCounts().sessions_dropped, 0u);
  ::close(fd);
  server.sink.on_request = echo;
}

class TcpFullCopies : public TcpDeadlines {
 protected:
  TcpFullCopies() : TcpDeadlines(fullOptions()) {}
  static TcpOptions fullOptions() {
    TcpOptions options = pinningOptions();
    options.stall_bytes_max = 2'000'000;
    return options;
  }
};

TEST_F(TcpFullCopies, WhoLeavesMoreThanMayBeCopiedIsDropped) {
  const auto echo = server.sink.on_request;
  borrowMemory();
  receive_bytes = 4096;
  const int fd = enter();
  ASSERT_TRUE(put(fd, bytesOf(request(0, 0))));
  ASSERT_TRUE(until([&] { return server.endpoint->sessionCount() == 1; }));
  EXPECT_TRUE(until([&] { return owner.releases == 1; }));
  EXPECT_EQ(server.endpoint->borrowedCounts().sessions_dropped, 1u);
  EXPECT_EQ(server.endpoint->borrowedCounts().messages_copied_out, 0u);
  ::close(fd);
  server.sink.on_request = echo;
}

TEST_F(TcpSlowReaders, NothingMoreIsReadWhileItsAnswersWait) {
  std::vector<std::byte> memory(3'000'000);
  int requests = 0;
  const auto echo = server.sink.on_request;
  server.sink.on_request = [&](RxMessage& message) {
    ++requests;
    TxMessage response = server.endpoint->allocate(0);
    response.appendChunk(Chunk{memory.data(), static_cast<uint32_t>(memory.size()), 0, nullptr, 0});
    server.endpoint->reply(message.reply_to, std::move(response));
  };
  const int fd = enter();
  ASSERT_TRUE(put(fd, bytesOf(request(0, 0))));
  ASSERT_TRUE(until([&] { return requests == 1; }));
  // The second one comes when more than the bound waits in front of its answer.
  ASSERT_TRUE(put(fd, bytesOf(request(1, 0))));
  for (int i = 0; i < 5000; ++i) server.step();
  EXPECT_EQ(requests, 1);
  // The second request is read as soon as the peer reads.
  size_t total = 0;
  EXPECT_TRUE(until([&] {
    received.clear();
    EXPECT_FALSE(isClosed(fd));
    total += received.size();
    return total == 2 * wire::frameBytes(3'000'000);
  }));
  EXPECT_EQ(requests, 2);
  ::close(fd);
  server.sink.on_request = echo;
}

TEST_F(TcpSlowReaders, ATrickleOfReadsIsNoProgress) {
  std::vector<std::byte> memory(6'000'000);
  const auto echo = std::exchange(server.sink.on_request, [&](RxMessage& message) {
    TxMessage response = server.endpoint->allocate(0);
    response.appendChunk(Chunk{memory.data(), static_cast<uint32_t>(memory.size()), 0, nullptr, 0});
    server.endpoint->reply(message.reply_to, std::move(response));
  });
  receive_bytes = 4096;
  const int fd = enter();
  ASSERT_TRUE(put(fd, bytesOf(request(0, 0))));
  int64_t next_ns = 0;
  EXPECT_TRUE(until([&] {
    std::byte bytes[64];
    if (server.clock.nowNs() >= next_ns) {
      (void)::recv(fd, bytes, sizeof(bytes), 0);
      next_ns = server.clock.nowNs() + runtime::kNanosPerMilli;
    }
    return server.endpoint->sessionCount() == 1;
  }));
  ::close(fd);
  server.sink.on_request = echo;
}

TEST_F(TcpSlowReaders, ATrickledRequestIsGivenUp) {
  const int fd = enter();
  ASSERT_TRUE(put(fd, bytesOf(request(0, 800'000))));
  const int64_t began_ns = server.clock.nowNs();
  int64_t next_ns = 0;
  EXPECT_TRUE(until([&] {
    if (server.clock.nowNs() >= next_ns) {
      (void)put(fd, asBytes("x"));
      next_ns = server.clock.nowNs() + runtime::kNanosPerMilli;
    }
    return server.endpoint->sessionCount() == 1;
  }));
  // Long before it could be whole, and not because the test was not let run for once.
  EXPECT_LT(server.clock.nowNs() - began_ns, 5 * runtime::kNanosPerSecond);
  ::close(fd);
}

class TcpShortOfMemory : public TcpHostile {
 protected:
  static constexpr uint32_t kLongBytes = 800'000;
  TcpShortOfMemory() : TcpHostile(shortOptions()) {}
  static TcpOptions shortOptions() {
    TcpOptions options = makeOptions();
    // More than Progress asks for between two acknowledgements, which the kernel of a reader may put off for 40 ms.
    options.kernel_send_bytes = 128 * 1024;
    options.stall_close_ns = 3600 * runtime::kNanosPerSecond;
    options.stall_evict_ns = 100 * runtime::kNanosPerMilli;
    options.held_bytes_max = 1'000'000;
    return options;
  }
  void SetUp() override {
    TcpHostile::SetUp();
    server.sink.on_request = [this](RxMessage& message) {
      TxMessage response = server.endpoint->allocate(0);
      response.appendChunk(Chunk{memory.data(), message.messageBytes(), 0, nullptr, 0});
      if (message.messageBytes() < 100) std::copy(message.head().begin(), message.head().end(), memory.begin());
      if (message.messageBytes() == 8) {
        while (response.hasChunkRoom()) response.appendChunk(Chunk{memory.data(), 100'000, 0, nullptr, 0});
      }
      longest_bytes = std::max(longest_bytes, message.messageBytes());
      server.endpoint->reply(message.reply_to, std::move(response));
    };
  }
  // An honest one's, which only waits.
  void expectLongCallAnswered() {
    Call call;
    TxMessage request = honest.endpoint->allocate(0);
    request.appendChunk(Chunk{memory.data(), kLongBytes, 0, nullptr, 0});
    ASSERT_EQ(honest.endpoint->call(honest_session, request, {}, call), Status::Ok);
    ASSERT_TRUE(until([&] { return call.completions == 1; }));
    EXPECT_EQ(call.status, Status::Ok);
    EXPECT_EQ(call.response.messageBytes(), kLongBytes);
  }
  std::vector<std::byte> memory = std::vector<std::byte>(kLongBytes);
  uint32_t longest_bytes = 0;  // of a request
};

TEST_F(TcpShortOfMemory, BeginningsOfMessagesGiveWayToWhoeverSendsWholeOnes) {
  std::vector<int> fds;
  for (int i = 0; i < 5; ++i) {
    fds.push_back(enter());
    ASSERT_TRUE(put(fds.back(), bytesOf(request(0, kLongBytes))));
    ASSERT_TRUE(put(fds.back(), asBytes("a few bytes")));
  }
  for (int i = 0; i < 1000; ++i) server.step();
  expectLongCallAnswered();
  EXPECT_LT(server.endpoint->sessionCount(), 6u);
  for (const int fd : fds) ::close(fd);
}

TEST_F(TcpShortOfMemory, UnreadAnswersGiveWay) {
  const int fd = enter();
  ASSERT_TRUE(put(fd, bytesOf(request(0, 8))));
  ASSERT_TRUE(put(fd, asBytes("3 MB")));
  ASSERT_TRUE(put(fd, asBytes("more")));
  ASSERT_TRUE(until([&] { return longest_bytes == 8; }));
  expectLongCallAnswered();
  EXPECT_EQ(server.endpoint->sessionCount(), 1u);
  ::close(fd);
}

class TcpPausedReaders : public TcpHostile {
 protected:
  static constexpr uint16_t kManySlots = 64;
  TcpPausedReaders() : TcpHostile(pausedOptions()) { slots = kManySlots; }
  static TcpOptions pausedOptions() {
    TcpOptions options;
    options.slots_per_session = kManySlots;
    options.unsent_bytes_max = 0;
    return options;
  }
};

// The pause ends with a write that the kernel takes at once, when the thread has meanwhile wanted to sleep and nobody
// looks at the session any more.
TEST_F(TcpPausedReaders, ReadingGoesOnAfterAPauseInWhichNothingWasBlocked) {
  std::vector<ReplyTo> asked;
  const auto echo =
      std::exchange(server.sink.on_request, [&](RxMessage& message) { asked.push_back(message.reply_to); });
  const int fd = enter();
  for (uint16_t slot = 0; slot < 40; ++slot) ASSERT_TRUE(put(fd, bytesOf(request(slot, 0))));
  ASSERT_TRUE(until([&] { return asked.size() == 40; }));
  // In more pieces than the two flushes before the sleep write.
  const std::byte byte{1};
  for (const ReplyTo& to : asked) {
    TxMessage response = server.endpoint->allocate(0);
    while (response.hasChunkRoom()) response.appendChunk(Chunk{&byte, 1, 0, nullptr, 0});
    server.endpoint->reply(to, std::move(response));
  }
  server.endpoint->flush();
  EXPECT_FALSE(server.endpoint->prepareSleep());
  server.endpoint->awake();
  for (int i = 0; i < 10; ++i) server.step();
  ASSERT_TRUE(put(fd, bytesOf(request(50, 0))));
  EXPECT_TRUE(until([&] { return asked.size() == 41; }));
  ::close(fd);
  server.sink.on_request = echo;
}

}  // namespace
}  // namespace ramcore::transport::tcp
