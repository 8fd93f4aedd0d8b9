// A server that falls silent and stays so, while others take over what it had.
#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include "client/point_call.h"
#include "unit/client/fake_cluster.h"

namespace ramcore::client {
namespace {

constexpr int64_t kMilli = runtime::kNanosPerMilli;
constexpr int64_t kSecond = runtime::kNanosPerSecond;
// How long a call may take after its tablet is elsewhere: to ask again, and to go there.
constexpr int64_t kSoonNs = 300 * kMilli;

class SilentServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto made = cluster.await(client().createTable("t", 2, cluster.in(kSecond)));
    ASSERT_TRUE(made.ok());
    table = *made;
    // These calls find the owners, and open a session to both.
    for (int i = 0; i < 40; ++i) {
      const std::string key = "k" + std::to_string(i);
      ASSERT_EQ(write(key, "before", cluster.in(kSecond)).status, Status::Ok);
      if (&cluster.ownerOf(key) == cluster.servers[0].get()) keys.push_back(key);
    }
    ASSERT_GE(keys.size(), 5u);
    cluster.servers[1]->objects.insert(cluster.servers[0]->objects.begin(), cluster.servers[0]->objects.end());
    cluster.servers[1]->last_version += cluster.servers[0]->last_version;
  }
  ClusterClient& client() { return *cluster.client; }
  PointResult write(const std::string& key, const std::string& value, int64_t deadline_ns) {
    return cluster.await(client().write(table, asBytes(key), asBytes(value), {}, deadline_ns));
  }
  PointResult read(const std::string& key, int64_t deadline_ns) {
    return cluster.await(client().read(table, asBytes(key), deadline_ns));
  }
  /// From now on the first server receives everything and answers nothing.
  void hush() {
    cluster.servers[0]->answer_reads = false;
    cluster.servers[0]->fates.assign(10'000, Fate::Hold);
  }
  /// From now on the first server reads nothing from its sessions.
  void stop() { cluster.network.stopReading(cluster.servers[0]->node); }
  void takeOver() {
    cluster.all_at_second = true;
    ++cluster.epoch;
    taken_ns = cluster.in(0);
  }
  void takeOverAfter(int64_t silent_ns) {
    cluster.scheduler.call(cluster.scheduler.nowNs() + silent_ns, [this] { takeOver(); });
  }
  int64_t sinceTakenNs() { return cluster.in(0) - taken_ns; }

  FakeCluster cluster;
  TableId table;
  std::vector<std::string> keys;  ///< of the first server
  int64_t taken_ns = 0;
};

TEST_F(SilentServerTest, AWriteGoesToTheNewOwnerUnderTheSameIdentity) {
  hush();
  cluster.servers[0]->seen.clear();
  cluster.servers[1]->seen.clear();
  takeOverAfter(2 * kSecond);
  EXPECT_EQ(write(keys[0], "after", cluster.in(60 * kSecond)).status, Status::Ok);
  EXPECT_GE(sinceTakenNs(), 0);
  EXPECT_LT(sinceTakenNs(), kSoonNs);
  ASSERT_EQ(cluster.servers[0]->seen.size(), 1u)
      << "the attempt at the old owner went on waiting while it was the owner";
  ASSERT_EQ(cluster.servers[1]->seen.size(), 1u);
  EXPECT_EQ(cluster.servers[0]->seen[0].client, cluster.servers[1]->seen[0].client);
  EXPECT_EQ(cluster.servers[0]->seen[0].sequence, cluster.servers[1]->seen[0].sequence);
  EXPECT_EQ(client().finder().stats().abandoned, 1u);
}

TEST_F(SilentServerTest, TheLateAnswerOfAnAbandonedAttemptIsIgnored) {
  hush();
  takeOverAfter(kSecond);
  const PointResult written = write(keys[0], "after", cluster.in(60 * kSecond));
  ASSERT_EQ(written.status, Status::Ok);
  cluster.servers[0]->releaseHeld();
  cluster.passTime(kSecond / 10);
  EXPECT_EQ(read(keys[0], cluster.in(kSecond)).version, written.version);
}

TEST_F(SilentServerTest, AnAbandonedWriteMayHaveHappened) {
  hush();
  cluster.servers[1]->fates.assign(10'000, Fate::Hold);  // the new owner says nothing, either
  takeOverAfter(kSecond / 2);
  EXPECT_EQ(write(keys[0], "after", cluster.in(3 * kSecond)).status, Status::OutcomeUnknown);
}

TEST_F(SilentServerTest, AReadIsNotKept) {
  hush();
  takeOverAfter(2 * kSecond);
  EXPECT_EQ(read(keys[0], cluster.in(60 * kSecond)).status, Status::Ok);
  EXPECT_LT(sinceTakenNs(), kSoonNs);
}

TEST_F(SilentServerTest, NeitherIsWhatAStoppedProcessNeverTook) {
  stop();
  takeOverAfter(2 * kSecond);
  EXPECT_EQ(read(keys[0], cluster.in(60 * kSecond)).status, Status::Ok);
  EXPECT_LT(sinceTakenNs(), kSoonNs);
  EXPECT_EQ(write(keys[1], "after", cluster.in(60 * kSecond)).status, Status::Ok);
  EXPECT_LT(sinceTakenNs(), 2 * kSoonNs);
}

TEST_F(SilentServerTest, MultiOperationsAreNotKept) {
  stop();
  takeOverAfter(kSecond);
  std::vector<MutateItem> writes(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    writes[i].table = {table.value};
    writes[i].key = keys[i];
    writes[i].value = "after";
  }
  cluster.await(client().multiMutate(writes, cluster.in(60 * kSecond)));
  EXPECT_LT(sinceTakenNs(), kSoonNs);
  for (const MutateItem& item : writes) EXPECT_EQ(item.status, Status::Ok);
  std::vector<ReadItem> reads(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    reads[i].table = {table.value};
    reads[i].key = keys[i];
  }
  cluster.await(client().multiRead(reads, cluster.in(60 * kSecond)));
  for (const ReadItem& item : reads) EXPECT_EQ(item.value, "after");
}

TEST_F(SilentServerTest, AMultiReadThatWaitsIsNotKept) {
  stop();
  takeOverAfter(kSecond);
  std::vector<ReadItem> reads(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    reads[i].table = {table.value};
    reads[i].key = keys[i];
  }
  cluster.await(client().multiRead(reads, cluster.in(60 * kSecond)));
  EXPECT_LT(sinceTakenNs(), kSoonNs);
  for (const ReadItem& item : reads) EXPECT_EQ(item.status, Status::Ok);
}

TEST_F(SilentServerTest, AScanIsNotKept) {
  stop();
  takeOverAfter(kSecond);
  ScanCursor cursor{.table = table};
  std::vector<Object> objects;
  EXPECT_EQ(cluster.await(client().scanNext(cursor, objects, cluster.in(60 * kSecond))), Status::Ok);
  EXPECT_LT(sinceTakenNs(), kSoonNs);
  EXPECT_FALSE(objects.empty());
}

struct WatchedPoint {
  explicit WatchedPoint(ClusterClient& client)
      : call(client, [](PointCall& ended) { *static_cast<bool*>(ended.owner()) = true; }) {}
  PointCall call;
  bool done = false;
};

TEST_F(SilentServerTest, ACallWithoutACoroutineIsNotKept) {
  hush();
  takeOverAfter(kSecond);
  WatchedPoint point(client());
  ASSERT_FALSE(point.call.start({.kind = wire::Opcode::Read, .table = table, .key = asBytes(keys[0])}, 60 * kSecond,
                                runtime::kNever, &point.done));
  ASSERT_TRUE(cluster.runUntil([&] { return point.done; }));
  EXPECT_EQ(point.call.result.status, Status::Ok);
  EXPECT_LT(sinceTakenNs(), kSoonNs);
}

// The coordinator is asked once for all calls that wait, however many there are, and less and less often.
TEST_F(SilentServerTest, TheCoordinatorIsAskedOnceForAllCalls) {
  hush();
  const uint64_t before = cluster.tablet_questions;
  std::deque<WatchedPoint> points;
  for (int i = 0; i < 200; ++i) {
    WatchedPoint& point = points.emplace_back(client());
    ASSERT_FALSE(point.call.start({.kind = wire::Opcode::Read, .table = table, .key = asBytes(keys[i % 5])},
                                  60 * kSecond, runtime::kNever, &point.done));
  }
  cluster.passTime(45 * kMilli);
  EXPECT_EQ(cluster.tablet_questions, before) << "nobody asks within 50 ms";
  cluster.passTime(9'955 * kMilli);
  EXPECT_GE(cluster.tablet_questions - before, 40u) << "or the new owner would be found late";
  EXPECT_LE(cluster.tablet_questions - before, 120u);
  takeOver();
  ASSERT_TRUE(cluster.runUntil(
      [&] { return std::all_of(points.begin(), points.end(), [](const WatchedPoint& point) { return point.done; }); }));
  EXPECT_LT(sinceTakenNs(), kSoonNs);
}

// After a call that ended by its deadline, before any question was due, the next call asks the coordinator.
TEST_F(SilentServerTest, AfterADeadlineTheCoordinatorIsAsked) {
  hush();
  takeOver();
  int calls = 0;
  while (read(keys[0], cluster.in(15 * kMilli)).status == Status::DeadlineExceeded) ASSERT_LT(++calls, 3);
  EXPECT_GE(calls, 1);
}

TEST_F(SilentServerTest, AfterADeadlineOfACallWithoutACoroutineTheCoordinatorIsAsked) {
  hush();
  takeOver();
  int calls = 0;
  for (Status status = Status::DeadlineExceeded; status == Status::DeadlineExceeded; ++calls) {
    ASSERT_LT(calls, 4);
    WatchedPoint point(client());
    ASSERT_FALSE(point.call.start({.kind = wire::Opcode::Read, .table = table, .key = asBytes(keys[0])}, 15 * kMilli,
                                  cluster.in(15 * kMilli), &point.done));
    const int64_t deadline_ns = cluster.in(15 * kMilli);
    ASSERT_TRUE(cluster.runUntil([&] {
      if (!point.done) point.call.expire(cluster.in(0), deadline_ns);
      return point.done;
    }));
    status = point.call.result.status;
  }
  EXPECT_GE(calls, 2);
}

// A call to a server that is only slow is not given up: the answer counts.
TEST_F(SilentServerTest, AnOwnerThatIsSlowIsWaitedFor) {
  hush();
  const uint64_t abandoned = client().finder().stats().abandoned;
  WatchedPoint point(client());
  ASSERT_FALSE(point.call.start({.kind = wire::Opcode::Read, .table = table, .key = asBytes(keys[0])}, 60 * kSecond,
                                runtime::kNever, &point.done));
  cluster.passTime(2 * kSecond);
  EXPECT_EQ(cluster.servers[0]->held.size(), 1u);
  EXPECT_EQ(client().finder().stats().abandoned, abandoned);
  cluster.servers[0]->answer_reads = true;
  cluster.servers[0]->releaseHeld();
  ASSERT_TRUE(cluster.runUntil([&] { return point.done; }));
  EXPECT_EQ(point.call.result.status, Status::Ok);
}

}  // namespace
}  // namespace ramcore::client
