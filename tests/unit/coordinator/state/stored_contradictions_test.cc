/// What no coordinator can have stored: it is refused at the start, by the name of the record, and not met later.
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
    tablet.last_epoch = TabletEpoch(2);
    put(tablet);
    put(migration);
  }
  /// The owner of the tablet.
  void putDead(bool recovered) {
    Server server = Bench::serverOf(1);
    server.id = ServerId(1);
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

void expectRefused(const std::string& key, const Damage& damage) {
  SCOPED_TRACE(key);
  Store store;
  damage(store);
  ASSERT_EQ(store.bench.tryStart(), Status::Corrupt);
  const std::string& warning = store.bench.life().journal.warning();
  EXPECT_NE(warning.find("'" + key), std::string::npos) << warning;
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
