#include "log/cleaning/cleaner.h"

#include <gtest/gtest.h>

#include "runtime/random.h"

#include <random>

#include "log/side_log.h"
#include "tests/unit/log/crash_trial.h"

namespace ramcore::log {
namespace {

constexpr uint32_t kSliceBytes = 16u << 10;

struct CleanerFixture : LogFixture {
  explicit CleanerFixture(LogConfig log_config = LogConfig::forTest(), bool replicated = true)
      : LogFixture(log_config, replicated),
        replicator(replicated ? static_cast<Replicator&>(copies) : none),
        cleaner(*log, owner, replicator) {}

  /// A whole pass (and what it frees), if one is worth it.
  bool clean() {
    bool worked = false;
    for (int i = 0; i < 10000; ++i) {
      const auto progress = cleaner.step(kSliceBytes);
      if (reader && cleaner.isBusy()) rcu.quiescent(*reader);
      reclaim();
      if (progress == Cleaner::Progress::Idle) return worked;
      worked = true;
      if (!cleaner.isBusy()) return true;
    }
    ADD_FAILURE() << "a pass without end";
    return worked;
  }
  /// Makes garbage around "key0" and cleans until it has moved from `ref`.
  bool cleanAway(EntryRef ref) {
    for (int i = 0; i < 20 && owner.refs().at("key0") == ref; ++i) {
      for (int k = 1; k < 20; ++k)
        EXPECT_EQ(owner.put(*log, "key" + std::to_string(k), std::string(500, 'y')), Status::Ok);
      log->requestRoll();
      while (owner.refs().at("key0") == ref && clean()) {
      }
    }
    return owner.refs().at("key0") != ref;
  }
  /// Puts a key, and cleans whenever that is needed, as a server does in the background.
  Status put(const std::string& key, const std::string& value) {
    for (int i = 0; i < 1000; ++i) {
      if (cleaner.isNeeded()) clean();
      const Status status = owner.put(*log, key, value);
      if (status != Status::RetryLater) return status;
      clean();
      reclaim();
    }
    return Status::RetryLater;
  }
  Status remove(const std::string& key) {
    for (int i = 0; i < 1000; ++i) {
      const Status status = owner.remove(*log, key);
      if (status != Status::RetryLater) return status;
      clean();
      reclaim();
    }
    return Status::RetryLater;
  }
  void expectState(const std::map<std::string, std::string>& expected) {
    ASSERT_EQ(owner.refs().size(), expected.size());
    for (const auto& [key, value] : expected) EXPECT_EQ(owner.get(key), value);
  }

  Replicator& replicator;
  Cleaner cleaner;
  std::optional<runtime::RcuReader> reader;  ///< holds nothing while a pass goes on
};

// Each move of a tablet leaves a small segment behind. A side log that gets no slot does not wait here, so isNeeded()
// has to be true before a slot is refused.
TEST(Cleaner, SideSegmentsFindASlotHoweverManyCameBefore) {
  CleanerFixture fixture;
  const std::string value(100, 'x');
  const ByteSpan payload = asBytes(value);
  for (uint32_t i = 0; i < 4 * fixture.log->pool().slotCount(); ++i) {
    if (fixture.cleaner.isNeeded()) fixture.clean();
    const std::string key = "moved" + std::to_string(i);
    SideLog side(*fixture.log, fixture.copies);
    const EntryInput input{.table = TableId(1), .version = i + 1, .key = asBytes(key), .payload = {&payload, 1}};
    const bool found = side.append(std::span(&input, 1), AppendClass::Write).ok();
    side.close();
    ASSERT_TRUE(side.isClosed());
    side.join();
    ASSERT_TRUE(side.isJoined());
    fixture.reclaim();
    ASSERT_TRUE(found) << i;
  }
  EXPECT_GT(fixture.log->stats().segments_cleaned.load(), fixture.log->pool().slotCount());
}

TEST(Cleaner, GoesOnUnderOverwritesOfASmallMemory) {
  CleanerFixture fixture;
  std::mt19937_64 random(1);
  std::map<std::string, std::string> expected;
  const uint64_t goal = fixture.config.memory_bytes * 12;
  for (int i = 0; fixture.log->stats().appended_bytes.load() < goal; ++i) {
    const std::string key = "key" + std::to_string(random() % 1200);
    const std::string value(random() % 400, static_cast<char>('a' + i % 26));
    if (random() % 8 == 0 && expected.erase(key) != 0) {
      ASSERT_EQ(fixture.remove(key), Status::Ok) << "after " << i;
      continue;
    }
    ASSERT_EQ(fixture.put(key, value), Status::Ok) << "after " << i;
    expected[key] = value;
  }
  fixture.expectState(expected);
  EXPECT_TRUE(recover(fixture.copies.replicas()) == expected);
  EXPECT_GT(fixture.log->stats().segments_cleaned.load(), 20u);
  EXPECT_GT(fixture.owner.droppedCount(), 100u);
}

TEST(Cleaner, GoesOnWithMixedSizes) {
  CleanerFixture fixture;
  std::mt19937_64 random(2);
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 6000; ++i) {
    const std::string key = "key" + std::to_string(random() % 300);
    const size_t bytes = random() % 10 == 0 ? random() % 7000 : random() % 300;
    const std::string value(bytes, static_cast<char>('a' + i % 26));
    const Status status = fixture.put(key, value);
    if (status == Status::NoSpace) {
      const Status removed = fixture.remove(key);
      ASSERT_TRUE(removed == Status::Ok || removed == Status::NotFound);
      expected.erase(key);
      continue;
    }
    ASSERT_EQ(status, Status::Ok) << "after " << i;
    expected[key] = value;
  }
  fixture.expectState(expected);
  EXPECT_TRUE(recover(fixture.copies.replicas()) == expected);
}

TEST(Cleaner, FullMemoryRefusesWritesTakesRemovesAndRecovers) {
  CleanerFixture fixture;
  std::map<std::string, std::string> expected;
  const std::string value(300, 'v');
  for (int cycle = 0; cycle < 6; ++cycle) {
    int i = 0;
    Status status = Status::Ok;
    for (; status == Status::Ok; ++i) {
      const std::string key = std::to_string(cycle) + "." + std::to_string(i);
      status = fixture.put(key, value);
      if (status == Status::Ok) expected[key] = value;
    }
    ASSERT_EQ(status, Status::NoSpace) << "cycle " << cycle;
    ASSERT_GT(i, 100);
    fixture.expectState(expected);
    // Everything goes, without a write in between.
    std::vector<std::string> keys;
    for (const auto& [key, ignored] : expected) keys.push_back(key);
    for (const std::string& key : keys) ASSERT_EQ(fixture.remove(key), Status::Ok) << key;
    expected.clear();
    while (fixture.clean()) {
    }
    EXPECT_TRUE(recover(fixture.copies.replicas()) == expected);
  }
}

// The memory has room for much more than the storage for replicas.
TEST(Cleaner, FullStorageRefusesWritesTakesRemovesAndRecovers) {
  LogConfig config = LogConfig::forTest();
  config.memory_bytes = 8u << 20;
  CleanerFixture fixture(config);
  fixture.copies.setPlaces(40);
  std::map<std::string, std::string> expected;
  std::mt19937_64 random(5);
  size_t first_count = 0;
  for (int cycle = 0; cycle < 20; ++cycle) {
    int refusals = 0;
    while (refusals < 50) {
      const std::string key = "key" + std::to_string(random() % 5000);
      const std::string value(1000, static_cast<char>('a' + random() % 26));
      if (fixture.cleaner.isNeeded()) fixture.clean();
      const Status status = fixture.owner.put(*fixture.log, key, value);
      ASSERT_TRUE(status == Status::Ok || status == Status::RetryLater) << name(status);
      if (status == Status::Ok) expected[key] = value;
      refusals = status == Status::Ok ? 0 : refusals + 1;
    }
    EXPECT_TRUE(fixture.copies.isShortOfPlaces());
    if (cycle == 0) first_count = expected.size();
    ASSERT_GT(first_count, 1000u);
    ASSERT_GT(expected.size(), first_count * 8 / 10) << "cycle " << cycle;
    for (size_t left = expected.size() / 2; left > 0; --left) {
      auto at = expected.lower_bound("key" + std::to_string(random() % 5000));
      if (at == expected.end()) at = expected.begin();
      ASSERT_EQ(fixture.remove(at->first), Status::Ok) << "cycle " << cycle;
      expected.erase(at);
    }
    fixture.expectState(expected);
    EXPECT_TRUE(recover(fixture.copies.replicas()) == expected) << "cycle " << cycle;
  }
  EXPECT_GT(fixture.log->stats().small_heads_opened.load(), 20u);
}

// The storage is full of live entries: passes would take places and give none back.
TEST(Cleaner, NothingMovesInAFullStorageWithoutGarbage) {
  LogConfig config = LogConfig::forTest();
  config.memory_bytes = 8u << 20;
  CleanerFixture fixture(config);
  fixture.copies.setPlaces(40);
  int keys = 0;
  for (int refusals = 0; refusals < 50;) {
    const bool is_put =
        fixture.owner.put(*fixture.log, "key" + std::to_string(keys), std::string(1000, 'v')) == Status::Ok;
    keys += is_put ? 1 : 0;
    refusals = is_put ? 0 : refusals + 1;
  }
  const size_t calls = fixture.copies.order().size();
  EXPECT_TRUE(fixture.cleaner.isNeeded());
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(fixture.clean());
  EXPECT_EQ(fixture.copies.order().size(), calls);
}

// Nothing was moved yet, so the places that were found are given back, for other masters.
TEST(Cleaner, APassThatFindsNoPlacesForItsSurvivorsIsGivenUp) {
  LogConfig config = LogConfig::forTest();
  config.memory_bytes = 8u << 20;
  CleanerFixture fixture(config);
  fixture.copies.setPlaces(40);
  int keys = 0;
  for (int refusals = 0; refusals < 50;) {
    const bool is_put =
        fixture.owner.put(*fixture.log, "key" + std::to_string(keys), std::string(1000, 'v')) == Status::Ok;
    keys += is_put ? 1 : 0;
    refusals = is_put ? 0 : refusals + 1;
  }
  for (int i = 0; i < keys; i += 2) {
    Status status = Status::RetryLater;
    for (int tries = 0; tries < 3 && status != Status::Ok; ++tries) {
      status = fixture.owner.remove(*fixture.log, "key" + std::to_string(i));
    }
    if (status != Status::Ok) break;  // the small heads that removes may take are full
  }
  fixture.reclaim();
  const size_t calls = fixture.copies.order().size();
  const auto callsSince = [&](std::string_view what) {
    return std::count_if(fixture.copies.order().begin() + static_cast<ptrdiff_t>(calls), fixture.copies.order().end(),
                         [what](const std::string& call) { return call.starts_with(what); });
  };
  fixture.copies.setAutomatic(false);
  ASSERT_EQ(fixture.cleaner.step(kSliceBytes), Cleaner::Progress::Worked);
  const auto opened = callsSince("open");
  ASSERT_GT(opened, 0);
  for (int i = 0; i < 1000 && fixture.cleaner.isBusy(); ++i) fixture.cleaner.step(kSliceBytes);
  EXPECT_FALSE(fixture.cleaner.isBusy());
  EXPECT_EQ(callsSince("free"), opened);
  EXPECT_EQ(callsSince("close"), 0);
  fixture.copies.setAutomatic(true);
  fixture.copies.deliver();
  bool cleaned = false;
  for (int i = 0; i < 200 && !cleaned; ++i) cleaned = fixture.clean();
  EXPECT_TRUE(cleaned) << "later it is tried again";
}

TEST(Cleaner, RemovesDuringAPassLeaveItTheLastSmallHead) {
  CleanerFixture fixture;
  int keys = 0;
  while (fixture.put("key" + std::to_string(keys), std::string(300, 'v')) == Status::Ok) ++keys;
  ASSERT_GT(keys, 100);
  for (int i = 0; i < keys / 2; ++i) ASSERT_EQ(fixture.remove("key" + std::to_string(i)), Status::Ok);
  // Written until no memory is left.
  Status status = Status::Ok;
  for (int i = 0; status == Status::Ok; ++i) {
    status = fixture.owner.put(*fixture.log, "other" + std::to_string(i % 20), std::string(300, 'v'));
  }
  ASSERT_TRUE(isRetryable(status));
  ASSERT_EQ(fixture.cleaner.step(kSliceBytes), Cleaner::Progress::Worked);
  ASSERT_TRUE(fixture.cleaner.isBusy());
  std::vector<std::string> left;
  for (const auto& [key, ref] : fixture.owner.refs()) left.push_back(key);
  for (const std::string& key : left) {
    const Status removed = fixture.owner.remove(*fixture.log, key);
    ASSERT_TRUE(removed == Status::Ok || removed == Status::RetryLater);
  }
  EXPECT_TRUE(fixture.clean());
  for (const std::string& key : left) {
    const Status removed = fixture.remove(key);
    EXPECT_TRUE(removed == Status::Ok || removed == Status::NotFound) << name(removed);
  }
  EXPECT_EQ(fixture.put("again", "value"), Status::Ok);
}

TEST(Cleaner, LiveBytesFallToAlmostNothingWhenAllIsRemoved) {
  CleanerFixture fixture;
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(fixture.put("key" + std::to_string(i), std::string(200, 'x')), Status::Ok);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(fixture.remove("key" + std::to_string(i)), Status::Ok);
  fixture.log->requestRoll();
  while (fixture.clean()) {
  }
  // Tombstones of the last pass may name segments that left with it.
  EXPECT_LT(fixture.log->stats().live_bytes.load(), static_cast<int64_t>(fixture.config.segment_bytes));
  EXPECT_GE(fixture.log->stats().live_bytes.load(), 0);
  EXPECT_GE(fixture.log->stats().tombstone_bytes.load(), 0);
}

TEST(Cleaner, TombstoneStaysWhileTheSegmentItNamesCanBeRecovered) {
  CleanerFixture fixture;
  // "old" lives in the first segment, its tombstone in a later one.
  ASSERT_EQ(fixture.put("old", "value"), Status::Ok);
  const EntryRef old_ref = fixture.owner.refs().at("old");
  const SegmentId named = fixture.log->pool().segmentOf(old_ref)->id();
  fixture.log->requestRoll();
  ASSERT_EQ(fixture.remove("old"), Status::Ok);
  Segment* const holder = fixture.log->pool().find(named);
  EXPECT_TRUE(fixture.log->counts().isTombstoneLive(holder));
  EXPECT_FALSE(fixture.log->counts().isTombstoneLive(nullptr));
  EXPECT_EQ(holder->live().namedByTombstoneBytes(), alignedTombstoneBytes(3));
  fixture.log->members().exchange({}, std::span(&holder, 1));
  // The segment is leaving, but the digest of the present head still lists it.
  EXPECT_TRUE(fixture.log->counts().isTombstoneLive(holder));
  fixture.copies.setAutomatic(false);
  const SegmentId request = fixture.log->requestRoll();
  fixture.copies.deliverOpens();
  // The new head is there, but the old one, with the old digest, may still be the one that is recovered.
  EXPECT_TRUE(fixture.log->counts().isTombstoneLive(holder));
  EXPECT_FALSE(fixture.log->isRolled(request));
  fixture.copies.deliver();
  EXPECT_TRUE(fixture.log->isRolled(request));
  EXPECT_FALSE(fixture.log->counts().isTombstoneLive(holder));
}

// The death may be in page caches only. If power fails everywhere, a recovery may find the digest without the segment,
// and not the entry that took its place.
TEST(Cleaner, WhatIsLeftBehindStaysUntilItsDeathIsFlushed) {
  CleanerFixture fixture;
  fixture.copies.setStoragePercent(80);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 40; ++i) {
      ASSERT_EQ(fixture.owner.put(*fixture.log, "key" + std::to_string(i), std::string(500, 'x')), Status::Ok);
    }
    fixture.log->requestRoll();
  }
  fixture.reclaim();
  fixture.copies.setAutomatic(false);
  ASSERT_EQ(fixture.owner.put(*fixture.log, "key0", "new"), Status::Ok);
  const auto stepOften = [&](bool flushes) {
    for (int i = 0; i < 200 && (i == 0 || fixture.cleaner.isBusy()); ++i) {
      fixture.cleaner.step(kSliceBytes);
      fixture.copies.deliverOpens();
      fixture.copies.deliverAdvances();
      if (flushes) fixture.copies.deliverFlushes();
      fixture.copies.deliverCloses();
      fixture.reclaim();
    }
  };
  const auto isFreed = [&] {
    return std::ranges::any_of(fixture.copies.order(),
                               [](const std::string& call) { return call.starts_with("free"); });
  };
  ASSERT_FALSE(isFreed());
  stepOften(false);
  EXPECT_TRUE(fixture.log->durability().isDurable(fixture.owner.end()));
  EXPECT_TRUE(fixture.cleaner.isBusy());
  EXPECT_FALSE(fixture.copies.wantedFlushes().empty()) << "the cleaner does not wait for others to ask";
  EXPECT_FALSE(isFreed());
  stepOften(true);
  EXPECT_FALSE(fixture.cleaner.isBusy());
  EXPECT_TRUE(isFreed());
}

TEST(Cleaner, PinsDelayFreeing) {
  CleanerFixture fixture;
  for (int i = 0; i < 400; ++i)
    ASSERT_EQ(fixture.put("key" + std::to_string(i % 20), std::string(500, 'x')), Status::Ok);
  fixture.log->requestRoll();
  runtime::Pin pin = fixture.pins.take(0);
  const EntryRef ref = fixture.owner.refs().at("key0");
  const Version version = fixture.log->view(ref).version();
  const SegmentId id = fixture.log->pool().segmentOf(ref)->id();
  ASSERT_TRUE(fixture.cleanAway(ref));
  const uint64_t free_bytes = fixture.log->pool().freeBytes();
  for (int i = 0; i < 5; ++i) fixture.reclaim();
  ASSERT_NE(fixture.log->pool().find(id), nullptr);
  EXPECT_EQ(fixture.log->pool().freeBytes(), free_bytes);
  EXPECT_EQ(fixture.log->view(ref).version(), version);
  EXPECT_TRUE(fixture.log->view(ref).verify());
  pin.reset();
  fixture.reclaim();
  EXPECT_EQ(fixture.log->pool().find(id), nullptr);
  EXPECT_GT(fixture.log->pool().freeBytes(), free_bytes);
}

TEST(Cleaner, GracePeriodDelaysFreeing) {
  CleanerFixture fixture;
  for (int i = 0; i < 400; ++i)
    ASSERT_EQ(fixture.put("key" + std::to_string(i % 20), std::string(500, 'x')), Status::Ok);
  fixture.log->requestRoll();
  fixture.reclaim();  // closed long enough to be cleaned
  const runtime::RcuReader reader = fixture.rcu.registerThread();
  fixture.reader = reader;
  const EntryRef ref = fixture.owner.refs().at("key0");
  const SegmentId id = fixture.log->pool().segmentOf(ref)->id();
  ASSERT_TRUE(fixture.cleanAway(ref));
  for (int i = 0; i < 5; ++i) fixture.reclaim();
  EXPECT_NE(fixture.log->pool().find(id), nullptr);
  fixture.rcu.quiescent(reader);
  for (int i = 0; i < 5; ++i) {
    fixture.rcu.quiescent(reader);
    fixture.reclaim();
  }
  EXPECT_EQ(fixture.log->pool().find(id), nullptr);
  fixture.rcu.unregisterThread(reader);
}

TEST(Cleaner, BecomesUrgentAsMemoryRunsShort) {
  CleanerFixture fixture;
  bool needed_first = false;
  EXPECT_FALSE(fixture.cleaner.isNeeded() || fixture.cleaner.isUrgent());
  for (int i = 0; i < 10'000 && !fixture.cleaner.isUrgent(); ++i) {
    if (fixture.owner.put(*fixture.log, "key" + std::to_string(i % 20), std::string(500, 'x')) != Status::Ok) break;
    needed_first |= fixture.cleaner.isNeeded() && !fixture.cleaner.isUrgent();
  }
  EXPECT_TRUE(needed_first);
  ASSERT_TRUE(fixture.cleaner.isUrgent());
  fixture.reclaim();  // closed long enough to be cleaned
  while (fixture.clean()) {
  }
  EXPECT_FALSE(fixture.cleaner.isUrgent());
}

// Nine tenths of the memory hold live objects, and writes go on without being refused.
TEST(Cleaner, NineTenthsOfTheMemoryCanBeUsed) {
  LogConfig config = LogConfig::forTest();
  config.memory_bytes = 16u << 20;
  config.segment_bytes = 128u << 10;
  CleanerFixture fixture(config);
  const auto live_percent = [&] {
    return static_cast<uint64_t>(fixture.log->stats().live_bytes.load()) * 100 / config.memory_bytes;
  };
  uint64_t keys = 0;
  while (live_percent() < 90) ASSERT_EQ(fixture.put("key" + std::to_string(keys++), std::string(100, 'x')), Status::Ok);
  runtime::Random random(3);
  const LogStats& stats = fixture.log->stats();
  const uint64_t copied_before = stats.cleaner_bytes_copied.load();
  const uint64_t appended_before = stats.appended_bytes.load();
  uint64_t overwrites = 0;
  for (; stats.appended_bytes.load() - appended_before < 2 * config.memory_bytes; ++overwrites) {
    const std::string key = "key" + std::to_string(random.below(keys));
    ASSERT_EQ(fixture.put(key, std::string(100, 'y')), Status::Ok);
  }
  // The cost is per byte of the objects without the segments that they name: what the log spends on top does not count.
  const uint64_t bytes_written = overwrites * alignedEntryBytes(6, 100, false);
  const double cost =
      static_cast<double>(stats.cleaner_bytes_copied.load() - copied_before) / static_cast<double>(bytes_written);
  RecordProperty("bytes_copied_per_byte_written", std::to_string(cost));
  EXPECT_LT(cost, 20) << "a tenth of the memory is garbage, and is found";
}

// Large entries, a third of the bytes, lie among small ones. At the end of each extent the room of a large entry may be
// lost, but seldom is.
TEST(Cleaner, AMemoryWithSomeLargeEntriesIsCleanedAsWell) {
  LogConfig config = LogConfig::forTest();
  config.memory_bytes = 24u << 20;
  config.segment_bytes = 128u << 10;
  CleanerFixture fixture(config);
  runtime::Random random(5);
  const auto someBytes = [&] { return random.below(100) == 0 ? random.between(3000, 7900) : random.between(40, 200); };
  const auto live_percent = [&] {
    return static_cast<uint64_t>(fixture.log->stats().live_bytes.load()) * 100 / config.memory_bytes;
  };
  uint64_t keys = 0;
  while (live_percent() < 86) {
    ASSERT_EQ(fixture.put("key" + std::to_string(keys++), std::string(someBytes(), 'x')), Status::Ok);
  }
  const LogStats& stats = fixture.log->stats();
  const uint64_t copied_before = stats.cleaner_bytes_copied.load();
  const uint64_t appended_before = stats.appended_bytes.load();
  while (stats.appended_bytes.load() - appended_before < 2 * config.memory_bytes) {
    // As many bytes are alive as before, more or less.
    const std::string key = "key" + std::to_string(random.below(keys));
    if (live_percent() > 86) {
      ASSERT_EQ(fixture.remove("key" + std::to_string(--keys)), Status::Ok);
    } else {
      ASSERT_EQ(fixture.put(key, std::string(someBytes(), 'y')), Status::Ok) << keys;
    }
  }
  const double cost = static_cast<double>(stats.cleaner_bytes_copied.load() - copied_before) /
                      static_cast<double>(stats.appended_bytes.load() - appended_before);
  RecordProperty("bytes_copied_per_byte_appended", std::to_string(cost));
  EXPECT_LT(cost, 20);
}

// This happens however much memory is free: each segment takes a place on backups, however little is alive in it.
TEST(Cleaner, SegmentsAreMergedBeforeStorageRunsOut) {
  LogConfig config = LogConfig::forTest();
  config.memory_bytes = 8u << 20;
  CleanerFixture fixture(config);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 2000; ++i) {
      if (round == 0 || i % 2 == 0) {
        ASSERT_EQ(fixture.owner.put(*fixture.log, "key" + std::to_string(i), std::string(500, 'x')), Status::Ok);
      }
    }
  }
  fixture.log->requestRoll();
  fixture.reclaim();
  const size_t before = fixture.copies.replicas().size();
  EXPECT_FALSE(fixture.cleaner.isNeeded());
  fixture.copies.setStoragePercent(kStoragePercentScarce);
  EXPECT_TRUE(fixture.cleaner.isNeeded());
  int passes = 0;
  while (passes < 100 && fixture.clean()) ++passes;
  EXPECT_LT(passes, 100) << "it comes to rest";
  const auto live_bytes = static_cast<uint64_t>(fixture.log->stats().live_bytes.load());
  EXPECT_LT(fixture.copies.replicas().size(), before * 3 / 4);
  EXPECT_LE(fixture.copies.replicas().size(), live_bytes / config.segment_bytes + 6);
  // It does not try again at once, as long as nothing dies.
  const size_t calls = fixture.copies.order().size();
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(fixture.clean());
  EXPECT_EQ(fixture.copies.order().size(), calls);
}

TEST(Cleaner, ComesToRestWhenNothingDies) {
  // Entries of all sizes leave much of each extent empty: what a pass seems to gain is lost again in its survivors.
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    CleanerFixture fixture;
    runtime::Random random(seed);
    for (int step = 0; step < 60; ++step) {
      for (int i = 0; i < 20; ++i) {
        const std::string key = "key" + std::to_string(random.below(120));
        if (random.below(4) == 0) {
          const Status status = fixture.remove(key);
          ASSERT_TRUE(status == Status::Ok || status == Status::NotFound);
        } else {
          const Status status = fixture.put(key, std::string(random.below(5000), 'x'));
          ASSERT_TRUE(status == Status::Ok || status == Status::NoSpace);
        }
      }
      int passes = 0;
      while (passes < 100 && fixture.clean()) ++passes;
      ASSERT_LT(passes, 100) << "seed " << seed << ", step " << step;
    }
  }
}

TEST(Cleaner, DoesNotJudgeWhatItsWriterHasNotReportedYet) {
  CleanerFixture fixture;
  for (int i = 0; i < 400; ++i)
    ASSERT_EQ(fixture.put("key" + std::to_string(i % 20), std::string(500, 'x')), Status::Ok);
  // A writer that was stopped between its append and telling the owner where the entry lies.
  const runtime::RcuReader writer = fixture.rcu.registerThread();
  const auto appended = fixture.append("late", "value");
  ASSERT_TRUE(appended.ok());
  const SegmentId id = fixture.log->pool().segmentOf(appended->refs[0])->id();
  const auto cleanLong = [&] {
    for (int i = 0; i < 20; ++i) {
      for (int k = 0; k < 20; ++k)
        ASSERT_EQ(fixture.owner.put(*fixture.log, "key" + std::to_string(k), std::string(500, 'y')), Status::Ok);
      fixture.log->requestRoll();
      fixture.clean();
      fixture.reclaim();
    }
  };
  for (int k = 0; k < 20; ++k)
    ASSERT_EQ(fixture.owner.put(*fixture.log, "key" + std::to_string(k), std::string(500, 'y')), Status::Ok);
  fixture.log->requestRoll();
  for (int i = 0; i < 100; ++i) {
    fixture.cleaner.step(kSliceBytes);
    fixture.reclaim();
  }
  ASSERT_NE(fixture.log->pool().find(id), nullptr);
  EXPECT_EQ(fixture.log->pool().find(id)->state(), SegmentState::Closed);
  EXPECT_EQ(asText(fixture.log->view(appended->refs[0]).key()), "late");
  fixture.rcu.unregisterThread(writer);
  fixture.reclaim();
  cleanLong();
  EXPECT_EQ(fixture.log->pool().find(id), nullptr) << "nobody wanted it after all";
}

// As above, but then the writer does tell. If a pass had passed the entry by, its segment would be given up although
// the owner refers to the entry.
TEST(Cleaner, NothingIsPassedByBeforeItsWriterHasReportedIt) {
  CleanerFixture fixture;
  const auto overwrite = [&] {
    for (int k = 0; k < 20; ++k)
      ASSERT_EQ(fixture.owner.put(*fixture.log, "key" + std::to_string(k), std::string(500, 'y')), Status::Ok);
    fixture.log->requestRoll();
  };
  const runtime::RcuReader writer = fixture.rcu.registerThread();
  const auto appended = fixture.append("late", "value");
  ASSERT_TRUE(appended.ok());
  // Segments that are mostly dead, all of them sealed since the writer began.
  for (int i = 0; i < 5; ++i) overwrite();
  for (int i = 0; i < 100; ++i) {
    fixture.cleaner.step(kSliceBytes);
    fixture.reclaim();
  }
  fixture.owner.report("late", appended->refs[0]);
  fixture.rcu.unregisterThread(writer);
  for (int i = 0; i < 20; ++i) {
    overwrite();
    fixture.clean();
    fixture.reclaim();
  }
  EXPECT_NE(fixture.owner.refs().at("late"), appended->refs[0]) << "it was not cleaned: nothing is shown here";
  EXPECT_EQ(fixture.owner.get("late"), "value");
}

TEST(Cleaner, AnyCrashLeavesTheAcknowledgedState) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    CleanerFixture fixture;
    CrashTrial trial{.seed = seed, .steps = 6000};
    trial.run(fixture, [&](std::mt19937_64&) { fixture.cleaner.step(2048); });
    if (HasFatalFailure()) return;
    EXPECT_GT(fixture.log->stats().cleaner_passes.load(), 3u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ramcore::log
