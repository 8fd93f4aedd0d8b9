#include "log/log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/unit/log/log_fixture.h"

namespace ramcore::log {
namespace {

TEST(Log, AppendedEntryIsReadableAndDurable) {
  LogFixture fixture;
  const auto appended = fixture.append("key", "value");
  ASSERT_TRUE(appended.ok());
  const EntryView entry = fixture.log->view(appended->refs[0]);
  EXPECT_TRUE(entry.verify());
  EXPECT_EQ(asText(entry.key()), "key");
  EXPECT_EQ(asText(entry.payload()), "value");
  EXPECT_EQ(entry.version(), 1u);
  EXPECT_EQ(entry.table(), TableId(1));
  EXPECT_TRUE(fixture.log->durability().isDurable(appended->end));
  EXPECT_TRUE(fixture.log->durability().isDurable(appended->refs[0]));
  EXPECT_EQ(fixture.log->durability().endOf(appended->refs[0]), appended->end);
}

TEST(Log, AnswersRetryLaterUntilTheFirstHeadIsOpen) {
  LogFixture fixture;
  fixture.copies.setAutomatic(false);
  fixture.log = std::make_unique<Log>(fixture.config, LogIdentity{ClusterId(7), ServerId(12)}, *fixture.memory,
                                      Log::Environment{fixture.owner, fixture.copies, fixture.rcu, fixture.pins});
  EXPECT_EQ(fixture.append("a", "b").status(), Status::RetryLater);
  fixture.copies.deliverOpens();
  EXPECT_EQ(fixture.append("a", "b").status(), Status::Ok);
}

TEST(Log, GroupLargerThanTheStageIsCopiedOutsideTheLock) {
  LogFixture fixture;
  const std::string value(5000, 'x');
  const auto appended = fixture.append("big", value);
  ASSERT_TRUE(appended.ok());
  EXPECT_TRUE(fixture.log->view(appended->refs[0]).verify());
  EXPECT_EQ(asText(fixture.log->view(appended->refs[0]).payload()), value);
  EXPECT_TRUE(fixture.log->durability().isDurable(appended->end));
}

TEST(Log, GathersPayloadPieces) {
  LogFixture fixture;
  const std::array<ByteSpan, 3> pieces{asBytes("one "), asBytes(""), asBytes("two")};
  EntryInput input;
  input.key = asBytes("k");
  input.version = kVersionMax;
  input.payload = pieces;
  input.expiry_s = 0xfedcba98;
  const auto appended = fixture.log->append(std::span(&input, 1), AppendClass::Write);
  ASSERT_TRUE(appended.ok());
  const EntryView entry = fixture.log->view(appended->refs[0]);
  EXPECT_EQ(asText(entry.payload()), "one two");
  EXPECT_EQ(entry.expiry(), 0xfedcba98);
  EXPECT_EQ(entry.version(), kVersionMax);
}

TEST(Log, HeadRollsWhenEntryDoesNotFitAndDigestListsEverySegment) {
  LogFixture fixture;
  const SegmentId first = fixture.log->headId();
  const std::string value(1000, 'v');
  while (fixture.log->headId() == first) ASSERT_TRUE(fixture.append("k", value).ok());
  const SegmentId second = fixture.log->headId();
  const auto& replicas = fixture.copies.replicas();
  SegmentPreamble preamble;
  ASSERT_EQ(readPreamble(replicas.at(second).bytes, preamble), Status::Ok);
  EXPECT_EQ(preamble.header.cluster, ClusterId(7));
  EXPECT_EQ(preamble.header.server, ServerId(11));
  EXPECT_EQ(preamble.header.segment, second);
  ASSERT_TRUE(preamble.has_digest);
  EXPECT_EQ(preamble.digest.payload.previous_head, first);
  ASSERT_EQ(preamble.digest.payload.count, 2u);
  EXPECT_EQ(preamble.digest.at(0), first);
  EXPECT_EQ(preamble.digest.at(1), second);
  EXPECT_TRUE(replicas.at(first).closed);
}

TEST(Log, NothingInTheNewHeadIsDurableBeforeTheOldOneIsClosed) {
  LogFixture fixture;
  const SegmentId first = fixture.log->headId();
  const std::string value(1000, 'v');
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(fixture.append("k", value).ok());
  fixture.copies.setAutomatic(false);
  Result<Appended> last = Status::RetryLater;
  for (int i = 0; i < 100; ++i) {
    last = fixture.append("k", value);
    fixture.copies.deliverOpens();
    if (fixture.log->headId() != first) break;
  }
  ASSERT_NE(fixture.log->headId(), first);
  last = fixture.append("k", value);
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last->end.segment, fixture.log->headId());

  Status woken = Status::Internal;
  struct Waiter : DurableWaiter {
    Status* woken;
  } waiter;
  waiter.woken = &woken;
  waiter.run = [](DurableWaiter& self, Status status) { *static_cast<Waiter&>(self).woken = status; };
  ASSERT_TRUE(fixture.log->durability().notifyDurable(last->end, waiter));

  fixture.copies.deliverAdvances();
  EXPECT_FALSE(fixture.log->durability().isDurable(last->end));
  EXPECT_FALSE(fixture.log->durability().isDurable(last->refs[0]));
  EXPECT_EQ(woken, Status::Internal);
  fixture.copies.deliverCloses();
  EXPECT_TRUE(fixture.log->durability().isDurable(last->end));
  EXPECT_TRUE(fixture.log->durability().isDurable(last->refs[0]));
  EXPECT_EQ(woken, Status::Ok);
  EXPECT_FALSE(fixture.log->durability().notifyDurable(last->end, waiter));
}

TEST(Log, WaitersAreCalledInOrderAndOnFailure) {
  LogFixture fixture;
  fixture.copies.setAutomatic(false);
  std::vector<int> calls;
  struct Waiter : DurableWaiter {
    std::vector<int>* calls;
    int number;
  };
  std::array<Waiter, 3> waiters;
  std::array<LogPosition, 3> ends;
  for (int i = 0; i < 3; ++i) {
    ends[i] = fixture.append("k", "v")->end;
    waiters[i].calls = &calls;
    waiters[i].number = i;
    waiters[i].run = [](DurableWaiter& self, Status status) {
      auto& waiter = static_cast<Waiter&>(self);
      waiter.calls->push_back(status == Status::Ok ? waiter.number : 100 + waiter.number);
    };
  }
  for (int i : {2, 0, 1}) ASSERT_TRUE(fixture.log->durability().notifyDurable(ends[i], waiters[i]));
  fixture.log->segmentDurable(ends[1].segment, ends[1].offset_bytes);
  EXPECT_EQ(calls, (std::vector{0, 1}));
  fixture.log->fail(Status::Fenced);
  EXPECT_EQ(calls, (std::vector{0, 1, 102}));
  EXPECT_EQ(fixture.append("k", "v").status(), Status::Fenced);
}

struct FlushWaiter : DurableWaiter {
  FlushWaiter() {
    run = [](DurableWaiter& self, Status status) { static_cast<FlushWaiter&>(self).woken = status; };
  }
  std::optional<Status> woken;
};

TEST(Log, WhatIsDurableIsFlushedWhenSomebodyWaits) {
  LogFixture fixture;
  fixture.copies.setAutomatic(false);
  const auto first = fixture.append("a", "v");
  fixture.copies.deliverAdvances();
  EXPECT_TRUE(fixture.log->durability().isDurable(first->end));
  EXPECT_FALSE(fixture.log->durability().isFlushed(first->end));
  EXPECT_FALSE(fixture.log->durability().isFlushed(first->refs[0]));
  EXPECT_TRUE(fixture.copies.wantedFlushes().empty()) << "nobody waits";

  FlushWaiter waiter;
  ASSERT_TRUE(fixture.log->durability().notifyFlushed(first->end, waiter));
  EXPECT_EQ(fixture.copies.wantedFlushes(), std::vector{first->end});
  FlushWaiter other;
  ASSERT_TRUE(fixture.log->durability().notifyFlushed(first->end, other));
  EXPECT_EQ(fixture.copies.wantedFlushes().size(), 1u) << "the replicator knows";
  const auto second = fixture.append("b", "v");
  fixture.copies.deliverAdvances();
  EXPECT_FALSE(waiter.woken.has_value()) << "durable is not flushed";

  fixture.copies.deliverFlushes();
  EXPECT_EQ(waiter.woken, Status::Ok);
  EXPECT_EQ(other.woken, Status::Ok);
  EXPECT_TRUE(fixture.log->durability().isFlushed(first->refs[0]));
  EXPECT_EQ(fixture.log->durability().flushedUpTo(), first->end);
  EXPECT_FALSE(fixture.log->durability().isFlushed(second->end));
  FlushWaiter late;
  EXPECT_FALSE(fixture.log->durability().notifyFlushed(first->end, late));
}

// The same holds for durable positions: a recovery may still end with the old head.
TEST(Log, NothingInAHeadIsFlushedBeforeTheOldOneIsClosed) {
  LogFixture fixture;
  const auto old = fixture.append("k", "v");
  fixture.copies.setAutomatic(false);
  fixture.log->requestRoll();
  fixture.copies.deliverOpens();
  ASSERT_GT(fixture.log->headId(), old->end.segment);
  const auto last = fixture.append("k", "v");
  FlushWaiter waiter;
  ASSERT_TRUE(fixture.log->durability().notifyFlushed(last->end, waiter));
  fixture.copies.deliverAdvances();
  fixture.copies.deliverFlushes();
  EXPECT_FALSE(fixture.log->durability().isFlushed(last->end));
  EXPECT_FALSE(fixture.log->durability().isFlushed(last->refs[0]));
  EXPECT_FALSE(waiter.woken.has_value());
  fixture.copies.deliverCloses();
  EXPECT_EQ(waiter.woken, Status::Ok);
  EXPECT_TRUE(fixture.log->durability().isFlushed(last->refs[0]));
  EXPECT_TRUE(fixture.log->durability().isFlushed(old->end)) << "closing flushes";
}

TEST(Log, TheEndOfTheLogEndsThoseWhoWaitForFlushes) {
  LogFixture fixture;
  fixture.copies.setAutomatic(false);
  const auto appended = fixture.append("k", "v");
  FlushWaiter waiter;
  ASSERT_TRUE(fixture.log->durability().notifyFlushed(appended->end, waiter));
  fixture.log->fail(Status::Fenced);
  EXPECT_EQ(waiter.woken, Status::Fenced);
  FlushWaiter late;
  ASSERT_TRUE(fixture.log->durability().notifyFlushed(appended->end, late));
  EXPECT_EQ(late.woken, Status::Fenced);
}

TEST(Log, RequestedRollGivesHeadAboveEveryId) {
  LogFixture fixture;
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(fixture.append("k", std::string(1000, 'x')).ok());
  Segment* side = fixture.log->privateSegments().open(SegmentKind::Side);
  ASSERT_NE(side, nullptr);
  const SegmentId request = fixture.log->requestRoll();
  EXPECT_TRUE(fixture.log->isRolled(request));
  EXPECT_GT(fixture.log->headId(), side->id());
}

TEST(Log, WritesAreRefusedByLiveBytesAndRemovesGoOn) {
  LogFixture fixture;
  const std::string value(500, 'v');
  Status status = Status::Ok;
  int keys = 0;
  while (status == Status::Ok) {
    status = fixture.owner.put(*fixture.log, "key" + std::to_string(keys), value);
    if (status == Status::Ok) ++keys;
  }
  EXPECT_EQ(status, Status::NoSpace);
  EXPECT_GT(fixture.log->stats().refused_no_space.load(), 0u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(fixture.owner.remove(*fixture.log, "key" + std::to_string(i)), Status::Ok);
  EXPECT_EQ(fixture.owner.put(*fixture.log, "again", value), Status::Ok);
}

TEST(Log, ConcurrentAppendersKeepGroupsWhole) {
  LogConfig config = LogConfig::forTest();
  config.memory_bytes = 8u << 20;
  LogFixture fixture(config, false);
  constexpr int kThreads = 4;
  constexpr int kGroups = 400;
  std::atomic<int> appended_count{0};
  std::vector<std::thread> threads;
  std::vector<std::vector<EntryRef>> refs(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const std::string big(3000 + t, static_cast<char>('a' + t));
      const std::string small(30 + t, static_cast<char>('a' + t));
      for (int i = 0; i < kGroups; ++i) {
        const std::string key = "t" + std::to_string(t) + "." + std::to_string(i);
        const ByteSpan payload = asBytes(i % 5 == 0 ? big : small);
        std::array<EntryInput, 2> group;
        for (EntryInput& input : group) {
          input.key = asBytes(key);
          input.payload = std::span(&payload, 1);
          input.version = static_cast<Version>(i + 1);
        }
        auto appended = fixture.log->append(group, AppendClass::Write);
        while (appended.status() == Status::RetryLater) {
          std::this_thread::yield();
          appended = fixture.log->append(group, AppendClass::Write);
        }
        ASSERT_TRUE(appended.ok());
        refs[t].push_back(appended->refs[0]);
        refs[t].push_back(appended->refs[1]);
        appended_count.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(appended_count.load(), kThreads * kGroups);
  EXPECT_TRUE(fixture.log->durability().isDurable(fixture.log->heads().end()));
  int group_count = 0;
  for (uint32_t slot = 0; slot < fixture.log->pool().slotCount(); ++slot) {
    Segment& segment = fixture.log->pool().slot(slot);
    if (segment.state() == SegmentState::Free) continue;
    EXPECT_EQ(segment.committedBytes(), segment.cursor().offset);
    std::vector<std::byte> bytes(segment.committedBytes());
    segment.copyOut(0, segment.committedBytes(), bytes.data());
    SegmentReader reader(bytes);
    for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
      if (group[0].type() != EntryType::Object) continue;
      ++group_count;
      ASSERT_EQ(group.size(), 2u);
      EXPECT_EQ(asText(group[0].key()), asText(group[1].key()));
    }
    EXPECT_EQ(reader.end(), WalkEnd::Clean) << name(reader.error());
  }
  EXPECT_EQ(group_count, kThreads * kGroups);
}

// If there is no other head, the one that a pass waits for may be a small one, even if other threads request heads
// meanwhile.
TEST(Log, RollOfAPassFindsAHeadInAFullMemoryBesideOtherThreads) {
  for (int round = 0; round < 500 && !HasFailure(); ++round) {
    LogFixture fixture(LogConfig::forTest(), false);
    Log& log = *fixture.log;
    while (fixture.owner.put(log, "key", std::string(1000, 'x')) == Status::Ok) continue;
    ASSERT_FALSE(log.pool().mayHaveRoom(SegmentKind::Head));
    ASSERT_GT(log.pool().freeSmallHeadCount(), 0u);
    std::atomic<uint64_t> turns{0};
    std::atomic<bool> ended{false};
    std::thread other([&] {
      for (; !ended.load(); turns.fetch_add(1)) static_cast<void>(log.requestRoll());
    });
    while (turns.load() == 0) std::this_thread::yield();
    while (!HasFailure() && log.pool().freeSmallHeadCount() > 0) {
      const SegmentId roll = log.heads().requestRollForPass();
      // The other thread may be the one that opens the head, in its next turn but one.
      const uint64_t last = turns.load() + 1000;
      while (!log.isRolled(roll) && turns.load() < last) std::this_thread::yield();
      EXPECT_TRUE(log.isRolled(roll)) << "with " << log.pool().freeSmallHeadCount() << " small heads left";
    }
    ended = true;
    other.join();
  }
}

}  // namespace
}  // namespace ramcore::log
