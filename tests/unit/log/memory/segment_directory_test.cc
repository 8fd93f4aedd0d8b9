#include "log/memory/segment_directory.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <map>
#include <thread>

#include "log/memory/segment_pool.h"
#include "runtime/random.h"

namespace ramcore::log {
namespace {

struct DirectoryFixture {
  DirectoryFixture()
      : config(configOf()), memory(LogMemory::open(config.memory_bytes).value()), pool(config, *memory) {}
  static LogConfig configOf() {
    LogConfig config = LogConfig::forTest();
    config.memory_bytes = 4u << 20;
    return config;
  }
  LogConfig config;
  std::unique_ptr<LogMemory> memory;
  SegmentPool pool;
};

TEST(SegmentDirectory, FindsWhatIsThereAndNothingElse) {
  DirectoryFixture fixture;
  runtime::Random random(1);
  std::map<SegmentId, Segment*> there;
  uint64_t next = 1;
  for (int step = 0; step < 20'000; ++step) {
    Segment* taken = nullptr;
    if (random.below(2) == 0) {
      next += random.below(3) == 0 ? random.below(1000) : 1;  // ids of one bucket
      const SegmentId id(next++);
      taken = fixture.pool.allocate(SegmentKind::Survivor, id);
      if (taken != nullptr) there[id] = taken;
    }
    if (taken == nullptr && !there.empty()) {
      const auto gone = std::next(there.begin(), static_cast<int64_t>(random.below(there.size())));
      const SegmentId id = gone->first;
      fixture.pool.release(*gone->second);
      there.erase(gone);
      ASSERT_EQ(fixture.pool.find(id), nullptr);
    }
    for (const auto& [id, segment] : there) ASSERT_EQ(fixture.pool.find(id), segment);
    ASSERT_EQ(fixture.pool.find(SegmentId(next + random.below(100))), nullptr);
  }
  EXPECT_EQ(fixture.pool.find(SegmentId()), nullptr);
}

// A segment that stays is found at any moment, however others come and go around it.
TEST(SegmentDirectory, SearchesDoNotMissWhatStaysWhileOthersComeAndGo) {
  DirectoryFixture fixture;
  Segment* const stays = fixture.pool.allocate(SegmentKind::Survivor, SegmentId(1));
  ASSERT_NE(stays, nullptr);
  std::atomic<bool> ended{false};
  std::thread searcher([&] {
    while (!ended.load()) ASSERT_EQ(fixture.pool.find(SegmentId(1)), stays);
  });
  // Buckets are a power of two of at least twice the slots: all of these are in that of the first, or in two others.
  const uint64_t stride = std::bit_ceil(2 * uint64_t{fixture.pool.slotCount()});
  uint64_t next = 1;
  for (int round = 0; round < 20'000; ++round) {
    std::array<Segment*, 3> others{};
    for (size_t i = 0; i < others.size(); ++i) {
      next += stride;
      others[i] = fixture.pool.allocate(SegmentKind::Survivor, SegmentId(next + i));
    }
    for (Segment* other : others) {
      if (other != nullptr) fixture.pool.release(*other);
    }
  }
  ended = true;
  searcher.join();
}

}  // namespace
}  // namespace ramcore::log
