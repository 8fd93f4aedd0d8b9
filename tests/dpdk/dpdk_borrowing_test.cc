// Bytes that a driver has stay borrowed until the driver gives them back, whatever the peer says. Over a memif; a
// callback that DPDK calls before it sends frames keeps references to them.
#include <gtest/gtest.h>

#include "contract/transport_suite.h"
#include "runtime/clock.h"
#include "transport/dpdk/eal.h"

namespace ramcore::transport::contract {
namespace {

constexpr const char* kServerPort = "net_memif1";  // of the first process of a world
constexpr uint32_t kValues = 16;
constexpr uint32_t kValueBytes = 1000;

/// Holds the frames that a port sends: they leave, but are not given back to their pools while they are held.
class HeldFrames {
 public:
  explicit HeldFrames(const char* name) {
    EXPECT_EQ(rte_eth_dev_get_port_by_name(name, &port_), 0);
    callback_ = rte_eth_add_tx_callback(port_, 0, &HeldFrames::onBurst, this);
    EXPECT_NE(callback_, nullptr);
  }
  ~HeldFrames() {
    EXPECT_EQ(rte_eth_remove_tx_callback(port_, 0, callback_), 0);
    letGo();
  }
  HeldFrames(const HeldFrames&) = delete;
  HeldFrames& operator=(const HeldFrames&) = delete;

  void hold() { holds_ = true; }
  size_t pieceCount() const { return piece_count_; }
  void letGo() {
    holds_ = false;
    for (rte_mbuf* frame : frames_) rte_pktmbuf_free(frame);
    frames_.clear();
  }

 private:
  static uint16_t onBurst(uint16_t, uint16_t, rte_mbuf** frames, uint16_t count, void* argument) {
    auto& self = *static_cast<HeldFrames*>(argument);
    for (uint16_t i = 0; i < count && self.holds_; ++i) {
      if (frames[i]->nb_segs == 1) continue;  // borrows nothing
      for (rte_mbuf* piece = frames[i]; piece != nullptr; piece = piece->next) rte_mbuf_refcnt_update(piece, 1);
      self.piece_count_ += frames[i]->nb_segs - 1u;
      self.frames_.push_back(frames[i]);
    }
    return count;
  }

  uint16_t port_ = 0;
  const rte_eth_rxtx_callback* callback_ = nullptr;
  bool holds_ = false;
  size_t piece_count_ = 0;
  std::vector<rte_mbuf*> frames_;
};

std::unique_ptr<World> makeMemifWorld() {
  for (const Subject& subject : subjects()) {
    if (subject.name == "dpdk_memif") return subject.make_world();
  }
  return nullptr;
}

TEST(DpdkBorrowing, WhatADriverHasStaysLentUntilItIsGivenBack) {
  const std::unique_ptr<World> world = makeMemifWorld();
  ASSERT_NE(world, nullptr);
  CountingOwner owner;
  Process server(*world, Role::Server, 7);
  Process client(*world, Role::Client, 1);
  const std::vector<Process*> both = {&server, &client};
  const Locator place = server.endpoint().listen(world->placeToListen(*server.node, 0)).value();
  const SessionId session = client.endpoint().connect(place, 0, world->nowNs() + 10 * runtime::kNanosPerSecond);
  ASSERT_TRUE(stepUntil(*world, both, [&] { return client.sink.opened.size() == 1; }));

  HeldFrames held(kServerPort);
  server.sink.on_request = [&](RxMessage& request) {
    TxMessage response = server.endpoint().allocate(16);
    response.appendHead(request.head());
    for (uint32_t i = 0; i < kValues; ++i) response.appendChunk(owner.borrow(kValueBytes, static_cast<uint8_t>(i)));
    held.hold();
    server.endpoint().reply(request.reply_to, std::move(response));
  };
  TestCall call;
  TxMessage request = client.endpoint().allocate(16);
  request.appendHead(uint64_t{5});
  ASSERT_EQ(client.endpoint().call(session, request, {}, call), Status::Ok);
  ASSERT_TRUE(stepUntil(*world, both, [&] { return call.completions == 1; }));
  EXPECT_EQ(call.status, Status::Ok);
  EXPECT_EQ(call.response.messageBytes(), sizeof(uint64_t) + kValues * kValueBytes);
  EXPECT_GE(held.pieceCount(), kValues);

  // The peer has it and has said so, and the time for which bytes may be borrowed is over.
  const int64_t begin_ns = world->nowNs();
  ASSERT_TRUE(stepUntil(*world, both, [&] { return world->nowNs() - begin_ns > runtime::kNanosPerSecond / 4; }));
  EXPECT_EQ(owner.releasedOnce(), 0u) << "a driver that still has the frames may read them";
  held.letGo();
  EXPECT_TRUE(stepUntil(*world, both, [&] { return owner.releasedOnce() == kValues; }));
}

}  // namespace
}  // namespace ramcore::transport::contract
