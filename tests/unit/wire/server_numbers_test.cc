#include "wire/server_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "wire/control.h"

namespace ramcore::wire {
namespace {

// Each field has another value, and none fits in a smaller type.
ServerNumbers differentNumbers() {
  ServerNumbers numbers;
  numbers.memory_bytes = (uint64_t{1} << 40) + 0;
  numbers.live_bytes = (uint64_t{1} << 40) + 1;
  numbers.live_bytes_max = (uint64_t{1} << 40) + 2;
  numbers.tombstone_bytes = (uint64_t{1} << 40) + 3;
  numbers.result_bytes = (uint64_t{1} << 40) + 4;
  numbers.cleaner_copied_bytes = (uint64_t{1} << 40) + 5;
  numbers.cleaner_freed_bytes = (uint64_t{1} << 40) + 6;
  numbers.compaction_copied_bytes = (uint64_t{1} << 40) + 7;
  numbers.compaction_freed_bytes = (uint64_t{1} << 40) + 8;
  numbers.appended_bytes = (uint64_t{1} << 40) + 9;
  numbers.replica_bytes = (uint64_t{1} << 40) + 10;
  numbers.pinned_bytes = (uint64_t{1} << 40) + 11;
  numbers.damaged_entries = (uint64_t{1} << 40) + 12;
  numbers.damaged_now = (uint64_t{1} << 40) + 13;
  numbers.objects = (uint64_t{1} << 40) + 14;
  numbers.index_bytes = (uint64_t{1} << 40) + 15;
  numbers.requests = (uint64_t{1} << 40) + 16;
  numbers.uptime_ns = -1'000'000'000'000;
  numbers.replicas_wanted = (uint32_t{1} << 31) + 18;
  numbers.replicas_least = (uint32_t{1} << 31) + 19;
  numbers.segments_repairing = (uint64_t{1} << 40) + 20;
  numbers.frames_total = (uint64_t{1} << 40) + 21;
  numbers.frames_free = (uint64_t{1} << 40) + 22;
  numbers.storage_bytes = (uint64_t{1} << 40) + 23;
  numbers.storage_bytes_needed = (uint64_t{1} << 40) + 24;
  numbers.storage_failed = true;
  numbers.has_too_few = true;
  numbers.is_short_of_places = true;
  return numbers;
}

TEST(ServerNumbers, JsonHasTheseNamesInThisOrder) {
  std::vector<std::string> names;
  for (const ServerNumber& number : kServerNumbers) {
    if (number.is_shown) names.emplace_back(number.name);
  }
  EXPECT_THAT(names, testing::ElementsAre("memory_bytes", "live_bytes", "live_bytes_max", "tombstone_bytes",
                                          "result_bytes", "cleaner_copied_bytes", "cleaner_freed_bytes",
                                          "compaction_copied_bytes", "compaction_freed_bytes", "appended_bytes",
                                          "replica_bytes", "pinned_bytes", "damaged_entries", "damaged_now", "objects",
                                          "index_bytes", "requests", "replicas_wanted", "replicas_least",
                                          "segments_repairing", "frames_total", "frames_free", "storage_bytes",
                                          "storage_bytes_needed", "storage_failed", "is_short_of_places"));
}

TEST(ServerNumbers, MetricsHaveTheseNamesAndTexts) {
  std::vector<std::string> lines;
  for (const ServerNumber& number : kServerNumbers) {
    const NumberMeaning& meaning = number.meaning;
    if (meaning.metric.empty()) continue;
    lines.push_back(std::string(meaning.kind == NumberKind::Gauge ? "gauge " : "counter ") +
                    std::string(meaning.metric) + ": " + std::string(meaning.help));
  }
  EXPECT_THAT(lines,
              testing::ElementsAre(
                  "gauge ramcore_log_memory_bytes: Memory of the log",
                  "gauge ramcore_log_live_bytes_max: Live bytes at which writes are refused",
                  "gauge ramcore_log_result_bytes: Part of the live bytes: result records",
                  "counter ramcore_cleaner_copied_bytes_total: Live bytes the cleaner has moved",
                  "counter ramcore_cleaner_freed_bytes_total: Memory that passes gave back beyond what they kept",
                  "counter ramcore_cleaner_compaction_copied_bytes_total: Bytes that compactions moved within memory",
                  "counter ramcore_cleaner_compaction_freed_bytes_total: Memory that compactions gave back",
                  "counter ramcore_log_appended_bytes_total: Bytes appended",
                  "counter ramcore_replica_bytes_total: Bytes of the log sent to replicas",
                  "counter ramcore_log_damaged_entries_total: Entries in memory that were not what was written",
                  "gauge ramcore_log_damaged_now: Entries that were found damaged and are not restored",
                  "gauge ramcore_index_entries: Keys in the hash index",
                  "gauge ramcore_index_memory_bytes: Memory of the hash index",
                  "gauge ramcore_replicas_wanted: Copies of each segment, by configuration",
                  "gauge ramcore_replicas_least: Complete copies of the segment that has the fewest",
                  "gauge ramcore_segments_repairing: Segments with fewer copies than the servers that live allow",
                  "gauge ramcore_backup_frames: Places for replicas in the storage",
                  "gauge ramcore_backup_frames_free: Places for replicas in the storage that hold no replica",
                  "gauge ramcore_backup_condemned: 1 if a flush has failed and nothing is written any more"));
}

TEST(ServerNumbers, EachHasItsFieldInTheMessage) {
  control::ServerStateResponse state;
  fillNumbers(differentNumbers(), state);
  EXPECT_EQ(state.memory_bytes(), (uint64_t{1} << 40) + 0);
  EXPECT_EQ(state.live_bytes(), (uint64_t{1} << 40) + 1);
  EXPECT_EQ(state.live_bytes_max(), (uint64_t{1} << 40) + 2);
  EXPECT_EQ(state.tombstone_bytes(), (uint64_t{1} << 40) + 3);
  EXPECT_EQ(state.result_bytes(), (uint64_t{1} << 40) + 4);
  EXPECT_EQ(state.cleaner_copied_bytes(), (uint64_t{1} << 40) + 5);
  EXPECT_EQ(state.cleaner_freed_bytes(), (uint64_t{1} << 40) + 6);
  EXPECT_EQ(state.compaction_copied_bytes(), (uint64_t{1} << 40) + 7);
  EXPECT_EQ(state.compaction_freed_bytes(), (uint64_t{1} << 40) + 8);
  EXPECT_EQ(state.appended_bytes(), (uint64_t{1} << 40) + 9);
  EXPECT_EQ(state.replica_bytes(), (uint64_t{1} << 40) + 10);
  EXPECT_EQ(state.pinned_bytes(), (uint64_t{1} << 40) + 11);
  EXPECT_EQ(state.damaged_entries(), (uint64_t{1} << 40) + 12);
  EXPECT_EQ(state.damaged_now(), (uint64_t{1} << 40) + 13);
  EXPECT_EQ(state.objects(), (uint64_t{1} << 40) + 14);
  EXPECT_EQ(state.index_bytes(), (uint64_t{1} << 40) + 15);
  EXPECT_EQ(state.requests(), (uint64_t{1} << 40) + 16);
  EXPECT_EQ(state.uptime_ns(), -1'000'000'000'000);
  EXPECT_EQ(state.replicas_wanted(), (uint32_t{1} << 31) + 18);
  EXPECT_EQ(state.replicas_least(), (uint32_t{1} << 31) + 19);
  EXPECT_EQ(state.segments_repairing(), (uint64_t{1} << 40) + 20);
  EXPECT_EQ(state.frames_total(), (uint64_t{1} << 40) + 21);
  EXPECT_EQ(state.frames_free(), (uint64_t{1} << 40) + 22);
  EXPECT_EQ(state.storage_bytes(), (uint64_t{1} << 40) + 23);
  EXPECT_EQ(state.storage_bytes_needed(), (uint64_t{1} << 40) + 24);
  EXPECT_TRUE(state.storage_failed());
  EXPECT_TRUE(state.has_too_few());
  EXPECT_TRUE(state.is_short_of_places());
  const ServerNumbers back = numbersIn(state);
  for (const ServerNumber& number : kServerNumbers) {
    EXPECT_EQ(number.read(back), number.read(differentNumbers())) << number.name;
  }
}

// A server without replicas or storage says nothing of them.
TEST(ServerNumbers, ZerosTakeNoBytes) {
  control::ServerStateResponse state;
  fillNumbers(ServerNumbers(), state);
  EXPECT_EQ(controlBytes(state), 0u);
}

}  // namespace
}  // namespace ramcore::wire
