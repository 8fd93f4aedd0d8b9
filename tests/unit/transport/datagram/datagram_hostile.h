#pragma once

#include "unit/transport/datagram/datagram_hand.h"

namespace ramcore::transport::datagram {

/// A server, an honest client of it, and peers that do what no honest peer does. Whatever that is, the honest client
/// notices nothing.
class HostileTest : public ::testing::Test {
 protected:
  using PacketHeader = wire::PacketHeader;
  using PacketKind = wire::PacketKind;
  static constexpr int64_t kMicro = runtime::kNanosPerMicro;
  static constexpr int64_t kMilli = runtime::kNanosPerMilli;
  static constexpr int64_t kSecond = runtime::kNanosPerSecond;
  static constexpr uint64_t kHeldMax = 24 * 1024 * 1024;

  static DatagramOptions options() {
    DatagramOptions options;
    options.greetings_max = 32;
    options.sessions_max = 100;
    options.borrowed_ns_max = 10 * kMilli;
    options.stall_bytes_max = kHeldMax / 4;
    options.stall_close_ns = 200 * kMilli;
    options.stall_evict_ns = 20 * kMilli;
    options.held_bytes_max = kHeldMax;
    return options;
  }
  void SetUp() override {
    server.listen();
    session = client.open(server);
    accepted = server.opened.back();
  }
  // The honest client notices nothing.
  void TearDown() override {
    server.on_request = [this](RxMessage& request) { server.answer(request); };
    exchange(500);
    exchange(300'000);
    EXPECT_TRUE(client.lost.empty());
    EXPECT_EQ(client.endpoint->badSessionCount(), 0u);
    EXPECT_FALSE(server.lender.isAnyReleasedTwice());
  }
  void exchange(uint32_t bytes, int64_t within_ns = kSecond) {
    Asked asked;
    ASSERT_EQ(client.call(session, asked, bytes, ++name), Status::Ok);
    ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return asked.completions != 0; }, within_ns));
    EXPECT_TRUE(hasContent(asked.response, bytes, name));
  }
  void run(int64_t ns) {
    runUntil(lan, {&server, &client}, [] { return false; }, ns);
  }
  std::unique_ptr<Hand> greeted(uint8_t number = 9) {
    auto hand = std::make_unique<Hand>(lan, number);
    EXPECT_TRUE(hand->greet(server));
    return hand;
  }
  // The session of a peer that does this is closed, and counted.
  void expectCaught(const std::string& what, const std::function<void(Hand&)>& mischief) {
    SCOPED_TRACE(what);
    const uint64_t bad_before = server.endpoint->badSessionCount();
    const size_t lost_before = server.lost.size();
    const auto hand = greeted();
    mischief(*hand);
    ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return server.lost.size() > lost_before; }, kSecond));
    EXPECT_EQ(server.lost.back().second, Status::SessionLost);
    EXPECT_EQ(server.endpoint->badSessionCount(), bad_before + 1);
  }
  // Expects that the mischief has no effect, because nobody can know who did it.
  void expectIgnored(const std::string& what, Hand& hand, const std::function<void()>& mischief) {
    SCOPED_TRACE(what);
    const uint64_t bad_before = server.endpoint->badSessionCount();
    const size_t lost_before = server.lost.size();
    const uint64_t requests_before = server.request_count;
    mischief();
    run(kMilli);
    EXPECT_EQ(server.lost.size(), lost_before);
    EXPECT_EQ(server.endpoint->badSessionCount(), bad_before);
    EXPECT_EQ(server.request_count, requests_before);
    hand.take();
    hand.send(PacketKind::Probe);
    run(kMilli);
    const auto heard = hand.take();
    EXPECT_TRUE(std::ranges::any_of(heard, [](const auto& one) { return one.start.kind == PacketKind::ProbeReply; }));
  }

  Lan lan;
  Station server{lan, 1, {.role = Role::Server, .options = options()}};
  Station client{lan, 2, {}};
  SessionId session;
  SessionId accepted;
  uint32_t name = 0;
};

}  // namespace ramcore::transport::datagram
