// Tests what a plan to level out servers, or to empty one, does and does not do.
#include "tools/rcmigrate/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "runtime/random.h"

namespace ramcore::rcmigrate {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr double kTenPercent = 0.1;
constexpr unsigned kClusters = 3'334;  // at random, for each of the three measures

/// Servers and tablets, as a plan finds and changes them.
struct Model {
  std::vector<PlanServer> servers;
  std::vector<PlanTablet> tablets;

  ServerId addServer(uint64_t bytes_max = kGiB) {
    servers.push_back({.id = ServerId(100 + servers.size()), .bytes = 0, .bytes_max = bytes_max});
    return servers.back().id;
  }
  PlanTablet& addTablet(ServerId owner, uint64_t bytes, uint64_t objects = 0, double load = 0) {
    const TableId table(static_cast<uint32_t>(1 + tablets.size()));
    tablets.push_back({.id = TabletId(1 + tablets.size()),
                       .table = table,
                       .range = {},
                       .owner = owner,
                       .bytes = bytes,
                       .objects = objects,
                       .load = load});
    server(owner).bytes += bytes;
    return tablets.back();
  }
  PlanServer& server(ServerId id) { return *std::ranges::find(servers, id, &PlanServer::id); }
  PlanTablet& tablet(TableId table, const HashRange& range) {
    return *std::ranges::find_if(tablets,
                                 [&](const PlanTablet& one) { return one.table == table && one.range == range; });
  }
  bool has(TableId table, const HashRange& range) const {
    return std::ranges::any_of(tablets,
                               [&](const PlanTablet& one) { return one.table == table && one.range == range; });
  }
  static double valueOf(const PlanTablet& tablet, Measure measure) {
    if (measure == Measure::Load) return tablet.load;
    return static_cast<double>(measure == Measure::Bytes ? tablet.bytes : tablet.objects);
  }
  double levelOf(const PlanServer& server, Measure measure) const {
    double value = 0;
    for (const PlanTablet& tablet : tablets) value += tablet.owner == server.id ? valueOf(tablet, measure) : 0;
    return measure == Measure::Load ? value : value / static_cast<double>(server.bytes_max);
  }
  double fullest(Measure measure) const {
    double most = 0;
    for (const PlanServer& server : servers) most = std::max(most, levelOf(server, measure));
    return most;
  }
  double mean(Measure measure) const {
    double value = 0;
    double weight = 0;
    for (const PlanTablet& tablet : tablets) value += valueOf(tablet, measure);
    for (const PlanServer& server : servers)
      weight += measure == Measure::Load ? 1 : static_cast<double>(server.bytes_max);
    return value / weight;
  }

  // Does what the plan says. Of a tablet that is cut each half has its share of the range, and of the sample.
  void carryOut(const Plan& plan) {
    for (const PlanStep& step : plan.steps) {
      ASSERT_TRUE(has(step.table, step.range)) << "a step is about a tablet that does not exist";
      PlanTablet& tablet = this->tablet(step.table, step.range);
      ASSERT_EQ(tablet.owner, step.from);
      if (step.kind == PlanStep::Kind::Split) {
        cut(tablet, step.at);
      } else {
        ASSERT_NE(step.to, step.from);
        ASSERT_NE(step.to, tablet.came_from) << "the move before is undone";
        server(step.from).bytes -= std::min(server(step.from).bytes, tablet.bytes);
        server(step.to).bytes += tablet.bytes;
        tablet.came_from = tablet.owner;
        tablet.owner = step.to;
        // (Rounded to whole bytes where tablets were cut.)
        ASSERT_LE(static_cast<double>(server(step.to).bytes),
                  kFullMax * static_cast<double>(server(step.to).bytes_max) + 1000);
      }
    }
  }

 private:
  void cut(PlanTablet& lower, KeyHash at) {
    ASSERT_GT(at, lower.range.first);
    ASSERT_LE(at, lower.range.last);
    PlanTablet upper = lower;
    const double size_share =
        static_cast<double>(at - lower.range.first) / (static_cast<double>(lower.range.last - lower.range.first) + 1);
    const auto middle = std::ranges::lower_bound(upper.sample, at);
    const double load_share = upper.sample.size() < kSampleLeast ? size_share
                                                                 : static_cast<double>(middle - upper.sample.begin()) /
                                                                       static_cast<double>(upper.sample.size());
    lower.bytes = static_cast<uint64_t>(static_cast<double>(lower.bytes) * size_share);
    lower.objects = static_cast<uint64_t>(static_cast<double>(lower.objects) * size_share);
    lower.load *= load_share;
    upper.bytes -= lower.bytes;
    upper.objects -= lower.objects;
    upper.load -= lower.load;
    lower.range.last = at - 1;
    upper.range.first = at;
    lower.sample.assign(upper.sample.begin(), middle);
    upper.sample.erase(upper.sample.begin(), middle);
    upper.id = TabletId(1000 + tablets.size());
    tablets.push_back(std::move(upper));
  }
};

class LevelTest : public testing::TestWithParam<Measure> {};

TEST_P(LevelTest, ANewServerGetsItsShare) {
  Model model;
  for (int i = 0; i < 4; ++i) model.addTablet(model.addServer(), 100 << 20, 1'000'000, 10'000);
  model.addServer();
  const Plan plan = level(model.servers, model.tablets, GetParam());
  ASSERT_FALSE(plan.steps.empty());
  EXPECT_LT(plan.steps.size(), 40U);
  model.carryOut(plan);
  for (const PlanServer& server : model.servers) {
    EXPECT_NEAR(model.levelOf(server, GetParam()) / model.mean(GetParam()), 1, kTenPercent);
  }
  EXPECT_TRUE(level(model.servers, model.tablets, GetParam()).steps.empty()) << "a second call finds something to do";
}

TEST_P(LevelTest, ASkewedLoadIsLevelled) {
  runtime::Random random(7);
  Model model;
  for (int i = 0; i < 5; ++i) model.addServer();
  // Zipf: the calls to tablet i are as 1 / i.
  for (int i = 1; i <= 40; ++i) {
    PlanTablet& tablet =
        model.addTablet(model.servers[static_cast<size_t>(i) % 4].id, (200 << 20) / i, 2'000'000 / i, 100'000.0 / i);
    for (int sampled = 0; sampled < 256; ++sampled) tablet.sample.push_back(random.next() >> (random.next() % 3));
    std::ranges::sort(tablet.sample);
  }
  const Plan plan = level(model.servers, model.tablets, GetParam());
  model.carryOut(plan);
  for (const PlanServer& server : model.servers) {
    EXPECT_NEAR(model.levelOf(server, GetParam()) / model.mean(GetParam()), 1, kTenPercent);
  }
  EXPECT_TRUE(level(model.servers, model.tablets, GetParam()).steps.empty());
}

// Each of them gains next to nothing.
TEST_P(LevelTest, ManySmallTabletsAreLevelled) {
  Model model;
  for (int i = 0; i < 3; ++i) model.addServer();
  for (size_t i = 0; i < 180; ++i) model.addTablet(model.servers[i % 3].id, 4 << 20, 40'000, 100);
  model.addServer();
  const Plan plan = level(model.servers, model.tablets, GetParam());
  EXPECT_LE(plan.steps.size(), 45U);
  ASSERT_NO_FATAL_FAILURE(model.carryOut(plan));
  for (const PlanServer& server : model.servers) {
    EXPECT_NEAR(model.levelOf(server, GetParam()) / model.mean(GetParam()), 1, kTenPercent);
  }
  EXPECT_TRUE(level(model.servers, model.tablets, GetParam()).steps.empty());
}

// The average of many servers is about what each of the others has.
TEST_P(LevelTest, OneEmptyServerAmongManyGetsItsShare) {
  Model model;
  for (int i = 0; i < 40; ++i) {
    const ServerId server = model.addServer();
    for (int k = 0; k < 10; ++k) model.addTablet(server, 10 << 20, 100'000, 1'000);
  }
  const ServerId empty = model.addServer();
  ASSERT_NO_FATAL_FAILURE(model.carryOut(level(model.servers, model.tablets, GetParam())));
  EXPECT_GT(model.levelOf(model.server(empty), GetParam()), 0.7 * model.mean(GetParam()));
}

TEST_P(LevelTest, WhatIsLevelStays) {
  Model model;
  for (int i = 0; i < 4; ++i) model.addTablet(model.addServer(), (100 + i) << 20, 1'000'000 + i, 10'000 + i);
  EXPECT_TRUE(level(model.servers, model.tablets, GetParam()).steps.empty());
}

TEST_P(LevelTest, AnEmptyClusterStays) {
  Model model;
  EXPECT_TRUE(level(model.servers, model.tablets, GetParam()).steps.empty());
  model.addTablet(model.addServer(), 0);
  model.addServer();
  EXPECT_TRUE(level(model.servers, model.tablets, GetParam()).steps.empty());
}

TEST_P(LevelTest, WhatIsMovingOrCameFromThereStays) {
  Model model;
  const ServerId full = model.addServer();
  const ServerId empty = model.addServer();
  for (int i = 0; i < 2; ++i) model.addTablet(full, 100 << 20, 1'000'000, 10'000);
  model.tablets[0].may_move = false;
  model.tablets[1].came_from = empty;
  EXPECT_TRUE(level(model.servers, model.tablets, GetParam()).steps.empty());
  model.tablets[1].came_from = {};
  EXPECT_EQ(level(model.servers, model.tablets, GetParam()).steps.size(), 1U);
}

Model randomCluster(runtime::Random& random) {
  Model model;
  const uint64_t servers = 1 + random.next() % 12;
  for (uint64_t i = 0; i < servers; ++i) model.addServer(kGiB / 4 * (1 + random.next() % 8));
  const uint64_t tablets = random.next() % 60;
  for (uint64_t i = 0; i < tablets; ++i) {
    PlanServer& owner = model.servers[random.next() % model.servers.size()];
    const uint64_t room = owner.bytes_max - owner.bytes;
    PlanTablet& tablet = model.addTablet(owner.id, room / (1 + random.next() % 40), random.next() % 5'000'000,
                                         static_cast<double>(random.next() % 100'000) / (1 + random.next() % 50));
    tablet.may_move = random.next() % 10 != 0;
    if (random.next() % 5 == 0) tablet.came_from = model.servers[random.next() % model.servers.size()].id;
    if (random.next() % 2 == 0) continue;
    const KeyHash hot = random.next();
    const bool has_hot = random.next() % 4 == 0;
    for (int sampled = 0; sampled < 64; ++sampled) {
      tablet.sample.push_back(has_hot && random.next() % 3 != 0 ? hot : random.next());
    }
    std::ranges::sort(tablet.sample);
  }
  return model;
}

TEST_P(LevelTest, RandomClustersEndAndAreNeverMadeWorse) {
  runtime::Random random(32);
  size_t with_steps = 0;
  size_t with_splits = 0;
  for (unsigned i = 0; i < kClusters; ++i) {
    SCOPED_TRACE(i);
    Model model = randomCluster(random);
    const double fullest = model.fullest(GetParam());
    const Plan plan = level(model.servers, model.tablets, GetParam());
    ASSERT_LT(plan.steps.size(), 1000U);
    with_steps += plan.steps.empty() ? 0 : 1;
    with_splits += std::ranges::any_of(plan.steps, [](auto& step) { return step.kind == PlanStep::Kind::Split; });
    ASSERT_NO_FATAL_FAILURE(model.carryOut(plan));
    ASSERT_LE(model.fullest(GetParam()), fullest * (1 + 1e-9));
    const Plan second = level(model.servers, model.tablets, GetParam());
    ASSERT_TRUE(second.steps.empty()) << second.steps.size() << " after " << plan.steps.size();
  }
  EXPECT_GT(with_steps, kClusters / 2);
  EXPECT_GT(with_splits, kClusters / 10);
}

std::string measureName(const testing::TestParamInfo<Measure>& info) {
  if (info.param == Measure::Load) return "load";
  return info.param == Measure::Bytes ? "bytes" : "objects";
}
INSTANTIATE_TEST_SUITE_P(Measures, LevelTest, testing::Values(Measure::Bytes, Measure::Objects, Measure::Load),
                         measureName);

TEST(LoadPlan, OneHotKeyIsNamedAndLeft) {
  Model model;
  const ServerId hot = model.addServer();
  model.addServer();
  PlanTablet& tablet = model.addTablet(hot, 100 << 20, 1'000'000, 50'000);
  constexpr KeyHash kHot = 0x123456789;
  for (int i = 0; i < 60; ++i) tablet.sample.push_back(i % 3 == 0 ? static_cast<KeyHash>(i) << 58 : kHot);
  std::ranges::sort(tablet.sample);
  const Plan plan = level(model.servers, model.tablets, Measure::Load);
  EXPECT_TRUE(plan.steps.empty());
  ASSERT_EQ(plan.hot_keys.size(), 1U);
  EXPECT_EQ(plan.hot_keys[0].hash, kHot);
  EXPECT_NEAR(plan.hot_keys[0].share, 0.67, 0.02);
}

TEST(LoadPlan, AHotKeyOfATabletWithoutASampleIsLeftAsWell) {
  Model model;
  const ServerId hot = model.addServer();
  model.addServer();
  model.addTablet(hot, 100 << 20, 1'000'000, 50'000).has_hot_key = true;
  EXPECT_TRUE(level(model.servers, model.tablets, Measure::Load).steps.empty());
}

TEST(LoadPlan, WhatChanceExplainsIsLeft) {
  Model model;
  for (const int calls : {130, 100}) model.addTablet(model.addServer(), 100 << 20, 1'000'000, calls);
  for (size_t i = 0; i < 10; ++i) model.addTablet(model.servers[0].id, 1 << 20, 1'000, 1);
  EXPECT_TRUE(level(model.servers, model.tablets, Measure::Load, 1).steps.empty());
  EXPECT_FALSE(level(model.servers, model.tablets, Measure::Load, 60).steps.empty());
  EXPECT_FALSE(level(model.servers, model.tablets, Measure::Load).steps.empty());
}

TEST(LoadPlan, ALargeTabletIsCutWhereItsCallsAre) {
  Model model;
  const ServerId hot = model.addServer();
  model.addServer();
  PlanTablet& tablet = model.addTablet(hot, 100 << 20, 1'000'000, 50'000);
  // All calls go to the first sixteenth of the hashes.
  for (KeyHash i = 0; i < 256; ++i) tablet.sample.push_back(i << 52);
  const Plan plan = level(model.servers, model.tablets, Measure::Load);
  ASSERT_EQ(plan.steps.size(), 2U);
  EXPECT_EQ(plan.steps[0].kind, PlanStep::Kind::Split);
  EXPECT_EQ(plan.steps[0].at, KeyHash{128} << 52);
  ASSERT_NO_FATAL_FAILURE(model.carryOut(plan));
  EXPECT_DOUBLE_EQ(model.levelOf(model.servers[0], Measure::Load), 25'000);
}

TEST(BytesPlan, NoServerIsFilledAboveItsLimit) {
  Model model;
  const ServerId full = model.addServer(kGiB);
  const ServerId small = model.addServer(kGiB);
  model.server(small).bytes = kGiB * 8 / 10;  // of what is no tablet's: removals, results of calls
  for (int i = 0; i < 9; ++i) model.addTablet(full, kGiB / 10);
  EXPECT_TRUE(level(model.servers, model.tablets, Measure::Bytes).steps.empty());
  model.server(small).bytes = kGiB * 6 / 10;
  EXPECT_EQ(level(model.servers, model.tablets, Measure::Bytes).steps.size(), 2U);
}

TEST(DrainPlan, TheOthersAreFilledEvenly) {
  Model model;
  const ServerId leaving = model.addServer();
  for (int i = 0; i < 3; ++i) model.addTablet(model.addServer(), (50 + 10 * i) << 20);
  for (int i = 0; i < 12; ++i) model.addTablet(leaving, 20 << 20);
  const Plan plan = drain(model.servers, model.tablets, leaving);
  EXPECT_EQ(plan.bytes_without_room, 0U);
  EXPECT_EQ(plan.steps.size(), 12U);
  ASSERT_NO_FATAL_FAILURE(model.carryOut(plan));
  EXPECT_EQ(model.levelOf(model.server(leaving), Measure::Bytes), 0);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_NEAR(static_cast<double>(model.servers[i].bytes), 140 << 20, 11 << 20);
  }
}

TEST(DrainPlan, ATabletThatFitsNowhereIsCut) {
  Model model;
  const ServerId leaving = model.addServer();
  model.addTablet(leaving, kGiB * 8 / 10);
  for (int i = 0; i < 3; ++i) model.server(model.addServer()).bytes = kGiB / 2;
  const Plan plan = drain(model.servers, model.tablets, leaving);
  EXPECT_EQ(plan.bytes_without_room, 0U);
  ASSERT_NO_FATAL_FAILURE(model.carryOut(plan));
  EXPECT_EQ(model.levelOf(model.server(leaving), Measure::Bytes), 0);
}

TEST(DrainPlan, WithoutRoomNothingIsMoved) {
  Model model;
  const ServerId leaving = model.addServer();
  model.addTablet(leaving, kGiB / 2);
  model.server(model.addServer()).bytes = kGiB / 2;
  const Plan plan = drain(model.servers, model.tablets, leaving);
  EXPECT_TRUE(plan.steps.empty());
  EXPECT_GT(plan.bytes_without_room, kGiB / 10);
  Model alone;
  alone.addTablet(alone.addServer(), 1);
  EXPECT_EQ(drain(alone.servers, alone.tablets, alone.servers[0].id).bytes_without_room, 1U);
}

}  // namespace
}  // namespace ramcore::rcmigrate
