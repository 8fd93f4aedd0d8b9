#include "master/requests/room_queue.h"

#include <optional>

#include "unit/rpc/rpc_fixture.h"

namespace ramcore::master {
namespace {

using rpc::NotedCall;
using rpc::Request;
using runtime::kNanosPerMilli;
using transport::Role;
using wire::Opcode;

constexpr uint64_t kServer = 5;

/// A service that answers when there is room. The test makes room for a number of requests at a time.
class RoomQueueTest : public rpc::RpcTest {
 protected:
  RoomQueueTest() {
    server.listen();
    queue.emplace(
        server.dispatch(),
        [](void* self, Request request) { static_cast<RoomQueueTest*>(self)->handle(std::move(request)); }, this);
    server.dispatch().services().add<&RoomQueueTest::handle>(Opcode::Write, *this,
                                                             {.roles = rpc::allow({Role::Client})});
  }
  ~RoomQueueTest() override {
    server.onDispatch([this] {
      queue->stop();
      queue.reset();
    });
  }

  void handle(Request request) {
    ++tries;
    if (room > 0) {
      --room;
      served.emplace_back(asText(request.head().subspan(sizeof(wire::RequestHeader))));
      return request.reply(Status::Ok);
    }
    if (!queue->park(request)) request.reply(Status::RetryLater);
  }
  std::unique_ptr<NotedCall> ask(std::string_view body) {
    auto call = std::make_unique<NotedCall>();
    call->request = request(client, Opcode::Write, kServer, body);
    start(client, *call, addressOf(server, kServer));
    return call;
  }
  void giveRoom(int requests) {
    server.onDispatch([&] { room = requests; });
  }

  rpc::RpcProcess& server = add("server", {.role = Role::Server, .id = kServer});
  rpc::RpcProcess& client = add("client", {});
  std::optional<RoomQueue> queue;
  int room = 0;
  int tries = 0;
  std::vector<std::string> served;
};

TEST_F(RoomQueueTest, WhatWaitsIsServedInTheOrderInWhichItCame) {
  std::vector<std::unique_ptr<NotedCall>> calls;
  for (const char* body : {"first...", "second..", "third..."}) {
    calls.push_back(ask(body));
    ASSERT_TRUE(runUntil([&] { return queue->size() == calls.size(); }));
  }
  giveRoom(2);
  ASSERT_TRUE(await(*calls[0]) && await(*calls[1]));
  EXPECT_EQ(calls[2]->ended, 0);
  giveRoom(1);
  ASSERT_TRUE(await(*calls[2]));
  for (const auto& call : calls) EXPECT_EQ(call->outcome(), Status::Ok);
  EXPECT_EQ(served, (std::vector<std::string>{"first...", "second..", "third..."}));
}

TEST_F(RoomQueueTest, OneThatHasWaitedLongEnoughIsRefused) {
  const int64_t begin_ns = scheduler.nowNs();
  const auto call = ask("text....");
  ASSERT_TRUE(await(*call));
  EXPECT_EQ(call->outcome(), Status::RetryLater);
  EXPECT_GE(scheduler.nowNs() - begin_ns, RoomQueue::kWaitNs);
  EXPECT_LT(scheduler.nowNs() - begin_ns, RoomQueue::kWaitNs + 5 * kNanosPerMilli);
  EXPECT_EQ(queue->size(), 0u);
}

TEST_F(RoomQueueTest, OnlyTheFirstIsTriedHoweverManyWait) {
  std::vector<std::unique_ptr<NotedCall>> calls;
  for (int i = 0; i < 30; ++i) calls.push_back(ask("text...."));
  ASSERT_TRUE(runUntil([&] { return queue->size() == calls.size(); }));
  const int before = tries;
  runFor(5 * kNanosPerMilli);
  EXPECT_GT(tries - before, 10);
  EXPECT_LE(tries - before, 60) << "one in 100 us";
  giveRoom(1000);
  for (const auto& call : calls) {
    ASSERT_TRUE(await(*call));
    EXPECT_EQ(call->outcome(), Status::Ok);
  }
}

TEST_F(RoomQueueTest, NobodyIsServedWhoseSessionHasEnded) {
  auto call = ask("text....");
  ASSERT_TRUE(runUntil([&] { return queue->size() == 1; }));
  ASSERT_EQ(network.cut("client", "server"), 1u);
  ASSERT_TRUE(await(*call));
  EXPECT_NE(call->outcome(), Status::Ok);
  giveRoom(1);
  ASSERT_TRUE(runUntil([&] { return queue->size() == 0; }));
  EXPECT_TRUE(served.empty());
  EXPECT_EQ(room, 1);
}

TEST_F(RoomQueueTest, WhatWaitsWhenItStopsIsRefusedAndWhatComesLater) {
  const auto waiting = ask("text....");
  ASSERT_TRUE(runUntil([&] { return queue->size() == 1; }));
  server.onDispatch([&] { queue->stop(); });
  ASSERT_TRUE(await(*waiting));
  EXPECT_EQ(waiting->outcome(), Status::RetryLater);
  const auto late = ask("text....");
  ASSERT_TRUE(await(*late));
  EXPECT_EQ(late->outcome(), Status::RetryLater);
}

}  // namespace
}  // namespace ramcore::master
