#pragma once

#include <map>
#include <optional>

#include "unit/coordinator/coordinator_fixture.h"

namespace ramcore::coordinator {

/// The tablet that answers for a hash, by the coordinator's word.
inline Tablet tabletAt(Bench& bench, TableId table, KeyHash hash) {
  const Tablet* tablet = bench.life().map.findTablet(table, hash);
  EXPECT_NE(tablet, nullptr);
  return tablet == nullptr ? Tablet{} : *tablet;
}

inline bool isQuiet(Bench& bench, TableId table) {
  for (const Tablet* tablet : bench.life().map.tabletsOf(table)) {
    if (tablet->state != TabletState::Normal) return false;
  }
  return true;
}

/// Everything serves, holds exactly what the map says, and nothing else is left anywhere.
inline void expectWhole(Bench& bench, TableId table) {
  EXPECT_EQ(bench.life().map.inconsistency(), std::nullopt);
  std::map<TabletId, int> owners;
  for (auto& [id, machine] : bench.cluster().machines()) {
    for (auto& [tablet_id, held] : machine.tablets) {
      const Tablet* known = bench.life().map.findTablet(tablet_id);
      if (known == nullptr || known->owner != id) continue;
      EXPECT_EQ(known->epoch, held.tablet.epoch);
      EXPECT_FALSE(held.frozen);
      EXPECT_FALSE(held.pulling);
      ++owners[tablet_id];
    }
  }
  for (const Tablet* tablet : bench.life().map.tabletsOf(table)) EXPECT_EQ(owners[tablet->id], 1);
}

/// One crash after every single event of an operation: whatever was on its way is finished by the next life.
template <typename Begin, typename Finished>
void crashEverywhere(const Begin& begin, const Finished& finished) {
  uint64_t events = 0;
  bool reached_end = false;
  for (int step = 0; !reached_end && step < 2'000; step += 1 + step / 20) {
    SCOPED_TRACE(step);
    Bench bench({.seed = static_cast<uint64_t>(step) + 1, .faults = {.duplicate_permille = 100}});
    auto context = begin(bench);
    for (int i = 0; i < step && !reached_end; ++i) reached_end = !bench.scheduler().step() || context.done(bench);
    bench.restart();
    bench.passRenewing(3 * kSecond);
    finished(bench, context);
    events += bench.scheduler().eventCount();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_TRUE(reached_end);
  EXPECT_GT(events, 0u);
}

/// What crashEverywhere() interrupts.
struct Operation {
  TableId table{};
  Tablet before{};
  ServerId target{};
  std::function<bool(Bench&)> done{};
};

}  // namespace ramcore::coordinator
