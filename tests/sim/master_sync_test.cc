/// Tables whose answers wait for disks: nothing of what is only in page caches is shown.

#include <functional>

#include "sim/master_fixture.h"

namespace ramcore::sim::raw {
namespace {

constexpr uint32_t kSyncTable = 4;

/// The second server has copies that take their time, with two tables: kTable is buffered, kSyncTable is sync.
class MasterSyncTest : public MasterServiceTest {
 protected:
  MasterSyncTest() {
    SimServer::Options options;
    options.replication.at_once = false;
    server_ = world.addServer(options);
    const log::Log& log = *world.servers[server_]->master().log();
    EXPECT_TRUE(world.runUntil([&] { return log.headId() != SegmentId(); }));
    EXPECT_EQ(takeOf(kTable, 11, control::DURABILITY_BUFFERED), Status::Ok);
    EXPECT_EQ(takeOf(kSyncTable, 12, control::DURABILITY_SYNC), Status::Ok);
  }
  Status takeOf(uint32_t table, uint64_t id, control::Durability durability) {
    control::TakeTabletRequest ask;
    *ask.mutable_tablet() = tabletOf(id, 0, kLast, 1);
    ask.mutable_tablet()->set_table(table);
    ask.mutable_tablet()->set_durability(durability);
    ask.set_created_empty(true);
    return world.command(Opcode::TakeTablet, ask, server_)->outcome();
  }

  /// A call that is under way.
  using Call = std::unique_ptr<NotedCall>;
  Call begin(RpcProcess& from, const std::vector<std::byte>& bytes) {
    auto call = std::make_unique<NotedCall>();
    call->request = from.caller->allocate(static_cast<uint32_t>(bytes.size()));
    call->request.appendHead(ByteSpan(bytes));
    from.onDispatch([&] { from.caller->connection(world.addresses[server_]).start(*call); });
    return call;
  }
  Call begin(const std::vector<std::byte>& bytes) { return begin(world.client, bytes); }
  Call beginMutation(Opcode opcode, uint32_t table, std::string_view key, std::string_view value, uint64_t sequence,
                     Condition condition = Condition::None) {
    auto request = writeRequest(opcode, key, value, sequence, {.condition = condition, .server = server_});
    request.table = TableId(table);
    return begin(join({bytesOf(request), asBytes(key), asBytes(value)}));
  }
  Call beginWrite(uint32_t table, std::string_view key, uint64_t sequence) {
    return beginMutation(Opcode::Write, table, key, "value", sequence);
  }
  Call beginRead(uint32_t table, std::string_view key) {
    auto request = readRequest(key, 1, server_);
    request.table = TableId(table);
    return begin(join({bytesOf(request), asBytes(key)}));
  }
  Call beginIncrement(std::string_view key, uint64_t sequence) {
    auto request = incrementRequest(key, 1, sequence, {.server = server_});
    request.table = TableId(kSyncTable);
    return begin(join({bytesOf(request), asBytes(key)}));
  }
  Call beginMultiRead(const std::vector<std::pair<uint32_t, std::string>>& keys) {
    auto bytes = join({bytesOf(wire::MultiRead::Request{.header = header(Opcode::MultiRead, server_),
                                                        .count = static_cast<uint32_t>(keys.size())})});
    for (const auto& [table, key] : keys) {
      const wire::MultiRead::RequestPart part{
          .epoch = TabletEpoch(1), .table = TableId(table), .key_bytes = static_cast<uint16_t>(key.size())};
      auto piece = join({bytesOf(part), asBytes(key)});
      piece.resize(alignUp(piece.size(), 8));
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    }
    return begin(bytes);
  }
  Call beginMultiMutate(std::string_view key, uint64_t sequence) {
    const wire::MultiMutate::RequestPart part{.sequence = Sequence(sequence),
                                              .epoch = TabletEpoch(1),
                                              .condition_version = 0,
                                              .table = TableId(kSyncTable),
                                              .value_bytes = 0,
                                              .key_bytes = static_cast<uint16_t>(key.size()),
                                              .kind = wire::MultiMutate::Kind::Write,
                                              .condition = Condition::None};
    auto bytes = join({bytesOf(wire::MultiMutate::Request{.header = header(Opcode::MultiMutate, server_),
                                                          .client = ClientId(1),
                                                          .acknowledged = Sequence(0),
                                                          .count = 1}),
                       bytesOf(part), asBytes(key)});
    bytes.resize(alignUp(bytes.size(), 8));
    return begin(bytes);
  }
  Call beginScan(uint32_t table) {
    const wire::Scan::Request request{.header = header(Opcode::Scan, server_),
                                      .epoch = TabletEpoch(1),
                                      .cursor = 0,
                                      .table = TableId(table),
                                      .response_bytes = 4096};
    return begin(join({bytesOf(request)}));
  }
  Call beginFreeze(uint64_t tablet) {
    control::FreezeTabletRequest ask;
    ask.set_tablet(tablet);
    ask.set_epoch(1);
    const wire::RequestHeader head = header(Opcode::FreezeTablet, server_);
    std::vector<std::byte> bytes(sizeof(head) + wire::controlBytes(ask));
    storeAs(bytes.data(), head);
    wire::storeControl(ask, bytes.data() + sizeof(head));
    return begin(world.coordinator, bytes);
  }

  bool ends(const Call& call) {
    return world.runUntil([&] { return call->ended != 0; });
  }
  /// Everything that is in the log is durable.
  void becomesDurable() {
    log::Log& log = *world.servers[server_]->master().log();
    ASSERT_TRUE(world.runUntil([&] { return log.durability().isDurable(log.heads().end()); }));
  }
  void holdFlushes(bool hold) { world.servers[server_]->replicator()->holdFlushes(hold); }
  /// Whether the call waits for a flush: it has not ended when all that is in the log is durable, and does so when it
  /// is flushed.
  void expectWaitsForFlush(Call call, const std::string& what, Status end = Status::Ok) {
    world.runFor(100 * kNanosPerMilli);
    becomesDurable();
    world.runFor(10 * kNanosPerMilli);
    EXPECT_EQ(call->ended, 0) << what << " was answered before what it shows was flushed";
    holdFlushes(false);
    ASSERT_TRUE(ends(call)) << what;
    EXPECT_EQ(call->outcome(), end) << what;
  }

  size_t server_ = 0;
};

TEST_F(MasterSyncTest, BufferedTablesOfTheSameServerDoNotWait) {
  holdFlushes(true);
  const Call sync = beginWrite(kSyncTable, "a", 1);
  const Call buffered = beginWrite(kTable, "b", 2);
  ASSERT_TRUE(ends(buffered));
  EXPECT_EQ(buffered->outcome(), Status::Ok);
  const Call read = beginRead(kTable, "b");
  ASSERT_TRUE(ends(read));
  EXPECT_EQ(read->outcome(), Status::Ok);
  EXPECT_EQ(sync->ended, 0);
  const Call absent = beginRead(kSyncTable, "z");
  ASSERT_TRUE(ends(absent));
  EXPECT_EQ(absent->outcome(), Status::NotFound) << "what never was there has nothing to wait for";
  holdFlushes(false);
  ASSERT_TRUE(ends(sync));
  EXPECT_EQ(sync->outcome(), Status::Ok);
}

TEST_F(MasterSyncTest, EveryMutationWaits) {
  ASSERT_TRUE(ends(beginWrite(kSyncTable, "present", 1)));
  uint64_t sequence = 1;
  const auto refused = [&](Condition condition, std::string_view key) {
    return beginMutation(Opcode::Write, kSyncTable, key, "value", ++sequence, condition);
  };
  holdFlushes(true);
  expectWaitsForFlush(beginWrite(kSyncTable, "new", ++sequence), "a write");
  holdFlushes(true);
  expectWaitsForFlush(refused(Condition::MustNotExist, "present"), "a failed condition", Status::ObjectExists);
  holdFlushes(true);
  expectWaitsForFlush(refused(Condition::MustExist, "absent"), "another failed condition", Status::NotFound);
  holdFlushes(true);
  const Call write = beginWrite(kSyncTable, "present", ++sequence);
  expectWaitsForFlush(refused(Condition::VersionEquals, "present"), "a condition that shows the version",
                      Status::WrongVersion);
  ASSERT_TRUE(ends(write));
  holdFlushes(true);
  expectWaitsForFlush(beginIncrement("counter", ++sequence), "an increment");
  holdFlushes(true);
  expectWaitsForFlush(beginMultiMutate("several", ++sequence), "several at once");
  holdFlushes(true);
  expectWaitsForFlush(beginMutation(Opcode::Remove, kSyncTable, "present", "", ++sequence), "a remove");
  holdFlushes(true);
  expectWaitsForFlush(beginMutation(Opcode::Remove, kSyncTable, "present", "", ++sequence), "a remove of nothing");
}

TEST_F(MasterSyncTest, ReadsOfWhatIsNotFlushedWait) {
  uint64_t sequence = 0;
  const std::map<std::string, std::function<Call(const std::string&)>> readers = {
      {"a read", [&](const std::string& key) { return beginRead(kSyncTable, key); }},
      {"a read of several",
       [&](const std::string& key) {
         return beginMultiRead({{kTable, "buffered"}, {kSyncTable, key}, {kSyncTable, "none"}});
       }},
      {"a scan", [&](const std::string&) { return beginScan(kSyncTable); }},
  };
  ASSERT_TRUE(ends(beginWrite(kTable, "buffered", ++sequence)));
  for (const auto& [what, read] : readers) {
    holdFlushes(true);
    const Call write = beginWrite(kSyncTable, what, ++sequence);
    expectWaitsForFlush(read(what), what);
    ASSERT_TRUE(ends(write));
    EXPECT_TRUE(ends(read(what))) << "and what is flushed is read at once";
  }
  for (const auto& [what, read] : readers) {
    holdFlushes(true);
    const Call remove = beginMutation(Opcode::Remove, kSyncTable, what, "", ++sequence);
    expectWaitsForFlush(read(what), what + ", of an absence", what == "a read" ? Status::NotFound : Status::Ok);
    ASSERT_TRUE(ends(remove));
  }
}

// The first attempt's answer is lost, the second must not be answered earlier than the first.
TEST_F(MasterSyncTest, ADuplicateWaitsForTheRecordOfTheFirst) {
  holdFlushes(true);
  const Call first = beginWrite(kSyncTable, "a", 1);
  world.runFor(100 * kNanosPerMilli);
  expectWaitsForFlush(beginWrite(kSyncTable, "a", 1), "a duplicate");
  EXPECT_EQ(stats(server_).duplicates_answered.load(), 1u);
  ASSERT_TRUE(ends(first));
  EXPECT_EQ(bytesOfAnswer(*first).size(), sizeof(wire::Write::Response));
  holdFlushes(true);
  const Call again = beginWrite(kSyncTable, "a", 1);
  EXPECT_TRUE(ends(again)) << "its record is flushed";
  holdFlushes(false);
}

TEST_F(MasterSyncTest, AFrozenTabletIsFlushed) {
  holdFlushes(true);
  const Call write = beginWrite(kSyncTable, "a", 1);
  const Call buffered = beginFreeze(11);
  EXPECT_TRUE(ends(buffered));
  expectWaitsForFlush(beginFreeze(12), "a freeze");
  ASSERT_TRUE(ends(write));
}

// Both halves of a split are what the whole was, whatever the command says.
TEST_F(MasterSyncTest, HalvesInheritTheLevel) {
  control::SplitTabletRequest ask;
  ask.set_tablet(12);
  *ask.mutable_lower() = tabletOf(13, 0, kLast / 2, 2);
  *ask.mutable_upper() = tabletOf(14, kLast / 2 + 1, kLast, 2);
  ask.mutable_lower()->set_table(kSyncTable);
  ask.mutable_upper()->set_table(kSyncTable);
  ASSERT_EQ(world.command(Opcode::SplitTablet, ask, server_)->outcome(), Status::Ok);
  holdFlushes(true);
  auto request = writeRequest(Opcode::Write, "a", "value", 1, {.epoch = 2, .server = server_});
  request.table = TableId(kSyncTable);
  expectWaitsForFlush(
      begin(join({bytesOf(request), asBytes(std::string_view("a")), asBytes(std::string_view("value"))})),
      "a write to a half");
}

// ---- removed keys

class MasterRemovedKeysTest : public MasterSyncTest {
 protected:
  const master::Master& master() { return world.servers[server_]->master(); }
  uint64_t entryCount() { return master().index().entryCount(); }
  void change(Opcode opcode, uint32_t table, int count) {
    std::vector<Call> calls;
    for (int i = 0; i < count; ++i) {
      const std::string_view value = opcode == Opcode::Write ? "value" : "";
      calls.push_back(beginMutation(opcode, table, "key" + std::to_string(i), value, ++sequence_));
    }
    for (const Call& call : calls) ASSERT_TRUE(ends(call));
  }

  uint64_t sequence_ = 0;
};

// No other call is made that could wake the background work.
TEST_F(MasterRemovedKeysTest, LeaveAnIdleServerWhenTheirTombstonesAreDurable) {
  for (const uint32_t table : {kTable, kSyncTable}) {
    change(Opcode::Write, table, 1000);
    EXPECT_EQ(entryCount(), 1000u);
    change(Opcode::Remove, table, 1000);
    world.runFor(kNanosPerSecond);
    EXPECT_EQ(entryCount(), 0u) << table;
  }
}

TEST_F(MasterRemovedKeysTest, OfASyncTableLeaveWhenTheyAreFlushedAndHoldNoOthersUp) {
  change(Opcode::Write, kSyncTable, 100);
  change(Opcode::Write, kTable, 100);
  holdFlushes(true);
  std::vector<Call> calls;
  for (int i = 0; i < 100; ++i) {
    calls.push_back(beginMutation(Opcode::Remove, kSyncTable, "key" + std::to_string(i), "", ++sequence_));
  }
  world.runFor(100 * kNanosPerMilli);
  becomesDurable();
  EXPECT_EQ(entryCount(), 200u) << "nobody may be told that it is absent";
  change(Opcode::Remove, kTable, 100);
  world.runFor(kNanosPerSecond);
  EXPECT_EQ(entryCount(), 100u);
  holdFlushes(false);
  for (const Call& call : calls) ASSERT_TRUE(ends(call));
  world.runFor(kNanosPerSecond);
  EXPECT_EQ(entryCount(), 0u);
}

// A call waits for flushes that do not come any more.
TEST_F(MasterRemovedKeysTest, DoNotKeepAServerFromStopping) {
  change(Opcode::Write, kSyncTable, 1);
  holdFlushes(true);
  const Call removal = beginMutation(Opcode::Remove, kSyncTable, "key0", "", ++sequence_);
  world.runFor(100 * kNanosPerMilli);
  ASSERT_EQ(master().store().tombstones().size(), 1u);
  world.servers[server_]->stopInOrder();
  EXPECT_TRUE(world.runUntil([&] { return world.servers[server_]->hasStopped(); }));
  holdFlushes(false);
  EXPECT_TRUE(ends(removal)) << "who waits for the flush is another one";
}

}  // namespace
}  // namespace ramcore::sim::raw
