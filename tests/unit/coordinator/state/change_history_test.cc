// Whether a state of the cluster is the newest that there was, by what servers have heard of it.
#include "coordinator/state/change_history.h"

#include <gtest/gtest.h>

#include "unit/coordinator/coordinator_fixture.h"

namespace ramcore::coordinator {
namespace {

runtime::Task<Status> storeMissingOn(runtime::Executor& executor, ChangeHistory& history) {
  co_await runtime::resumeOn(executor);
  co_return co_await history.storeMissing();
}
runtime::Task<Status> giveUpMissingOn(runtime::Executor& executor, ChangeHistory& history) {
  co_await runtime::resumeOn(executor);
  co_return co_await history.giveUpMissing();
}
runtime::Task<Status> beginOn(runtime::Executor& executor, ChangeHistory& history) {
  co_await runtime::resumeOn(executor);
  const Status loaded = co_await history.load();
  if (loaded != Status::Ok) co_return loaded;
  co_return co_await history.begin();
}
runtime::Task<Status> changeOn(runtime::Executor& executor, Journal& journal, int count) {
  co_await runtime::resumeOn(executor);
  for (int i = 0; i < count; ++i) {
    Batch batch;
    batch.put("something", std::to_string(i));
    const Status stored = co_await journal.commit(std::move(batch));
    if (stored != Status::Ok) co_return stored;
  }
  co_return Status::Ok;
}

class History : public testing::Test {
 protected:
  /// Another start of the coordinator on what is on the disk.
  ChangeHistory& start(uint64_t id) {
    history_.reset();
    bench_.restart();
    history_ = std::make_unique<ChangeHistory>(bench_.life().journal, id);
    EXPECT_EQ(bench_.run(beginOn(bench_.life().executor, *history_)), Status::Ok);
    return *history_;
  }
  /// @return the last of so many changes, as a server hears of it
  ChangeRef change(int count) {
    EXPECT_EQ(bench_.run(changeOn(bench_.life().executor, bench_.life().journal, count)), Status::Ok);
    return history_->latest();
  }

  Bench bench_;
  std::unique_ptr<ChangeHistory> history_;
};

TEST_F(History, HasWhatItsStartsHaveMadeAndNothingElse) {
  start(11);
  const ChangeRef first = change(3);
  EXPECT_EQ(first.start, 11U);
  ChangeHistory& history = start(12);
  EXPECT_EQ(history.latest(), first) << "that another one has begun is no change";
  EXPECT_TRUE(history.has({}));
  EXPECT_TRUE(history.has(first));
  EXPECT_FALSE(history.has({.start = 11, .number = first.number + 1}));
  EXPECT_FALSE(history.has({.start = 13, .number = 1})) << "a start that is not known here";
  const ChangeRef second = change(2);
  EXPECT_EQ(second, (ChangeRef{.start = 12, .number = first.number + 2})) << "numbers go on";
  EXPECT_TRUE(history.has(second));
  EXPECT_FALSE(history.has({.start = 12, .number = second.number + 1}));
  EXPECT_FALSE(history.has({.start = 11, .number = first.number + 1})) << "it is another one's";
}

// The copy is noticed, and the right state is put back. The copy has left nothing behind by which the right state would
// be taken for a copy.
TEST_F(History, ACopyThatHasMadeNoChangeLeavesNothingBehind) {
  start(11);
  change(3);
  const MemoryDisk copy = bench_.disk();
  change(2);
  const MemoryDisk right = bench_.disk();
  history_.reset();
  bench_.crash();
  bench_.disk().putBack(copy);
  const ChangeRef told = start(12).latest();
  history_.reset();
  bench_.crash();
  bench_.disk().putBack(right);
  EXPECT_TRUE(start(13).has(told));
}

TEST_F(History, AnOlderCopyLacksWhatCameAfterItAlsoWhenItsOwnChangesAreMoreThanThese) {
  start(11);
  change(3);
  const MemoryDisk copy = bench_.disk();
  const ChangeRef heard = change(5);
  history_.reset();
  bench_.crash();
  bench_.disk().putBack(copy);
  ChangeHistory& history = start(12);
  EXPECT_FALSE(history.has(heard));
  const ChangeRef own = change(50);
  ASSERT_GT(own.number, heard.number);
  EXPECT_FALSE(history.has(heard));
  EXPECT_TRUE(history.has(own));
}

TEST_F(History, WhatIsMissingIsKnownToEachLaterStart) {
  start(11);
  EXPECT_TRUE(history_->noteMissing({.start = 77, .number = 1234}));
  EXPECT_FALSE(history_->noteMissing({.start = 77, .number = 1233}));
  EXPECT_TRUE(history_->noteMissing({.start = 78, .number = 1300}));
  const ChangeRef before = history_->latest();
  EXPECT_EQ(bench_.run(storeMissingOn(bench_.life().executor, *history_)), Status::Ok);
  EXPECT_EQ(history_->latest(), before) << "a note for itself";
  ChangeHistory& history = start(12);
  EXPECT_TRUE(history.isBehind());
  EXPECT_EQ(history.missingNumber(), 1300U);
  EXPECT_NE(history.describeMissing().find("1300"), std::string::npos);
}

TEST_F(History, WhoeverGoesOnWithoutHandsNothingOutTwice) {
  start(11);
  const ServerId server = bench_.addServer(1);
  const ChangeRef last = history_->latest();
  ASSERT_TRUE(history_->noteMissing({.start = 77, .number = 1234}));
  ASSERT_TRUE(history_->noteMissing({.start = 11, .number = last.number + 5}));
  ASSERT_EQ(bench_.run(storeMissingOn(bench_.life().executor, *history_)), Status::Ok);
  ChangeHistory& history = start(12);
  ASSERT_TRUE(history.isBehind());
  const MemoryDisk before = bench_.disk();
  ASSERT_EQ(bench_.run(giveUpMissingOn(bench_.life().executor, history)), Status::Ok);
  EXPECT_FALSE(history.isBehind());
  EXPECT_TRUE(history.has({.start = 77, .number = 1234}));
  EXPECT_TRUE(history.has({.start = 77, .number = 1200}));
  EXPECT_FALSE(history.has({.start = 77, .number = 1235}));
  EXPECT_TRUE(history.has({.start = 11, .number = last.number + 5}));
  EXPECT_GT(history.latest().number, 1234U) << "servers take the highest number for the latest change";
  EXPECT_EQ(history.latest().start, 12U);
  for (const std::string_view kind : IdAllocator::kKinds) {
    const std::string key = "id/" + std::string(kind);
    uint64_t until = 1;
    const auto was = before.contents().find(key);
    if (was != before.contents().end()) {
      ASSERT_TRUE(decodeAllocator(was->second, until));
    }
    uint64_t now = 0;
    ASSERT_TRUE(bench_.disk().contents().contains(key)) << kind;
    ASSERT_TRUE(decodeAllocator(bench_.disk().contents().at(key), now));
    EXPECT_GE(now, until + (uint64_t{1} << 20)) << kind;
  }
  Server stored;
  ASSERT_TRUE(decode(bench_.disk().contents().at(keyOf(server)), stored));
  EXPECT_FALSE(stored.alive) << "it may hold what the changes that are given up gave it";
  ChangeHistory& open = start(13);
  EXPECT_FALSE(open.isBehind());
  EXPECT_TRUE(open.has({.start = 77, .number = 1234}));
  EXPECT_GE(bench_.addServer(2).value, uint64_t{1} << 20) << "far behind all ids that there were";
}

TEST_F(History, EpochsOfTabletsAreSkippedToo) {
  start(11);
  const ServerId server = bench_.addServer(1);
  Tablet tablet;
  tablet.id = TabletId(5);
  tablet.table = TableId(1);
  tablet.epoch = tablet.last_epoch = TabletEpoch(9);
  tablet.owner = server;
  bench_.disk().put(keyOf(tablet.id), encode(tablet));
  ASSERT_EQ(bench_.run(giveUpMissingOn(bench_.life().executor, *history_)), Status::Ok);
  Tablet now;
  ASSERT_TRUE(decode(bench_.disk().contents().at(keyOf(tablet.id)), now));
  EXPECT_EQ(now.last_epoch.value, 9 + (uint64_t{1} << 32));
  EXPECT_EQ(now.epoch, tablet.epoch) << "under which it is known";
  bench_.disk().put(keyOf(tablet.id), "");
}

// A tablet that was granted, but not answered for, is among them. Its record has to be one that the next start can
// read.
TEST_F(History, WhatIsGivenUpCanBeReadAgain) {
  start(11);
  const ServerId server = bench_.addServer(1);
  ASSERT_EQ(bench_.create("t", 1).status, Status::Ok);
  const TabletId id = bench_.life().map.tabletsOwnedBy(server).front()->id;
  Tablet tablet;
  ASSERT_TRUE(decode(bench_.disk().contents().at(keyOf(id)), tablet));
  ASSERT_EQ(tablet.owner, server);
  tablet.state = TabletState::Taking;
  tablet.last_epoch = tablet.epoch = TabletEpoch(tablet.epoch.value + 1);
  bench_.disk().put(keyOf(id), encode(tablet));
  ASSERT_EQ(bench_.run(giveUpMissingOn(bench_.life().executor, *history_)), Status::Ok);
  history_.reset();
  EXPECT_EQ(bench_.tryStart(), Status::Ok);
  ASSERT_NE(bench_.life().map.findTablet(id), nullptr);
  EXPECT_NE(bench_.life().map.findTablet(id)->state, TabletState::Taking);
}

TEST(StoredHistory, OfNoStartIsNonsense) {
  StoredHistory history;
  history.starts.push_back({.id = 0, .last_change = 4, .is_given_up = false});
  StoredHistory out;
  EXPECT_FALSE(decode(encode(history), out));
  history.starts = {{.id = 3, .last_change = 4, .is_given_up = true}};
  history.missing = {{.start = 5, .number = 6}};
  history.last_forgotten_change = 2;
  ASSERT_TRUE(decode(encode(history), out));
  ASSERT_EQ(out.starts.size(), 1U);
  EXPECT_EQ(out.starts[0].id, 3U);
  EXPECT_EQ(out.starts[0].last_change, 4U);
  EXPECT_TRUE(out.starts[0].is_given_up);
  EXPECT_EQ(out.missing, history.missing);
  EXPECT_EQ(out.last_forgotten_change, 2U);
}

}  // namespace
}  // namespace ramcore::coordinator
