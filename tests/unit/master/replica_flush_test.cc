/// Flushes of the copies of a log, for those who wait for them.

#include <gtest/gtest.h>

#include "unit/master/replica_fixture.h"

namespace ramcore::master {
namespace {

using Mode = ScriptedBackup::Mode;
constexpr int64_t kMilli = runtime::kNanosPerMilli;

class ReplicaFlushTest : public ReplicaTest {
 protected:
  void want(LogPosition position) {
    server_.onDispatch([&] { log_->requestFlush(position); });
  }
  /// Backups whose flushed copy has everything before the position, under `epoch` or a later one.
  std::vector<uint64_t> flushedHolders(LogPosition position, uint64_t epoch = 1) const {
    std::vector<uint64_t> ids;
    for (const auto& backup : backups_) {
      const auto found = backup->kept.find(position.segment);
      if (found == backup->kept.end() || !found->second.flushed) continue;
      const log::Certificate& flushed = *found->second.flushed;
      if (flushed.length_bytes >= position.offset_bytes && flushed.replica_epoch >= epoch) ids.push_back(backup->id);
    }
    return ids;
  }
};

TEST_F(ReplicaFlushTest, NobodyWaitsAndNothingIsFlushed) {
  start(3, {1, 2, 3});
  const LogPosition end = put("a");
  ASSERT_TRUE(becomesDurable(end));
  runFor(500 * kMilli);
  EXPECT_FALSE(log_->isFlushed(end));
  EXPECT_EQ(manager_->stats().flushes.load(), 0u);
}

TEST_F(ReplicaFlushTest, AllReplicasHaveToSayThatTheyFlushed) {
  start(3, {1, 2, 3});
  backup(3).flush_mode = Mode::Hold;
  const LogPosition end = put("a");
  EXPECT_FALSE(becomesFlushed(end, 300 * kMilli));
  EXPECT_EQ(backup(3).held.size(), 1u);
  EXPECT_TRUE(becomesDurable(put("b"), 100 * kMilli)) << "the flush holds nobody up who does not wait for it";
  backup(3).flush_mode = Mode::Answer;
  backup(3).release();
  ASSERT_TRUE(comesTrue([&] { return log_->isFlushed(end); }, 300 * kMilli));
  EXPECT_EQ(flushedHolders(end), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_TRUE(floors_.asked.empty());
}

TEST_F(ReplicaFlushTest, WhoComesMeanwhileSharesTheNextFlush) {
  start(3, {1, 2, 3});
  for (const uint64_t id : {1, 2, 3}) backup(id).flush_mode = Mode::Hold;
  want(put("a"));
  ASSERT_TRUE(comesTrue([this] { return flushCallsTo(1) == 1 && flushCallsTo(2) == 1 && flushCallsTo(3) == 1; }));
  LogPosition end;
  for (int i = 0; i < 20; ++i) {
    end = put("b" + std::to_string(i));
    want(end);
    ASSERT_TRUE(becomesDurable(end));
  }
  EXPECT_EQ(flushCallsTo(1), 1u);
  for (const uint64_t id : {1, 2, 3}) {
    backup(id).flush_mode = Mode::Answer;
    backup(id).release();
  }
  ASSERT_TRUE(comesTrue([&] { return log_->isFlushed(end); }));
  EXPECT_EQ(flushCallsTo(1), 2u);
  runFor(500 * kMilli);
  EXPECT_EQ(flushCallsTo(1), 2u) << "and then nobody waits any more";
}

// What is asked for may not be committed yet: the cleaner asks for the end of the log.
TEST_F(ReplicaFlushTest, AFlushThatWasAskedForEarlyFollowsTheData) {
  start(3, {1, 2, 3});
  backup(2).mode = Mode::Hold;
  const LogPosition end = put("a");
  want(end);
  runFor(100 * kMilli);
  EXPECT_EQ(flushCallsTo(2), 0u);
  backup(2).mode = Mode::Answer;
  backup(2).release();
  EXPECT_TRUE(comesTrue([&] { return log_->isFlushed(end); }));
}

TEST_F(ReplicaFlushTest, OpeningAndClosingFlushUnasked) {
  start(3, {1, 2, 3});
  const LogPosition end = put("a");
  roll();
  EXPECT_TRUE(log_->isFlushed(end));
  EXPECT_EQ(log_->flushedUpTo().segment, log_->headId()) << "up to the digest of the new head";
  EXPECT_EQ(manager_->stats().flushes.load(), 0u);
}

class ReplicaFlushLossTest : public ReplicaFlushTest, public ::testing::WithParamInterface<int> {};

// Refused, too little, more than there is, never answered.
TEST_P(ReplicaFlushLossTest, AnotherBackupTakesOver) {
  start(4, {1, 2, 3});
  setMembers({1, 2, 3, 4});
  ScriptedBackup& bad = backup(1);
  bad.flush_mode = GetParam() == 0 ? Mode::Refuse : GetParam() == 3 ? Mode::Hold : Mode::Lie;
  bad.refusal = Status::IoError;
  bad.flush_lie = GetParam() == 1 ? 8 : 1 << 20;
  const LogPosition end = put("a");
  EXPECT_TRUE(becomesFlushed(end, 10 * runtime::kNanosPerSecond));
  EXPECT_EQ(flushedHolders(end, 2), (std::vector<uint64_t>{2, 3, 4}));
  EXPECT_EQ(floors_.stored, (std::vector<ScriptedFloors::Floor>{{end.segment, 2}}));
  EXPECT_EQ(manager_->stats().replicas_lost.load(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Answers, ReplicaFlushLossTest, ::testing::Values(0, 1, 2, 3));

TEST_F(ReplicaFlushTest, AChangedSetCountsOnlyFromItsFloorOn) {
  start(4, {1, 2, 3});
  ASSERT_TRUE(becomesDurable(put("a")));
  floors_.holding = true;
  setMembers({1, 2, 4});
  const LogPosition end = put("b");
  want(end);
  ASSERT_TRUE(comesTrue([this] { return !floors_.asked.empty(); }));
  ASSERT_TRUE(comesTrue([&] { return flushedHolders(end, 2) == std::vector<uint64_t>({1, 2, 4}); }));
  EXPECT_FALSE(becomesFlushed(end, 300 * kMilli)) << "the floor is not stored";
  releaseFloors();
  EXPECT_TRUE(becomesFlushed(end));
}

// A flush that was on its way when the epoch ended: neither its answer counts nor its failure.
TEST_F(ReplicaFlushTest, AFlushOfAnEarlierEpochSaysNothing) {
  start(4, {1, 2, 3});
  for (const Status late : {Status::Ok, Status::StaleEpoch}) {
    const uint64_t lost_before = manager_->stats().replicas_lost.load();
    backup(1).flush_mode = Mode::Hold;
    want(put("a"));
    ASSERT_TRUE(comesTrue([this] { return !backup(1).held.empty(); }));
    setMembers(late == Status::Ok ? std::vector<uint64_t>{1, 2, 4} : std::vector<uint64_t>{1, 2, 3});
    ASSERT_TRUE(comesTrue([&] { return manager_->stats().floors_raised.load() == lost_before + 1; }));
    const LogPosition end = put("b");
    EXPECT_FALSE(becomesFlushed(end, 100 * kMilli));
    backup(1).flush_mode = Mode::Answer;
    backup(1).held.front().second.header.status = late;
    backup(1).release();
    EXPECT_TRUE(becomesFlushed(end));
    EXPECT_EQ(manager_->stats().replicas_lost.load(), lost_before + 1) << "the one whose server is gone";
  }
}

}  // namespace
}  // namespace ramcore::master
