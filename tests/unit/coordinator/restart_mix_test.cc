// Whatever a coordinator was at when it ended, the next one can read what it has stored, and carries it on.
#include <gtest/gtest.h>

#include "unit/coordinator/coordinator_fixture.h"

namespace ramcore::coordinator {
namespace {

class MixedOperations {
 public:
  explicit MixedOperations(uint64_t seed)
      : random_(seed), bench_({.seed = seed, .faults = {.lose_permille = 100, .duplicate_permille = 100}}) {
    for (uint64_t i = 1; i <= 3; ++i) servers_.push_back(bench_.addServer(i));
  }

  void run(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFatalFailure(); ++step) {
      begin();
      // A server is silent for a moment, never for so long that there is a verdict.
      FakeCluster::Machine& machine = bench_.cluster().machine(servers_[random_.below(servers_.size())]);
      machine.up = random_.below(4) != 0;
      bench_.pass(static_cast<int64_t>(random_.below(30)) * kMilli);
      machine.up = true;
      bench_.renewAll();
      if (random_.below(3) == 0) {
        bench_.restart();
        ++restarts_;
      }
    }
  }

  /// Everything that was begun comes to its end, and is there after one more restart.
  void expectRest() {
    bench_.passRenewing(60 * kSecond);
    for (int round = 0; round < 2; ++round) {
      for (const Table* table : bench_.life().map.tables()) EXPECT_EQ(table->state, TableState::Ready) << table->name;
      EXPECT_TRUE(bench_.life().map.tabletsIn(TabletState::Moving).empty());
      EXPECT_TRUE(bench_.life().map.tabletsIn(TabletState::Splitting).empty());
      EXPECT_EQ(bench_.life().map.inconsistency(), std::nullopt);
      for (const Table* table : bench_.life().map.tables()) {
        for (const Tablet* tablet : bench_.life().map.tabletsOf(table->id)) {
          EXPECT_TRUE(bench_.cluster().mutate(*tablet)) << tablet->id.value;
        }
      }
      bench_.restart();
    }
  }

  uint64_t tableCount() { return bench_.life().map.tables().size(); }
  int restarts() const { return restarts_; }

 private:
  void begin() {
    Bench::Life& life = bench_.life();
    const std::vector<const Table*> tables = life.map.tables();
    const uint64_t kind = random_.below(10);
    if (kind < 3 || tables.empty()) {
      const std::string name = "t" + std::to_string(random_.below(6));
      Bench::createOn(life, name, static_cast<uint32_t>(1 + random_.below(5)), ++nonce_).detach();
      return;
    }
    const Table& table = *tables[random_.below(tables.size())];
    const std::vector<const Tablet*> tablets = life.map.tabletsOf(table.id);
    if (kind < 5) {
      Bench::dropOn(life, table.id).detach();
    } else if (kind < 8 && !tablets.empty()) {
      const TabletId tablet = tablets[random_.below(tablets.size())]->id;
      Bench::moveOn(life, tablet, servers_[random_.below(servers_.size())]).detach();
    } else {
      Bench::splitOn(life, table.id, random_.next()).detach();
    }
  }

  runtime::Random random_;
  Bench bench_;
  std::vector<ServerId> servers_;
  uint64_t nonce_ = 0;
  int restarts_ = 0;
};

TEST(Restart, AnyMixOfOperationsIsReadAgainAndComesToItsEnd) {
  uint64_t tables = 0;
  int restarts = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    MixedOperations operations(seed);
    operations.run(40);
    operations.expectRest();
    tables += operations.tableCount();
    restarts += operations.restarts();
    if (HasFailure()) return;
  }
  EXPECT_GT(tables, 500u);
  EXPECT_GT(restarts, 5000);
}

}  // namespace
}  // namespace ramcore::coordinator
