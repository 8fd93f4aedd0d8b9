/// The recovery of what is left of a log: every object is one that was written, and no version is handed out twice.

#include <gtest/gtest.h>

#include "sim/recovery_fixture.h"

namespace ramcore::sim::raw {
namespace {

class MasterSalvageTest : public MasterRecoveryTest {
 protected:
  void putNoted(uint64_t number, const std::string& value) {
    put(number, value);
    written[keyBytes(number)].insert(value);
  }
  /// Values of all sizes, in several segments.
  void writeMuch(runtime::Random& random) {
    for (int i = 0; i < 600 && !HasFatalFailure(); ++i) {
      putNoted(random.below(50), uniqueValueBytes(++value_number, static_cast<uint32_t>(9 + random.below(1500))));
    }
  }
  control::RecoverTabletsRequest salvage(uint64_t epoch) {
    control::RecoverTabletsRequest ask = wholeTable(epoch);
    ask.set_salvage(true);
    return ask;
  }
  void salvageAll() {
    ASSERT_EQ(recover(salvage(2)), Status::Ok);
    ASSERT_EQ(pullEnd(5, 1).status(), 0u);
    ASSERT_EQ(take(5, 0, kLast, 2, 1, false), Status::Ok);
  }
  /// How many keys have a value.
  size_t expectOnlyWhatWasWritten() {
    size_t found = 0;
    for (const uint64_t number : keys) {
      const std::string key = keyBytes(number);
      const Answer answer = read(key, 2, 1);
      if (answer.status == Status::NotFound) continue;
      EXPECT_EQ(answer.status, Status::Ok);
      EXPECT_TRUE(written[key].contains(answer.value)) << key << " was never that";
      EXPECT_GT(answer.version, highest[key]) << "an older value under a version that another one had";
      highest[key] = answer.version;
      ++found;
    }
    return found;
  }
  /// The recovered server dies too before anybody writes: what it knew of versions is in its log.
  void dieAgain() {
    world.addServer();
    log = copyLog(world.servers[1]->master());
    backups.clear();
    addBackup();
    control::RecoverTabletsRequest ask = request();
    ask.set_dead(world.addresses[1].id);
    addTablet(ask, 5, 0, kLast, 3);
    ask.mutable_tablets(0)->mutable_logs(1)->set_server(world.addresses[1].id);
    ask.mutable_tablets(0)->mutable_logs(1)->set_first_segment(
        world.servers[1]->master().tablets().list()[0].first_segment.value);
    ASSERT_EQ(recover(ask, 2), Status::Ok);
    ASSERT_EQ(pullEnd(5, 2).status(), 0u);
    ASSERT_EQ(take(5, 0, kLast, 3, 2, false), Status::Ok);
  }

  std::map<std::string, std::set<std::string>> written;
};

class MasterSalvageRandomTest : public MasterSalvageTest, public ::testing::WithParamInterface<uint64_t> {};

TEST_P(MasterSalvageRandomTest, EveryObjectIsOneThatWasWritten) {
  runtime::Random random(GetParam());
  writeMuch(random);
  die();
  ASSERT_GT(log.size(), 4u);
  // Any of them are gone.
  for (auto at = log.begin(); at != log.end();) at = random.below(2) == 0 ? log.erase(at) : std::next(at);
  addBackup();
  salvageAll();
  expectOnlyWhatWasWritten();
  expectOwnLogSaysTheSame(1);
  // put() expects a version above every one that the key ever had.
  for (const uint64_t number : std::set<uint64_t>(keys)) put(number, "again", 1, 2);
}

INSTANTIATE_TEST_SUITE_P(Seeds, MasterSalvageRandomTest, ::testing::Range<uint64_t>(1, 13));

TEST_F(MasterSalvageTest, WithTheNewestSegmentsGoneVersionsGoOnAboveThem) {
  runtime::Random random(1);
  writeMuch(random);
  die();
  while (log.size() > 2) log.erase(std::prev(log.end()));
  addBackup();
  salvageAll();
  EXPECT_GT(expectOnlyWhatWasWritten(), 0u);
  for (const uint64_t number : std::set<uint64_t>(keys)) put(number, "again", 1, 2);
}

TEST_F(MasterSalvageTest, WithEverythingGoneTheTabletIsEmptyAndVersionsAreNew) {
  runtime::Random random(2);
  writeMuch(random);
  die();
  log.clear();
  salvageAll();
  EXPECT_EQ(expectOnlyWhatWasWritten(), 0u);
  for (const uint64_t number : std::set<uint64_t>(keys)) put(number, "again", 1, 2);
}

TEST_F(MasterSalvageTest, WhatIsKnownOfVersionsIsInTheLog) {
  runtime::Random random(3);
  writeMuch(random);
  die();
  log.clear();
  salvageAll();
  dieAgain();
  for (const uint64_t number : std::set<uint64_t>(keys)) put(number, "again", 2, 3);
}

TEST_F(MasterSalvageTest, ARepeatedSalvageTakesNoMoreVersions) {
  putNoted(1, "one");
  die();
  addBackup();
  for (uint64_t epoch = 2; epoch <= 6; ++epoch) {
    ASSERT_EQ(recover(salvage(epoch)), Status::Ok);
    ASSERT_EQ(pullEnd(5, 1).status(), 0u);
  }
  ASSERT_EQ(take(5, 0, kLast, 6, 1, false), Status::Ok);
  put(1, "two", 1, 6);
  EXPECT_GT(highest[keyBytes(1)], Version{1} << 40);
  EXPECT_LT(highest[keyBytes(1)], (Version{1} << 40) + 100);
}

TEST_F(MasterSalvageTest, OnlyASalvageGoesWithoutSegments) {
  control::RecoverTabletsRequest ask = wholeTable(2);
  ask.clear_segments();
  EXPECT_EQ(recover(ask), Status::BadRequest);
  ask.set_salvage(true);
  EXPECT_EQ(recover(ask), Status::Ok);
}

}  // namespace
}  // namespace ramcore::sim::raw
