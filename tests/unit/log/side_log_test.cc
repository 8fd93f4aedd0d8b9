#include "log/side_log.h"

#include <gtest/gtest.h>

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

// What it takes over may be what fills the storage.
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
    // Every other one was the first of a group where it comes from: here it stands alone.
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
  // What cleaning needs is still there.
  EXPECT_GE(fixture.log->pool().freeBytes() + fixture.config.extentBytesMin(), fixture.config.survivorReserveBytes());
  side.abandon();
}

}  // namespace
}  // namespace ramcore::log
