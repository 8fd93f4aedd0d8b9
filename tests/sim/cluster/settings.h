#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ramcore::sim {

/// How large a simulated cluster is, and how much its clients do: what is set once for a run, and no fault.
///
/// Fixed ones are the same for every seed. Drawn ones follow from the seed by a stream of their own, so a run whose
/// settings are the fixed ones is the same run in both ways.
struct Settings {
  uint64_t servers = 4;
  uint64_t replicas = 3;
  uint64_t min_replicas = 2;
  uint64_t workers = 3;   ///< of each server
  uint64_t cleaners = 2;  ///< of these, at most
  /// Of segments and frames. Larger ones take larger objects.
  uint64_t segment_kb = kSmallSegmentKb;
  uint64_t memory_segments = 16;  ///< of each server's log; with 11 little more than a pass of the cleaner needs
  uint64_t keys = 64;
  uint64_t value_bytes = 400;         ///< of small values, at most; five times as much where a few keys are hot
  uint64_t large_value_bytes = 6000;  ///< of large ones
  uint64_t large_permille = 300;      ///< of the values
  uint64_t loops = 1;                 ///< of each client, each with a call outstanding
  uint64_t burst = 1;                 ///< calls of a loop without a pause between them
  uint64_t think_us = 30'000;         ///< the longest pause behind a call; behind a burst so many times as much

  uint64_t fast_permille = 0;  ///< of calls on one object begin without a coroutine
  uint64_t client_lease_ms = 30'000;
  uint64_t pauses_clients = 0;   ///< 1: clients stand still now and then, also for longer than their lease
  uint64_t changes_options = 0;  ///< 1: processes are started again with other options

  static constexpr uint64_t kSmallSegmentKb = 64;
  static constexpr uint64_t kLargeSegmentKb = 2048;

  /// @param cold_bytes  most keys hold a large value (see WorkloadOptions::hot_and_cold)
  static Settings drawn(uint64_t seed, bool cold_bytes);

  /// The longest entry that the log takes with these settings.
  uint32_t entryBytesMax() const;
  uint32_t segmentBytes() const { return static_cast<uint32_t>(segment_kb << 10); }
  uint64_t memoryBytes() const { return memory_segments * segmentBytes(); }
  /// True if enough servers for the demanded replicas are left when one falls silent for ever.
  bool canLoseOne() const { return servers >= (changes_options != 0 ? 2 : min_replicas) + 2; }
  /// Every single number makes sense, and all together. If not, why.
  std::string problem() const;

  /// Takes "name=value".
  bool set(std::string_view text);
  /// "servers=4 replicas=3 ...": all of them.
  std::string text() const;
  /// Lines for --help.
  static std::string help();

  bool operator==(const Settings&) const = default;
};

/// Sets of settings that the totals of many runs have to have seen.
enum class Corner : uint8_t {
  FewServers,
  ManyServers,
  OneCopy,
  OneEnough,
  OneWorker,
  ManyCleaners,
  LargeSegments,
  LargeValues,
  LittleMemory,
  FewKeys,
  ManyKeys,
  ManyLoops,
  ShortClientLease,
  PausedClients,
  OtherOptions,
  Bursts,
};
inline constexpr size_t kCornerCount = 16;

/// For people, in totals.
std::string_view name(Corner corner);
bool isIn(Corner corner, const Settings& settings);
/// Share of the runs with drawn settings that are there, at least.
double shareOf(Corner corner);

/// Where the settings of a run come from.
struct SettingsSource {
  bool drawn = false;                ///< from the seed
  std::vector<std::string> changes;  ///< "name=value", afterwards; valid ones

  Settings of(uint64_t seed, bool cold_bytes) const;
  /// The flags that say so, each with a space before it.
  std::string flags() const;
  bool operator==(const SettingsSource&) const = default;
};

}  // namespace ramcore::sim
