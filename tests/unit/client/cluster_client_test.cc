#include "client/cluster_client.h"

#include <gtest/gtest.h>

#include <set>

#include "client/point_call.h"
#include "unit/client/fake_cluster.h"

namespace ramcore::client {
namespace {

constexpr int64_t kSecond = runtime::kNanosPerSecond;

std::string valueOf(const PointResult& result) {
  std::string value;
  result.takeValue(value);
  return value;
}

class ClusterClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto made = cluster.await(client().createTable("t", 2, cluster.in(kSecond)));
    ASSERT_TRUE(made.ok());
    table = *made;
    for (int i = 0; &cluster.ownerOf(key) != cluster.servers[0].get(); ++i) key = "k" + std::to_string(i);
  }
  ClusterClient& client() { return *cluster.client; }
  PointResult write(const std::string& key, const std::string& value, Condition condition = {},
                    int64_t timeout_ns = 2 * kSecond) {
    return cluster.await(client().write(table, asBytes(key), asBytes(value), condition, cluster.in(timeout_ns)));
  }
  PointResult read(const std::string& key, int64_t timeout_ns = 2 * kSecond) {
    return cluster.await(client().read(table, asBytes(key), cluster.in(timeout_ns)));
  }

  using Kinds = std::vector<std::pair<std::string, std::function<Status()>>>;
  /// One call of each kind for `key`, which is there.
  Kinds kinds() { return kinds(cluster, table); }
  Kinds kinds(FakeCluster& at, TableId of) {
    const auto multiRead = [&at, of, this] {
      std::vector<ReadItem> items(1);
      items[0].table = Table{of.value};
      items[0].key = key;
      at.await(at.client->multiRead(items, at.in(2 * kSecond)));
      return items[0].status;
    };
    const auto multiMutate = [&at, of, this] {
      std::vector<MutateItem> items = {{.table = Table{of.value}, .key = key, .value = "three", .condition = {}}};
      at.await(at.client->multiMutate(items, at.in(2 * kSecond)));
      return items[0].status;
    };
    const auto scan = [&at, of] {
      ScanCursor cursor{.table = of};
      std::vector<Object> objects;
      return at.await(at.client->scanNext(cursor, objects, at.in(2 * kSecond)));
    };
    return {
        {"read", [&at, of, this] { return at.await(at.client->read(of, asBytes(key), at.in(2 * kSecond))).status; }},
        {"multi-read", multiRead},
        {"multi-mutate", multiMutate},
        {"scan", scan}};
  }

  FakeCluster cluster;
  TableId table;
  std::string key = "k";  ///< of the first server, where scans begin
};

TEST_F(ClusterClientTest, WritesReadsAndRemoves) {
  const PointResult written = write("alpha", "one");
  EXPECT_EQ(written.status, Status::Ok);
  EXPECT_GT(written.version, 0u);
  const PointResult found = read("alpha");
  ASSERT_EQ(found.status, Status::Ok);
  EXPECT_EQ(valueOf(found), "one");
  EXPECT_EQ(found.version, written.version);
  const std::string key = "alpha";
  EXPECT_EQ(cluster.await(client().remove(table, asBytes(key), {}, cluster.in(kSecond))).status, Status::Ok);
  EXPECT_EQ(read("alpha").status, Status::NotFound);
}

TEST_F(ClusterClientTest, LargeValuesTravelWhole) {
  const std::string value(900'000, 'x');
  EXPECT_EQ(write("large", value).status, Status::Ok);
  EXPECT_EQ(valueOf(read("large")), value);
}

TEST_F(ClusterClientTest, KeysAndValuesBeyondTheLimitsAreRefusedAtOnce) {
  EXPECT_EQ(write("", "x").status, Status::BadRequest);
  EXPECT_EQ(write(std::string(70'000, 'k'), "x").status, Status::TooLarge);
  EXPECT_EQ(write("k", std::string(1024 * 1024 + 1, 'x')).status, Status::TooLarge);
  EXPECT_TRUE(cluster.servers[0]->seen.empty() && cluster.servers[1]->seen.empty());
}

TEST_F(ClusterClientTest, FailedConditionsGiveThePresentVersion) {
  const PointResult first = write("k", "one", Condition::mustNotExist());
  ASSERT_EQ(first.status, Status::Ok);
  const PointResult second = write("k", "two", Condition::mustNotExist());
  EXPECT_EQ(second.status, Status::ObjectExists);
  EXPECT_EQ(second.version, first.version);
  EXPECT_EQ(write("k", "two", Condition::versionEquals(first.version + 7)).status, Status::WrongVersion);
  EXPECT_EQ(write("k", "two", Condition::versionEquals(first.version)).status, Status::Ok);
}

TEST_F(ClusterClientTest, IncrementCounts) {
  const std::string key = "counter";
  for (int64_t i = 1; i <= 3; ++i) {
    const PointResult result = cluster.await(client().increment(table, asBytes(key), 5, {}, cluster.in(kSecond)));
    ASSERT_EQ(result.status, Status::Ok);
    EXPECT_EQ(result.counter, 5 * i);
  }
}

TEST_F(ClusterClientTest, AMutationWhoseAnswerWasLostIsRepeatedWithItsSequence) {
  FakeServer& owner = cluster.ownerOf("k");
  ASSERT_EQ(write("k", "zero").status, Status::Ok);
  owner.seen.clear();
  owner.fates = {Fate::ServeAndCut, Fate::ServeAndCut};
  const uint64_t before = owner.carried_out;
  const PointResult result = write("k", "one");
  EXPECT_EQ(result.status, Status::Ok);
  EXPECT_EQ(owner.carried_out, before + 1);
  ASSERT_EQ(owner.seen.size(), 3u);
  for (const auto& seen : owner.seen) {
    EXPECT_EQ(seen.sequence, owner.seen.front().sequence);
    EXPECT_EQ(seen.client, owner.seen.front().client);
  }
}

TEST_F(ClusterClientTest, AcknowledgesWhatIsFinished) {
  FakeServer& owner = cluster.ownerOf("k");
  for (int i = 0; i < 3; ++i) ASSERT_EQ(write("k", "v").status, Status::Ok);
  ASSERT_EQ(owner.seen.size(), 3u);
  EXPECT_EQ(owner.seen[2].acknowledged.value, 2u);
  EXPECT_EQ(owner.seen[2].sequence.value, 3u);
}

TEST_F(ClusterClientTest, NoAnswerInTimeIsOutcomeUnknownForMutationsAndDeadlineExceededForReads) {
  ASSERT_EQ(write("k", "zero").status, Status::Ok);
  FakeServer& owner = cluster.ownerOf("k");
  owner.fates = {Fate::Hold};
  EXPECT_EQ(write("k", "one", {}, kSecond / 10).status, Status::OutcomeUnknown);
  owner.answer_reads = false;
  EXPECT_EQ(read("k", kSecond / 10).status, Status::DeadlineExceeded);
}

TEST_F(ClusterClientTest, AMutationThatWasNeverSentHasNotHappened) {
  ASSERT_EQ(write("k", "zero").status, Status::Ok);
  FakeServer& owner = cluster.ownerOf("k");
  cluster.network.cutAll(owner.node);
  cluster.network.isolate(owner.node);
  cluster.passTime(kSecond / 100);  // until the client has heard that its session is gone
  const Status status = write("k", "one", {}, kSecond / 2).status;
  EXPECT_TRUE(status == Status::DeadlineExceeded || status == Status::Unreachable) << name(status);
  EXPECT_EQ(owner.seen.size(), 1u);
}

TEST_F(ClusterClientTest, RefusalsThatCarryNothingOutAreNoUnknownOutcome) {
  FakeServer& owner = cluster.ownerOf("k");
  owner.fates = std::deque<Fate>(10'000, Fate::RetryLater);
  EXPECT_EQ(write("k", "one", {}, kSecond / 10).status, Status::DeadlineExceeded);
  EXPECT_LT(owner.seen.size(), 60u);  // retry_after is 2 ms
}

TEST_F(ClusterClientTest, CallsThatArePutOffForLongDoNotWaitForTheCoordinator) {
  FakeServer& owner = cluster.ownerOf(key);
  ASSERT_EQ(write(key, "one").status, Status::Ok);
  cluster.answer_tablets = false;
  const uint64_t questions = cluster.tablet_questions;
  owner.put_off = 2 * kAttemptsPerQuestion;
  EXPECT_EQ(write(key, "two").status, Status::Ok);
  EXPECT_GT(cluster.tablet_questions, questions) << "the owner may have lost the tablet";
  for (const auto& [kind, call] : kinds()) {
    owner.put_off = 2 * kAttemptsPerQuestion;
    EXPECT_EQ(call(), Status::Ok) << kind;
    EXPECT_EQ(owner.put_off, 0u) << kind;
  }
  cluster.answerHeldQuestions();
}

TEST_F(ClusterClientTest, CallsThatArePutOffForLongFollowTheirTablet) {
  ASSERT_EQ(write(key, "one").status, Status::Ok);
  for (const auto& [kind, call] : kinds()) {
    cluster.all_at_second = false;
    ++cluster.epoch;
    ASSERT_EQ(read(key).status, Status::Ok) << "the first server is known as the owner";
    cluster.servers[0]->put_off = 10'000;
    cluster.servers[1]->objects = cluster.servers[0]->objects;
    cluster.all_at_second = true;
    ++cluster.epoch;
    EXPECT_EQ(call(), Status::Ok) << kind;
    EXPECT_GT(10'000 - cluster.servers[0]->put_off, kAttemptsPerQuestion) << kind;
    cluster.servers[0]->put_off = 0;
  }
}

TEST_F(ClusterClientTest, CallsThatArePutOffForLongHearThatTheirTableIsGone) {
  for (size_t i = 0; i < kinds().size(); ++i) {
    FakeCluster fresh(i + 1);
    const auto made = fresh.await(fresh.client->createTable("t", 2, fresh.in(kSecond)));
    ASSERT_TRUE(made.ok());
    ASSERT_EQ(fresh.await(fresh.client->write(*made, asBytes(key), asBytes(key), {}, fresh.in(kSecond))).status,
              Status::Ok);
    fresh.servers[0]->put_off = 10'000;
    fresh.table = TableId();
    EXPECT_EQ(kinds(fresh, *made)[i].second(), Status::NoSuchTable) << kinds()[i].first;
  }
}

TEST_F(ClusterClientTest, ACoordinatorThatRefusesAtOnceIsAskedSeldom) {
  ASSERT_EQ(write(key, "one").status, Status::Ok);
  cluster.ownerOf(key).put_off = 1'000'000;
  cluster.tablets_status = Status::BadRequest;
  const uint64_t questions = cluster.tablet_questions;
  std::vector<runtime::Task<PointResult>> reads;
  for (int i = 0; i < 50; ++i) reads.push_back(client().read(table, asBytes(key), cluster.in(2 * kSecond)));
  for (auto& task : reads) ASSERT_TRUE(cluster.runUntil([&] { return task.isDone(); }));
  EXPECT_GT(cluster.tablet_questions, questions);
  EXPECT_LT(cluster.tablet_questions - questions, 40u);
}

TEST_F(ClusterClientTest, FollowsAMovedTablet) {
  ASSERT_EQ(write("k", "one").status, Status::Ok);
  cluster.all_at_second = true;
  cluster.epoch = 2;
  cluster.servers[1]->objects = cluster.ownerOf("k").objects;
  const uint64_t questions = cluster.tablet_questions;
  const PointResult result = read("k");
  EXPECT_EQ(result.status, Status::Ok);
  EXPECT_EQ(cluster.tablet_questions, questions + 1);
}

TEST_F(ClusterClientTest, ManyCallsThatFindTheirTabletMovedAskOnce) {
  std::vector<std::string> keys;
  for (int i = 0; i < 20; ++i) keys.push_back("key" + std::to_string(i));
  for (const std::string& key : keys) ASSERT_EQ(write(key, key).status, Status::Ok);
  cluster.epoch = 2;
  const uint64_t questions = cluster.tablet_questions;
  std::vector<runtime::Task<PointResult>> tasks;
  for (const std::string& key : keys) tasks.push_back(client().read(table, asBytes(key), cluster.in(kSecond)));
  for (auto& task : tasks) ASSERT_TRUE(cluster.runUntil([&] { return task.isDone(); }));
  for (auto& task : tasks) EXPECT_EQ(task.take().status, Status::Ok);
  EXPECT_LE(cluster.tablet_questions - questions, 3u);
}

// All clients of a tablet that moves would ask the coordinator at the same time.
TEST_F(ClusterClientTest, TheHintOfAFormerOwnerSavesTheQuestion) {
  std::vector<std::string> keys;
  FakeServer& former = *cluster.servers[0];
  for (int i = 0; keys.size() < 40; ++i) {
    const std::string key = "key" + std::to_string(i);
    if (&cluster.ownerOf(key) == &former) keys.push_back(key);
  }
  for (const std::string& key : keys) ASSERT_EQ(write(key, key).status, Status::Ok);
  FakeServer& owner = *cluster.servers[1];
  owner.objects.insert(former.objects.begin(), former.objects.end());
  cluster.all_at_second = true;
  former.moved = {.epoch = TabletEpoch(1), .owner = ServerId(owner.identity.id), .range = {0, ~uint64_t{0} >> 1}};
  const uint64_t questions = cluster.tablet_questions;
  EXPECT_EQ(read(keys.front()).status, Status::Ok);
  EXPECT_EQ(cluster.tablet_questions - questions, 1u) << "an epoch that is not newer is no hint";
  former.moved.reset();
  cluster.all_at_second = false;
  cluster.epoch = 2;
  for (const std::string& key : keys) ASSERT_EQ(read(key).status, Status::Ok);

  cluster.all_at_second = true;
  former.moved = {.epoch = TabletEpoch(3), .owner = ServerId(owner.identity.id), .range = {0, ~uint64_t{0} >> 1}};
  const uint64_t before = cluster.tablet_questions;
  owner.owns_any_epoch = true;
  std::vector<runtime::Task<PointResult>> tasks;
  for (const std::string& key : keys) tasks.push_back(client().read(table, asBytes(key), cluster.in(kSecond)));
  for (auto& task : tasks) ASSERT_TRUE(cluster.runUntil([&] { return task.isDone(); }));
  for (auto& task : tasks) EXPECT_EQ(task.take().status, Status::Ok);
  EXPECT_EQ(write(keys.front(), "more").status, Status::Ok);
  EXPECT_EQ(cluster.tablet_questions, before);
}

// A server may be mistaken, or lie: the one it names refuses, and the coordinator is right.
TEST_F(ClusterClientTest, AWrongHintCostsOneAttempt) {
  std::string key = "k";
  while (&cluster.ownerOf(key) != cluster.servers[0].get()) key += "k";
  ASSERT_EQ(write(key, "one").status, Status::Ok);
  FakeServer& owner = *cluster.servers[0];
  owner.moved = {.epoch = TabletEpoch(~uint64_t{0} >> 4),
                 .owner = ServerId(cluster.servers[1]->identity.id),
                 .range = {0, ~uint64_t{0} >> 1}};
  owner.fates = {Fate::WrongServer};
  const uint64_t questions = cluster.tablet_questions;
  EXPECT_EQ(write(key, "two").status, Status::Ok);
  EXPECT_EQ(read(key).status, Status::Ok);
  EXPECT_EQ(cluster.tablet_questions, questions + 1);
  EXPECT_EQ(owner.carried_out, 2u);
  // Servers of which nothing is known, and ranges that are no tablet.
  for (const wire::MovedTo& nonsense :
       {wire::MovedTo{TabletEpoch(9), ServerId(12345), {0, ~uint64_t{0} >> 1}},
        wire::MovedTo{TabletEpoch(9), ServerId(cluster.servers[1]->identity.id), {0, 5}}}) {
    owner.moved = nonsense;
    owner.fates = {Fate::WrongServer};
    EXPECT_EQ(write(key, "three").status, Status::Ok);
  }
}

TEST_F(ClusterClientTest, ADroppedTableIsNoSuchTable) {
  ASSERT_EQ(write("k", "one").status, Status::Ok);
  EXPECT_EQ(cluster.await(client().dropTable("t", cluster.in(kSecond))), Status::Ok);
  EXPECT_EQ(read("k").status, Status::NoSuchTable);
  EXPECT_EQ(cluster.await(client().openTable("t", cluster.in(kSecond))).status(), Status::NoSuchTable);
}

TEST_F(ClusterClientTest, ARepeatedDropLeavesATableOfTheSameNameThatCameMeanwhile) {
  cluster.on_lost_answer = [this] {
    cluster.table = TableId(++cluster.last_table);
    cluster.table_nonce = 1;
  };
  EXPECT_EQ(cluster.await(client().dropTable("t", cluster.in(kSecond))), Status::Ok);
  EXPECT_EQ(cluster.table.value, cluster.last_table);
  EXPECT_NE(cluster.table, table);
}

TEST_F(ClusterClientTest, ADropThatWasStoredBeforeItsAnswerIsAskedForAgain) {
  cluster.change_is_slow = true;
  EXPECT_EQ(cluster.await(client().dropTable("t", cluster.in(kSecond))), Status::Ok);
  EXPECT_EQ(cluster.await(client().dropTable("t", cluster.in(kSecond))), Status::NoSuchTable);
}

TEST_F(ClusterClientTest, ARepeatedCreateFindsItsOwnTable) {
  ASSERT_EQ(cluster.await(client().dropTable("t", cluster.in(kSecond))), Status::Ok);
  bool lost = false;
  cluster.on_lost_answer = [&lost] { lost = true; };
  const auto made = cluster.await(client().createTable("t", 1, cluster.in(kSecond)));
  ASSERT_TRUE(made.ok()) << name(made.status());
  EXPECT_TRUE(lost);
  EXPECT_EQ(*made, cluster.table);
  EXPECT_EQ(cluster.await(client().createTable("t", 1, cluster.in(kSecond))).status(), Status::TableExists);
}

TEST_F(ClusterClientTest, CallsWaitWhileTooManyAreUnfinished) {
  ASSERT_EQ(write("k", "zero").status, Status::Ok);
  FakeServer& owner = cluster.ownerOf("k");
  owner.fates = {Fate::Hold};
  const std::string key = "k";
  const auto start = [&](int64_t timeout_ns) {
    return client().write(table, asBytes(key), asBytes(key), {}, cluster.in(timeout_ns));
  };
  auto hanging = start(60 * kSecond);
  ASSERT_TRUE(cluster.runUntil([&] { return owner.held.size() == 1; }));
  for (uint64_t i = 1; i < CallTracker::kWindowMax; ++i) ASSERT_EQ(write("k", "v").status, Status::Ok);
  const uint64_t carried_out = owner.carried_out;
  // There is no room for another call, so it is not sent.
  EXPECT_EQ(write("k", "v", {}, kSecond / 100).status, Status::DeadlineExceeded);
  auto waiting = start(60 * kSecond);
  std::vector<MutateItem> items(3, {.table = Table{table.value}, .key = key, .value = key, .condition = {}});
  auto multi = client().multiMutate(items, cluster.in(60 * kSecond));
  cluster.passTime(kSecond / 10);
  EXPECT_EQ(owner.carried_out, carried_out);
  EXPECT_FALSE(waiting.isDone());
  owner.releaseHeld();  // the held call gets RetryLater, and is sent again
  EXPECT_EQ(cluster.await(std::move(hanging)).status, Status::Ok);
  EXPECT_EQ(cluster.await(std::move(waiting)).status, Status::Ok);
  ASSERT_TRUE(cluster.runUntil([&] { return multi.isDone(); }));
  for (const MutateItem& item : items) EXPECT_EQ(item.status, Status::Ok);
}

TEST_F(ClusterClientTest, AMultiMutationLargerThanTheWindowIsCarriedOut) {
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < CallTracker::kWindowMax + 100; ++i) keys.push_back("key" + std::to_string(i));
  std::vector<MutateItem> items;
  for (const std::string& key : keys)
    items.push_back({.table = Table{table.value}, .key = key, .value = key, .condition = {}});
  auto task = client().multiMutate(items, cluster.in(60 * kSecond));
  ASSERT_TRUE(cluster.runUntil([&] { return task.isDone(); }));
  for (const MutateItem& item : items) ASSERT_EQ(item.status, Status::Ok);
  EXPECT_EQ(cluster.servers[0]->carried_out + cluster.servers[1]->carried_out, keys.size());
}

TEST_F(ClusterClientTest, ALapsedClientGetsANewIdAndItsOpenCallsEndAsUnknown) {
  FakeServer& owner = cluster.ownerOf("k");
  ASSERT_EQ(write("k", "zero").status, Status::Ok);
  owner.fates = {Fate::ServeAndCut, Fate::LeaseExpired};
  EXPECT_EQ(write("k", "one").status, Status::OutcomeUnknown);
  EXPECT_EQ(write("k", "two").status, Status::Ok);
  EXPECT_EQ(cluster.clients_opened, 2u);
  EXPECT_NE(owner.seen.back().client, owner.seen.front().client);
  EXPECT_EQ(owner.seen.back().sequence.value, 1u);
}

TEST_F(ClusterClientTest, ACallRefusedForItsLeaseGoesOnUnderTheNewId) {
  FakeServer& owner = cluster.ownerOf("k");
  ASSERT_EQ(write("k", "zero").status, Status::Ok);
  owner.fates = {Fate::LeaseExpired};
  EXPECT_EQ(write("k", "one").status, Status::Ok);
  EXPECT_EQ(cluster.clients_opened, 2u);
}

/// The client stands still while it asks where the key is. When it goes on it has the answer, but its identity is over,
/// and there is no time for another attempt. Nothing was sent, so the outcome must not say that anything has happened.
TEST_F(ClusterClientTest, ACallThatWasNeverSentIsNotAnsweredForWhatWasFoundOutBeforeIt) {
  cluster.client_lease_ns = 3 * kSecond / 2;
  cluster.renews_clients = false;
  cluster.answer_tablets = false;
  auto writing = client().write(table, asBytes("k"), asBytes("one"), {}, cluster.in(2 * kSecond));
  ASSERT_TRUE(cluster.runUntil([&] { return cluster.renewals == 1; }));
  ASSERT_EQ(cluster.held_questions.size(), 1u);
  cluster.client_stands_still = true;
  cluster.answerHeldQuestions();
  cluster.passTime(3 * kSecond);
  cluster.client_stands_still = false;
  const PointResult written = cluster.await(std::move(writing));
  EXPECT_EQ(written.status, Status::DeadlineExceeded);
  EXPECT_EQ(written.version, 0u);
  EXPECT_EQ(cluster.servers[0]->seen.size() + cluster.servers[1]->seen.size(), 0u);
}

/// Only the owner of an object can say that it is not there.
TEST_F(ClusterClientTest, WhatTheCoordinatorSaysOfAnObjectIsNoAnswerToACall) {
  cluster.tablets_status = Status::NotFound;
  EXPECT_EQ(read("k").status, Status::Corrupt);
  EXPECT_EQ(write("k", "one").status, Status::Corrupt);
  std::vector<ReadItem> reads{{.table = Table{table.value}, .key = "k"}};
  cluster.await(client().multiRead(reads, cluster.in(2 * kSecond)));
  EXPECT_EQ(reads.front().status, Status::Corrupt);
  std::vector<MutateItem> writes{{.table = Table{table.value}, .key = "k", .value = "one", .condition = {}}};
  cluster.await(client().multiMutate(writes, cluster.in(2 * kSecond)));
  EXPECT_EQ(writes.front().status, Status::Corrupt);
  client::ScanCursor cursor{.table = table};
  std::vector<Object> objects;
  EXPECT_EQ(cluster.await(client().scanNext(cursor, objects, cluster.in(2 * kSecond))), Status::Corrupt);
}

/// A part is not carried out under another identity if its server has answered OutcomeUnknown.
TEST_F(ClusterClientTest, APartOfUnknownOutcomeIsNotRepeatedWhenTheLeaseIsOver) {
  FakeServer& owner = cluster.ownerOf("k");
  owner.fates = {Fate::Unknown, Fate::LeaseExpired};
  std::vector<MutateItem> writes{{.table = Table{table.value}, .key = "k", .value = "one", .condition = {}}};
  cluster.await(client().multiMutate(writes, cluster.in(2 * kSecond)));
  EXPECT_EQ(writes.front().status, Status::OutcomeUnknown);
  EXPECT_EQ(owner.carried_out, 1u);
}

TEST_F(ClusterClientTest, TheLeaseIsKeptWhileTheClientPolls) {
  ASSERT_EQ(write("k", "zero").status, Status::Ok);
  cluster.passTime(10 * kSecond);
  EXPECT_GE(cluster.renewals, 5u);
  ASSERT_EQ(write("k", "one").status, Status::Ok);
  EXPECT_EQ(cluster.clients_opened, 1u);
}

TEST_F(ClusterClientTest, ALeaseThatCouldNotBeRenewedIsNotUsedAnyMore) {
  ASSERT_EQ(write("k", "zero").status, Status::Ok);
  cluster.network.partition("client", "coordinator");
  cluster.passTime(4 * kSecond);
  cluster.network.healAll();
  ASSERT_EQ(write("k", "one", {}, 10 * kSecond).status, Status::Ok);
  EXPECT_EQ(cluster.clients_opened, 2u);
}

TEST_F(ClusterClientTest, NoCoordinatorIsUnreachable) {
  cluster.network.cutAll("coordinator");
  cluster.network.isolate("coordinator");
  const Status status = cluster.await(client().listTables(cluster.in(3 * kSecond))).status();
  EXPECT_TRUE(status == Status::Unreachable || status == Status::DeadlineExceeded) << name(status);
}

TEST_F(ClusterClientTest, MultiOperationsGiveEachItemItsOwnOutcome) {
  std::vector<std::string> keys;
  for (int i = 0; i < 3000; ++i) keys.push_back("key" + std::to_string(i));
  std::vector<MutateItem> writes;
  for (const std::string& key : keys) {
    writes.push_back({.table = Table{table.value}, .key = key, .value = key, .condition = {}});
  }
  writes[5].condition = Condition::mustExist();
  writes[6].key = "";
  const std::string large(500'000, 'y');
  writes[7].value = large;
  cluster.await(client().multiMutate(writes, cluster.in(2 * kSecond)));
  for (size_t i = 0; i < writes.size(); ++i) {
    const Status expected = i == 5 ? Status::NotFound : i == 6 ? Status::BadRequest : Status::Ok;
    ASSERT_EQ(writes[i].status, expected) << i;
  }
  EXPECT_FALSE(cluster.servers[0]->seen.empty() || cluster.servers[1]->seen.empty());

  std::vector<ReadItem> reads;
  for (const std::string& key : keys) reads.push_back({.table = Table{table.value}, .key = key});
  cluster.await(client().multiRead(reads, cluster.in(2 * kSecond)));
  for (size_t i = 0; i < reads.size(); ++i) {
    ASSERT_EQ(reads[i].status, i == 5 || i == 6 ? Status::NotFound : Status::Ok) << i;
    if (reads[i].status == Status::Ok) ASSERT_EQ(reads[i].value, i == 7 ? large : keys[i]);
  }
}

// A refusal by the coordinator itself is the outcome of each call, and no reason to look for another server.
TEST_F(ClusterClientTest, ACoordinatorThatRefusesTheClientEndsItsCalls) {
  cluster.network.cutAll("coordinator");
  cluster.coordinator->identity.cluster_name = "another";
  std::vector<ReadItem> reads(100, ReadItem{.table = Table{table.value}, .key = "k"});
  const int64_t since_ns = cluster.client_process->clock.nowNs();
  cluster.await(client().multiRead(reads, cluster.in(5 * kSecond)));
  EXPECT_LT(cluster.client_process->clock.nowNs() - since_ns, 2 * kSecond);
  for (const ReadItem& item : reads) EXPECT_EQ(item.status, Status::Refused) << name(item.status);
  EXPECT_EQ(read("k").status, Status::Refused);
}

// A process that listens where an owner has left refuses clients of this cluster, until the tablet has another owner.
TEST_F(ClusterClientTest, WhoRefusesAtTheOwnersPlaceIsNotTheOwner) {
  FakeServer& owner = *cluster.servers[0];
  std::string key = "k";
  while (&cluster.ownerOf(key) != &owner) key += "k";
  const auto replaceOwner = [&] {
    owner.identity.cluster_name = "test";
    cluster.all_at_second = false;
    ++cluster.epoch;
    ASSERT_EQ(write(key, "before").status, Status::Ok);
    cluster.network.cutAll(owner.node);
    owner.identity.cluster_name = "another";
    cluster.all_at_second = true;
    ++cluster.epoch;
  };
  replaceOwner();
  EXPECT_EQ(write(key, "after").status, Status::Ok);
  replaceOwner();
  std::vector<ReadItem> reads(10, ReadItem{.table = Table{table.value}, .key = key});
  cluster.await(client().multiRead(reads, cluster.in(2 * kSecond)));
  for (const ReadItem& item : reads) EXPECT_EQ(item.value, "after") << name(item.status);
}

TEST_F(ClusterClientTest, PartsOfALostMultiMutateAreRepeatedWithTheirSequences) {
  ASSERT_EQ(write("warm", "up").status, Status::Ok);
  for (auto& server : cluster.servers) {
    server->fates = {Fate::ServeAndCut};
    server->seen.clear();
  }
  const uint64_t before = cluster.servers[0]->carried_out + cluster.servers[1]->carried_out;
  std::vector<std::string> keys;
  for (int i = 0; i < 40; ++i) keys.push_back("key" + std::to_string(i));
  std::vector<MutateItem> writes;
  for (const std::string& key : keys) {
    writes.push_back({.table = Table{table.value}, .key = key, .value = "v", .condition = {}});
  }
  cluster.await(client().multiMutate(writes, cluster.in(2 * kSecond)));
  for (const MutateItem& item : writes) EXPECT_EQ(item.status, Status::Ok);
  EXPECT_EQ(cluster.servers[0]->carried_out + cluster.servers[1]->carried_out, before + 40);
  std::set<uint64_t> sequences;
  size_t arrived = 0;
  for (auto& server : cluster.servers) {
    for (const auto& seen : server->seen) sequences.insert(seen.sequence.value);
    arrived += server->seen.size();
  }
  EXPECT_EQ(sequences.size(), 40u);
  EXPECT_EQ(arrived, 80u);
}

TEST_F(ClusterClientTest, ScansEveryObjectOnce) {
  std::set<std::string> wanted;
  for (int i = 0; i < 50; ++i) {
    wanted.insert("key" + std::to_string(i));
    ASSERT_EQ(write("key" + std::to_string(i), std::to_string(i)).status, Status::Ok);
  }
  ScanCursor cursor{.table = table};
  std::vector<Object> batch;
  std::multiset<std::string> found;
  while (!cursor.is_end) {
    ASSERT_EQ(cluster.await(client().scanNext(cursor, batch, cluster.in(kSecond))), Status::Ok);
    for (const Object& object : batch) found.insert(object.key);
  }
  EXPECT_EQ(found, std::multiset<std::string>(wanted.begin(), wanted.end()));
}

struct WatchedPoint {
  explicit WatchedPoint(ClusterClient& client)
      : call(client, [](PointCall& ended) { *static_cast<bool*>(ended.owner()) = true; }) {}
  PointCall call;
  bool done = false;
};

TEST_F(ClusterClientTest, ThePointCallAnswersAtTheFirstAttempt) {
  ASSERT_EQ(write("k", "one").status, Status::Ok);
  const uint64_t attempts = client().stats().attempts;
  const std::string key = "k";
  WatchedPoint point(client());
  ASSERT_FALSE(point.call.start({.kind = wire::Opcode::Read, .table = table, .key = asBytes(key)}, kSecond,
                                runtime::kNever, &point.done));
  ASSERT_TRUE(cluster.runUntil([&] { return point.done; }));
  EXPECT_EQ(valueOf(point.call.result), "one");
  EXPECT_EQ(client().stats().attempts, attempts);
}

TEST_F(ClusterClientTest, ThePointCallRepeatsALostMutationWithItsSequence) {
  ASSERT_EQ(write("k", "zero").status, Status::Ok);
  FakeServer& owner = cluster.ownerOf("k");
  owner.seen.clear();
  owner.fates = {Fate::ServeAndCut};
  const uint64_t before = owner.carried_out;
  const std::string key = "k";
  WatchedPoint point(client());
  ASSERT_FALSE(
      point.call.start({.kind = wire::Opcode::Write, .table = table, .key = asBytes(key), .value = asBytes(key)},
                       kSecond, runtime::kNever, &point.done));
  ASSERT_TRUE(cluster.runUntil([&] { return point.done; }));
  EXPECT_EQ(point.call.result.status, Status::Ok);
  EXPECT_EQ(owner.carried_out, before + 1);
  ASSERT_EQ(owner.seen.size(), 2u);
  EXPECT_EQ(owner.seen[0].sequence, owner.seen[1].sequence);
}

TEST_F(ClusterClientTest, ThePointCallEndsWhenItsOwnerSaysSo) {
  ASSERT_EQ(write("k", "zero").status, Status::Ok);
  cluster.ownerOf("k").fates = {Fate::Hold};
  const std::string key = "k";
  WatchedPoint point(client());
  ASSERT_FALSE(
      point.call.start({.kind = wire::Opcode::Write, .table = table, .key = asBytes(key), .value = asBytes(key)},
                       kSecond, runtime::kNever, &point.done));
  cluster.passTime(kSecond / 100);
  point.call.expire(cluster.in(0), cluster.in(kSecond));
  EXPECT_FALSE(point.done);
  point.call.expire(cluster.in(2 * kSecond), cluster.in(kSecond));
  ASSERT_TRUE(point.done);
  EXPECT_EQ(point.call.result.status, Status::OutcomeUnknown);
}

/// A mutation that ends with Corrupt has certainly not happened, in whichever way it was sent.
TEST_F(ClusterClientTest, WhatIsLostIsCorruptAndNoUnknownOutcome) {
  ASSERT_EQ(write("k", "zero").status, Status::Ok);
  FakeServer& owner = cluster.ownerOf("k");
  const auto expectEach = [&](Fate fate, Status expected) {
    const std::string key = "k";
    owner.fates = {fate};
    EXPECT_EQ(write("k", "one").status, expected);
    owner.fates = {fate};
    EXPECT_EQ(cluster.await(client().remove(table, asBytes(key), {}, cluster.in(kSecond))).status, expected);
    owner.fates = {fate};
    WatchedPoint point(client());
    ASSERT_FALSE(
        point.call.start({.kind = wire::Opcode::Write, .table = table, .key = asBytes(key), .value = asBytes(key)},
                         kSecond, runtime::kNever, &point.done));
    ASSERT_TRUE(cluster.runUntil([&] { return point.done; }));
    EXPECT_EQ(point.call.result.status, expected);
    // Too large to share a request: sent like a single one.
    owner.fates = {fate};
    const std::string large(500'000, 'y');
    MutateItem item{.table = Table{table.value}, .key = key, .value = large, .condition = {}};
    cluster.await(client().multiMutate(std::span(&item, 1), cluster.in(2 * kSecond)));
    EXPECT_EQ(item.status, expected);
    EXPECT_TRUE(owner.fates.empty());
  };
  const uint64_t before = owner.carried_out;
  expectEach(Fate::Corrupt, Status::Corrupt);
  EXPECT_EQ(owner.carried_out, before);
  expectEach(Fate::Nonsense, Status::OutcomeUnknown);
  EXPECT_EQ(owner.carried_out, before + 4);
  // An earlier attempt may have happened.
  owner.fates = {Fate::ServeAndCut, Fate::Corrupt};
  EXPECT_EQ(write("k", "two").status, Status::OutcomeUnknown);
}

TEST_F(ClusterClientTest, StoppingEndsCallsThatPause) {
  FakeServer& owner = cluster.ownerOf("k");
  owner.fates = std::deque<Fate>(10'000, Fate::RetryLater);
  const std::string key = "k";
  auto task = client().write(table, asBytes(key), asBytes(key), {}, runtime::kNever);
  cluster.passTime(kSecond / 10);
  EXPECT_FALSE(task.isDone());
  client().stop();
  ASSERT_TRUE(cluster.runUntil([&] { return task.isDone(); }));
  const Status status = task.take().status;
  EXPECT_TRUE(status == Status::Shutdown || status == Status::DeadlineExceeded) << name(status);
}

}  // namespace
}  // namespace ramcore::client
