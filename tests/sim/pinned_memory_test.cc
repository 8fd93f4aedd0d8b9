/// Memory of the log that answers in transmission hold while the cleaner needs it: a client that stops reading, and
/// reads that wait for durability.

#include <gtest/gtest.h>

#include "sim/master_fixture.h"

namespace ramcore::sim::raw {
namespace {

constexpr size_t kValueBytes = 6000;  // above what is copied into an answer

class PinnedMemoryTest : public MasterServiceTest {
 protected:
  master::Master& master() { return world.servers[0]->master(); }
  const log::LogStats& logStats() { return master().log()->stats(); }
  const master::PinnedValues::Stats& pinned() { return master().pinnedValues()->stats(); }
  static std::string valueOf(char c) { return std::string(kValueBytes, c); }

  // A read by the reader, whose answer is not waited for.
  std::unique_ptr<NotedCall> startRead(std::string_view key, size_t server = 0) {
    return start(join({bytesOf(readRequest(key, 1, server)), asBytes(key)}), server);
  }
  std::unique_ptr<NotedCall> start(const std::vector<std::byte>& bytes, size_t server) {
    auto call = std::make_unique<NotedCall>();
    call->request = reader.caller->allocate(static_cast<uint32_t>(bytes.size()));
    call->request.appendHead(bytes);
    reader.onDispatch([&] { reader.caller->connection(world.addresses[server]).start(*call); });
    return call;
  }
  std::string valueIn(const NotedCall& call) { return bytesOfAnswer(call).substr(sizeof(wire::Read::Response)); }
  // Overwrites a few keys until the log has taken `bytes` more. Every write is tried until it is taken.
  void overwrite(uint64_t bytes) {
    const uint64_t end = logStats().appended_bytes.load() + bytes;
    while (logStats().appended_bytes.load() < end) {
      ++sequence;
      const std::string key = "other" + std::to_string(sequence % 8);
      ASSERT_TRUE(world.runUntil([&] {
        const Status status = write(key, std::string(3000, 'o'), sequence, {.acknowledged = sequence - 1}).status;
        EXPECT_TRUE(status == Status::Ok || status == Status::RetryLater) << name(status);
        return status == Status::Ok;
      }));
    }
  }

  uint64_t sequence = 0;
  RpcProcess reader{
      world.scheduler, world.log, world.network, "reader", {.role = transport::Role::Client, .cluster_name = "sim"}};
};

TEST_F(PinnedMemoryTest, AClientThatStopsReadingHoldsNoMemoryBeyondTheDeadline) {
  const uint64_t memory_bytes = master().log()->config().memory_bytes;
  ASSERT_EQ(write("key", valueOf('a'), ++sequence).status, Status::Ok);
  const auto first = startRead("key");
  ASSERT_TRUE(world.runUntil([&] { return first->ended != 0; }));

  world.network.stopReading("reader");
  const auto call = startRead("key");
  ASSERT_TRUE(world.runUntil([&] { return pinned().pinned_bytes.load() != 0; }));
  const int64_t borrowed_ns = world.scheduler.nowNs();
  const uint64_t cleaned = logStats().segments_cleaned.load();
  ASSERT_EQ(write("key", valueOf('b'), ++sequence).status, Status::Ok);

  // The memory is used up several times over. All that is cleaned before the deadline waits for the answer.
  uint64_t pinned_bytes = 0;
  int64_t held_ns = 0;
  for (int i = 0; i < 400; ++i) {
    overwrite(memory_bytes / 100);
    pinned_bytes = std::max(pinned_bytes, logStats().pinned_bytes.load());
    if (pinned().pinned_bytes.load() != 0) held_ns = world.scheduler.nowNs() - borrowed_ns;
  }
  EXPECT_GT(pinned_bytes, 0u) << "it was in the way";
  EXPECT_LE(held_ns, world.network.options().borrowed_ns_max + 10 * kNanosPerMilli);
  EXPECT_GT(logStats().segments_cleaned.load(), cleaned + 10);
  ASSERT_TRUE(world.runUntil([&] { return logStats().pinned_bytes.load() == 0; }));
  EXPECT_EQ(call->ended, 0);
  EXPECT_EQ(world.servers[0]->dispatch().endpointCounts(0).messages_copied_out.load(), 1u);

  // No session was closed for it, and the answer is the one that was given.
  world.network.resumeReading("reader");
  ASSERT_TRUE(world.runUntil([&] { return call->ended != 0; }));
  EXPECT_EQ(call->outcome(), Status::Ok);
  EXPECT_EQ(valueIn(*call), valueOf('a'));
}

TEST_F(PinnedMemoryTest, ReadersThatStopAreServedFromCopies) {
  const uint64_t bytes_max = master().pinnedValues()->bytesMax();
  ASSERT_EQ(write("key", valueOf('a'), ++sequence).status, Status::Ok);
  const auto first = startRead("key");
  ASSERT_TRUE(world.runUntil([&] { return first->ended != 0; }));
  // One poll round of the server, or two: less than the deadline.
  world.network.stopReading("reader");
  std::vector<std::unique_ptr<NotedCall>> calls;
  const uint64_t count = world.network.options().slots_per_session;
  ASSERT_GT(count * kValueBytes, bytes_max);
  uint64_t pinned_bytes_max = 0;
  for (uint64_t i = 0; i < count; ++i) {
    calls.push_back(startRead("key"));
    world.runFor(kNanosPerMilli / 2);
    pinned_bytes_max = std::max(pinned_bytes_max, pinned().pinned_bytes.load());
  }
  EXPECT_LE(pinned_bytes_max, bytes_max);
  EXPECT_GT(pinned_bytes_max, bytes_max / 2);
  EXPECT_GT(pinned().values_copied.load(), 0u);
  world.network.resumeReading("reader");
  for (const auto& call : calls) {
    ASSERT_TRUE(world.runUntil([&] { return call->ended != 0; }));
    if (call->outcome() == Status::RetryLater) continue;
    EXPECT_EQ(call->outcome(), Status::Ok);
    EXPECT_EQ(valueIn(*call), valueOf('a'));
  }
  ASSERT_TRUE(world.runUntil([&] { return !master().pinnedValues()->isBorrowed(); }));
}

// Durability may wait for a new head, and that one for memory: a pin held meanwhile would be waiting for itself.
TEST_F(PinnedMemoryTest, AReadThatWaitsForDurabilityHoldsNoPin) {
  constexpr int64_t kDurableNs = 50 * kNanosPerMilli;
  SimServer::Options options;
  options.replication = {
      .at_once = false, .delay_ns_max = kDurableNs, .slow_permille = 1000, .slow_ns_max = kDurableNs};
  const size_t slow = world.addServer(options);
  ASSERT_TRUE(world.runUntil([&] { return take(2, 0, kLast, 1, slow) == Status::Ok; }));
  const auto& borrowed_there = world.servers[slow]->master().pinnedValues()->stats();
  const WriteOptions there{.server = slow};
  int waited = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string value = valueOf(static_cast<char>('a' + i));
    const auto request = writeRequest(Opcode::Write, "key", value, ++sequence, there);
    const auto written = start(join({bytesOf(request), asBytes("key"), asBytes(value)}), slow);
    world.runFor(kNanosPerMilli / 4);
    const auto call = startRead("key", slow);
    world.runFor(kNanosPerMilli / 4);
    const bool waits = call->ended == 0 && borrowed_there.copied_bytes.load() == kValueBytes;
    if (waits) {
      ++waited;
      EXPECT_EQ(borrowed_there.pinned_bytes.load(), 0u);
    }
    ASSERT_TRUE(world.runUntil([&] { return call->ended != 0 && written->ended != 0; }));
    EXPECT_EQ(call->outcome(), Status::Ok);
    EXPECT_EQ(written->outcome(), Status::Ok);
    if (waits) EXPECT_EQ(valueIn(*call), value);
  }
  EXPECT_GT(waited, 0);
}

}  // namespace
}  // namespace ramcore::sim::raw
