#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "log/format/log_reader.h"
#include "log/log.h"
#include "runtime/pins.h"
#include "runtime/sim/sim_epoch.h"
#include "unit/log/copying_replicator.h"
#include "unit/log/map_owner.h"

namespace ramcore::log {

/// The state that a recovery would find: the members of the newest digest in an opened, unclosed head, replayed by
/// version. Nothing if no such head exists or a member is missing.
inline std::optional<std::map<std::string, std::string>> recover(
    const std::map<SegmentId, CopyingReplicator::Replica>& replicas) {
  std::optional<SegmentPreamble> head;
  for (const auto& [id, replica] : replicas) {
    SegmentPreamble preamble;
    if (!replica.opened || replica.closed || readPreamble(replica.bytes, preamble) != Status::Ok) continue;
    if (preamble.has_digest) head = preamble;  // ids ascend
  }
  if (!head) return std::nullopt;
  struct Entry {
    Version version = 0;
    std::optional<std::string> value;
  };
  std::map<std::string, Entry> entries;
  for (uint32_t i = 0; i < head->digest.payload.count; ++i) {
    const SegmentId member = head->digest.at(i);
    const auto found = replicas.find(member);
    if (found == replicas.end()) return std::nullopt;
    const bool may_be_open = member == head->header.segment || member == head->digest.payload.previous_head;
    if (!found->second.closed && !may_be_open) return std::nullopt;
    SegmentReader reader(found->second.bytes);
    for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
      for (const EntryView& entry : group) {
        if (entry.type() != EntryType::Object && entry.type() != EntryType::Tombstone) continue;
        Entry& known = entries[std::string(asText(entry.key()))];
        const bool tombstone = entry.type() == EntryType::Tombstone;
        // A tombstone holds down its version; an object is above it only if it is newer.
        if (entry.version() < known.version || (entry.version() == known.version && !tombstone)) continue;
        known.version = entry.version();
        known.value = tombstone ? std::nullopt : std::optional(std::string(asText(entry.payload())));
      }
    }
    EXPECT_EQ(reader.end(), WalkEnd::Clean);
  }
  std::map<std::string, std::string> state;
  for (auto& [key, entry] : entries) {
    if (entry.value) state[key] = *entry.value;
  }
  return state;
}

/// A log of 1 MB with everything that belongs to it.
struct LogFixture {
  explicit LogFixture(LogConfig log_config = LogConfig::forTest(), bool replicated = true)
      : config(log_config), memory(LogMemory::open(config.memory_bytes).value()), owner(*memory) {
    Replicator& replicator = replicated ? static_cast<Replicator&>(copies) : none;
    log = std::make_unique<Log>(config, LogIdentity{ClusterId(7), ServerId(11)}, *memory,
                                Log::Environment{owner, replicator, rcu, pins});
  }
  /// One round of the reclaimer.
  void reclaim() {
    rcu.reclaim(16);
    rcu.reclaim(16);
    log->reclaim(++now_ns);
  }
  /// Appends an object to which the owner has no reference.
  Result<Appended> append(std::string_view key, std::string_view value, AppendClass append_class = AppendClass::Write) {
    const ByteSpan payload = asBytes(value);
    EntryInput input;
    input.table = TableId(1);
    input.version = ++version;
    input.key = asBytes(key);
    input.payload = std::span(&payload, 1);
    return log->append(std::span(&input, 1), append_class);
  }
  /// Compares the log's counts with the entries that there are.
  void expectCountsAreRight() {
    SegmentPool& pool = log->pool();
    std::map<const Segment*, int64_t> live;
    for (const auto& [key, ref] : owner.refs()) live[pool.segmentOf(ref)] += log->view(ref).alignedBytes();
    int64_t tombstones = 0;
    for (uint32_t n = 0; n < pool.slotCount(); ++n) {
      int64_t naming = 0;
      for (uint32_t h = 0; h < pool.slotCount(); ++h) {
        const int64_t bytes = pool.tombstoneBytes(pool.slot(n), pool.slot(h));
        naming += bytes;
        if (bytes != 0 && pool.slot(h).state() != SegmentState::Unlinked) live[&pool.slot(h)] += bytes;
      }
      if (naming != 0)
        EXPECT_EQ(pool.slot(n).live().namedByTombstoneBytes(), static_cast<uint64_t>(naming)) << "slot " << n;
      tombstones += naming;
    }
    EXPECT_EQ(log->stats().tombstone_bytes.load(), tombstones);
    int64_t all = 0;
    for (uint32_t i = 0; i < pool.slotCount(); ++i) {
      EXPECT_EQ(pool.slot(i).live().bytes(), live[&pool.slot(i)]) << "slot " << i;
      all += live[&pool.slot(i)];
    }
    EXPECT_EQ(log->stats().live_bytes.load(), all);
  }

  LogConfig config;
  std::unique_ptr<LogMemory> memory;
  MapOwner owner;
  CopyingReplicator copies;
  NoReplicator none;
  runtime::SimRcu rcu;
  runtime::PinRegistry pins{4};
  uint64_t now_ns = 0;
  Version version = 0;
  std::unique_ptr<Log> log;
};

}  // namespace ramcore::log
