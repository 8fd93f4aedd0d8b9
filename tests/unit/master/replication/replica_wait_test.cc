/// The replicas of a log, kept by backups that do what a test tells them.

#include "master/replication/replica_manager.h"

#include <gtest/gtest.h>

#include "log/memory/segment_pool.h"
#include "sim/cluster/rpc_process.h"
#include "wire/replica_messages.h"

namespace ramcore::master {
namespace {

using sim::RpcProcess;
using transport::Role;
using wire::Opcode;

constexpr ServerId kSelf{5};
constexpr uint64_t kFirstBackup = 11;

/// Takes everything, unless it is told to refuse.
struct Keeper {
  Keeper(runtime::SimScheduler& scheduler, runtime::SimTraceLog& log, transport::SimNetwork& network, uint64_t id)
      : process(scheduler, log, network, "keeper" + std::to_string(id), {.role = Role::Server, .id = id}) {
    process.dispatch().services().add<&Keeper::write>(Opcode::WriteReplica, *this,
                                                      {.roles = rpc::allow({Role::Server}),
                                                       .request_bytes_min = sizeof(wire::WriteReplica::Request),
                                                       .dispatch_only = true});
    process.listen();
  }
  void write(rpc::Request request) {
    const auto ask = loadAs<wire::WriteReplica::Request>(request.head().data());
    if (ask.segment == refused) {
      refused = {};
      return request.reply(Status::NoSpace);
    }
    request.replyWith(wire::WriteReplica::Response{.header = {.status = Status::Ok},
                                                   .length_bytes = ask.offset_bytes + ask.data_bytes,
                                                   .flushed_bytes = ask.offset_bytes + ask.data_bytes});
  }

  RpcProcess process;
  SegmentId refused;  // its next write finds no frame
};

struct Floors final : FloorKeeper {
  runtime::Task<Status> raiseFloor(SegmentId segment, uint64_t replica_epoch) override {
    raised.emplace_back(segment, replica_epoch);
    co_return Status::Ok;
  }
  std::vector<std::pair<SegmentId, uint64_t>> raised;
};

struct Events final : log::ReplicationEvents {
  void segmentOpened(SegmentId segment) override { opened.insert(segment); }
  void segmentDurable(SegmentId, uint32_t) override {}
  void segmentFlushed(SegmentId, uint32_t) override {}
  void segmentClosed(SegmentId segment) override { closed.insert(segment); }
  std::set<SegmentId> opened;
  std::set<SegmentId> closed;
};

class ReplicaWaitTest : public testing::Test {
 protected:
  ReplicaWaitTest()
      : network(scheduler, {}),
        process(scheduler, trace, network, "master", {.role = Role::Server, .id = kSelf.value}),
        memory(log::LogMemory::open(config.memory_bytes).value()),
        pool(config, *memory),
        manager({.replicas = 2, .min_replicas = 2, .local_replica = false},
                {.clock = process.node.clock(),
                 .trace = process.node.trace(),
                 .dispatch = process.dispatch(),
                 .caller = *process.caller,
                 .floors = floors},
                runtime::Random(3)) {
    manager.attach(events);
    manager.begin(ClusterId(7), kSelf);
  }
  ~ReplicaWaitTest() override {
    process.onDispatch([this] { manager.stop(); });
    EXPECT_TRUE(runUntil([this] { return manager.isIdle(); }));
  }

  void addKeepers(size_t count) {
    std::vector<Member> members;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t id = kFirstBackup + i;
      Keeper& keeper = *keepers.emplace_back(std::make_unique<Keeper>(scheduler, trace, network, id));
      members.push_back({.id = ServerId(id),
                         .address = {.id = id, .locators = {keeper.process.locator()}},
                         .keeps_replicas = true,
                         .failure_domain = {}});
    }
    process.onDispatch([&] { manager.setMembers(members); });
  }
  const log::Segment& open(uint64_t id) {
    const log::Segment& segment = *pool.allocate(log::SegmentKind::Head, SegmentId(id));
    process.onDispatch([&] { manager.open(segment); });
    return segment;
  }
  bool runUntil(const std::function<bool()>& done) {
    const int64_t end_ns = scheduler.nowNs() + 5 * runtime::kNanosPerSecond;
    scheduler.runUntil([&] { return done() || scheduler.nowNs() >= end_ns; }, 1'000'000);
    return done();
  }

  runtime::SimScheduler scheduler{7};
  runtime::SimTraceLog trace{scheduler};
  transport::SimNetwork network;
  RpcProcess process;
  std::vector<std::unique_ptr<Keeper>> keepers;
  const log::LogConfig config = log::LogConfig::forTest();
  const std::unique_ptr<log::LogMemory> memory;
  log::SegmentPool pool;
  Floors floors;
  Events events;
  ReplicaManager manager;
};

TEST_F(ReplicaWaitTest, AFloorThatWaitsForAnEarlierHeadIsRaisedWhenThatIsClosed) {
  addKeepers(3);
  const log::Segment& first = open(1);
  ASSERT_TRUE(runUntil([this] { return events.opened.contains(SegmentId(1)); }));
  for (const auto& keeper : keepers) keeper->refused = SegmentId(2);
  open(2);
  ASSERT_TRUE(runUntil([this] { return events.opened.contains(SegmentId(2)); }));
  EXPECT_TRUE(floors.raised.empty()) << "the first head is not closed yet";
  process.onDispatch([&] { manager.close(first); });
  EXPECT_TRUE(runUntil([this] { return !floors.raised.empty(); })) << "nothing else happens to this log";
  EXPECT_TRUE(events.closed.contains(SegmentId(1)));
  EXPECT_EQ(floors.raised.front().first, SegmentId(2));
}

TEST_F(ReplicaWaitTest, AReplicaThatFoundNoPlaceIsPlacedLaterThoughNothingElseHappens) {
  addKeepers(2);
  keepers[0]->refused = SegmentId(1);
  open(1);
  EXPECT_TRUE(runUntil([this] { return events.opened.contains(SegmentId(1)); }));
  EXPECT_EQ(manager.stats().replicas_lost, 1u);
}

TEST_F(ReplicaWaitTest, CopiesOnServersThatAreGoneAreNotCounted) {
  addKeepers(2);
  const log::Segment& segment = open(1);
  process.onDispatch([&] { manager.close(segment); });
  ASSERT_TRUE(runUntil([this] { return events.closed.contains(SegmentId(1)); }));
  EXPECT_FALSE(manager.isNeeded(SegmentId(1)));
  const auto member = [this](size_t index, uint64_t id) {
    return Member{.id = ServerId(id),
                  .address = {.id = id, .locators = {keepers[index]->process.locator()}},
                  .keeps_replicas = true,
                  .failure_domain = {}};
  };
  bool is_needed = false;
  process.onDispatch([&] {
    manager.setMembers({member(0, kFirstBackup), member(1, kFirstBackup + 100)});
    is_needed = manager.isNeeded(SegmentId(1));
  });
  EXPECT_TRUE(is_needed) << "the second copy is on a server that is started again, which may be the one that asks";
}

}  // namespace
}  // namespace ramcore::master
