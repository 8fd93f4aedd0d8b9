/// Damage in a master's memory without replicas: what clients are told.

#include "log/cleaning/memory_scrubber.h"
#include "sim/master_fixture.h"

namespace ramcore::sim::raw {
namespace {

class MemoryDamageTest : public MasterServiceTest {
 protected:
  MemoryDamageTest() {
    for (int i = 0; i < 8; ++i) {
      ++sequence;
      const Answer answer = write(key(i), "value" + std::to_string(i), sequence, {.acknowledged = sequence - 1});
      EXPECT_EQ(answer.status, Status::Ok);
    }
    const SegmentId request = log().requestRoll();
    EXPECT_TRUE(world.runUntil([&] { return log().isRolled(request); }));
    world.runFor(100 * kNanosPerMilli);
  }
  static std::string key(int i) { return "key" + std::to_string(i); }
  log::Log& log() { return *world.servers[0]->master().log(); }
  log::EntryRef refOf(const std::string& key) {
    return world.servers[0]
        ->master()
        .store()
        .lookup(TableId(kTable), hashKey(TableId(kTable), asBytes(key)), asBytes(key))
        .ref;
  }
  void flip(log::EntryRef ref, uint32_t bit) {
    log().pool().memory().at(ref)[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
  void scrub() {
    log::MemoryScrubber scrubber(log());
    while (scrubber.step(1 << 20) >= 1 << 20) {
    }
    world.runFor(100 * kNanosPerMilli);
  }
  Status scan() {
    const wire::Scan::Request ask{.header = header(Opcode::Scan),
                                  .epoch = TabletEpoch(1),
                                  .cursor = 0,
                                  .table = TableId(kTable),
                                  .response_bytes = 64 << 10};
    return world.send(join({bytesOf(ask)}))->outcome();
  }
  Status multiRead(const std::string& key) {
    auto bytes = join({bytesOf(wire::MultiRead::Request{.header = header(Opcode::MultiRead), .count = 1})});
    const auto part =
        join({bytesOf(wire::MultiRead::RequestPart{
                  .epoch = TabletEpoch(1), .table = TableId(kTable), .key_bytes = static_cast<uint16_t>(key.size())}),
              asBytes(key)});
    bytes.insert(bytes.end(), part.begin(), part.end());
    bytes.resize(alignUp(bytes.size(), 8));
    const auto call = world.send(bytes);
    EXPECT_EQ(call->outcome(), Status::Ok);
    const std::string answer = bytesOfAnswer(*call);
    return loadAs<wire::MultiRead::ResponsePart>(asBytes(answer).data() + sizeof(wire::MultiRead::Response)).status;
  }
  void expectOthersAreRead() {
    for (int i = 0; i < 8; ++i) {
      if (i != 3) EXPECT_EQ(read(key(i)).value, "value" + std::to_string(i));
    }
  }

  uint64_t sequence = 0;
};

constexpr uint32_t kBits[] = {
    0,                                                  // type
    offsetof(log::EntryHeader, key_bytes) * 8 + 1,      //
    offsetof(log::EntryHeader, payload_bytes) * 8 + 3,  //
    offsetof(log::EntryHeader, table) * 8,              //
    offsetof(log::EntryHeader, crc) * 8 + 5,            //
    offsetof(log::EntryHeader, version) * 8,            //
    log::kEntryHeaderBytes * 8 + 2,                     // key
    (log::kEntryHeaderBytes + 4) * 8,                   // value
};

TEST_F(MemoryDamageTest, ADamagedObjectIsAnErrorAndNothingElse) {
  ASSERT_EQ(scan(), Status::Ok);
  const log::EntryRef ref = refOf(key(3));
  uint64_t found = 0;
  for (const uint32_t bit : kBits) {
    SCOPED_TRACE("bit " + std::to_string(bit));
    flip(ref, bit);
    scrub();
    EXPECT_EQ(log().stats().damaged_entries.load(), ++found);
    const Answer answer = read(key(3));
    EXPECT_EQ(answer.status, Status::Corrupt);
    EXPECT_EQ(answer.value, "");
    EXPECT_EQ(multiRead(key(3)), Status::Corrupt);
    EXPECT_EQ(write(key(3), "new", ++sequence).status, Status::Corrupt);
    EXPECT_EQ(remove(key(3), sequence).status, Status::Corrupt);
    EXPECT_EQ(increment(key(3), 1, sequence).status, Status::Corrupt);
    EXPECT_EQ(scan(), Status::Corrupt) << "a list without it";
    expectOthersAreRead();
    EXPECT_EQ(multiRead(key(2)), Status::Ok);
    EXPECT_EQ(read("none").status, Status::NotFound);
    // As if it had been restored.
    flip(ref, bit);
    EXPECT_FALSE(log().release(log().integrity().damages().at(0)).has_died);
    EXPECT_EQ(read(key(3)).value, "value3");
    EXPECT_EQ(scan(), Status::Ok);
  }
  EXPECT_EQ(log().stats().damaged_now.load(), 0u);
}

TEST_F(MemoryDamageTest, AMoveDoesNotCarryIt) {
  world.addServer();
  const log::EntryRef ref = refOf(key(3));
  flip(ref, kBits[7]);
  ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, 1, 0));
  ASSERT_EQ(lend(1, 1), Status::Ok);
  ASSERT_EQ(takeArriving(1, 0, kLast, 2, 1), Status::Ok);
  world.runFor(15 * kNanosPerSecond);
  const auto progress = pullProgress(1, 1, control::PULL_ARRIVING);
  EXPECT_EQ(progress.phase(), control::PULL_ARRIVING) << "the rest waits";
  EXPECT_NE(static_cast<Status>(progress.problem()), Status::Ok);
  EXPECT_EQ(log().stats().damaged_entries.load(), 1u);
  EXPECT_NE(read(key(3), 2, 1).status, Status::NotFound);
  EXPECT_NE(read(key(3), 2, 1).status, Status::Ok);
}

TEST_F(MemoryDamageTest, GarbageThatIsDamagedIsNobodysError) {
  const log::EntryRef dead = refOf(key(3));
  ASSERT_EQ(write(key(3), "value3b", ++sequence).status, Status::Ok);
  flip(dead, kBits[2]);
  scrub();
  EXPECT_EQ(log().stats().damaged_entries.load(), 1u);
  EXPECT_EQ(read(key(3)).value, "value3b");
  EXPECT_EQ(scan(), Status::Ok);
  expectOthersAreRead();
}

}  // namespace
}  // namespace ramcore::sim::raw
