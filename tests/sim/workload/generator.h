#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/checkers/history.h"
#include "sim/workload/prng.h"

namespace ramcore::sim {

enum class CallKind : uint8_t {
  Read,
  Write,
  Remove,
  ConditionalWrite,
  ConditionalRemove,
  Increment,
  MultiRead,
  MultiWrite,
  MultiRemove,
  Scan,
};
inline constexpr size_t kCallKindCount = 10;

const char* name(CallKind kind);

/// What to do with one key.
struct PlannedPart {
  Operation operation;  ///< for History::invoke: process, key, kind, condition, argument, delta
  std::string value;    ///< Write: the bytes, whose ObservedValue is operation.argument
};

/// One call of a client. Multi-operations have several parts, a scan none, all others one.
struct PlannedCall {
  CallKind kind = CallKind::Read;
  std::vector<PlannedPart> parts;
};

struct WorkloadOptions {
  uint32_t client_count = 8;
  uint32_t plain_key_count = 48;   ///< keys 0 ..: values of any length but 8
  uint32_t counter_key_count = 8;  ///< the next keys: only ever incremented and read, so sums can be checked
  uint32_t mixed_key_count = 8;    ///< the next keys: integers, plain values, increments and removes
  uint32_t hot_permille = 300;     ///< share of calls that go to the first `hot_key_count` keys of their group
  uint32_t hot_key_count = 4;
  uint32_t parts_max = 8;                ///< of a multi-operation, at least 2
  uint32_t repeated_part_permille = 20;  ///< a multi-operation names a key twice
  uint32_t value_bytes_max = 400;        ///< at least 9
  uint32_t large_value_permille = 20;    ///< writes of `large_value_bytes`, which fill segments
  uint32_t large_value_bytes = 4000;
  /// Hot keys get nearly all calls and short values, the others all the large ones, written at first and seldom later:
  /// segments that stay, with old versions of hot keys in between, and segments that are cleaned again and again.
  bool hot_and_cold = false;
  /// Shares of the kinds of call, in the order of CallKind; their sum is arbitrary, 0 leaves a kind out.
  uint32_t weights[kCallKindCount] = {30, 20, 8, 14, 3, 14, 5, 5, 2, 1};
};

/// Decides what clients do, from one seed. Every value written is unique in the run.
///
/// Each client has its own stream of numbers: its calls depend on the seed, on its own earlier calls and on the
/// versions reported by seen(), but not on how often other clients called. One thread.
class Generator {
 public:
  /// @param options  client_count >= 1, at least one key, one weight above 0 (checked).
  Generator(const WorkloadOptions& options, uint64_t seed);

  /// The next call of client `client`, 0 .. client_count - 1.
  PlannedCall next(uint32_t client);

  /// Tells which version of a key an answer named (0: absent), so that conditions on versions hold at times.
  void seen(HistoryKey key, uint64_t version);

  /// All keys of the workload, ascending.
  std::vector<HistoryKey> keys() const;

 private:
  struct Client {
    Prng random;
    uint64_t write_count = 0;
    uint64_t call_count = 0;
  };

  CallKind pickKind(Prng& random) const;
  bool isLarge(Prng& random, HistoryKey key) const;
  HistoryKey pickKey(Prng& random, uint32_t first, uint32_t count) const;
  HistoryKey pickAnyKey(Prng& random) const;
  HistoryKey pickWritableKey(Prng& random) const;
  Condition pickCondition(Prng& random, HistoryKey key, bool may_insist_on_absence) const;
  PlannedPart part(uint32_t client, OperationKind kind, HistoryKey key) const;
  PlannedPart write(uint32_t client, HistoryKey key);
  PlannedPart increment(uint32_t client);
  std::vector<PlannedPart> parts(uint32_t client, OperationKind kind);
  uint32_t keyCount() const { return options_.plain_key_count + options_.counter_key_count + options_.mixed_key_count; }

  WorkloadOptions options_;
  uint32_t hot_permille_;  // of the call being planned
  std::vector<Client> clients_;
  std::vector<uint64_t> last_versions_;  // by key
};

}  // namespace ramcore::sim
