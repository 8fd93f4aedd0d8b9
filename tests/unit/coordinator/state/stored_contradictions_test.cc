/// What no coordinator can have stored: it is refused at the start, by the name of the record, and not met later.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "coordinator/state/stored_state.h"
#include "unit/coordinator/coordinator_fixture.h"
#include "wire/state.pb.h"

namespace ramcore::coordinator {
namespace {

constexpr KeyHash kLast = ~KeyHash{0};

/// A store of two servers and a table of one tablet, numbers below 100 given away, before it is damaged.
struct Store {
  Store() {
    for (const char* kind : {"server", "client", "table", "tablet", "migration"}) {
      disk.put(std::string("id/") + kind, encodeAllocator(100));
    }
    for (const uint64_t id : {1, 2}) {
      Server server = Bench::serverOf(id);
      server.id = ServerId(id);
      put(server);
    }
    put(table);
    put(tablet);
  }
  template <typename Record>
  void put(const Record& record) {
    disk.put(keyOf(record.id), encode(record));
  }
  void putMoving(Migration migration) {
    tablet.state = TabletState::Moving;
    tablet.last_epoch = std::max(tablet.last_epoch, TabletEpoch(2));
    put(tablet);
    put(migration);
  }
  /// As the hand-over is stored: the tablet has a new owner, and its contents are in the logs of both servers.
  void handOver() {
    migration.step = MigrationStep::Arriving;
    migration.destination_segment = SegmentId(9);
    tablet.owner = migration.destination;
    tablet.epoch = migration.destination_epoch;
    tablet.logs.push_back({migration.destination, migration.destination_segment});
  }
  /// As it is stored when the contents are in the new owner's log alone.
  void arrive() {
    handOver();
    migration.step = MigrationStep::Arrived;
    tablet.logs.erase(tablet.logs.begin());
  }
  void putDead(bool recovered, ServerId id = ServerId(1)) {
    Server server = Bench::serverOf(id.value);
    server.id = id;
    server.alive = false;
    server.recovered = recovered;
    put(server);
  }
  void putSplit(const Split& split) {
    tablet.state = TabletState::Splitting;
    tablet.last_epoch = TabletEpoch(2);
    put(tablet);
    disk.put(keyOfSplit(split.tablet), encode(split));
  }

  Bench bench;
  MemoryDisk& disk = bench.disk();
  Table table{.id = TableId(1),
              .name = "t",
              .state = TableState::Ready,
              .first_tablet = {},
              .owners = {},
              .epochs = {},
              .nonce = 9};
  Tablet tablet{.id = TabletId(1),
                .table = TableId(1),
                .range = {0, kLast},
                .epoch = TabletEpoch(1),
                .last_epoch = TabletEpoch(1),
                .state = TabletState::Normal,
                .owner = ServerId(1),
                .logs = {{ServerId(1), SegmentId(3)}}};
  Table creating{.id = TableId(2),
                 .name = "u",
                 .state = TableState::Creating,
                 .first_tablet = TabletId(5),
                 .owners = {ServerId(1), ServerId(2)},
                 .epochs = {TabletEpoch(1), TabletEpoch(1)},
                 .nonce = 10};
  Migration migration{.id = MigrationId(1),
                      .tablet = TabletId(1),
                      .table = TableId(1),
                      .source = ServerId(1),
                      .destination = ServerId(2),
                      .source_epoch = TabletEpoch(1),
                      .destination_epoch = TabletEpoch(2),
                      .reason = {}};
  Split split{.tablet = TabletId(1),
              .lower = TabletId(8),
              .upper = TabletId(9),
              .at_hash = KeyHash{1} << 63,
              .epoch = TabletEpoch(2)};
};

using Damage = std::function<void(Store&)>;

/// @param why  a part of the reason; empty: any
void expectRefused(const std::string& key, const Damage& damage, const std::string& why = {}) {
  SCOPED_TRACE(key + " " + why);
  Store store;
  damage(store);
  ASSERT_EQ(store.bench.tryStart(), Status::Corrupt);
  const std::string& warning = store.bench.life().journal.warning();
  EXPECT_NE(warning.find("'" + key), std::string::npos) << warning;
  EXPECT_NE(warning.find(why), std::string::npos) << warning;
}

TEST(StoredContradictions, WhatWasStoredTogetherIsTaken) {
  const std::vector<Damage> sound = {[](Store&) {},
                                     [](Store& store) { store.put(store.creating); },
                                     [](Store& store) { store.putMoving(store.migration); },
                                     [](Store& store) { store.putSplit(store.split); },
                                     [](Store& store) {  // a recovery under way
                                       store.putDead(false);
                                       store.tablet.state = TabletState::Recovering;
                                       store.tablet.recovery_master = ServerId(2);
                                       store.tablet.last_epoch = TabletEpoch(2);
                                       store.put(store.tablet);
                                     },
                                     [](Store& store) {  // one that was granted
                                       store.tablet.state = TabletState::Taking;
                                       store.put(store.tablet);
                                     },
                                     [](Store& store) {  // the first part of a creation that took several batches
                                       store.put(store.creating);
                                       store.tablet.id = TabletId(6);
                                       store.tablet.table = store.creating.id;
                                       store.put(store.tablet);
                                     }};
  for (const Damage& fill : sound) {
    Store store;
    fill(store);
    ASSERT_EQ(store.bench.tryStart(), Status::Ok) << store.bench.life().journal.warning();
    for (const uint64_t id : {1, 2}) store.bench.cluster().machine(ServerId(id)).up = true;
    store.bench.passRenewing(2 * kSecond);
    EXPECT_EQ(store.bench.tryStart(), Status::Ok) << store.bench.life().journal.warning();
  }
}

TEST(StoredContradictions, NumbersThatWouldOverflow) {
  expectRefused("id/tablet", [](Store& store) { store.disk.put("id/tablet", encodeAllocator(~uint64_t{0})); });
  expectRefused("config", [](Store& store) { store.disk.put("config", encodeConfig({.server_lease_ns = INT64_MAX})); });
  expectRefused("tablet/", [](Store& store) {
    store.tablet.last_epoch = TabletEpoch(~uint64_t{0});
    store.put(store.tablet);
  });
  expectRefused("table/", [](Store& store) {
    store.creating.epochs[1] = TabletEpoch(0);
    store.put(store.creating);
  });
}

// These ids would be handed out a second time.
TEST(StoredContradictions, IdsThatAreStillToCome) {
  expectRefused("server/", [](Store& store) {
    Server server = Bench::serverOf(3);
    server.id = ServerId(100);
    store.put(server);
  });
  expectRefused("client/", [](Store& store) {
    store.disk.put(keyOf(ClientId(100)), encode(StoredClient{.id = ClientId(100), .nonce = 1}));
  });
  expectRefused("table/", [](Store& store) {
    store.creating.id = TableId(100);
    store.put(store.creating);
  });
  expectRefused("tablet/", [](Store& store) { store.disk.put("id/tablet", encodeAllocator(1)); });
  expectRefused("migration/", [](Store& store) {
    store.migration.id = MigrationId(100);
    store.putMoving(store.migration);
  });
}

TEST(StoredContradictions, ServersAndTablesThatClientsWouldNotUnderstand) {
  expectRefused("server/", [](Store& store) {
    Server server = Bench::serverOf(2);
    server.id = ServerId(2);
    server.locators = {"no locator"};
    store.put(server);
  });
  expectRefused("server/", [](Store& store) {  // what is missing of the log of one that lives
    Server server = Bench::serverOf(2);
    server.id = ServerId(2);
    server.accepted_loss.token = 1;
    store.put(server);
  });
  const ReadSegment ended{SegmentId(5), 100};
  for (const std::vector<ReadSegment>& read :
       {std::vector{ReadSegment{SegmentId(), 100}}, {ended, ended}, {ended, {SegmentId(4), 0}}}) {
    expectRefused("server/", [&read](Store& store) {
      Server server = Bench::serverOf(2);
      server.id = ServerId(2);
      server.alive = false;
      server.read = read;
      store.put(server);
    });
  }
  expectRefused("server/", [&ended](Store& store) {  // what was read of the log of one that lives
    Server server = Bench::serverOf(2);
    server.id = ServerId(2);
    server.read = {ended};
    store.put(server);
  });
  for (const char* name : {"", "two\nlines"}) {
    expectRefused("table/", [name](Store& store) {
      store.table.name = name;
      store.put(store.table);
    });
  }
}

// A record of an older version has no level.
TEST(StoredContradictions, ATableWithoutDurabilityIsBuffered) {
  wire::state::Table stored;
  stored.set_id(1);
  stored.set_name("t");
  stored.set_state(wire::state::TABLE_READY);
  Table table;
  table.durability = Durability::Sync;
  ASSERT_TRUE(decode(stored.SerializeAsString(), table));
  EXPECT_EQ(table.durability, Durability::Buffered);
  stored.set_durability(wire::state::DURABILITY_SYNC);
  ASSERT_TRUE(decode(stored.SerializeAsString(), table));
  EXPECT_EQ(table.durability, Durability::Sync);
  EXPECT_EQ(encode(table), stored.SerializeAsString());
  stored.set_durability(static_cast<wire::state::Durability>(2));
  EXPECT_FALSE(decode(stored.SerializeAsString(), table)) << "of a later coordinator: it promises what this one cannot";
}

TEST(StoredContradictions, CreationsOfTabletsThatCannotBe) {
  expectRefused("table/", [](Store& store) {  // it would end with a table of no tablets
    store.creating.owners.clear();
    store.creating.epochs.clear();
    store.put(store.creating);
  });
  expectRefused("table/", [](Store& store) {
    store.creating.first_tablet = TabletId(99);
    store.put(store.creating);
  });
  expectRefused("tablet/", [](Store& store) {
    store.creating.first_tablet = TabletId(1);
    store.put(store.creating);
  });
  expectRefused("tablet/", [](Store& store) {
    store.put(store.creating);
    store.creating.id = TableId(3);
    store.creating.name = "v";
    store.creating.first_tablet = TabletId(6);
    store.put(store.creating);
  });
  expectRefused("tablet/", [](Store& store) {
    store.put(store.creating);
    store.tablet.id = TabletId(7);
    store.tablet.table = store.creating.id;
    store.put(store.tablet);
  });
}

TEST(StoredContradictions, MovesThatDoNotFitTheirTablets) {
  const auto refuse = [](const std::function<void(Migration&)>& change) {
    expectRefused("migration/", [&](Store& store) {
      change(store.migration);
      store.putMoving(store.migration);
    });
  };
  refuse([](Migration& move) { move.table = TableId(7); });  // a drop of table 1 would not wait for it
  refuse([](Migration& move) { move.source = ServerId(2), move.destination = ServerId(1); });
  refuse([](Migration& move) { move.destination = move.source; });
  refuse([](Migration& move) { move.source_epoch = TabletEpoch(0); });
  refuse([](Migration& move) { move.destination_epoch = TabletEpoch(1); });
  refuse([](Migration& move) { move.destination_epoch = TabletEpoch(3); });
  refuse([](Migration& move) { move.step = MigrationStep::HandedOver; });
  refuse([](Migration& move) { move.step = MigrationStep::GivingUp; });
  expectRefused("migration/", [](Store& store) {
    store.putMoving(store.migration);
    store.migration.id = MigrationId(2);
    store.put(store.migration);
  });
  expectRefused("tablet/", [](Store& store) {  // nobody would ever end it
    store.migration.step = MigrationStep::Done;
    store.putMoving(store.migration);
  });
}

constexpr const char* kNotAsMoved = "contradicts its tablet's";

TEST(StoredContradictions, EveryStepOfAMoveIsTaken) {
  const std::vector<Damage> sound = {[](Store&) {},
                                     [](Store& store) {
                                       store.migration.step = MigrationStep::Freezing;
                                       store.migration.destination_segment = SegmentId(9);
                                     },
                                     [](Store& store) { store.handOver(); }, [](Store& store) { store.arrive(); },
                                     [](Store& store) {
                                       store.tablet.epoch = store.tablet.last_epoch = TabletEpoch(3);
                                       store.migration.step = MigrationStep::GivingUp;
                                     }};
  for (const Damage& fill : sound) {
    Store store;
    store.putMoving(store.migration);  // sets the last epoch
    fill(store);
    store.put(store.tablet);
    store.put(store.migration);
    EXPECT_EQ(store.bench.tryStart(), Status::Ok) << store.bench.life().journal.warning();
  }
  // When a server has died in the middle, the recovery has the tablet in hand, or has ended the hand-over already.
  for (const bool is_over : {false, true}) {
    Store store;
    store.handOver();
    store.putDead(false);
    store.tablet.last_epoch = TabletEpoch(3);
    store.tablet.state = is_over ? TabletState::Normal : TabletState::Recovering;
    store.tablet.recovery_master = is_over ? ServerId() : ServerId(2);
    if (is_over) store.tablet.logs.erase(store.tablet.logs.begin());
    store.put(store.tablet);
    store.put(store.migration);
    EXPECT_EQ(store.bench.tryStart(), Status::Ok) << store.bench.life().journal.warning();
  }
}

// The owner, the epoch and the list of logs are stored together with each step.
TEST(StoredContradictions, TabletsThatAreNotAsTheStepOfTheirMoveSays) {
  const auto refuse = [](MigrationStep step, const Damage& damage) {
    expectRefused(
        "migration/",
        [&](Store& store) {
          if (step == MigrationStep::Arriving) store.handOver();
          if (step == MigrationStep::Arrived) store.arrive();
          store.migration.step = step;
          if (step == MigrationStep::Freezing) store.migration.destination_segment = SegmentId(9);
          damage(store);
          store.putMoving(store.migration);
        },
        kNotAsMoved);
  };
  for (const MigrationStep step : {MigrationStep::Preparing, MigrationStep::Freezing}) {
    refuse(step, [](Store& store) { store.tablet.logs = {{ServerId(2), SegmentId(9)}, {ServerId(1), SegmentId(3)}}; });
    refuse(step, [](Store& store) {
      store.tablet.owner = ServerId(2);
      store.tablet.logs = {{ServerId(2), SegmentId(9)}};
    });
    refuse(step, [](Store& store) { store.tablet.epoch = TabletEpoch(2); });
  }
  refuse(MigrationStep::Freezing, [](Store& store) { store.migration.destination_segment = SegmentId(); });
  const auto give_back = [](Store& store) {
    store.tablet.owner = ServerId(1);
    store.tablet.logs = {{ServerId(1), SegmentId(3)}};
  };
  for (const MigrationStep step : {MigrationStep::Arriving, MigrationStep::Arrived}) {
    refuse(step, give_back);
    refuse(step, [](Store& store) { store.tablet.epoch = TabletEpoch(1); });
  }
  const auto arriving = MigrationStep::Arriving;
  refuse(arriving, [](Store& store) { store.tablet.logs.erase(store.tablet.logs.begin()); });
  refuse(arriving, [](Store& store) { store.tablet.logs.front().server = ServerId(7); });
  expectRefused(
      "migration/",
      [](Store& store) {  // a recovery ends it before the tablet serves
        store.handOver();
        store.tablet.last_epoch = TabletEpoch(2);
        store.put(store.tablet);
        store.put(store.migration);
      },
      kNotAsMoved);
  refuse(MigrationStep::Arrived,
         [](Store& store) { store.tablet.logs = {{ServerId(1), SegmentId(3)}, {ServerId(2), SegmentId(9)}}; });
  refuse(MigrationStep::GivingUp, [](Store& store) {
    store.tablet.epoch = store.tablet.last_epoch = TabletEpoch(3);
    store.tablet.logs = {{ServerId(2), SegmentId(9)}, {ServerId(1), SegmentId(3)}};
  });
}

TEST(StoredContradictions, ListsOfLogsThatCannotBe) {
  const auto refuse = [](const std::string& why, const Damage& damage) {
    expectRefused(
        "tablet/",
        [&](Store& store) {
          store.handOver();
          damage(store);
          store.putMoving(store.migration);
        },
        why);
  };
  const std::string nonsense = "is in logs in which it cannot be";
  refuse(nonsense, [](Store& store) { store.tablet.logs.clear(); });
  refuse(nonsense, [](Store& store) { store.tablet.logs.erase(store.tablet.logs.begin() + 1); });
  refuse(nonsense, [](Store& store) { store.tablet.logs.push_back({ServerId(1), SegmentId(5)}); });
  refuse(nonsense, [](Store& store) { store.tablet.logs.front().server = ServerId(2); });
  refuse(nonsense, [](Store& store) { std::ranges::reverse(store.tablet.logs); });
  const std::string of_nobody = "is in the log of a server of which nothing was left";
  refuse(of_nobody, [](Store& store) {  // of a server that never was
    store.migration.source = store.tablet.logs.front().server = ServerId(50);
  });
  refuse(of_nobody, [](Store& store) { store.putDead(true); });
  refuse("belongs to a server of which nothing was left", [](Store& store) { store.putDead(true, ServerId(2)); });
  refuse("belongs to a server that never was", [](Store& store) {
    store.migration.destination = store.tablet.owner = store.tablet.logs.back().server = ServerId(50);
  });
}

// Nobody would ever make the list one, so that neither server's log could be given up.
TEST(StoredContradictions, TwoLogsWithoutAMoveInWhichTheTabletArrives) {
  const auto lend = [](Store& store) {
    store.handOver();
    store.tablet.last_epoch = TabletEpoch(2);
  };
  const auto refuse = [&](const Damage& damage) {
    expectRefused(
        "tablet/",
        [&](Store& store) {
          lend(store);
          damage(store);
          store.put(store.tablet);
        },
        "is in two logs without a move in which it arrives");
  };
  refuse([](Store&) {});
  for (const MigrationStep over : {MigrationStep::Done, MigrationStep::Failed, MigrationStep::Cancelled}) {
    refuse([over](Store& store) {
      store.migration.step = over;
      store.put(store.migration);
    });
  }
  refuse([](Store& store) {  // while it is recovered
    store.putDead(false);
    store.tablet.state = TabletState::Recovering;
    store.tablet.recovery_master = ServerId(2);
    store.tablet.last_epoch = TabletEpoch(3);
  });
  // A table that is being dropped: its moves were ended, and its lists stay until both servers have dropped theirs.
  Store store;
  lend(store);
  store.table.state = TableState::Dropping;
  store.put(store.table);
  store.put(store.tablet);
  EXPECT_EQ(store.bench.tryStart(), Status::Ok) << store.bench.life().journal.warning();
}

TEST(StoredContradictions, TabletsThatCanNeverComeBack) {
  const auto refuse = [](const Damage& damage) { expectRefused("tablet/", damage); };
  refuse([](Store& store) {
    store.tablet.owner = ServerId(50);
    store.put(store.tablet);
  });
  refuse([](Store& store) {
    store.putDead(true);
    store.put(store.tablet);
  });
  refuse([](Store& store) {  // its owner lives
    store.tablet.state = TabletState::Recovering;
    store.tablet.recovery_master = ServerId(2);
    store.tablet.last_epoch = TabletEpoch(2);
    store.put(store.tablet);
  });
  refuse([](Store& store) {  // under no epoch of its own
    store.putDead(false);
    store.tablet.state = TabletState::Recovering;
    store.tablet.recovery_master = ServerId(2);
    store.put(store.tablet);
  });
  refuse([](Store& store) {  // by nobody
    store.putDead(false);
    store.tablet.state = TabletState::Recovering;
    store.tablet.last_epoch = TabletEpoch(2);
    store.put(store.tablet);
  });
  refuse([](Store& store) {
    store.tablet.recovery_master = ServerId(2);
    store.put(store.tablet);
  });
  refuse([](Store& store) {
    store.tablet.state = TabletState::Taking;
    store.tablet.last_epoch = TabletEpoch(2);
    store.put(store.tablet);
  });
  expectRefused("server/", [](Store& store) {
    Server server = Bench::serverOf(1);
    server.id = ServerId(1);
    server.recovered = true;
    store.put(server);
  });
}

TEST(StoredContradictions, SplitsThatDoNotFitTheirTablets) {
  const auto refuse = [](const std::function<void(Split&)>& change) {
    expectRefused("split/", [&](Store& store) {
      change(store.split);
      store.putSplit(store.split);
    });
  };
  refuse([](Split& split) { split.upper = split.lower; });
  refuse([](Split& split) { split.lower = split.tablet; });
  refuse([](Split& split) { split.upper = TabletId(100); });
  refuse([](Split& split) { split.epoch = TabletEpoch(3); });
  expectRefused("split/", [](Store& store) {
    store.put(store.creating);
    store.split.lower = store.creating.first_tablet;
    store.putSplit(store.split);
  });
  expectRefused("tablet/", [](Store& store) {
    store.tablet.state = TabletState::Splitting;
    store.put(store.tablet);
  });
}

}  // namespace
}  // namespace ramcore::coordinator
