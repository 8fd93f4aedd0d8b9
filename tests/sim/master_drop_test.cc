/// A server that gives a tablet away: what it waits for, and what it leaves alone.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/random.h"
#include "runtime/sim/sim_executor.h"
#include "sim/master_fixture.h"

namespace ramcore::sim::raw {
namespace {

class MasterDropTest : public MasterServiceTest {
 protected:
  static std::string keyOf(uint64_t number) { return "key" + std::to_string(number); }
  static std::string valueOf(uint64_t number) { return "value" + std::to_string(number); }
  static KeyHash hashOf(uint64_t number) { return hashKey(TableId(kTable), asBytes(keyOf(number))); }

  /// A command of the coordinator that is under way.
  template <typename Message>
  std::unique_ptr<NotedCall> begin(Opcode opcode, const Message& message, size_t server) {
    const wire::RequestHeader head = header(opcode, server);
    std::vector<std::byte> bytes(sizeof(head) + wire::controlBytes(message));
    storeAs(bytes.data(), head);
    wire::storeControl(message, bytes.data() + sizeof(head));
    auto call = std::make_unique<NotedCall>();
    call->request = world.coordinator.caller->allocate(static_cast<uint32_t>(bytes.size()));
    call->request.appendHead(ByteSpan(bytes));
    world.coordinator.onDispatch([&] { world.coordinator.caller->connection(world.addresses[server]).start(*call); });
    return call;
  }
  master::Master& master(size_t server) { return world.servers[server]->master(); }

  /// A thread of the server is inside of a request, and has looked up what it reads: the command is answered when it is
  /// through, and until then everything is there.
  void expectWaitsForReader(std::unique_ptr<NotedCall> command) {
    world.runFor(kNanosPerSecond);
    EXPECT_EQ(command->ended, 0) << "answered while a thread may still act on the tablet as it was";
    EXPECT_EQ(master(0).index().entryCount(), kKeys);
    EXPECT_EQ(world.servers[0]->slowReader().end(master(0)), "");
    ASSERT_TRUE(world.runUntil([&] { return command->ended != 0; }));
    EXPECT_EQ(command->outcome(), Status::Ok);
  }
  /// Fills some segments, and has a thread read something.
  void beginToRead() {
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_EQ(write(keyOf(i), std::string(1000, 'x'), i + 1).status, Status::Ok);
    }
    runtime::Random random(1);
    ASSERT_TRUE(world.servers[0]->slowReader().begin(master(0), random));
  }

  static constexpr uint64_t kKeys = 200;
};

/// A request that has found the tablet may be in the middle of many keys. If the drop did not wait for it, it would
/// answer that keys which are purged meanwhile do not exist.
TEST_F(MasterDropTest, ADropIsAnsweredWhenNobodyActsOnTheTablet) {
  beginToRead();
  control::DropTabletRequest ask;
  ask.set_tablet(1);
  ask.set_epoch(1);
  expectWaitsForReader(begin(Opcode::DropTablet, ask, 0));
  EXPECT_TRUE(world.runUntil([&] { return master(0).index().entryCount() == 0; }));
}

/// A request that has found the tablet before the freeze may be about to write something that the new owner would not
/// get.
TEST_F(MasterDropTest, AFreezeIsAnsweredWhenNobodyActsOnTheTabletAsItWas) {
  beginToRead();
  control::FreezeTabletRequest ask;
  ask.set_tablet(1);
  ask.set_epoch(1);
  expectWaitsForReader(begin(Opcode::FreezeTablet, ask, 0));
}

/// A reader that has found the tablet before it was lent could tell its client what the new owner has changed since.
TEST_F(MasterDropTest, ALendIsAnsweredWhenNobodyActsOnTheTabletAsItWas) {
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_EQ(write(keyOf(i), std::string(1000, 'x'), i + 1).status, Status::Ok);
  }
  ASSERT_EQ(freeze(1, 1), Status::Ok);
  runtime::Random random(1);
  ASSERT_TRUE(world.servers[0]->slowReader().begin(master(0), random));
  control::LendTabletRequest ask;
  ask.set_tablet(1);
  ask.set_epoch(1);
  expectWaitsForReader(begin(Opcode::LendTablet, ask, 0));
}

/// Takes its time of the thread that background work runs on, again and again.
struct BusyThread : runtime::Job {
  explicit BusyThread(runtime::SimExecutor& thread)
      : Job([](runtime::Job& job) { static_cast<BusyThread&>(job).run(); }), thread(thread) {
    thread.post(*this, runtime::Priority::Background);
  }
  void run() {
    if (is_over) {
      has_ended = true;
      return;
    }
    thread.spend(kNanosPerMilli);
    thread.post(*this, runtime::Priority::Background);
  }
  runtime::SimExecutor& thread;
  bool is_over = false;
  bool has_ended = false;
};

/// A tablet leaves, and a part of it is back before its former owner has gone through all that it had of the whole.
TEST_F(MasterDropTest, WhatIsBackInServiceIsNotPurged) {
  constexpr uint64_t kMany = 10'000;
  constexpr KeyHash kBack = kLast - kLast / 32;  // from here on it comes back
  SimServer::Options large;
  large.log.memory_bytes *= 8;
  const size_t source = world.addServer(large);
  const size_t other = world.addServer(large);
  ASSERT_EQ(take(2, 0, kLast, 1, source), Status::Ok);
  std::vector<uint64_t> back;
  for (uint64_t i = 0; i < kMany; ++i) {
    ASSERT_EQ(write(keyOf(i), valueOf(i), i + 1, {.server = source}).status, Status::Ok);
    if (hashOf(i) >= kBack) back.push_back(i);
  }
  ASSERT_GT(back.size(), 200u);
  ASSERT_NO_FATAL_FAILURE(handOver(2, 0, kLast, 1, 2, other, source));
  ASSERT_EQ(lend(2, 1, source), Status::Ok);
  ASSERT_EQ(takeArriving(2, 0, kLast, 2, other), Status::Ok);
  ASSERT_EQ(pullProgress(2, other, control::PULL_JOINED).phase(), control::PULL_JOINED);
  BusyThread busy(dynamic_cast<runtime::SimExecutor&>(world.servers[source]->dispatch().backgroundExecutor()));
  ASSERT_EQ(drop(2, 1, source), Status::Ok);
  ASSERT_EQ(take(2, 0, kLast, 2, other, false), Status::Ok);
  control::SplitTabletRequest split;
  split.set_tablet(2);
  *split.mutable_lower() = tabletOf(3, 0, kBack - 1, 3);
  *split.mutable_upper() = tabletOf(4, kBack, kLast, 3);
  ASSERT_EQ(world.command(Opcode::SplitTablet, split, other)->outcome(), Status::Ok);
  ASSERT_NO_FATAL_FAILURE(moveAll(4, kBack, kLast, 3, 4, source, other));
  ASSERT_GT(master(source).index().entryCount(), 2 * back.size()) << "it has gone through all: nothing is shown here";
  ASSERT_EQ(write(keyOf(back.front()), "written since", kMany + 1, {.epoch = 4, .server = source}).status, Status::Ok);
  EXPECT_TRUE(world.runUntil([&] { return master(source).index().entryCount() <= back.size(); }));
  busy.is_over = true;
  ASSERT_TRUE(world.runUntil([&] { return busy.has_ended; }));
  world.runFor(kNanosPerSecond);
  for (const uint64_t number : back) {
    const Answer found = read(keyOf(number), 4, source);
    ASSERT_EQ(found.status, Status::Ok) << keyOf(number) << " is lost";
    EXPECT_EQ(found.value, number == back.front() ? "written since" : valueOf(number));
  }
  EXPECT_EQ(master(source).index().entryCount(), back.size()) << "and of the rest nothing is left";
}

}  // namespace
}  // namespace ramcore::sim::raw
