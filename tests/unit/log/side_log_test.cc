#include "log/side_log.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/log/log_fixture.h"

namespace ramcore::log {
namespace {

Status put(SideLog& side, const std::string& key, const std::string& value, Version version) {
  const ByteSpan payload = asBytes(value);
  EntryInput input;
  input.version = version;
  input.key = asBytes(key);
  input.payload = std::span(&payload, 1);
  return side.append(std::span(&input, 1), AppendClass::Write).status();
}

TEST(SideLog, JoinsAtOneInstant) {
  LogFixture fixture;
  SideLog side(*fixture.log, fixture.copies);
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 200; ++i) {
    const std::string key = "key" + std::to_string(i);
    ASSERT_EQ(put(side, key, std::string(1000, 'x'), 1), Status::Ok);
    expected[key] = std::string(1000, 'x');
  }
  EXPECT_TRUE(recover(fixture.copies.replicas())->empty());
  side.close();
  ASSERT_TRUE(side.isClosed());
  EXPECT_TRUE(recover(fixture.copies.replicas())->empty());
  fixture.copies.setAutomatic(false);
  side.join();
  EXPECT_FALSE(side.isJoined());
  EXPECT_TRUE(recover(fixture.copies.replicas())->empty());
  fixture.copies.deliverOpens();
  EXPECT_TRUE(recover(fixture.copies.replicas()) == expected);
  EXPECT_FALSE(side.isJoined());
  fixture.copies.deliver();
  EXPECT_TRUE(side.isJoined());
  EXPECT_TRUE(recover(fixture.copies.replicas()) == expected);
}

// The replicas of the log from which a side log takes tablets over may be what fills the storage.
TEST(SideLog, JoinsByASmallHeadWhereWritesFindNoPlace) {
  LogFixture fixture;
  std::map<std::string, std::string> expected;
  SideLog side(*fixture.log, fixture.copies);
  for (int i = 0; i < 20; ++i) {
    const std::string key = "key" + std::to_string(i);
    ASSERT_EQ(put(side, key, std::string(1000, 'x'), 1), Status::Ok);
    expected[key] = std::string(1000, 'x');
  }
  fixture.copies.setPlaces(fixture.copies.replicas().size() + 4);
  side.close();
  side.join();
  for (int i = 0; i < 3; ++i) fixture.log->maintain();
  EXPECT_TRUE(fixture.copies.isShortOfPlaces());
  EXPECT_TRUE(side.isJoined());
  EXPECT_TRUE(recover(fixture.copies.replicas()) == expected);
  EXPECT_EQ(fixture.log->stats().small_heads_opened.load(), 1u);
}

// Nothing of a side log can be cleaned before it has joined, so nothing else gives memory back here.
TEST(SideLog, JoinsByASmallHeadWhereItHasTakenTheMemoryOfAHead) {
  LogFixture fixture;
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 500; ++i) ASSERT_EQ(fixture.owner.put(*fixture.log, "key", std::string(1000, 'x')), Status::Ok);
  expected["key"] = std::string(1000, 'x');
  SideLog side(*fixture.log, fixture.copies);
  for (int i = 0;; ++i) {
    const std::string key = "taken over " + std::to_string(i);
    if (put(side, key, std::string(1000, 'y'), 1) != Status::Ok) break;
    expected[key] = std::string(1000, 'y');
  }
  ASSERT_GT(expected.size(), 100u);
  ASSERT_FALSE(fixture.log->pool().mayHaveRoom(SegmentKind::Head));
  side.close();
  side.join();
  for (int i = 0; i < 3; ++i) fixture.log->maintain();
  EXPECT_FALSE(fixture.copies.isShortOfPlaces());
  EXPECT_TRUE(side.isJoined());
  EXPECT_TRUE(recover(fixture.copies.replicas()) == expected);
  EXPECT_EQ(fixture.log->stats().small_heads_opened.load(), 1u);
}

// After that no head that lists the side log may be opened, and nothing may wait for a head that is not wanted any
// more.
TEST(SideLog, IsTakenBackWhileItsHeadFindsNoPlaces) {
  LogFixture fixture;
  ASSERT_EQ(fixture.owner.put(*fixture.log, "other", "value"), Status::Ok);
  const auto before = *recover(fixture.copies.replicas());
  const uint64_t free_bytes = fixture.log->pool().freeBytes();
  SideLog side(*fixture.log, fixture.copies);
  for (int i = 0; i < 150; ++i) {
    ASSERT_EQ(put(side, "key" + std::to_string(i), std::string(1000, 'x'), 1), Status::Ok);
  }
  side.close();
  ASSERT_TRUE(side.isClosed());
  fixture.copies.setAutomatic(false);
  side.join();
  EXPECT_FALSE(side.takeBack()) << "the head is asked to go";
  EXPECT_TRUE(side.takeBack());
  side.abandon();
  fixture.copies.setAutomatic(true);
  fixture.copies.deliver();
  for (int i = 0; i < 3; ++i) fixture.reclaim();
  EXPECT_EQ(fixture.log->pool().freeBytes(), free_bytes);
  EXPECT_EQ(*recover(fixture.copies.replicas()), before);
  EXPECT_TRUE(fixture.log->isRolled(fixture.log->requestRoll()));
  EXPECT_EQ(*recover(fixture.copies.replicas()), before);
}

// In a full memory the head waits for memory that the cleaner gains from the side log.
TEST(SideLog, StaysWhenTheCleanerMayHaveBegunWithIt) {
  LogFixture fixture;
  SideLog side(*fixture.log, fixture.copies);
  ASSERT_EQ(put(side, "key", "value", 1), Status::Ok);
  side.close();
  fixture.reclaim();
  fixture.copies.setAutomatic(false);
  side.join();
  const auto cleanable = [&] {
    std::vector<Segment*> segments;
    fixture.log->listCleanable(segments);
    return segments.size();
  };
  fixture.copies.setShort(true);
  EXPECT_EQ(cleanable(), 0u) << "what may be taken back";
  fixture.copies.setShort(false);
  EXPECT_EQ(cleanable(), 1u);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(side.takeBack());
  fixture.copies.setAutomatic(true);
  fixture.copies.deliver();
  EXPECT_TRUE(side.isJoined());
  EXPECT_EQ(recover(fixture.copies.replicas())->size(), 1u);
}

// The cleaner has copied what is alive in the side log's segment, and another segment has its slot.
TEST(SideLog, StaysWhenTheCleanerHasPutAnotherSegmentInItsPlace) {
  LogFixture fixture;
  SideLog side(*fixture.log, fixture.copies);
  ASSERT_EQ(put(side, "key", "value", 1), Status::Ok);
  side.close();
  fixture.reclaim();
  fixture.copies.setAutomatic(false);
  side.join();
  std::vector<Segment*> cleanable;
  fixture.log->listCleanable(cleanable);
  ASSERT_EQ(cleanable.size(), 1u);
  Segment& original = *cleanable[0];
  Segment* const copy = fixture.log->copies().open(original, 1024);
  ASSERT_NE(copy, nullptr);
  fixture.log->copies().finish(*copy);
  fixture.log->copies().replace(original, *copy);
  for (int i = 0; i < 3; ++i) fixture.reclaim();
  SideLog other(*fixture.log, fixture.copies);
  ASSERT_EQ(put(other, "other", "value", 1), Status::Ok);
  ASSERT_EQ(fixture.log->pool().slot(original.slot()).state(), SegmentState::Open) << "it is the other one's";
  fixture.copies.setShort(true);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(side.takeBack());
  fixture.copies.setShort(false);
  fixture.copies.setAutomatic(true);
  fixture.copies.deliver();
  EXPECT_TRUE(side.isJoined());
  other.close();
  other.join();
  EXPECT_TRUE(recover(fixture.copies.replicas())->contains("other"));
}

// A side log that comes too late to be taken back must not let a head be opened that lists another one, which is being
// taken back.
void expectLateOneLeavesTheOtherAlone(LogFixture& fixture, bool ask_for_the_same_head) {
  SideLog one(*fixture.log, fixture.copies);
  SideLog other(*fixture.log, fixture.copies);
  ASSERT_EQ(put(one, "one", "value", 1), Status::Ok);
  ASSERT_EQ(put(other, "other", "value", 1), Status::Ok);
  one.close();
  other.close();
  fixture.reclaim();
  fixture.copies.setAutomatic(false);
  // With a head on its way neither of them begins one, so both ask for the same id.
  if (ask_for_the_same_head) fixture.log->requestRoll();
  one.join();
  const SegmentId head(std::stoull(fixture.copies.order().back().substr(5)));
  std::vector<Segment*> cleanable;
  fixture.log->listCleanable(cleanable);
  ASSERT_EQ(cleanable.size(), 1u) << "the first one stays";
  other.join();
  fixture.copies.withdraw(head);  // the next one lists both
  EXPECT_FALSE(one.takeBack());
  EXPECT_FALSE(other.takeBack()) << "that one is asked to go";
  EXPECT_FALSE(one.takeBack());
  EXPECT_TRUE(other.takeBack());
  other.abandon();
  fixture.copies.setAutomatic(true);
  fixture.copies.deliver();
  EXPECT_TRUE(one.isJoined());
}

TEST(SideLog, OneThatStaysLeavesTheOthersTakingBackAlone) {
  LogFixture fixture;
  expectLateOneLeavesTheOtherAlone(fixture, false);
}

TEST(SideLog, OneThatStaysLeavesTheTakingBackOfAnotherOneAloneThatAskedForTheSame) {
  LogFixture fixture;
  expectLateOneLeavesTheOtherAlone(fixture, true);
}

// The replicator is told of a head before it is told that the head is not wanted any more.
TEST(SideLog, AHeadIsWithdrawnAfterItWasOpened) {
  LogFixture fixture;
  ASSERT_EQ(fixture.owner.put(*fixture.log, "other", "value"), Status::Ok);
  const SegmentId request(fixture.log->headId().value + 1);
  fixture.copies.setAutomatic(false);
  fixture.copies.before_open = [&] { fixture.log->cancelHeadToJoin(request); };
  ASSERT_EQ(fixture.log->requestHeadToJoin(), request);
  const std::vector<std::string>& order = fixture.copies.order();
  const std::string head = std::to_string(request.value);
  const auto opened = std::ranges::find(order, "open " + head);
  const auto withdrawn = std::ranges::find(order, "withdraw " + head);
  ASSERT_TRUE(opened != order.end() && withdrawn != order.end());
  EXPECT_LT(opened, withdrawn);
}

TEST(SideLog, JoinsAgainAfterItWasTakenBack) {
  LogFixture fixture;
  SideLog side(*fixture.log, fixture.copies);
  ASSERT_EQ(put(side, "key", "value", 1), Status::Ok);
  side.close();
  fixture.copies.setAutomatic(false);
  side.join();
  static_cast<void>(side.takeBack());
  ASSERT_TRUE(side.takeBack());
  fixture.copies.setAutomatic(true);
  side.join();
  fixture.copies.deliver();
  EXPECT_TRUE(side.isJoined());
  EXPECT_FALSE(side.takeBack()) << "too late";
  EXPECT_EQ(recover(fixture.copies.replicas())->size(), 1u);
}

// Two join at the same time, with the same head.
TEST(SideLog, TakingOneBackLeavesTheOthersHeadWanted) {
  LogFixture fixture;
  SideLog one(*fixture.log, fixture.copies);
  SideLog other(*fixture.log, fixture.copies);
  ASSERT_EQ(put(one, "one", "value", 1), Status::Ok);
  ASSERT_EQ(put(other, "other", "value", 1), Status::Ok);
  one.close();
  other.close();
  fixture.copies.setAutomatic(false);
  one.join();
  other.join();
  static_cast<void>(one.takeBack());
  ASSERT_TRUE(one.takeBack());
  one.abandon();
  fixture.copies.setAutomatic(true);
  fixture.copies.deliver();
  EXPECT_TRUE(other.isJoined());
  const auto found = recover(fixture.copies.replicas());
  EXPECT_TRUE(found->size() == 1 && found->contains("other"));
}

// The head that is on its way lists one side log and not the other.
TEST(SideLog, WhatNoHeadListsYetIsTakenBackAtOnce) {
  LogFixture fixture;
  SideLog one(*fixture.log, fixture.copies);
  SideLog other(*fixture.log, fixture.copies);
  ASSERT_EQ(put(one, "one", "value", 1), Status::Ok);
  ASSERT_EQ(put(other, "other", "value", 1), Status::Ok);
  one.close();
  other.close();
  fixture.copies.setAutomatic(false);
  one.join();
  other.join();
  EXPECT_TRUE(other.takeBack());
  other.abandon();
  fixture.copies.setAutomatic(true);
  fixture.copies.deliver();
  EXPECT_TRUE(one.isJoined());
  const auto found = recover(fixture.copies.replicas());
  EXPECT_TRUE(found->size() == 1 && found->contains("one"));
}

// The head with which it joins is open somewhere: a recovery may choose that head, though nothing is acknowledged in it
// yet.
TEST(SideLog, StaysWhenItsHeadIsOpen) {
  LogFixture fixture;
  SideLog side(*fixture.log, fixture.copies);
  ASSERT_EQ(put(side, "key", "value", 1), Status::Ok);
  side.close();
  fixture.copies.setAutomatic(false);
  side.join();
  fixture.copies.deliverOpens();
  EXPECT_FALSE(side.isJoined());
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(side.takeBack());
  fixture.copies.setAutomatic(true);
  fixture.copies.deliver();
  EXPECT_TRUE(side.isJoined());
  EXPECT_EQ(recover(fixture.copies.replicas())->size(), 1u);
  EXPECT_TRUE(fixture.log->isRolled(fixture.log->requestRoll()));
}

// As long as there is no head at all, another one is tried after each that is withdrawn. A request can be given up
// without waiting for a moment at which none is being tried.
TEST(SideLog, TheRequestOfAHeadIsGivenUpAtOnceAlsoWhereThereIsNoneYet) {
  const LogConfig config = LogConfig::forTest();
  const std::unique_ptr<LogMemory> memory = LogMemory::open(config.memory_bytes).value();
  MapOwner owner(*memory);
  CopyingReplicator copies;
  copies.setAutomatic(false);
  runtime::SimRcu rcu;
  runtime::PinRegistry pins{4};
  Log log(config, {ClusterId(7), ServerId(11)}, *memory, {owner, copies, rcu, pins});
  log.maintain();
  copies.setShort(true);
  const SegmentId request = log.requestHeadToJoin();
  for (int i = 0; i < 3; ++i) log.maintain();
  ASSERT_EQ(copies.order().back(), "open " + std::to_string(request.value)) << "a small one in the place of the first";
  log.cancelHeadToJoin(request);
  copies.setAutomatic(true);
  copies.deliver();
  log.maintain();
  EXPECT_TRUE(log.headId()) << "it is opened when it can be";
}

TEST(SideLog, AHeadThatHoldsNothingIsNewEnoughToJoinBehind) {
  LogFixture fixture;
  const SegmentId first = fixture.log->headId();
  EXPECT_EQ(fixture.log->requestHeadToJoin(), first);
  EXPECT_EQ(fixture.log->headId(), first);
  ASSERT_EQ(fixture.owner.put(*fixture.log, "key", "value"), Status::Ok);
  const SegmentId second = fixture.log->requestHeadToJoin();
  EXPECT_GT(second, first);
  EXPECT_TRUE(fixture.log->isRolled(second));
  // Entries in the side log of an earlier attempt would be replayed as if they were of this one, so a newer head is
  // needed.
  SideLog side(*fixture.log, fixture.copies);
  ASSERT_EQ(put(side, "side", "value", 1), Status::Ok);
  const SegmentId third = fixture.log->requestHeadToJoin();
  EXPECT_GT(third, second);
  side.abandon();
  EXPECT_EQ(fixture.log->requestHeadToJoin(), third);
}

TEST(SideLog, CopiesEntriesAsTheyAre) {
  LogFixture fixture;
  SideLog side(*fixture.log, fixture.copies);
  std::vector<std::byte> bytes(4096);
  std::map<std::string, std::string> expected;
  int64_t live = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string key = "key" + std::to_string(i);
    const std::string value(static_cast<size_t>(i * 5), 'x');
    const ByteSpan payload = asBytes(value);
    EntryInput input;
    input.version = 7;
    input.key = asBytes(key);
    input.payload = std::span(&payload, 1);
    // Every other entry was the first of a group in the log that it comes from; in the side log it is a group of its
    // own.
    writeEntry(bytes.data(), input, i % 2 == 0, {});
    const auto copied = side.copy(EntryView(bytes.data()), AppendClass::Write);
    ASSERT_TRUE(copied.ok());
    const EntryView view = fixture.log->view(*copied);
    EXPECT_TRUE(view.verify());
    EXPECT_FALSE(view.groupContinues());
    EXPECT_EQ(asText(view.payload()), value);
    live += view.alignedBytes();
    expected[key] = value;
    if (i % 16 == 0) side.settle();
  }
  EXPECT_LT(fixture.log->stats().live_bytes.load(), live);
  side.settle();
  EXPECT_EQ(fixture.log->stats().live_bytes.load(), live);
  side.close();
  side.join();
  EXPECT_TRUE(side.isJoined());
  EXPECT_TRUE(recover(fixture.copies.replicas()) == expected);
}

TEST(SideLog, LeftBehindIsNotRecovered) {
  LogFixture fixture;
  {
    SideLog side(*fixture.log, fixture.copies);
    ASSERT_EQ(put(side, "key", "value", 1), Status::Ok);
    side.leave();
  }
  EXPECT_TRUE(recover(fixture.copies.replicas())->empty());
}

TEST(SideLog, AbandonGivesEverythingBack) {
  LogFixture fixture;
  const uint64_t free_bytes = fixture.log->pool().freeBytes();
  SideLog side(*fixture.log, fixture.copies);
  for (int i = 0; i < 150; ++i) ASSERT_EQ(put(side, "key", std::string(1000, 'x'), 1), Status::Ok);
  EXPECT_LT(fixture.log->pool().freeBytes(), free_bytes);
  side.abandon();
  for (int i = 0; i < 3; ++i) fixture.reclaim();
  EXPECT_EQ(fixture.log->pool().freeBytes(), free_bytes);
  EXPECT_EQ(fixture.log->stats().live_bytes.load(), 0);
}

TEST(SideLog, EndsWhenMemoryDoes) {
  LogFixture fixture;
  SideLog side(*fixture.log, fixture.copies);
  Status status = Status::Ok;
  int count = 0;
  for (; status == Status::Ok; ++count) status = put(side, "key" + std::to_string(count), std::string(1000, 'x'), 1);
  EXPECT_TRUE(status == Status::RetryLater || status == Status::NoSpace);
  EXPECT_GT(count, 300);
  // The reserve that cleaning needs is still there.
  EXPECT_GE(fixture.log->pool().freeBytes() + fixture.config.extentBytesMin(), fixture.config.survivorReserveBytes());
  side.abandon();
}

}  // namespace
}  // namespace ramcore::log
