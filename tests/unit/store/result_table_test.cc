#include "store/result_table.h"

#include <gtest/gtest.h>

#include "runtime/pins.h"
#include "runtime/sim/sim_epoch.h"

namespace ramcore::store {
namespace {

using Verdict = ResultTable::Verdict;

/// The owner of a log that has result records only. The tests ask the table itself about them.
class NoOwner final : public log::EntryOwner {
 public:
  Moved relocated(log::EntryRef, log::EntryRef, const log::EntryView&, Hint) override { return Moved::No; }
  void dropped(log::EntryRef, const log::EntryView&) override {}
  log::SafeVersionPayload safeVersion() override { return {}; }
};

class ResultTableTest : public ::testing::Test {
 protected:
  ResultTableTest() {
    log_.maintain();
    results_.connect(log_);
  }
  ~ResultTableTest() override { rcu_.drain(); }

  static wire::CallIdentity identity(uint64_t client, uint64_t sequence, uint64_t acknowledged = 0) {
    return {ClientId(client), Sequence(sequence), Sequence(acknowledged)};
  }
  log::EntryRef appendRecord() {
    const log::ResultRecordPayload payload{};
    const std::array<ByteSpan, 1> pieces = {bytesOf(payload)};
    const std::array<log::EntryInput, 1> group = {log::EntryInput{
        .type = log::EntryType::ResultRecord, .table = TableId(1), .version = 1, .key = {}, .payload = pieces}};
    auto appended = log_.append(group, log::AppendClass::Write);
    EXPECT_TRUE(appended.ok());
    return appended->refs[0];
  }
  log::EntryRef insert(const wire::CallIdentity& call, Version version, KeyHash hash = 7, uint32_t table = 1) {
    const log::EntryRef record = appendRecord();
    results_.insert(call,
                    {.opcode = wire::Opcode::Write, .version = version, .table = TableId(table), .key_hash = hash},
                    record, false);
    return record;
  }
  /// Takes a result as a move brings it.
  log::EntryRef take(const wire::CallIdentity& call, Version version, KeyHash hash = 7, uint32_t table = 1) {
    const log::EntryRef record = appendRecord();
    results_.take(call, {.opcode = wire::Opcode::Write, .version = version, .table = TableId(table), .key_hash = hash},
                  record);
    return record;
  }
  Verdict verdict(const wire::CallIdentity& call) { return results_.find(call).verdict; }
  int64_t liveBytes() const { return log_.stats().live_bytes.load(); }

  log::LogConfig config_ = log::LogConfig::forTest();
  runtime::SimRcu rcu_;
  runtime::PinRegistry pins_{1};
  NoOwner owner_;
  log::NoReplicator replicator_;
  std::unique_ptr<log::LogMemory> memory_ = std::move(log::LogMemory::open(config_.memory_bytes)).value();
  log::Log log_{config_, {ClusterId(1), ServerId(2)}, *memory_, {owner_, replicator_, rcu_, pins_}};
  ResultTable results_;
};

TEST_F(ResultTableTest, AnUnknownClientIsAskedAbout) {
  EXPECT_EQ(verdict(identity(1, 1)), Verdict::UnknownClient);
  results_.admit(ClientId(1), 100);
  EXPECT_EQ(verdict(identity(1, 1)), Verdict::New);
  EXPECT_EQ(verdict(identity(2, 1)), Verdict::UnknownClient);
  EXPECT_EQ(results_.clientCount(), 1u);
}

TEST_F(ResultTableTest, ARepeatedCallGetsItsResultAgain) {
  results_.admit(ClientId(1), 0);
  const log::EntryRef record = insert(identity(1, 5), 42);
  for (int i = 0; i < 3; ++i) {
    const auto known = results_.find(identity(1, 5));
    EXPECT_EQ(known.verdict, Verdict::Duplicate);
    EXPECT_EQ(known.result.version, 42u);
    EXPECT_EQ(known.record, record);
  }
  EXPECT_EQ(verdict(identity(1, 6)), Verdict::New);
  EXPECT_EQ(verdict(identity(1, 4)), Verdict::New) << "calls arrive in any order";
}

TEST_F(ResultTableTest, WhatIsAcknowledgedIsForgottenAndRefused) {
  results_.admit(ClientId(1), 0);
  const int64_t before = liveBytes();
  for (uint64_t sequence = 1; sequence <= 4; ++sequence) insert(identity(1, sequence), sequence);
  EXPECT_EQ(results_.recordCount(), 4u);
  EXPECT_EQ(verdict(identity(1, 5, 3)), Verdict::New);
  EXPECT_EQ(results_.recordCount(), 1u);
  EXPECT_EQ(verdict(identity(1, 3)), Verdict::Stale);
  EXPECT_EQ(verdict(identity(1, 1, 0)), Verdict::Stale) << "acknowledgements never go back";
  EXPECT_EQ(verdict(identity(1, 4, 3)), Verdict::Duplicate);
  EXPECT_EQ(verdict(identity(1, 4, 4)), Verdict::Stale) << "a call that acknowledges itself";
  EXPECT_EQ(liveBytes(), before) << "the log is told";
}

TEST_F(ResultTableTest, WhatIsAcknowledgedToTheCoordinatorIsForgottenAndRefused) {
  results_.admit(ClientId(1), 0);
  const int64_t before = liveBytes();
  for (uint64_t sequence = 1; sequence <= 4; ++sequence) insert(identity(1, sequence), sequence);
  results_.heard(ClientId(1), 10, Sequence(3));
  EXPECT_EQ(results_.recordCount(), 1u);
  EXPECT_EQ(verdict(identity(1, 3)), Verdict::Stale);
  EXPECT_EQ(verdict(identity(1, 4)), Verdict::Duplicate) << "it is not acknowledged";
  results_.heard(ClientId(1), 20, Sequence(2));
  results_.heard(ClientId(1), 30);
  EXPECT_EQ(verdict(identity(1, 3)), Verdict::Stale) << "acknowledgements never go back";
  results_.heard(ClientId(1), 40, Sequence(4));
  EXPECT_EQ(liveBytes(), before) << "the log is told";
}

// The records that tell what the client has acknowledged may have been dropped before the server died: then only the
// coordinator knows it.
TEST_F(ResultTableTest, AfterARecoveryALateAttemptOfAnAcknowledgedCallIsRefused) {
  take(identity(1, 9, 2), 9);
  EXPECT_EQ(verdict(identity(1, 9, 2)), Verdict::Duplicate);
  EXPECT_EQ(verdict(identity(1, 5)), Verdict::UnknownClient) << "nothing runs before the coordinator was asked";
  results_.admit(ClientId(1), 100, Sequence(8));
  EXPECT_EQ(verdict(identity(1, 5)), Verdict::Stale);
  EXPECT_EQ(verdict(identity(1, 9, 2)), Verdict::Duplicate);
  EXPECT_EQ(verdict(identity(1, 10, 8)), Verdict::New);
  // The recovery brings these results later.
  const int64_t before = liveBytes();
  take(identity(1, 7, 2), 7);
  EXPECT_EQ(liveBytes(), before);
  EXPECT_EQ(verdict(identity(1, 7, 2)), Verdict::Stale);
}

TEST_F(ResultTableTest, ClientsOfWhoseCallsNothingIsKeptNeedNotBeAskedAbout) {
  for (uint64_t client = 1; client <= 3; ++client) results_.admit(ClientId(client), 0);
  insert(identity(2, 1), 1);
  EXPECT_EQ(results_.silentSince(10, ClientId(), 10, true), std::vector<ClientId>{ClientId(2)});
  EXPECT_EQ(results_.silentSince(10, ClientId(), 10).size(), 3u);
  EXPECT_TRUE(results_.silentSince(0, ClientId(), 10, true).empty());
}

TEST_F(ResultTableTest, ARecordThatComesAfterItsAcknowledgementIsDead) {
  results_.admit(ClientId(1), 0);
  EXPECT_EQ(verdict(identity(1, 9, 5)), Verdict::New);
  const int64_t before = liveBytes();
  insert(identity(1, 5), 1);
  EXPECT_EQ(results_.recordCount(), 0u);
  EXPECT_EQ(liveBytes(), before);
}

TEST_F(ResultTableTest, AMoveBringsClientsAndReplacesWhatIsHere) {
  const log::EntryRef first = take(identity(1, 5), 42);
  EXPECT_EQ(verdict(identity(1, 5)), Verdict::Duplicate);
  EXPECT_EQ(verdict(identity(1, 6)), Verdict::UnknownClient) << "its lease may be over: only results are answered";
  const int64_t before = liveBytes();
  const log::EntryRef second = take(identity(1, 5), 42);
  EXPECT_EQ(liveBytes(), before);
  EXPECT_FALSE(results_.isLive(ClientId(1), Sequence(5), first));
  EXPECT_TRUE(results_.isLive(ClientId(1), Sequence(5), second));
  EXPECT_EQ(results_.recordCount(), 1u);
}

TEST_F(ResultTableTest, ForgettingAClientTakesEverything) {
  const int64_t before = liveBytes();
  take(identity(1, 1), 1);
  take(identity(1, 2), 2);
  take(identity(17, 1), 3);  // the same shard
  results_.forget(ClientId(1), 10);
  results_.forget(ClientId(99), 10);
  EXPECT_EQ(verdict(identity(1, 1)), Verdict::UnknownClient);
  EXPECT_EQ(verdict(identity(17, 1)), Verdict::Duplicate);
  EXPECT_EQ(results_.recordCount(), 1u);
  results_.forget(ClientId(17), 10);
  EXPECT_EQ(liveBytes(), before);
}

TEST_F(ResultTableTest, AResultOfAClientThatWasForgottenMeanwhileIsDead) {
  results_.admit(ClientId(1), 0);
  EXPECT_EQ(verdict(identity(1, 1)), Verdict::New);
  results_.forget(ClientId(1), 10);
  const int64_t before = liveBytes();
  insert(identity(1, 1), 1);
  EXPECT_EQ(results_.clientCount(), 0u);
  EXPECT_EQ(liveBytes(), before);
}

// Answers overtake each other: this one was given before the client's lease ended.
TEST_F(ResultTableTest, AClientWhoseLeaseIsOverIsNotAdmittedByALateAnswer) {
  EXPECT_TRUE(results_.admit(ClientId(1), 100));
  results_.forget(ClientId(1), 200);
  EXPECT_FALSE(results_.admit(ClientId(1), 150));
  EXPECT_FALSE(results_.admit(ClientId(1), 200));
  EXPECT_EQ(verdict(identity(1, 1)), Verdict::UnknownClient);
  // The client has come back with a move. A late answer does not admit it either.
  take(identity(1, 5), 42);
  results_.heard(ClientId(1), 150);
  EXPECT_EQ(verdict(identity(1, 6)), Verdict::UnknownClient);
  EXPECT_TRUE(results_.admit(ClientId(1), 201));
  EXPECT_EQ(verdict(identity(1, 6)), Verdict::New);
}

TEST_F(ResultTableTest, OneClientCannotPinMoreThanItsShare) {
  results_.admit(ClientId(1), 0);
  results_.admit(ClientId(2), 0);
  // All results share one record: the test is about their number only.
  const log::EntryRef record = appendRecord();
  constexpr uint64_t kMax = ResultTable::kResultsPerClientMax;
  for (uint64_t sequence = 1; sequence <= kMax; ++sequence) results_.insert(identity(1, sequence), {}, record, false);
  EXPECT_EQ(verdict(identity(1, kMax + 1)), Verdict::TooMany);
  EXPECT_EQ(verdict(identity(1, kMax)), Verdict::Duplicate);
  EXPECT_EQ(verdict(identity(2, 1)), Verdict::New);
  EXPECT_EQ(verdict(identity(1, kMax + 1, 1)), Verdict::New) << "one is acknowledged";
}

TEST_F(ResultTableTest, SilentClientsInOrder) {
  results_.admit(ClientId(3), 100);
  results_.admit(ClientId(1), 200);
  results_.admit(ClientId(18), 300);
  EXPECT_EQ(results_.silentSince(100, ClientId(), 10), std::vector<ClientId>{});
  EXPECT_EQ(results_.silentSince(201, ClientId(), 10), (std::vector<ClientId>{ClientId(1), ClientId(3)}));
  EXPECT_EQ(results_.silentSince(1000, ClientId(), 2), (std::vector<ClientId>{ClientId(1), ClientId(3)}));
  EXPECT_EQ(results_.silentSince(1000, ClientId(1), 1), std::vector<ClientId>{ClientId(3)});
  results_.heard(ClientId(1), 5000);
  results_.heard(ClientId(1), 50);   // late news
  results_.heard(ClientId(77), 50);  // an unknown client
  EXPECT_EQ(results_.silentSince(1000, ClientId(), 10), (std::vector<ClientId>{ClientId(3), ClientId(18)}));
  EXPECT_EQ(results_.clientCount(), 3u);
}

TEST_F(ResultTableTest, RelocationMovesOnlyWhatItFound) {
  const log::EntryRef first = take(identity(1, 1), 1);
  const log::EntryRef copy = appendRecord();
  EXPECT_TRUE(results_.relocated(ClientId(1), Sequence(1), first, copy));
  EXPECT_TRUE(results_.isLive(ClientId(1), Sequence(1), copy));
  EXPECT_FALSE(results_.isLive(ClientId(1), Sequence(1), first));
  EXPECT_FALSE(results_.relocated(ClientId(1), Sequence(1), first, copy)) << "moved already";
  EXPECT_FALSE(results_.relocated(ClientId(1), Sequence(2), first, copy));
  EXPECT_FALSE(results_.relocated(ClientId(2), Sequence(1), first, copy));
  results_.admit(ClientId(1), 0);
  EXPECT_EQ(verdict(identity(1, 2, 1)), Verdict::New);
  EXPECT_FALSE(results_.relocated(ClientId(1), Sequence(1), copy, first)) << "died meanwhile";
}

TEST_F(ResultTableTest, RecordsOfALogComeInAnyOrderAndTwice) {
  EXPECT_TRUE(results_.isAwaited(identity(1, 5, 3)));
  const auto newest = take(identity(1, 5, 3), 50);
  EXPECT_FALSE(results_.isAwaited(identity(1, 3, 1))) << "acknowledged by a record that came before";
  EXPECT_TRUE(results_.isAwaited(identity(1, 4, 1)));
  take(identity(1, 4, 1), 40);
  EXPECT_EQ(results_.recordCount(), 2u);
  const auto copy = take(identity(1, 5, 3), 50);
  EXPECT_EQ(results_.recordCount(), 2u) << "counted once";
  EXPECT_FALSE(results_.isLive(ClientId(1), Sequence(5), newest));
  EXPECT_TRUE(results_.isLive(ClientId(1), Sequence(5), copy));
  EXPECT_TRUE(results_.isAwaited(identity(1, 9, 5)));
  EXPECT_EQ(results_.recordCount(), 0u);
}

TEST_F(ResultTableTest, RangesForMovesAreOrderedAndDropped) {
  take(identity(2, 1), 1, 50);
  take(identity(1, 2), 2, 20);
  take(identity(1, 1), 3, 20);
  take(identity(1, 3), 4, 10, 2);
  take(identity(3, 1), 5, 60);
  const auto records = results_.inRange(TableId(1), {20, 50});
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].result.version, 3u);
  EXPECT_EQ(records[1].result.version, 2u);
  EXPECT_EQ(records[2].result.version, 1u);
  results_.dropRange(TableId(1), {20, 50}, [](KeyHash hash) { return hash == 50; });
  ASSERT_EQ(results_.inRange(TableId(1), {20, 50}).size(), 1u) << "what is here again stays";
  results_.dropRange(TableId(1), {20, 50}, [](KeyHash) { return false; });
  EXPECT_TRUE(results_.inRange(TableId(1), {20, 50}).empty());
  EXPECT_EQ(results_.recordCount(), 2u);
  EXPECT_EQ(results_.clientCount(), 3u) << "clients stay known";
  EXPECT_EQ(verdict(identity(3, 1)), Verdict::Duplicate);
}

}  // namespace
}  // namespace ramcore::store
