#include "index/index_memory.h"

#include "index/hash_index.h"
#include "log/cleaning/cleaner.h"
#include "log/log.h"
#include "log/memory/log_memory.h"
#include "runtime/sim/sim_epoch.h"
#include "runtime/sim/sim_executor.h"
#include "runtime/sim/sim_node.h"
#include "runtime/sim/sim_trace.h"
#include "store/maintenance.h"
#include "store/object_store.h"
#include "unit/index/index_fixture.h"

#include <cstdio>
#include <fstream>
#include <memory>
#include <span>
#include <string>

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace ramcore::index {
namespace {

constexpr uint64_t kHuge = IndexMemory::kHugePageBytes;
constexpr uint64_t kLinesPerHugePage = kHuge / sizeof(Line);
constexpr int kAdviceCollapse = 25;  // MADV_COLLAPSE, which older headers do not have

/// What the kernel says about the mappings that begin in a range of addresses, in bytes.
struct Mapped {
  uint64_t resident = 0;
  uint64_t in_huge_pages = 0;
};

Mapped mappedWithin(std::span<const Line> range) {
  const auto first = reinterpret_cast<uintptr_t>(range.data());
  const auto last = first + range.size_bytes() - 1;
  Mapped sum;
  bool is_within = false;
  std::ifstream smaps("/proc/self/smaps");
  for (std::string line; std::getline(smaps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    unsigned long long kilobytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      is_within = begin >= first && begin <= last;
    } else if (is_within && std::sscanf(line.c_str(), "Rss: %llu kB", &kilobytes) == 1) {
      sum.resident += kilobytes << 10;
    } else if (is_within && std::sscanf(line.c_str(), "AnonHugePages: %llu kB", &kilobytes) == 1) {
      sum.in_huge_pages += kilobytes << 10;
    }
  }
  return sum;
}

/// The bytes that lie in huge pages after the kernel was asked to put 2 MB into one: 0 where it has none to give, or
/// does not know the advice.
uint64_t bytesOfHugePage() {
  auto reserved = IndexMemory::reserve(48 << 20);
  const std::span<Line> used = (*reserved)->overflowLines().first(kLinesPerHugePage);
  for (Line& line : used) line.store(0, 1);
  auto* const region = reinterpret_cast<std::byte*>(used.data());
  madvise(region, kHuge, MADV_HUGEPAGE);
  return madvise(region, kHuge, kAdviceCollapse) == 0 ? kHuge : 0;
}

class IndexMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto reserved = IndexMemory::reserve(48 << 20);
    ASSERT_TRUE(reserved.ok());
    memory_ = std::move(*reserved);
  }
  static void fill(std::span<Line> lines) {
    for (size_t i = 0; i < lines.size(); ++i) lines[i].store(0, i + 1);
  }
  static bool isFilled(std::span<const Line> lines) {
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].load(0) != i + 1) return false;
    }
    return true;
  }

  std::unique_ptr<IndexMemory> memory_;
};

// Two and a half huge pages of buckets make two huge pages, and the half takes no more memory than it needs.
TEST_F(IndexMemoryTest, BucketsThatGrowthHasPassedLieInHugePages) {
  const std::span<Line> used = memory_->buckets().first(5 * kLinesPerHugePage / 2);
  fill(used);
  uint64_t collapsed_bytes = 0;
  while (const uint64_t bytes = memory_->collapse(used.size(), 0)) collapsed_bytes += bytes;
  EXPECT_EQ(collapsed_bytes, 2 * kHuge);
  const Mapped mapped = mappedWithin(memory_->buckets());
  EXPECT_EQ(mapped.in_huge_pages, 2 * bytesOfHugePage());
  EXPECT_EQ(mapped.resident, used.size_bytes());
  EXPECT_TRUE(isFilled(used));
}

TEST_F(IndexMemoryTest, OverflowLinesThatAreInUseLieInHugePages) {
  const std::span<Line> used = memory_->overflowLines().first(3 * kLinesPerHugePage / 2);
  fill(used);
  while (memory_->collapse(0, used.size()) != 0) {
  }
  const Mapped mapped = mappedWithin(memory_->overflowLines());
  EXPECT_EQ(mapped.in_huge_pages, bytesOfHugePage());
  EXPECT_EQ(mapped.resident, used.size_bytes());
  EXPECT_TRUE(isFilled(used));
}

// Each huge page is collapsed once, not a line too early, whether the kernel succeeds or not.
TEST_F(IndexMemoryTest, CollapsesEachHugePageOnceWhenItIsInUseToItsEnd) {
  EXPECT_FALSE(memory_->collapseIsDue(kLinesPerHugePage - 1, kLinesPerHugePage - 1));
  EXPECT_EQ(memory_->collapse(kLinesPerHugePage - 1, kLinesPerHugePage - 1), 0u);
  EXPECT_TRUE(memory_->collapseIsDue(kLinesPerHugePage, 0));
  EXPECT_TRUE(memory_->collapseIsDue(0, kLinesPerHugePage));
  EXPECT_EQ(memory_->collapse(kLinesPerHugePage, kLinesPerHugePage), kHuge);
  EXPECT_EQ(memory_->collapse(kLinesPerHugePage, kLinesPerHugePage), kHuge);
  EXPECT_FALSE(memory_->collapseIsDue(kLinesPerHugePage, kLinesPerHugePage));
  EXPECT_EQ(memory_->collapse(kLinesPerHugePage, kLinesPerHugePage), 0u);
}

/// A table of two huge pages from the start.
class HashIndexMemory : public ::testing::Test {
 protected:
  static constexpr unsigned kBucketsLog2 = 16;
  static constexpr uint64_t kEntriesBeforeGrowth = HashIndex::kEntriesPerBucketMax << kBucketsLog2;
  static constexpr uint64_t kEntriesPerPage = HashIndex::kEntriesPerBucketMax * 4096 / sizeof(Line);

  void growTo(uint64_t entries) {
    for (; entries_ < entries; ++entries_) {
      const StripeGuard guard(*index_, random_.next());
      const auto ref = log::EntryRef::fromOffset(log::EntryRef::kFirstBytes + 8 * entries_);
      ASSERT_EQ(index_->insert(guard, ref), Status::Ok);
    }
  }
  /// @return how many of the steps were huge pages
  int maintain() {
    int huge_pages = 0;
    while (const uint64_t bytes = index_->maintainMemory()) huge_pages += bytes == kHuge ? 1 : 0;
    EXPECT_FALSE(index_->memoryIsDue());
    return huge_pages;
  }

  runtime::SimRcu rcu_;
  std::unique_ptr<HashIndex> index_ =
      HashIndex::open({.initial_buckets_log2 = kBucketsLog2, .reserve_bytes = 64 << 20, .stripes_log2 = 4}, rcu_)
          .value();
  TestRandom random_{17};
  uint64_t entries_ = 0;
};

// A table that is opened large may be nearly empty until it grows.
TEST_F(HashIndexMemory, TableThatIsOpenedLargeIsCollapsedOnceItGrows) {
  growTo(kEntriesBeforeGrowth);
  ASSERT_EQ(index_->stats().splits, 0u);
  EXPECT_EQ(maintain(), 0);
  growTo(kEntriesBeforeGrowth + 1);
  ASSERT_EQ(index_->stats().splits, 1u);
  EXPECT_TRUE(index_->memoryIsDue());
  EXPECT_EQ(maintain(), 2);
}

// A page at a time to be pre-faulted, after every few inserts, does not keep the huge pages waiting.
TEST_F(HashIndexMemory, SteadyGrowthLeavesTimeForHugePages) {
  growTo(kEntriesBeforeGrowth + 1);
  int calls = 0;
  for (; index_->memoryIsDue() && calls < 100; ++calls) {
    index_->maintainMemory();
    growTo(entries_ + kEntriesPerPage);
  }
  EXPECT_LT(calls, 10);
}

// Pre-faulting and both huge pages come from one wake: the next mutation may be long in coming.
TEST_F(HashIndexMemory, MaintenanceGoesOnUntilNothingIsDue) {
  const log::LogConfig config = log::LogConfig::forTest();
  const auto memory = log::LogMemory::open(config.memory_bytes).value();
  runtime::ManualClock clock;
  runtime::PinRegistry pins{1};
  log::NoReplicator replicator;
  store::ServerLease lease;
  store::TabletTable tablets(rcu_);
  store::ResultTable results;
  store::ObjectStore store(*memory);
  log::Log log(config, {ClusterId(1), ServerId(1)}, *memory, {store, replicator, rcu_, pins});
  results.connect(log);
  store.connect({log, *index_, tablets, results, lease, clock});
  log::Cleaner cleaner(log, store, replicator);
  runtime::SimScheduler scheduler(1);
  runtime::SimTraceLog trace(scheduler);
  runtime::SimNode node(scheduler, trace, "server", {});
  runtime::SimExecutor& executor = node.makeExecutor("worker");
  store::Maintenance maintenance(executor, {log, cleaner, store, *index_, rcu_});

  growTo(kEntriesBeforeGrowth + 1);
  ASSERT_TRUE(maintenance.isDue());
  maintenance.wake();
  const auto isDone = [&] { return !index_->memoryIsDue(); };
  EXPECT_EQ(scheduler.runUntil(isDone, 10'000), runtime::SimScheduler::Stop::Done);
  maintenance.stop();
  maintenance.wake();
  EXPECT_EQ(scheduler.runUntil([&] { return maintenance.stopped(); }, 10'000), runtime::SimScheduler::Stop::Done);
}

}  // namespace
}  // namespace ramcore::index
