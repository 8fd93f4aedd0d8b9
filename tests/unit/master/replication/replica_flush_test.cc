/// Flushes of the replicas of a log, for requests that wait for them.

#include <gtest/gtest.h>

#include "unit/master/replication/replica_fixture.h"

namespace ramcore::master {
namespace {

using Mode = ScriptedBackup::Mode;
using Flags = wire::WriteReplica;

class ReplicaFlushTest : public ReplicaTest {
 protected:
  void want(LogPosition position) {
    server_.onDispatch([&] { log_->durability().requestFlush(position); });
  }
  /// Backups whose flushed replica has everything before the position, under `epoch` or a later one.
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
  EXPECT_FALSE(log_->durability().isFlushed(end));
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
  ASSERT_TRUE(comesTrue([&] { return log_->durability().isFlushed(end); }, 300 * kMilli));
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
  EXPECT_EQ(flushCallsTo(1), 2u) << "one that is under way, and one that waits for the disk";
  for (const uint64_t id : {1, 2, 3}) {
    backup(id).flush_mode = Mode::Answer;
    backup(id).release();
  }
  ASSERT_TRUE(comesTrue([&] { return log_->durability().isFlushed(end); }));
  EXPECT_EQ(flushCallsTo(1), 3u);
  runFor(500 * kMilli);
  EXPECT_EQ(flushCallsTo(1), 3u) << "and then nobody waits any more";
}

// The bytes that are to be flushed may not be committed yet: the cleaner requests a flush up to the end of the log.
TEST_F(ReplicaFlushTest, AFlushThatWasAskedForEarlyFollowsTheData) {
  start(3, {1, 2, 3});
  LogPosition end = put("a");
  ASSERT_TRUE(becomesDurable(end));
  end.offset_bytes *= 2;
  want(end);
  runFor(100 * kMilli);
  EXPECT_EQ(flushCallsTo(2), 1u) << "of what is there";
  while (owner_->end() < end) put("b");
  EXPECT_TRUE(comesTrue([&] { return log_->durability().isFlushed(end); }));
}

TEST_F(ReplicaFlushTest, WhatIsOnlyWaitedForUntilItIsFlushedGoesInOneCall) {
  start(3, {1, 2, 3});
  const size_t before = backup(1).writes.size();
  LogPosition end;
  server_.onDispatch([&] {
    ASSERT_EQ(owner_->put(*log_, "a", "value"), Status::Ok);
    end = owner_->end();
    log_->durability().requestFlush(end);
  });
  ASSERT_TRUE(comesTrue([&] { return log_->durability().isFlushed(end); }));
  runFor(100 * kMilli);
  ASSERT_EQ(backup(1).writes.size(), before + 1);
  EXPECT_TRUE(backup(1).writes.back().is_flush_call);
  EXPECT_GT(backup(1).writes.back().bytes, 0u);
  EXPECT_TRUE(log_->durability().isDurable(end)) << "with one answer";
}

// While one flush is under way and another one waits for the disk, later bytes are sent with a write. If they have
// arrived when the second flush begins, it covers them.
TEST_F(ReplicaFlushTest, AFlushCountsForWhatWasThereWhenItBegan) {
  start(3, {1, 2, 3});
  for (const uint64_t id : {1, 2, 3}) backup(id).flush_mode = Mode::Hold;
  want(put("a"));
  want(put("b"));
  const LogPosition end = put("c");
  want(end);
  ASSERT_TRUE(
      comesTrue([this] { return backup(1).held.size() == 2 && backup(1).writes.back().flags == Flags::kCertified; }));
  runFor(100 * kMilli);
  EXPECT_FALSE(log_->durability().isFlushed(end));
  for (const uint64_t id : {1, 2, 3}) {
    backup(id).held[1].second.length_bytes = end.offset_bytes;
    backup(id).held[1].second.flushed_bytes = end.offset_bytes;
    backup(id).release();
  }
  EXPECT_TRUE(comesTrue([&] { return log_->durability().isFlushed(end); }, 100 * kMilli));
}

// Two calls are in flight, and the first is refused: so the second begins behind a gap.
TEST_F(ReplicaFlushTest, WhatFollowsSomethingLostIsSentAgain) {
  start(3, {1, 2, 3});
  const LogPosition before = put("a");
  ASSERT_TRUE(becomesDurable(before));
  backup(2).refused_writes = 1;
  backup(2).expects_gaps = true;
  want(put("b"));
  const LogPosition end = put("c");
  want(end);
  EXPECT_TRUE(comesTrue([&] { return log_->durability().isFlushed(end); }, 100 * kMilli));
  EXPECT_GT(backup(2).gaps, 0u);
  EXPECT_EQ(flushedHolders(end), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(manager_->stats().replicas_lost.load(), 0u);
}

// But a backup that refuses for good is given up.
TEST_F(ReplicaFlushTest, WhoNeverTakesWhatFollowsIsGivenUp) {
  start(4, {1, 2, 3});
  setMembers({1, 2, 3, 4});
  ASSERT_TRUE(becomesDurable(put("a")));
  backup(2).mode = Mode::Refuse;
  backup(2).refusal = Status::BadRequest;
  want(put("b"));
  const LogPosition end = put("c");
  EXPECT_TRUE(becomesFlushed(end));
  EXPECT_EQ(flushedHolders(end, 2), (std::vector<uint64_t>{1, 3, 4}));
}

// A request waits until bytes are durable that follow those of a flush call, which is not answered yet.
TEST_F(ReplicaFlushTest, WhoDoesNotWaitForTheDiskIsNotKeptWaiting) {
  start(3, {1, 2, 3});
  backup(2).flush_mode = Mode::Hold;
  LogPosition end;
  server_.onDispatch([&] {
    ASSERT_EQ(owner_->put(*log_, "a", "value"), Status::Ok);
    end = owner_->end();
    log_->durability().requestFlush(end);
  });
  ASSERT_TRUE(comesTrue([this] { return backup(2).held.size() == 1; }));
  EXPECT_FALSE(log_->durability().isDurable(end));
  const LogPosition later = put("b");
  EXPECT_TRUE(becomesDurable(later, 100 * kMilli));
  EXPECT_FALSE(log_->durability().isFlushed(end));
  // Then the flush call is answered: for the bytes that it carried, not for later ones.
  backup(2).flush_mode = Mode::Answer;
  backup(2).release();
  EXPECT_TRUE(comesTrue([&] { return log_->durability().isFlushed(end); }, 100 * kMilli));
  EXPECT_FALSE(log_->durability().isFlushed(later));
  EXPECT_EQ(manager_->stats().replicas_lost.load(), 0u);
}

TEST_F(ReplicaFlushTest, AFlushComesRightBehindTheWriteItCovers) {
  start(3, {1, 2, 3});
  for (const uint64_t id : {1, 2, 3}) backup(id).mode = Mode::Hold;
  LogPosition end;
  server_.onDispatch([&] {
    ASSERT_EQ(owner_->put(*log_, "a", "value"), Status::Ok);
    end = owner_->end();
    log_->durability().requestFlush(end);
    manager_->requestDurable(end);
  });
  ASSERT_TRUE(comesTrue([this] { return backup(3).held.size() == 2; }));
  EXPECT_GT(backup(3).writes[backup(3).writes.size() - 2].bytes, 0u);
  EXPECT_EQ(backup(3).writes.back().bytes, 0u);
  EXPECT_FALSE(log_->durability().isDurable(end));
  for (const uint64_t id : {1, 2, 3}) {
    backup(id).mode = Mode::Answer;
    backup(id).release();
  }
  EXPECT_TRUE(comesTrue([&] { return log_->durability().isFlushed(end); }, 100 * kMilli));
  EXPECT_EQ(manager_->stats().flushes.load(), 3u) << "one of each was enough";
}

// A flush call that arrives before the write that it was sent behind covers fewer bytes. Its answer says so, and
// counts.
TEST_F(ReplicaFlushTest, AFlushThatOvertookItsWriteCountsForWhatItFound) {
  start(3, {1, 2, 3});
  LogPosition before = put("a");
  ASSERT_TRUE(becomesDurable(before));
  for (const uint64_t id : {1, 2, 3}) backup(id).mode = Mode::Hold;
  LogPosition end;
  server_.onDispatch([&] {
    ASSERT_EQ(owner_->put(*log_, "b", "value"), Status::Ok);
    end = owner_->end();
    log_->durability().requestFlush(end);
    manager_->requestDurable(end);
  });
  ASSERT_TRUE(comesTrue([this] { return backup(3).held.size() == 2; }));
  for (const uint64_t id : {1, 2, 3}) {
    backup(id).mode = Mode::Answer;
    backup(id).held.back().second.flushed_bytes = before.offset_bytes;
    if (id == 3) backup(id).held.back().second.length_bytes = before.offset_bytes;
    backup(id).flush_mode = Mode::Hold;
    backup(id).release();
  }
  runFor(100 * kMilli);
  EXPECT_TRUE(log_->durability().isDurable(end));
  EXPECT_TRUE(log_->durability().isFlushed(before));
  EXPECT_FALSE(log_->durability().isFlushed(end));
  EXPECT_EQ(manager_->stats().flushes.load(), 6u) << "and it is asked for again";
  for (const uint64_t id : {1, 2, 3}) {
    backup(id).flush_mode = Mode::Answer;
    backup(id).release();
  }
  EXPECT_TRUE(comesTrue([&] { return log_->durability().isFlushed(end); }, 100 * kMilli));
  EXPECT_EQ(manager_->stats().replicas_lost.load(), 0u);
}

TEST_F(ReplicaFlushTest, ASegmentIsClosedWhileAFlushOfItIsOnItsWay) {
  start(3, {1, 2, 3});
  for (const uint64_t id : {1, 2, 3}) backup(id).flush_mode = Mode::Hold;
  want(put("a"));
  ASSERT_TRUE(comesTrue([this] { return flushCallsTo(1) == 1; }));
  const LogPosition end = put("b");
  roll();
  EXPECT_TRUE(log_->durability().isFlushed(end));
  EXPECT_TRUE(backup(1).hasClosed(end.segment));
}

TEST_F(ReplicaFlushTest, OpeningAndClosingFlushUnasked) {
  start(3, {1, 2, 3});
  const LogPosition end = put("a");
  roll();
  EXPECT_TRUE(log_->durability().isFlushed(end));
  EXPECT_EQ(log_->durability().flushedUpTo().segment, log_->headId()) << "up to the digest of the new head";
  EXPECT_EQ(manager_->stats().flushes.load(), 0u);
}

class ReplicaFlushLossTest : public ReplicaFlushTest, public ::testing::WithParamInterface<int> {};

// The flush is refused, covers too little or more than there is, or is never answered.
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

// Neither the answer nor the failure of a flush call counts if its epoch has ended meanwhile.
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
