#pragma once

#include <cstdint>
#include <string>

#include "tools/rcbench/key_chooser.h"
#include "tools/rcbench/value_sizes.h"

namespace ramcore::rcbench {

enum class Kind : uint8_t { Read, Update, Insert, Scan, ReadModifyWrite };
inline constexpr size_t kKindCount = 5;
std::string_view name(Kind kind);

/// Shares of the kinds of operations; they add up to 1.
struct Mix {
  double share[kKindCount] = {};
  Distribution distribution = Distribution::Zipfian;

  Kind draw(runtime::Random& random) const;
  bool has(Kind kind) const { return share[static_cast<size_t>(kind)] > 0; }
  /// YCSB's core workloads, 'A' to 'F'.
  static Mix ycsb(char letter);
};

enum class Output : uint8_t { Table, Csv, Json };

/// One run, as the command line describes it.
struct Settings {
  std::string table = "rcbench";
  uint64_t record_count = 100'000;
  uint32_t key_bytes = 30;
  uint32_t value_bytes = 100;   ///< with a mix: on average
  std::string value_mix;        ///< empty: all values have value_bytes
  std::string value_mix_later;  ///< from the middle of the measured part on; empty: no change
  ValueSizes value_sizes{100};  ///< what the three above say
  ValueSizes later_sizes{100};
  std::string workload;  ///< for people: "B", or "90 % reads"
  Mix mix;
  double skew = 0.99;
  uint32_t batch = 1;          ///< keys of one read
  uint32_t scan_objects = 50;  ///< the most that one scan reads; each draws its length up to here
  uint32_t connections = 1;
  uint32_t outstanding = 1;  ///< operations in flight on each connection
  double rate = 0;           ///< operations per second in total; 0: closed loop
  double warmup_s = 1;
  double duration_s = 10;
  uint64_t operations_max = 0;  ///< 0: only the duration bounds the run
  double series_s = 0;          ///< length of an interval of the time series; 0: none
  uint32_t timeout_ms = 5000;   ///< of one operation
  uint64_t seed = 1;
  bool load = true;
  bool run = true;
  bool drop = false;
  Output output = Output::Table;

  bool isOpenLoop() const { return rate > 0; }
  Distribution distribution() const { return mix.distribution; }
};

/// Keys of `key_bytes` bytes: "k", then the record's number in decimal with leading zeros.
class KeyFormat {
 public:
  explicit KeyFormat(uint32_t key_bytes) : key_bytes_(key_bytes) {}
  /// Records that keys of this length can tell apart.
  uint64_t recordCountMax() const;
  std::string key(uint64_t record) const;

 private:
  uint32_t key_bytes_;
};

}  // namespace ramcore::rcbench
