#pragma once

#include <algorithm>

#include "log/cleaning/memory_scrubber.h"
#include "sim/recovery_fixture.h"

namespace ramcore::sim::raw {

/// Server 0 is the former owner, server 1 the new one; server 2 has nothing to do with it.
class MasterHandOverTest : public MasterRecoveryTest {
 protected:
  static constexpr uint64_t kLarge = 5'000;  // objects of a kilobyte: several slices of a pull
  // Of many keys: several segments each.
  const std::string kOld = std::string(900, 'o');
  const std::string kNew = std::string(900, 'n');

  MasterHandOverTest() {
    world.addServer();
    addBackup();
  }

  void fill(uint64_t from, uint64_t to, const std::string& value, size_t server = 0, uint64_t epoch = 1) {
    for (uint64_t number = from; number < to; ++number) put(number, value, server, epoch);
  }
  void removeAll(uint64_t from, uint64_t to, size_t server, uint64_t epoch) {
    for (uint64_t number = from; number < to; ++number) {
      const Answer answer = remove(keyOf(number), nextSequence(1), {.client = 1, .epoch = epoch, .server = server});
      ASSERT_EQ(answer.status, Status::Ok);
      model.erase(keyOf(number));
    }
  }
  /// The tablet is the new owner's, which answers; its contents arrive.
  void handOverAndServe() {
    ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, 1, 0));
    ASSERT_EQ(lend(1, 1, 0), Status::Ok);
    ASSERT_EQ(takeArriving(1, 0, kLast, 2, 1), Status::Ok);
  }
  /// Bits of these objects flip in the memory of the former owner, which has no replicas, so they are lost.
  void loseAtTheFormerOwner(std::initializer_list<uint64_t> numbers) {
    log::Log& memory = *world.servers[0]->master().log();
    const SegmentId roll = memory.requestRoll();
    ASSERT_TRUE(world.runUntil([&] { return memory.isRolled(roll); }));
    for (const uint64_t number : numbers) {
      const std::string key = keyOf(number);
      const KeyHash hash = hashKey(TableId(kTable), asBytes(key));
      const store::Found found = world.servers[0]->master().store().lookup(TableId(kTable), hash, asBytes(key));
      const auto value_at = found.entry.payload().data() - memory.pool().memory().base();
      damaged_bytes.push_back(memory.pool().memory().base() + value_at);
      *damaged_bytes.back() ^= std::byte{1};
    }
    log::MemoryScrubber scrubber(memory);
    while (scrubber.step(1 << 20) >= 1 << 20) {
    }
    ASSERT_TRUE(world.runUntil([&] { return read(keyOf(*numbers.begin())).status == Status::Corrupt; }));
    ASSERT_TRUE(world.runUntil([&] { return read(keyOf(*(numbers.end() - 1))).status == Status::Corrupt; }));
  }
  void restoreAtTheFormerOwner() {
    log::Log& memory = *world.servers[0]->master().log();
    for (std::byte* const byte : damaged_bytes) *byte ^= std::byte{1};
    for (const log::Damage& damage : memory.integrity().damages()) EXPECT_FALSE(memory.release(damage).has_died);
  }
  Status scan(uint64_t epoch, size_t server) {
    const wire::Scan::Request ask{.header = header(Opcode::Scan, server),
                                  .epoch = TabletEpoch(epoch),
                                  .cursor = 0,
                                  .table = TableId(kTable),
                                  .response_bytes = 1 << 20};
    return world.send(join({bytesOf(ask)}), server)->outcome();
  }
  Status multiRead(const std::string& key, uint64_t epoch, size_t server) {
    auto bytes = join(
        {bytesOf(wire::MultiRead::Request{.header = header(Opcode::MultiRead, server), .count = 1}),
         bytesOf(wire::MultiRead::RequestPart{
             .epoch = TabletEpoch(epoch), .table = TableId(kTable), .key_bytes = static_cast<uint16_t>(key.size())}),
         asBytes(key)});
    bytes.resize(alignUp(bytes.size(), 8));
    const auto call = world.send(bytes, server);
    EXPECT_EQ(call->outcome(), Status::Ok);
    const std::string answer = bytesOfAnswer(*call);
    return loadAs<wire::MultiRead::ResponsePart>(asBytes(answer).data() + sizeof(wire::MultiRead::Response)).status;
  }
  std::vector<std::byte*> damaged_bytes;

  /// Nothing comes from the former owner any more.
  void cut() { world.network.partition("server1", "server2"); }
  SegmentId firstSegment(size_t server) {
    return world.servers[server]->master().tablets().get(TabletId(1))->first_segment;
  }

  /// The backup has the log of this server, which is as good as dead.
  void keepLogOf(size_t server) {
    log = copyLog(world.servers[server]->master());
    backups.back()->segments = log;
  }
  /// The same, with the oldest segment replayed first: as if a cleaner had moved what is old.
  void keepLogOldestFirst(size_t server) {
    log.clear();
    for (const auto& [id, bytes] : copyLog(world.servers[server]->master())) log[1'000'000 - id] = bytes;
    backups.back()->segments = log;
    // Nothing but the oldest segment can be had before goOn().
    const SegmentId oldest(log.rbegin()->first);
    backups.back()->refuse = [oldest](const wire::ReadReplica::Request& ask) {
      return ask.segment == oldest ? Status::Ok : Status::RetryLater;
    };
  }
  void goOn() { backups.back()->refuse = {}; }
  /// The first server, with more memory, has the tablet 2 of the whole table in place of tablet 1; another such server
  /// is to get it. Filled.
  void begin(size_t& from, size_t& to) {
    SimServer::Options large;
    large.log.memory_bytes *= 8;
    from = world.addServer(large);
    to = world.addServer(large);
    ASSERT_EQ(take(2, 0, kLast, 1, from), Status::Ok);
    for (uint64_t number = 0; number < kLarge; ++number) put(number, std::string(1000, 'x'), from);
  }
  /// The key that arrives last, if it is not asked for.
  uint64_t lastKey() {
    return *std::ranges::max_element(
        keys, {}, [](uint64_t number) { return hashKey(TableId(kTable), asBytes(keyBytes(number))); });
  }
  /// Recovers the tablet under an epoch, from the log of `dead`, at a server that has a part of the contents.
  Status recoverOver(size_t dead, size_t survivor, uint64_t epoch) {
    return recoverOver(dead, survivor, epoch, firstSegment(dead));
  }
  Status recoverOver(size_t dead, size_t survivor, uint64_t epoch, SegmentId first_segment, bool salvages = false) {
    control::RecoverTabletsRequest ask = request();
    ask.set_salvage(salvages);
    ask.set_dead(world.addresses[dead].id);
    ask.set_survivor(true);
    addTablet(ask, 1, 0, kLast, epoch, first_segment.value);
    ask.mutable_tablets(0)->mutable_logs(1)->set_server(world.addresses[dead].id);
    Status status = Status::RetryLater;
    for (int i = 0; i < 10'000 && status == Status::RetryLater; ++i) {
      status = recover(ask, survivor);
      if (status == Status::RetryLater) world.runFor(kNanosPerMilli);
    }
    return status;
  }
  void expectAll(size_t server, uint64_t epoch) {
    for (const auto& [key, highest_version] : highest) {
      const Answer found = read(key, epoch, server);
      const auto there = model.find(key);
      EXPECT_EQ(found.status, there == model.end() ? Status::NotFound : Status::Ok) << key;
      if (there == model.end()) continue;
      EXPECT_EQ(found.version, there->second.version) << key;
      EXPECT_EQ(found.value, there->second.value) << key;
    }
  }
};

}  // namespace ramcore::sim::raw
