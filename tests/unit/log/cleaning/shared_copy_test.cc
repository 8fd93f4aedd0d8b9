#include "log/cleaning/shared_copy.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <utility>

#include "log/cleaning/cleaner.h"
#include "tests/unit/log/crash_trial.h"

namespace ramcore::log {
namespace {

constexpr uint32_t kWorkers = 4;

/// Calls `interrupt` whenever the owner is asked in the middle of a slice, so that other workers come in between.
class InterruptedOwner final : public EntryOwner {
 public:
  explicit InterruptedOwner(MapOwner& owner) : owner_(owner) {}
  Hint willBeRelocated(const EntryView& entry) override {
    if (interrupt) interrupt();
    return owner_.willBeRelocated(entry);
  }
  Moved relocated(EntryRef from, EntryRef to, const EntryView& entry, Hint hint) override {
    if (interrupt) interrupt();
    if (at_placed) at_placed(entry);
    return owner_.relocated(from, to, entry, hint);
  }
  void dropped(EntryRef ref, const EntryView& entry) override { owner_.dropped(ref, entry); }
  SafeVersionPayload safeVersion() override { return owner_.safeVersion(); }

  std::function<void()> interrupt;
  std::function<void(const EntryView&)> at_placed;  ///< called when a survivor of the worker holds a copy of the entry

 private:
  MapOwner& owner_;
};

/// Several workers on one thread: in the middle of a slice of one begins a slice of another, and ends before the first
/// one goes on; writers change keys in between.
struct SharingFixture : LogFixture {
  explicit SharingFixture(uint64_t seed, bool replicated = true)
      : LogFixture(LogConfig::forTest(), replicated),
        random(seed),
        interrupted(owner),
        replicator(replicated ? static_cast<Replicator&>(copies) : none),
        cleaner(*log, interrupted, replicator, kWorkers),
        copying(*log, interrupted, kWorkers),
        compaction(*log, copying) {
    copies.setStoragePercent(80);  // the cleaner itself combines
  }

  /// A slice of one worker.
  void work(uint32_t worker) {
    at_work[worker] = true;
    const uint32_t bytes_max = 512u << random() % 5;
    if (compaction.isBusy()) {
      worker == 0 ? static_cast<void>(compaction.step(bytes_max)) : static_cast<void>(copying.work(worker, bytes_max));
    } else if (worker == 0) {
      cleaner.step(bytes_max);
    } else {
      cleaner.help(worker, bytes_max);
    }
    at_work[worker] = false;
  }
  void interruptNow() {
    if (random() % interrupts_per != 0) return;
    ++interrupts;
    most_at_work = std::max(most_at_work, static_cast<size_t>(std::ranges::count(at_work, true)));
    if (change) change();
    const auto worker = static_cast<uint32_t>(random() % kWorkers);
    if (!at_work[worker]) work(worker);
  }
  void interruptOften(uint32_t per) {
    interrupts_per = per;
    interrupted.interrupt = [this] { interruptNow(); };
  }
  bool isBusy() const { return cleaner.isBusy() || compaction.isBusy(); }
  /// Runs slices of random workers, until the pass or compaction is over, if one has begun.
  void cleanOnce() {
    for (int i = 0; i < 20000; ++i) {
      if (i != 0 && !isBusy()) return;
      work(i % 3 == 0 ? 0 : static_cast<uint32_t>(random() % kWorkers));
      reclaim();
    }
    ADD_FAILURE() << "a pass without end";
  }
  bool beginCompaction() {
    std::vector<Segment*> cleanable;
    log->listCleanable(cleanable);
    std::erase_if(cleanable, [&](const Segment* one) { return Compaction::gainOf(*one, config) == 0; });
    if (cleanable.size() > 3) cleanable.resize(3);
    return !cleanable.empty() && compaction.begin(cleanable);
  }
  Status put(const std::string& key, size_t bytes) {
    const std::string value(bytes, static_cast<char>('a' + random() % 26));
    const Status status = owner.put(*log, key, value);
    if (status == Status::Ok) model[key] = value;
    return status;
  }
  Status remove(const std::string& key) {
    const Status status = owner.remove(*log, key);
    if (status == Status::Ok) model.erase(key);
    return status;
  }
  /// Repeats the action, and cleans in between, until it is not refused with RetryLater.
  Status insist(const std::function<Status()>& action) {
    for (int i = 0; i < 200; ++i) {
      if (cleaner.isNeeded()) cleanOnce();
      const Status status = action();
      if (status != Status::RetryLater) return status;
      cleanOnce();
    }
    return Status::RetryLater;
  }
  void expectModel() {
    EXPECT_EQ(owner.refs().size(), model.size());
    for (const auto& [key, value] : model) ASSERT_EQ(owner.get(key), value) << key;
  }

  std::mt19937_64 random;
  InterruptedOwner interrupted;
  Replicator& replicator;
  Cleaner cleaner;
  SharedCopy copying;
  Compaction compaction;
  std::array<bool, kWorkers> at_work{};
  std::function<void()> change;
  uint32_t interrupts_per = 1;
  uint64_t interrupts = 0;
  size_t most_at_work = 0;
  std::map<std::string, std::string> model;
};

TEST(SharedCopy, WhateverTheOrderOfSlicesNothingIsLost) {
  uint64_t interrupts = 0;
  size_t most_at_work = 0;
  uint64_t compacted = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SharingFixture fixture(seed);
    fixture.interruptOften(8);
    const auto someKey = [&] { return "key" + std::to_string(fixture.random() % 400); };
    const auto someBytes = [&] {
      return fixture.random() % 12 == 0 ? fixture.random() % 6000 : fixture.random() % 300;
    };
    fixture.change = [&] {
      // The change may be refused.
      static_cast<void>(fixture.random() % 4 == 0 ? fixture.remove(someKey()) : fixture.put(someKey(), someBytes()));
    };
    for (int i = 0; i < 6000; ++i) {
      const std::string key = someKey();
      const bool removes = fixture.random() % 8 == 0;
      const Status status =
          fixture.insist([&] { return removes ? fixture.remove(key) : fixture.put(key, someBytes()); });
      ASSERT_TRUE(status == Status::Ok || status == Status::NotFound || status == Status::NoSpace) << name(status);
      if (i % 100 == 0 && !fixture.isBusy() && fixture.beginCompaction()) fixture.cleanOnce();
      if (HasFailure()) FAIL() << "seed " << seed << " after " << i;
    }
    fixture.expectModel();
    fixture.expectCountsAreRight();
    EXPECT_TRUE(recover(fixture.copies.replicas()) == fixture.model) << "seed " << seed;
    EXPECT_TRUE(recover(fixture.copies.replicasMadeAgain([](SegmentId) { return true; })) == fixture.model);
    EXPECT_GT(fixture.log->stats().cleaner_passes.load(), 2u) << "seed " << seed;
    EXPECT_GT(fixture.log->stats().cleaner_bytes_shared.load(), 0u);
    EXPECT_LE(fixture.log->stats().cleaner_bytes_shared.load(), fixture.log->stats().cleaner_bytes_copied.load());
    EXPECT_LE(fixture.log->stats().compaction_bytes_copied.load(), fixture.log->stats().cleaner_bytes_copied.load());
    interrupts += fixture.interrupts;
    most_at_work = std::max(most_at_work, fixture.most_at_work);
    compacted += fixture.log->stats().segments_compacted.load();
  }
  EXPECT_GT(interrupts, 1000u);
  EXPECT_EQ(most_at_work, kWorkers) << "of all of them, slices overlap";
  EXPECT_GT(compacted, 100u);
}

// Live bytes are at their limit, and there is no memory but what the survivors have: the room that is certain for one
// worker that fills them one by one has to suffice for several that fill them side by side.
TEST(SharedCopy, FullMemoryIsCleanedByAllTheSame) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SharingFixture fixture(seed);
    fixture.interruptOften(4);
    const bool are_large = seed % 3 == 0;
    const auto someBytes = [&] { return are_large ? fixture.random() % 7000 : 20 + fixture.random() % 500; };
    int keys = 0;
    while (fixture.insist([&] { return fixture.put("key" + std::to_string(keys), someBytes()); }) == Status::Ok) ++keys;
    ASSERT_GT(keys, 100);
    for (int i = 0; i < 3000; ++i) {
      const std::string key = "key" + std::to_string(fixture.random() % static_cast<uint64_t>(keys));
      const Status status = fixture.insist([&] { return fixture.put(key, someBytes()); });
      if (status == Status::NoSpace) {
        const Status removed = fixture.insist([&] { return fixture.remove(key); });
        ASSERT_TRUE(removed == Status::Ok || removed == Status::NotFound) << name(removed);
      } else {
        ASSERT_EQ(status, Status::Ok) << "seed " << seed << " after " << i;
      }
      if (HasFailure()) FAIL() << "seed " << seed << " after " << i;
    }
    fixture.expectModel();
    fixture.expectCountsAreRight();
    EXPECT_TRUE(recover(fixture.copies.replicas()) == fixture.model) << "seed " << seed;
    EXPECT_EQ(fixture.most_at_work, kWorkers);
    EXPECT_GT(fixture.log->stats().cleaner_passes.load(), 20u);
  }
}

TEST(SharedCopy, AnyCrashLeavesTheAcknowledgedState) {
  uint64_t shared = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SharingFixture fixture(seed);
    fixture.interruptOften(4);
    CrashTrial trial{.seed = seed, .keys = 60, .flush_percent = 50, .lost_percents = {0, 100}};
    trial.run(fixture, [&](std::mt19937_64& random) {
      if (!fixture.isBusy() && random() % 3 == 0 && fixture.beginCompaction()) return;
      fixture.work(static_cast<uint32_t>(random() % kWorkers));
    });
    if (HasFatalFailure()) return;
    EXPECT_GT(fixture.log->stats().cleaner_passes.load(), 2u) << "seed " << seed;
    shared += fixture.log->stats().cleaner_bytes_shared.load();
  }
  EXPECT_GT(shared, 100u << 10);
}

class NotedDamage final : public DamageObserver {
 public:
  explicit NotedDamage(bool has_replicas) : has_replicas_(has_replicas) {}
  bool canRestore() const override { return has_replicas_; }
  void onDamaged(const Damage& damage) override { found.push_back(damage); }
  std::vector<Damage> found;

 private:
  const bool has_replicas_;
};

/// A pass that has begun, one of whose segments holds an entry with a flipped bit.
struct DamagedPass : SharingFixture {
  explicit DamagedPass(bool replicated) : SharingFixture(1, replicated), observer(replicated) {
    log->integrity().setObserver(&observer);
    for (int i = 0; i < 1200; ++i) EXPECT_EQ(put("key" + std::to_string(i % 700), 200), Status::Ok);
    EXPECT_TRUE(log->isRolled(log->requestRoll()));
    for (int i = 0; i < 4; ++i) reclaim();
    EXPECT_EQ(cleaner.step(1), Cleaner::Progress::Worked);
    EXPECT_TRUE(cleaner.isBusy());
    // The first worker has looked at no more than the first entry of the oldest segment.
    for (const auto& [key, entry] : owner.refs()) {
      if (isInPass(entry)) ref = entry;
    }
    EXPECT_TRUE(ref);
    segment = log->pool().segmentOf(ref);
    memory->at(ref)[kEntryHeaderBytes + 20] ^= std::byte{4};
  }
  ~DamagedPass() { log.reset(); }
  /// Whether a pass has the segment of the entry: tombstones that name it would leave with it.
  bool isInPass(EntryRef entry) const {
    const Segment* const in = log->pool().segmentOf(entry);
    return in->state() == SegmentState::Closed && !log->counts().isTombstoneLive(in);
  }
  /// Lets helpers do all that they find to do, while the first worker stands still.
  void helpOnly() {
    int slices = 0;
    while (cleaner.help(1, 4096) || cleaner.help(2, 4096)) ASSERT_LT(++slices, 10000) << "they never stop";
  }

  NotedDamage observer;
  EntryRef ref;
  Segment* segment = nullptr;
};

TEST(SharedCopy, HelpersLeaveADamagedSegmentToTheFirstWorker) {
  DamagedPass fixture(true);
  fixture.helpOnly();
  ASSERT_EQ(fixture.observer.found.size(), 1u) << "a helper found it";
  EXPECT_EQ(fixture.observer.found[0].ref, fixture.ref);
  EXPECT_TRUE(fixture.segment->isDamaged());
  EXPECT_EQ(fixture.cleaner.workersWanted(), 1u) << "there is nothing else";
  // The bytes are restored while no helper reads them, and the mark goes a grace period later.
  const Damage damage = fixture.observer.found[0];
  const ByteSpan replica = ByteSpan(fixture.copies.replicas().at(damage.segment).bytes).subspan(damage.offset_bytes);
  EXPECT_EQ(fixture.cleaner.step(4096), Cleaner::Progress::Waiting);
  ASSERT_EQ(fixture.log->integrity().restore(damage, replica), Status::Ok);
  EXPECT_FALSE(fixture.cleaner.help(1, 4096)) << "it is still marked";
  EXPECT_EQ(fixture.owner.refs().at(std::string(asText(fixture.log->view(fixture.ref).key()))), fixture.ref);
  EXPECT_FALSE(fixture.log->release(damage).has_died);
  EXPECT_TRUE(fixture.cleaner.help(1, 4096));
  fixture.cleanOnce();
  fixture.expectModel();
  EXPECT_TRUE(recover(fixture.copies.replicas()) == fixture.model);
}

TEST(SharedCopy, WithoutReplicasDamageThatAHelperFindsIsLeftBehind) {
  DamagedPass fixture(false);
  fixture.helpOnly();
  ASSERT_EQ(fixture.observer.found.size(), 1u);
  EXPECT_TRUE(fixture.cleaner.isBusy()) << "only the first worker ends it";
  fixture.cleanOnce();
  EXPECT_EQ(fixture.segment->state(), SegmentState::Closed);
  EXPECT_TRUE(fixture.segment->isDamaged());
  for (const auto& [key, value] : fixture.model) {
    if (fixture.owner.refs().at(key) != fixture.ref) EXPECT_EQ(fixture.owner.get(key), value) << key;
  }
}

/// One worker stands in the middle of a slice.
TEST(SharedCopy, WhoFindsNoSurvivorGivesItsSegmentBack) {
  SharingFixture fixture(1, false);
  for (int i = 0; i < 400; ++i) ASSERT_EQ(fixture.put("key" + std::to_string(i % 60), 300), Status::Ok);
  ASSERT_TRUE(fixture.log->isRolled(fixture.log->requestRoll()));
  for (int i = 0; i < 4; ++i) fixture.reclaim();
  std::vector<Segment*> cleanable;
  fixture.log->listCleanable(cleanable);
  ASSERT_GE(cleanable.size(), 2u);
  std::vector<SharedCopy::Item> items;
  for (Segment* const segment : cleanable) {
    fixture.log->counts().setInPass(*segment, true);
    items.push_back({.from = segment});
  }
  Segment* const survivor = fixture.log->privateSegments().open(SegmentKind::Survivor, 1024);
  ASSERT_NE(survivor, nullptr);
  fixture.copying.begin(items, std::span(&survivor, 1));
  EXPECT_EQ(fixture.copying.workersUseful(), 1u);
  int tried = 0;
  fixture.interrupted.at_placed = [&](const EntryView&) {
    if (std::exchange(tried, 3) != 0) return;
    const auto refs = fixture.owner.refs();
    for (int i = 0; i < 3; ++i) {
      // Without a survivor only dead entries can be gone through.
      fixture.copying.work(1, 1 << 20);
      EXPECT_FALSE(fixture.copying.isDone());
    }
    EXPECT_EQ(fixture.owner.refs(), refs);
  };
  for (int i = 0; i < 1000 && tried == 0; ++i) fixture.copying.work(0, 4096);
  for (int i = 0; i < 1000 && !fixture.copying.isDone(); ++i) fixture.copying.work(i % 2 == 0 ? 1 : 0, 4096);
  EXPECT_TRUE(fixture.copying.isDone());
  EXPECT_EQ(tried, 3);
  EXPECT_EQ(fixture.copying.end(), std::vector<Segment*>{survivor}) << "no other was opened";
  fixture.expectModel();
  for (const auto& [key, ref] : fixture.owner.refs()) {
    const Segment* const in = fixture.log->pool().segmentOf(ref);
    EXPECT_TRUE(in == survivor || in->state() == SegmentState::Open) << key;
  }
}

// The last window is copied as far as there is room, and then its first entry turns out to be dead: its copy is taken
// back, which makes room for the entry that did not fit.
TEST(SharedCopy, ASurvivorThatGetsRoomBackIsNotFull) {
  SharingFixture fixture(1, false);
  for (int i = 1000; i < 1600; ++i) ASSERT_EQ(fixture.put("key" + std::to_string(i), 300), Status::Ok);
  ASSERT_TRUE(fixture.log->isRolled(fixture.log->requestRoll()));
  for (int i = 0; i < 4; ++i) fixture.reclaim();
  std::vector<Segment*> cleanable;
  fixture.log->listCleanable(cleanable);
  ASSERT_GE(cleanable.size(), 2u);
  cleanable.resize(2);
  Segment* const survivor = fixture.log->privateSegments().open(SegmentKind::Survivor, 1024);
  ASSERT_NE(survivor, nullptr);
  const uint32_t entry_bytes = fixture.log->view(fixture.owner.refs().begin()->second).alignedBytes();
  const auto roomFor = [&] {
    size_t count = 0;
    EntryRef ref;
    for (Segment::Cursor at = survivor->cursor(); survivor->place(at, entry_bytes, ref);) ++count;
    return count;
  };
  const size_t room = roomFor();
  std::map<const Segment*, std::vector<std::string>> alive;
  for (const auto& [key, ref] : fixture.owner.refs()) alive[fixture.log->pool().segmentOf(ref)].push_back(key);
  auto& first = alive[cleanable[0]];
  const size_t last_count = alive[cleanable[1]].size();
  ASSERT_NE(last_count % 16, 1u) << "the last window has more than one entry";
  ASSERT_GT(first.size() + last_count, room + 1);
  ASSERT_LE(last_count, room);
  // One more entry is left alive than there is room for.
  for (; first.size() + last_count > room + 1; first.pop_back()) ASSERT_EQ(fixture.remove(first.back()), Status::Ok);

  std::vector<SharedCopy::Item> items;
  for (Segment* const segment : cleanable) {
    fixture.log->counts().setInPass(*segment, true);
    items.push_back({.from = segment});
  }
  fixture.copying.begin(items, std::span(&survivor, 1));
  int died = 0;
  fixture.interrupted.at_placed = [&](const EntryView& entry) {
    if (died != 0 || roomFor() != 0) return;
    ++died;
    EXPECT_EQ(fixture.remove(std::string(asText(entry.key()))), Status::Ok);
  };
  for (int i = 0; i < 1000 && !fixture.copying.isDone(); ++i) fixture.copying.work(0, 1 << 20);
  ASSERT_TRUE(fixture.copying.isDone());
  EXPECT_EQ(died, 1);
  EXPECT_EQ(roomFor(), 0u) << "all that was alive, and it fits exactly";
  EXPECT_EQ(fixture.copying.end(), std::vector<Segment*>{survivor}) << "no other was opened";
  fixture.expectModel();
  size_t moved = 0;
  for (const auto& [key, ref] : fixture.owner.refs()) moved += fixture.log->pool().segmentOf(ref) == survivor ? 1 : 0;
  EXPECT_EQ(moved, room);
}

}  // namespace
}  // namespace ramcore::log
