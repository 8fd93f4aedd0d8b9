// What a server remembers of the coordinator's state, over restarts and losses of power.
#include "master/cluster/change_keeper.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>

#include "runtime/sim/sim_node.h"
#include "runtime/sim/sim_storage.h"

namespace ramcore::master {
namespace {

constexpr ClusterId kCluster{7};
constexpr uint64_t kEventsMax = 100'000;

class Keeper : public testing::Test {
 protected:
  ~Keeper() override { close(); }
  void open() {
    storage_ = disk_.open().value();
    keeper_ = ChangeKeeper::open(storage_.get(), executor_, silentTrace()).value();
  }
  void close() {
    if (keeper_ != nullptr) scheduler_.runUntil([this] { return keeper_->idle(); }, kEventsMax);
    keeper_.reset();
    storage_.reset();
  }
  void restart(bool loses_power) {
    loses_power ? disk_.losePower() : disk_.killProcess();
    close();
    open();
  }
  /// @return the storage's name; 0: none
  uint64_t nameStorage(uint64_t drawn) {
    std::optional<uint64_t> name;
    nameOn(*this, drawn, name).detach();
    EXPECT_EQ(scheduler_.runUntil([&] { return name.has_value(); }, kEventsMax), runtime::SimScheduler::Stop::Done);
    return name.value_or(0);
  }
  static runtime::Task<void> nameOn(Keeper& self, uint64_t drawn, std::optional<uint64_t>& name) {
    co_await runtime::resumeOn(self.executor_);
    name = co_await self.keeper_->nameStorage(drawn);
  }
  struct Kept {
    bool done = false;
  };
  void keep(ChangeRef change, Kept& kept) { keepOn(*this, change, kept).detach(); }
  static runtime::Task<void> keepOn(Keeper& self, ChangeRef change, Kept& kept) {
    co_await runtime::resumeOn(self.executor_);
    co_await self.keeper_->keep(change);
    kept.done = true;
  }
  static runtime::Task<void> hearOn(Keeper& self, ChangeRef change, bool& done) {
    co_await runtime::resumeOn(self.executor_);
    const ChangeRef named = self.keeper_->latest();
    EXPECT_TRUE(self.keeper_->answered(kCluster, change.start, named, change));
    done = true;
  }
  void hear(ChangeRef change) {
    bool done = false;
    hearOn(*this, change, done).detach();
    ASSERT_EQ(scheduler_.runUntil([&] { return done; }, kEventsMax), runtime::SimScheduler::Stop::Done);
  }
  bool awaitIdle() {
    return scheduler_.runUntil([this] { return keeper_->idle(); }, kEventsMax) == runtime::SimScheduler::Stop::Done;
  }
  bool keepNow(ChangeRef change) {
    Kept kept;
    keep(change, kept);
    return scheduler_.runUntil([&] { return kept.done; }, kEventsMax) == runtime::SimScheduler::Stop::Done;
  }

  runtime::SimScheduler scheduler_{5};
  runtime::SimTraceLog log_{scheduler_};
  runtime::SimNode node_{scheduler_, log_, "machine", {}};
  runtime::SimExecutor& executor_ = node_.makeExecutor("dispatch");
  runtime::SimDisk disk_{scheduler_, "disk", {}};
  std::unique_ptr<runtime::Storage> storage_;
  std::unique_ptr<ChangeKeeper> keeper_;
};

TEST_F(Keeper, WhatWasHeardIsOnTheDiskSoon) {
  open();
  EXPECT_EQ(keeper_->latest(), ChangeRef());
  hear({.start = 3, .number = 10});
  EXPECT_EQ(keeper_->latest(), (ChangeRef{.start = 3, .number = 10}));
  ASSERT_TRUE(awaitIdle());
  restart(true);
  EXPECT_EQ(keeper_->latest(), (ChangeRef{.start = 3, .number = 10}));
  EXPECT_EQ(keeper_->cluster(), kCluster);
}

TEST_F(Keeper, WhatIsUsedSurvivesALossOfPowerAtThatVeryMoment) {
  open();
  hear({.start = 3, .number = 10});
  for (uint64_t number = 11; number < 40; ++number) {
    ASSERT_TRUE(keepNow({.start = 3, .number = number}));
    restart(true);
    ASSERT_EQ(keeper_->latest(), (ChangeRef{.start = 3, .number = number}));
  }
}

TEST_F(Keeper, KeepsTheLatestOfAStartWhateverComesLate) {
  open();
  hear({.start = 3, .number = 10});
  hear({.start = 3, .number = 8});
  EXPECT_TRUE(keepNow({.start = 3, .number = 9})) << "it has a later one";
  EXPECT_EQ(keeper_->latest(), (ChangeRef{.start = 3, .number = 10}));
}

TEST_F(Keeper, AStartThatHasNotAnsweredIsNotObeyed) {
  open();
  EXPECT_FALSE(keeper_->obeys(3));
  hear({.start = 3, .number = 10});
  EXPECT_TRUE(keeper_->obeys(3));
  EXPECT_FALSE(keeper_->obeys(4));
  // Another start, which does not rely on its state at first, and then does.
  EXPECT_TRUE(keeper_->answered(kCluster, 4, keeper_->latest(), {}));
  EXPECT_TRUE(keeper_->obeys(4));
  EXPECT_FALSE(keeper_->obeys(3)) << "what it has sent is late";
  EXPECT_EQ(keeper_->latest(), (ChangeRef{.start = 3, .number = 10}));
  EXPECT_TRUE(keepNow({.start = 4, .number = 11}));
  EXPECT_TRUE(keepNow({})) << "a command that relies on nothing";
  restart(true);
  EXPECT_EQ(keeper_->latest(), (ChangeRef{.start = 4, .number = 11}));
  EXPECT_FALSE(keeper_->obeys(4)) << "it has not answered this process";
}

// The other start was asked before this server heard of the newest change, so its answer says nothing of that change.
TEST_F(Keeper, AnotherStartThatAnswersLateIsNotObeyed) {
  open();
  hear({.start = 3, .number = 10});
  const ChangeRef named = keeper_->latest();
  EXPECT_TRUE(keepNow({.start = 3, .number = 11}));
  EXPECT_FALSE(keeper_->answered(kCluster, 4, named, {.start = 4, .number = 11}));
  EXPECT_FALSE(keeper_->obeys(4));
  EXPECT_TRUE(keeper_->obeys(3));
  EXPECT_EQ(keeper_->latest(), (ChangeRef{.start = 3, .number = 11}));
  EXPECT_TRUE(keeper_->answered(kCluster, 3, named, {.start = 3, .number = 10}))
      << "the same start has its own changes";
  EXPECT_TRUE(keeper_->answered(kCluster, 4, keeper_->latest(), {.start = 4, .number = 12}));
  EXPECT_TRUE(keeper_->obeys(4));
}

TEST_F(Keeper, ManyAtOnceAreKeptTogether) {
  open();
  hear({.start = 3, .number = 10});
  std::array<Kept, 8> kept;
  for (size_t i = 0; i < kept.size(); ++i) keep({.start = 3, .number = 20 + i}, kept[i]);
  ASSERT_EQ(scheduler_.runUntil(
                [&] {
                  for (const Kept& one : kept) {
                    if (!one.done) return false;
                  }
                  return true;
                },
                kEventsMax),
            runtime::SimScheduler::Stop::Done);
  restart(true);
  EXPECT_EQ(keeper_->latest().number, 27U);
}

TEST_F(Keeper, ADiskThatFailsStopsNobody) {
  open();
  hear({.start = 3, .number = 10});
  ASSERT_TRUE(awaitIdle());
  disk_.failFlushes(1);
  EXPECT_TRUE(keepNow({.start = 3, .number = 11}));
  EXPECT_TRUE(keepNow({.start = 3, .number = 12}));
  EXPECT_EQ(keeper_->latest().number, 12U) << "for as long as the process lives";
}

TEST_F(Keeper, WithoutStorageItRemembersForAsLongAsItLives) {
  keeper_ = ChangeKeeper::open(nullptr, executor_, silentTrace()).value();
  hear({.start = 3, .number = 10});
  EXPECT_TRUE(keepNow({.start = 3, .number = 11}));
  EXPECT_EQ(keeper_->latest(), (ChangeRef{.start = 3, .number = 11}));
  EXPECT_EQ(nameStorage(77), 0U) << "there is nothing to be named";
}

TEST_F(Keeper, AStorageHasTheNameThatItGotFirst) {
  open();
  EXPECT_EQ(nameStorage(77), 77U);
  EXPECT_EQ(keeper_->latest(), ChangeRef()) << "nothing has been heard";
  restart(true);
  EXPECT_EQ(nameStorage(78), 77U) << "it was on the disk";
  EXPECT_EQ(nameStorage(79), 77U);
}

TEST_F(Keeper, TheNameStaysWithWhateverIsHeard) {
  open();
  EXPECT_EQ(nameStorage(77), 77U);
  hear({.start = 3, .number = 10});
  EXPECT_TRUE(keepNow({.start = 3, .number = 11}));
  EXPECT_TRUE(keepNow({.start = 3, .number = 12})) << "both records are written anew";
  restart(true);
  EXPECT_EQ(keeper_->latest(), (ChangeRef{.start = 3, .number = 12}));
  EXPECT_EQ(nameStorage(78), 77U);
  EXPECT_EQ(keeper_->latest(), (ChangeRef{.start = 3, .number = 12}));
  EXPECT_EQ(keeper_->cluster(), kCluster);
  restart(true);
  EXPECT_EQ(keeper_->latest(), (ChangeRef{.start = 3, .number = 12}));
}

TEST_F(Keeper, AStorageWithoutANameGetsOneBesideWhatWasHeard) {
  open();
  EXPECT_EQ(nameStorage(0), 0U);
  hear({.start = 3, .number = 10});
  ASSERT_TRUE(awaitIdle());
  restart(true);
  EXPECT_EQ(nameStorage(77), 77U);
  restart(true);
  EXPECT_EQ(keeper_->latest(), (ChangeRef{.start = 3, .number = 10}));
  EXPECT_EQ(nameStorage(78), 77U);
}

// The former process was killed while it waited for the disk: its record is in the page cache only.
TEST_F(Keeper, WhatWasFoundIsFlushedBeforeItIsUsed) {
  for (uint64_t name = 1; name < 40; ++name) {
    disk_.losePower();
    close();
    const Status removed = disk_.open().value()->remove("heard");
    ASSERT_TRUE(removed == Status::Ok || removed == Status::NotFound);
    disk_.killProcess();
    open();
    std::optional<uint64_t> named;
    nameOn(*this, name, named).detach();
    scheduler_.runUntil([this] { return !keeper_->idle(); }, kEventsMax);
    ASSERT_FALSE(named) << "it is being flushed";
    disk_.killProcess();
    scheduler_.runUntil([&] { return named.has_value(); }, kEventsMax);
    ASSERT_EQ(named, std::optional<uint64_t>(name));
    restart(false);
    ASSERT_EQ(nameStorage(100 + name), name);
    restart(true);
    ASSERT_EQ(nameStorage(200 + name), name);
  }
}

TEST_F(Keeper, WhatTheProcessBeforeHeardIsFlushedBeforeItIsUsed) {
  open();
  for (uint64_t number = 10; number < 100; number += 2) {
    ASSERT_TRUE(keepNow({.start = 3, .number = number}));
    hear({.start = 3, .number = number + 1});
    ASSERT_FALSE(keeper_->idle()) << "it is being flushed";
    restart(false);
    ASSERT_EQ(keeper_->latest().number, number + 1);
    ASSERT_TRUE(keepNow({.start = 3, .number = number + 1}));
    restart(true);
    ASSERT_EQ(keeper_->latest().number, number + 1);
  }
}

TEST_F(Keeper, AProcessThatWasKilledAndALossOfPowerLeaveOneRecord) {
  open();
  for (uint64_t number = 10; number < 1000; number += 3) {
    ASSERT_TRUE(keepNow({.start = 3, .number = number}));
    hear({.start = 3, .number = number + 1});
    restart(false);
    hear({.start = 3, .number = number + 2});
    restart(true);
    ASSERT_GE(keeper_->latest().number, number);
  }
}

TEST_F(Keeper, TheNameThatWasFoundIsToldThoughTheDiskHasFailed) {
  open();
  EXPECT_EQ(nameStorage(77), 77U);
  restart(true);
  disk_.failFlushes(1);
  EXPECT_EQ(nameStorage(78), 77U) << "other processes on this storage are known by it";
  restart(true);
  EXPECT_EQ(nameStorage(79), 77U);
}

TEST_F(Keeper, TheNameThatWasDrawnIsToldThoughTheDiskHasFailed) {
  open();
  disk_.failFlushes(1);
  EXPECT_EQ(nameStorage(77), 77U) << "the next process may find it";
  EXPECT_EQ(nameStorage(78), 77U);
  restart(false);
  EXPECT_EQ(nameStorage(79), 77U) << "as this one does";
}

TEST_F(Keeper, TheNameThatWasDrawnIsLostIfItsFlushFailedAndThePowerIsLost) {
  open();
  disk_.failFlushes(1);
  EXPECT_EQ(nameStorage(77), 77U);
  restart(true);
  EXPECT_EQ(nameStorage(78), 78U);
}

}  // namespace
}  // namespace ramcore::master
