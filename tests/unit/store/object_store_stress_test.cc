// Mutations of shared keys by several workers beside a reader, threads that clean and the reclaimer, over the real log,
// index and liburcu, while the index grows from four buckets and entries that are just being split are relocated. The
// races are what single-threaded tests cannot show: run it under ThreadSanitizer.

#include "store/object_store.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "log/cleaning/cleaner.h"
#include "runtime/real/system_clock.h"
#include "runtime/real/urcu_epoch.h"

namespace ramcore::store {
namespace {

constexpr TableId kStressTable(3);
constexpr TabletEpoch kStressEpoch(1);
constexpr uint32_t kKeys = 150;     // written and removed by all
constexpr uint32_t kCounters = 20;  // only added to
constexpr uint32_t kShared = kKeys + kCounters;
constexpr uint32_t kWriters = 4;
constexpr uint32_t kCleaners = 2;  // threads, which share each pass
constexpr uint32_t kMutationsPerWriter = 6000;
constexpr uint64_t kSharedBytesMin = 50u << 10;  // bytes that the second cleaner has to copy
constexpr uint32_t kMutationsPerAddition = 10;
// Keys that each writer adds; written once, and present from then on. They make the index grow all the time.
constexpr uint32_t kAdded = kMutationsPerWriter / kMutationsPerAddition;

/// The `i`th key that a writer adds.
uint32_t addedKey(uint32_t writer, uint32_t i) { return kShared + writer * kAdded + i; }

std::string nameOf(uint32_t key) {
  return (key < kKeys ? "key" : key < kShared ? "counter" : "added") + std::to_string(key);
}

/// One answer that a writer was given.
struct Told {
  uint32_t key = 0;
  Version version = 0;
  bool is_removal = false;
  std::string value;  ///< of a write
};

class StoreStress {
 public:
  StoreStress()
      : config_(log::LogConfig::forTest()),
        memory_(log::LogMemory::open(config_.memory_bytes).value()),
        rcu_(runtime::makeUrcu()),
        pins_(1),
        index_(index::HashIndex::open({.initial_buckets_log2 = 2, .reserve_bytes = 8 << 20, .stripes_log2 = 2}, *rcu_)
                   .value()),
        tablets_(*rcu_),
        store_(*memory_),
        log_(config_, {ClusterId(1), ServerId(2)}, *memory_, {store_, replicator_, *rcu_, pins_}),
        cleaner_(log_, store_, replicator_, kCleaners) {
    results_.connect(log_);
    store_.connect({log_, *index_, tablets_, results_, lease_, clock_});
    lease_.renewed(clock_.nowNs(), 3600 * runtime::kNanosPerSecond);
    RC_CHECK(tablets_.add({.id = TabletId(1),
                           .table = kStressTable,
                           .range = {.first = 0, .last = UINT64_MAX},
                           .epoch = kStressEpoch,
                           .first_segment = {},
                           .counters = std::make_shared<TabletCounters>()}) == Status::Ok);
    for (uint32_t writer = 0; writer < kWriters; ++writer) results_.admit(ClientId(writer + 1), clock_.nowNs());
  }

  ~StoreStress() { rcu_->drain(); }

  void run();

  void verify() {
    const runtime::RcuReader self = rcu_->registerThread();
    // The reclaimer takes the tombstones of the segments that were unlinked last out of the counts.
    log_.reclaim(std::numeric_limits<int64_t>::max());
    verifyHistory();
    int64_t live_bytes = 0;
    uint64_t objects = 0;
    uint64_t carried = 0;
    for (uint32_t key = 0; key < kShared + kWriters * kAdded; ++key) {
      const Found found = lookup(key);
      if (key >= kShared) EXPECT_TRUE(found.ref) << nameOf(key);
      if (!found.ref) continue;
      EXPECT_TRUE(found.entry.verify());
      const bool carries = found.entry.carriesResult() && !found.entry.isAcknowledged();
      live_bytes += found.entry.alignedBytes() - (carries ? 0 : found.entry.resultBytes());
      carried += carries ? 1 : 0;
      ++objects;
    }
    EXPECT_EQ(store_.objectCount(), objects);
    // The counts are right in spite of the races: the live bytes are those of the objects, the newest results and the
    // tombstones.
    constexpr uint32_t kRecordBytes = log::alignedEntryBytes(0, sizeof(log::ResultRecordPayload) + 8, false);
    live_bytes += static_cast<int64_t>(results_.recordCount() - carried) * kRecordBytes;
    EXPECT_EQ(log_.stats().live_bytes.load(), live_bytes + log_.stats().tombstone_bytes.load());
    EXPECT_EQ(results_.recordCount(), kWriters) << "everything but each client's last call is acknowledged";
    rcu_->unregisterThread(self);
  }

  const log::LogStats& stats() const { return log_.stats(); }
  index::IndexStats indexStats() const { return index_->stats(); }
  uint32_t cleanersAtWork() const { return cleaners_at_work_.load(); }
  uint64_t splitsBeforeCleaning() const { return splits_before_cleaning_.load(); }
  uint64_t reads() const { return reads_.load(); }
  uint64_t duplicates() const { return duplicates_.load(); }

 private:
  class Writer;

  Found lookup(uint32_t key) const {
    const std::string name = nameOf(key);
    return store_.lookup(kStressTable, hashKey(kStressTable, asBytes(name)), asBytes(name));
  }

  void readUntilTheEnd() {
    const runtime::RcuReader reader = rcu_->registerThread();
    std::mt19937_64 random(77);
    std::array<Version, kShared> seen{};
    while (writers_left_.load() > 0) {
      const auto key = static_cast<uint32_t>(random() % kShared);
      if (const Found found = lookup(key); found.ref) {
        EXPECT_TRUE(found.entry.verify());
        EXPECT_EQ(asText(found.entry.key()), nameOf(key));
        EXPECT_GE(found.entry.version(), seen[key]) << nameOf(key);
        seen[key] = found.entry.version();
        reads_.fetch_add(1);
      }
      const auto writer = static_cast<uint32_t>(random() % kWriters);
      if (const uint32_t added = added_[writer].load(std::memory_order_acquire); added > 0) {
        const uint32_t present = addedKey(writer, static_cast<uint32_t>(random() % added));
        const Found found = lookup(present);
        EXPECT_TRUE(found.ref && found.entry.verify() && asText(found.entry.key()) == nameOf(present))
            << nameOf(present);
      }
      rcu_->quiescent(reader);
    }
    rcu_->unregisterThread(reader);
  }

  void cleanUntilTheEnd(uint32_t cleaner) {
    const runtime::RcuReader reader = rcu_->registerThread();
    bool has_worked = false;
    while (writers_left_.load() > 0) {
      if (cleaner != 0) {
        has_worked = cleaner_.help(cleaner, 4096) || has_worked;
      } else if (cleaner_.isBusy() || cleaner_.isNeeded()) {
        const bool is_first = stats().cleaner_bytes_copied.load() == 0;
        has_worked = cleaner_.step(4096) == log::Cleaner::Progress::Worked || has_worked;
        if (is_first) splits_before_cleaning_.store(index_->stats().splits);
      }
      rcu_->quiescent(reader);
      std::this_thread::yield();
    }
    if (has_worked) cleaners_at_work_.fetch_add(1);
    rcu_->unregisterThread(reader);
  }

  // What the maintenance of a master does, apart from cleaning.
  void maintainUntilTheEnd() {
    const runtime::RcuReader reader = rcu_->registerThread();
    uint64_t now_ns = 0;
    while (writers_left_.load() > 0) {
      rcu_->quiescent(reader);
      rcu_->reclaim(64);
      log_.reclaim(++now_ns);
      log_.maintain();
      store_.tombstones().reap(64);
    }
    rcu_->unregisterThread(reader);
  }

  void verifyHistory() {
    for (uint32_t key = 0; key < kKeys; ++key) {
      std::map<Version, const Told*> writes;
      std::map<Version, const Told*> removals;
      for (const auto& told : told_) {
        for (const Told& one : told) {
          if (one.key != key) continue;
          auto& by_version = one.is_removal ? removals : writes;
          EXPECT_TRUE(by_version.emplace(one.version, &one).second) << nameOf(key) << " version " << one.version;
        }
      }
      for (const auto& [version, removal] : removals) EXPECT_TRUE(writes.contains(version)) << nameOf(key);
      const Found found = lookup(key);
      if (writes.empty() || removals.contains(writes.rbegin()->first)) {
        EXPECT_FALSE(found.ref) << nameOf(key);
        continue;
      }
      ASSERT_TRUE(found.ref) << nameOf(key);
      EXPECT_EQ(found.entry.version(), writes.rbegin()->first) << nameOf(key);
      EXPECT_EQ(asText(found.entry.payload()), writes.rbegin()->second->value) << nameOf(key);
    }
    for (uint32_t counter = 0; counter < kCounters; ++counter) {
      const Found found = lookup(kKeys + counter);
      ASSERT_TRUE(found.ref);
      EXPECT_EQ(found.entry.payloadAs<int64_t>(), sums_[counter].load()) << nameOf(kKeys + counter);
    }
  }

  const log::LogConfig config_;
  const std::unique_ptr<log::LogMemory> memory_;
  const std::unique_ptr<runtime::Rcu> rcu_;
  runtime::PinRegistry pins_;
  runtime::SystemClock clock_;
  const std::unique_ptr<index::HashIndex> index_;
  ServerLease lease_;
  TabletTable tablets_;
  ResultTable results_;
  ObjectStore store_;
  log::NoReplicator replicator_;
  log::Log log_;
  log::Cleaner cleaner_;

  std::array<std::vector<Told>, kWriters> told_;  // each is its writer's own
  std::array<std::atomic<int64_t>, kCounters> sums_{};
  /// The highest version of each key that an answer has shown.
  std::array<std::atomic<Version>, kShared + kWriters * kAdded> known_{};
  std::array<std::atomic<uint32_t>, kWriters> added_{};  // keys of each writer that are present
  std::atomic<uint32_t> cleaners_at_work_{0};
  std::atomic<uint64_t> splits_before_cleaning_{0};
  std::atomic<uint32_t> writers_left_{kWriters};
  std::atomic<uint64_t> reads_{0};
  std::atomic<uint64_t> duplicates_{0};
};

class StoreStress::Writer {
 public:
  Writer(StoreStress& owner, uint32_t number, runtime::RcuReader reader)
      : owner_(owner), number_(number), reader_(reader), random_(number) {}

  void run() {
    // Each counter is touched, so that all of them exist at the end.
    for (uint32_t counter = number_; counter < kCounters; counter += kWriters) increment(counter);
    for (uint32_t i = 0; isGoingOn(i) && !::testing::Test::HasFailure(); ++i) {
      if (i < kMutationsPerWriter && i % kMutationsPerAddition == 0) add(i / kMutationsPerAddition);
      const uint64_t kind = random_() % 10;
      if (kind < 6) {
        write(static_cast<uint32_t>(random_() % kKeys));
      } else if (kind < 8) {
        remove(static_cast<uint32_t>(random_() % kKeys));
      } else {
        increment(static_cast<uint32_t>(random_() % kCounters));
      }
    }
  }

 private:
  /// On a busy machine it may take longer until both cleaners have met often enough.
  bool isGoingOn(uint32_t i) const {
    return i < kMutationsPerWriter ||
           (i < 20 * kMutationsPerWriter && owner_.stats().cleaner_bytes_shared.load() <= kSharedBytesMin);
  }

  void write(uint32_t key) {
    const size_t bytes = random_() % 20 == 0 ? 1500 + random_() % 2000 : random_() % 200;
    const std::string value = std::to_string(number_) + "." + std::to_string(sequence_) + std::string(bytes, 'x');
    const ByteSpan piece = asBytes(value);
    const Version before = owner_.known_[key].load();
    const Answer answer = apply(key, wire::Opcode::Write, std::span(&piece, 1), 0);
    EXPECT_GT(answer.version, before) << nameOf(key);
    tell(key, answer.version);
    owner_.told_[number_].push_back({key, answer.version, false, value});
  }

  void add(uint32_t i) {
    const std::string value = "of " + std::to_string(number_);
    const ByteSpan piece = asBytes(value);
    apply(addedKey(number_, i), wire::Opcode::Write, std::span(&piece, 1), 0);
    owner_.added_[number_].store(i + 1, std::memory_order_release);
  }

  void remove(uint32_t key) {
    const Version before = owner_.known_[key].load();
    const Answer answer = apply(key, wire::Opcode::Remove, {}, 0);
    if (answer.version == 0) return;  // there was none
    EXPECT_GE(answer.version, before) << nameOf(key);
    owner_.told_[number_].push_back({key, answer.version, true, ""});
  }

  void increment(uint32_t counter) {
    const auto delta = static_cast<int64_t>(1 + random_() % 9);
    const Version before = owner_.known_[kKeys + counter].load();
    const Answer answer = apply(kKeys + counter, wire::Opcode::Increment, {}, delta);
    EXPECT_GT(answer.version, before);
    owner_.sums_[counter].fetch_add(delta);
    tell(kKeys + counter, answer.version);
  }

  // Tries until the mutation is carried out. Repeats some, as a client does that has not got the answer.
  Answer apply(uint32_t key, wire::Opcode opcode, std::span<const ByteSpan> value, int64_t delta) {
    const std::string name = nameOf(key);
    Mutation mutation;
    mutation.opcode = opcode;
    mutation.value = value;
    mutation.delta = delta;
    mutation.identity = {ClientId(number_ + 1), Sequence(sequence_), Sequence(sequence_ - 1)};
    mutation.epoch = kStressEpoch;
    mutation.table = kStressTable;
    mutation.key = asBytes(name);
    mutation.hash = hashKey(kStressTable, mutation.key);
    ++sequence_;
    for (;;) {
      const auto answer =
          owner_.store_.apply(mutation, random_() % 2 == 0 ? ObjectStore::Locking::Try : ObjectStore::Locking::Wait);
      if (answer && answer->status == Status::Ok) {
        EXPECT_FALSE(answer->is_duplicate);
        if (random_() % 8 == 0) repeat(mutation, *answer);
        owner_.rcu_->quiescent(reader_);
        return *answer;
      }
      if (answer) EXPECT_TRUE(isRetryable(answer->status)) << ramcore::name(answer->status);
      if (::testing::Test::HasFailure()) return {};
      owner_.rcu_->quiescent(reader_);
      std::this_thread::yield();
    }
  }

  void repeat(const Mutation& mutation, const Answer& first) {
    const auto again = owner_.store_.apply(mutation, ObjectStore::Locking::Wait);
    EXPECT_EQ(again->status, Status::Ok);
    EXPECT_TRUE(again->is_duplicate);
    EXPECT_EQ(again->version, first.version);
    EXPECT_EQ(again->value, first.value);
    owner_.duplicates_.fetch_add(1);
  }

  void tell(uint32_t key, Version version) {
    Version known = owner_.known_[key].load();
    while (known < version && !owner_.known_[key].compare_exchange_weak(known, version)) {
    }
  }

  StoreStress& owner_;
  const uint32_t number_;
  const runtime::RcuReader reader_;
  std::mt19937_64 random_;
  uint64_t sequence_ = 1;
};

void StoreStress::run() {
  std::vector<std::thread> threads;
  for (uint32_t writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([this, writer] {
      const runtime::RcuReader reader = rcu_->registerThread();
      Writer(*this, writer, reader).run();
      writers_left_.fetch_sub(1);
      rcu_->unregisterThread(reader);
    });
  }
  threads.emplace_back([this] { readUntilTheEnd(); });
  for (uint32_t cleaner = 0; cleaner < kCleaners; ++cleaner)
    threads.emplace_back([this, cleaner] { cleanUntilTheEnd(cleaner); });
  maintainUntilTheEnd();
  for (std::thread& thread : threads) thread.join();
}

TEST(ObjectStoreStress, WritersReadersCleanersAndReclaimerTogetherWhileTheIndexGrows) {
  StoreStress stress;
  stress.run();
  stress.verify();
  EXPECT_GT(stress.reads(), 100u);
  EXPECT_GT(stress.duplicates(), 100u);
  EXPECT_GT(stress.stats().cleaner_passes.load(), 5u);
  EXPECT_EQ(stress.cleanersAtWork(), kCleaners);
  EXPECT_GT(stress.stats().cleaner_bytes_shared.load(), kSharedBytesMin);
  const index::IndexStats index = stress.indexStats();
  EXPECT_GE(index.splits, kWriters * kAdded / index::HashIndex::kEntriesPerBucketMax - 4);
  EXPECT_LE(index.splits_per_operation_max, index::HashIndex::kSplitsPerOperationMax);
  EXPECT_LT(stress.splitsBeforeCleaning(), index.splits / 2) << "the index has to grow while entries are relocated";
}

}  // namespace
}  // namespace ramcore::store
