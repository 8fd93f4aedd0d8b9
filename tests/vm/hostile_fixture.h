#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "contract/transport_suite.h"
#include "vm/hostile_peer.h"
#include "vm/parts_world.h"
#include "wire/verbs_messages.h"

namespace ramcore::transport::verbs {

inline constexpr int64_t kSecond = runtime::kNanosPerSecond;

/// A server and an honest client with a session, which have to get on at the end as they did at the beginning,
/// whatever the peers of the test do meanwhile.
class HostileFixture : public ::testing::Test {
 protected:
  explicit HostileFixture(const VerbsOptions& options = impatientOptions()) : world(options) {
    server = std::make_unique<contract::Process>(world, Role::Server, 7);
    honest = std::make_unique<contract::Process>(world, Role::Client, 1);
    place = server->endpoint().listen(world.placeToListen(*server->node, 0)).value();
    server->echoRequests();
    session = honest->endpoint().connect(place, 0, world.nowNs() + 10 * kSecond);
    EXPECT_TRUE(until([&] { return honest->sink.opened.size() == 1; }));
  }
  ~HostileFixture() override {
    expectHonestIsServed();
    for (const auto& [lost, reason] : honest->sink.lost) EXPECT_FALSE(lost == session) << "the honest one's";
    peer.reset();
    honest->die();
    server->die();
  }

  void step() {
    server->step();
    honest->step();
  }
  bool until(const std::function<bool()>& condition) {
    return contract::stepUntil(world, {server.get(), honest.get()}, condition);
  }
  /// Lets so much time pass.
  void go(int64_t ns) {
    const int64_t begin_ns = world.nowNs();
    EXPECT_TRUE(until([&] { return world.nowNs() - begin_ns >= ns; }));
  }
  /// Small and large, both ways.
  void expectHonestIsServed(const std::vector<uint32_t>& sizes = {100, 300'000}) {
    for (const uint32_t bytes : sizes) {
      contract::TestCall call;
      contract::CountingOwner owner;
      TxMessage request = contract::makeMessage(honest->endpoint(), owner, bytes, 5);
      ASSERT_EQ(honest->endpoint().call(session, request, {}, call), Status::Ok);
      // The answer may be there before the completion that gives the bytes of the request back.
      ASSERT_TRUE(until([&] { return call.completions == 1 && owner.releasedOnce() == owner.borrowedCount(); }));
      EXPECT_EQ(call.status, Status::Ok);
      EXPECT_TRUE(contract::hasPattern(call.response, bytes, 5));
    }
  }
  static Identity identityOf(Role role, uint64_t id) {
    return Identity{.role = role, .id = id, .cluster_name = "contract", .secret = {}};
  }
  static wire::VerbsHeader header(wire::VerbsKind kind, uint32_t message_bytes, uint16_t slot = 0,
                                  uint32_t sequence = 1) {
    wire::VerbsHeader header{};
    header.kind = kind;
    header.message_bytes = message_bytes;
    header.slot = slot;
    header.sequence = sequence;
    header.response_bytes_max = UINT32_MAX;
    return header;
  }
  static ByteSpan bytesOfPieces(const std::vector<wire::VerbsPiece>& pieces) {
    return std::as_bytes(std::span(pieces));
  }

  PartsWorld world;
  std::unique_ptr<contract::Process> server;
  std::unique_ptr<contract::Process> honest;
  std::unique_ptr<HostilePeer> peer;
  Locator place;
  SessionId session;
};

}  // namespace ramcore::transport::verbs
