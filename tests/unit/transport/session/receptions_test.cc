#include "transport/session/receptions.h"

#include <gtest/gtest.h>

#include <memory>

#include "transport/session/session_table.h"

namespace ramcore::transport {
namespace {

constexpr int64_t kPatienceNs = 100;

struct ReceivingReader {
  bool hasPart() const { return has_part; }
  uint64_t messageCount() const { return message_count; }
  uint64_t receivedBytes() const { return received_bytes; }
  bool has_part = true;
  uint64_t message_count = 0;
  uint64_t received_bytes = 0;
};

struct ReceivingSession {
  enum class State { Open, Lost };
  struct Channel {
    ReceivingReader reader;
  };
  SessionId id;
  State state = State::Open;
  std::unique_ptr<Channel> channel = std::make_unique<Channel>();
  Reception reception;
};

class ReceptionsTest : public testing::Test {
 protected:
  using Table = SessionTable<std::unique_ptr<ReceivingSession>>;

  ReceivingSession& begin(int64_t now_ns) {
    ReceivingSession& session = *table_.add([](SessionId id) {
      auto made = std::make_unique<ReceivingSession>();
      made->id = id;
      return made;
    });
    receptions_.note(session, now_ns);
    return session;
  }
  std::vector<uint32_t> overdueAt(int64_t now_ns, bool is_paused = false) {
    std::vector<uint32_t> overdue;
    receptions_.check(
        table_, now_ns, kPatienceNs, [&](const ReceivingSession&) { return is_paused; },
        [&](const ReceivingSession& session) { overdue.push_back(session.id.index); });
    return overdue;
  }

  Table table_;
  Receptions<Table> receptions_;
};

TEST_F(ReceptionsTest, APeerThatSendsNoMoreIsOverdue) {
  begin(1000);
  begin(1050);
  EXPECT_EQ(receptions_.nextNs(table_, kPatienceNs), 1100);
  EXPECT_EQ(overdueAt(1099), std::vector<uint32_t>{});
  EXPECT_EQ(overdueAt(1100), std::vector<uint32_t>{0});
  EXPECT_EQ(overdueAt(1150), (std::vector<uint32_t>{0, 1}));
}

TEST_F(ReceptionsTest, OnlyBytesEnoughAreProgress) {
  ReceivingReader& reader = begin(1000).channel->reader;
  reader.received_bytes = Progress::kProgressBytesMin - 1;
  EXPECT_EQ(overdueAt(1100), std::vector<uint32_t>{0});
  reader.received_bytes = Progress::kProgressBytesMin;
  EXPECT_EQ(overdueAt(1110), std::vector<uint32_t>{});
  EXPECT_EQ(receptions_.nextNs(table_, kPatienceNs), 1210);
}

TEST_F(ReceptionsTest, AnotherMessageHasItsOwnTime) {
  ReceivingReader& reader = begin(1000).channel->reader;
  reader.message_count = 1;
  EXPECT_EQ(overdueAt(1100), std::vector<uint32_t>{});
  EXPECT_EQ(overdueAt(1200), std::vector<uint32_t>{0});
}

TEST_F(ReceptionsTest, APeerThatIsNotReadFromIsNotBlamed) {
  begin(1000);
  EXPECT_EQ(overdueAt(1100, true), std::vector<uint32_t>{});
  EXPECT_EQ(overdueAt(1199), std::vector<uint32_t>{});
  EXPECT_EQ(overdueAt(1200), std::vector<uint32_t>{0});
}

TEST_F(ReceptionsTest, WhatIsWholeOrClosedIsForgotten) {
  ReceivingSession& whole = begin(1000);
  begin(1000).state = ReceivingSession::State::Lost;
  whole.channel->reader.has_part = false;
  EXPECT_FALSE(receptions_.empty());
  EXPECT_EQ(overdueAt(1100), std::vector<uint32_t>{});
  EXPECT_TRUE(receptions_.empty());
  EXPECT_EQ(receptions_.nextNs(table_, kPatienceNs), runtime::kNever);
  whole.channel->reader.has_part = true;
  receptions_.note(whole, 1200);
  receptions_.note(whole, 1250);
  EXPECT_EQ(overdueAt(1300), std::vector<uint32_t>{0}) << "once, since it began";
}

}  // namespace
}  // namespace ramcore::transport
