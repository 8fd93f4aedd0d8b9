#include "sim/workload/generator.h"

#include <algorithm>
#include <cstdlib>

#include "sim/workload/values.h"

namespace ramcore::sim {

const char* name(CallKind kind) {
  switch (kind) {
    case CallKind::Read:
      return "read";
    case CallKind::Write:
      return "write";
    case CallKind::Remove:
      return "remove";
    case CallKind::ConditionalWrite:
      return "conditional write";
    case CallKind::ConditionalRemove:
      return "conditional remove";
    case CallKind::Increment:
      return "increment";
    case CallKind::MultiRead:
      return "multi-read";
    case CallKind::MultiWrite:
      return "multi-write";
    case CallKind::MultiRemove:
      return "multi-remove";
    case CallKind::Scan:
      return "scan";
  }
  return "?";
}

Generator::Generator(const WorkloadOptions& options, uint64_t seed)
    : options_(options), hot_permille_(options.hot_permille) {
  uint64_t weight_sum = 0;
  for (const uint32_t weight : options_.weights) weight_sum += weight;
  const bool has_writable_key = options_.plain_key_count + options_.mixed_key_count > 0;
  const bool is_valid = options_.client_count > 0 && has_writable_key && weight_sum > 0 && options_.parts_max >= 2 &&
                        options_.value_bytes_max >= 9 && options_.large_value_bytes >= 9 && options_.hot_key_count > 0;
  if (!is_valid) std::abort();
  for (uint32_t client = 0; client < options_.client_count; ++client) clients_.push_back({Prng(seed, client + 1)});
  last_versions_.resize(keyCount());
}

std::vector<HistoryKey> Generator::keys() const {
  std::vector<HistoryKey> keys;
  for (uint32_t key = 0; key < keyCount(); ++key) keys.push_back(key);
  return keys;
}

void Generator::seen(HistoryKey key, uint64_t version) {
  if (key < last_versions_.size()) last_versions_[key] = version;
}

PlannedCall Generator::next(uint32_t client) {
  Prng& random = clients_[client].random;
  if (options_.hot_and_cold) {
    // In turn a time of filling and a time of change.
    constexpr uint64_t kCallsPerPhase = 40;
    hot_permille_ = clients_[client].call_count++ / kCallsPerPhase % 2 == 0 ? 300 : 980;
  }
  PlannedCall call;
  call.kind = pickKind(random);
  switch (call.kind) {
    case CallKind::Read:
      call.parts.push_back(part(client, OperationKind::Read, pickAnyKey(random)));
      break;
    case CallKind::Write:
      call.parts.push_back(write(client, pickWritableKey(random)));
      break;
    case CallKind::Remove:
      call.parts.push_back(part(client, OperationKind::Remove, pickWritableKey(random)));
      break;
    case CallKind::ConditionalWrite: {
      PlannedPart planned = write(client, pickWritableKey(random));
      planned.operation.condition = pickCondition(random, planned.operation.key, true);
      call.parts.push_back(std::move(planned));
      break;
    }
    case CallKind::ConditionalRemove: {
      PlannedPart planned = part(client, OperationKind::Remove, pickWritableKey(random));
      planned.operation.condition = pickCondition(random, planned.operation.key, false);
      call.parts.push_back(std::move(planned));
      break;
    }
    case CallKind::Increment:
      call.parts.push_back(increment(client));
      break;
    case CallKind::MultiRead:
      call.parts = parts(client, OperationKind::Read);
      break;
    case CallKind::MultiWrite:
      call.parts = parts(client, OperationKind::Write);
      break;
    case CallKind::MultiRemove:
      call.parts = parts(client, OperationKind::Remove);
      break;
    case CallKind::Scan:
      break;
  }
  return call;
}

CallKind Generator::pickKind(Prng& random) const {
  uint64_t weight_sum = 0;
  for (const uint32_t weight : options_.weights) weight_sum += weight;
  uint64_t draw = random.below(weight_sum);
  size_t kind = 0;
  while (draw >= options_.weights[kind]) draw -= options_.weights[kind++];
  return static_cast<CallKind>(kind);
}

bool Generator::isLarge(Prng& random, HistoryKey key) const {
  if (!options_.hot_and_cold) return random.chance(options_.large_value_permille);
  const uint32_t first_mixed = options_.plain_key_count + options_.counter_key_count;
  return (key < first_mixed ? key : key - first_mixed) >= options_.hot_key_count;
}

HistoryKey Generator::pickKey(Prng& random, uint32_t first, uint32_t count) const {
  const bool is_hot = random.chance(hot_permille_);
  return first + random.below(is_hot ? std::min(count, options_.hot_key_count) : count);
}

HistoryKey Generator::pickAnyKey(Prng& random) const {
  // Counters are read as often as plain keys, though they are few: their sums are the sharpest check.
  if (options_.counter_key_count > 0 && random.chance(250)) {
    return pickKey(random, options_.plain_key_count, options_.counter_key_count);
  }
  return pickWritableKey(random);
}

HistoryKey Generator::pickWritableKey(Prng& random) const {
  const uint32_t plain = options_.plain_key_count;
  const uint32_t mixed = options_.mixed_key_count;
  if (random.below(plain + mixed) < plain) return pickKey(random, 0, plain);
  return pickKey(random, plain + options_.counter_key_count, mixed);
}

/// Half of the conditions on versions name the version last seen, which holds unless somebody was faster.
Condition Generator::pickCondition(Prng& random, HistoryKey key, bool may_insist_on_absence) const {
  const uint64_t last = last_versions_[key];
  const uint64_t wrong = last > 1 && random.chance(500) ? last - 1 : last + 1;
  const uint64_t version = std::max<uint64_t>(1, random.chance(500) ? last : wrong);
  switch (random.below(may_insist_on_absence ? 5 : 4)) {
    case 0:
      return {ConditionKind::MustExist, 0};
    case 1:
      return {ConditionKind::VersionNotGreater, version};
    case 4:
      return {ConditionKind::MustNotExist, 0};
    default:
      return {ConditionKind::VersionEquals, version};
  }
}

PlannedPart Generator::part(uint32_t client, OperationKind kind, HistoryKey key) const {
  PlannedPart planned;
  planned.operation.process = client;
  planned.operation.key = key;
  planned.operation.kind = kind;
  return planned;
}

PlannedPart Generator::write(uint32_t client, HistoryKey key) {
  Prng& random = clients_[client].random;
  const uint64_t id = (uint64_t{client} + 1) << 40 | ++clients_[client].write_count;
  PlannedPart planned = part(client, OperationKind::Write, key);
  if (key >= options_.plain_key_count && random.chance(600)) {
    planned.value = integerBytes(id << 16);  // far apart, so that increments do not make one out of another
  } else if (isLarge(random, key)) {
    planned.value = uniqueValueBytes(id, options_.large_value_bytes);
  } else {
    planned.value = uniqueValueBytes(id, static_cast<uint32_t>(9 + random.below(options_.value_bytes_max - 8)));
  }
  planned.operation.argument = observe(planned.value);
  return planned;
}

PlannedPart Generator::increment(uint32_t client) {
  Prng& random = clients_[client].random;
  const uint32_t counters = options_.counter_key_count;
  // A few go to plain keys, where they are refused or create a counter.
  HistoryKey key = 0;
  if (counters > 0 && random.chance(750)) {
    key = pickKey(random, options_.plain_key_count, counters);
  } else if (options_.mixed_key_count > 0 && random.chance(850)) {
    key = pickKey(random, options_.plain_key_count + counters, options_.mixed_key_count);
  } else {
    key = pickWritableKey(random);
  }
  PlannedPart planned = part(client, OperationKind::Increment, key);
  constexpr int64_t kDeltas[] = {1, 1, 1, 1, 7, -1};
  planned.operation.delta = static_cast<uint64_t>(kDeltas[random.below(std::size(kDeltas))]);
  return planned;
}

std::vector<PlannedPart> Generator::parts(uint32_t client, OperationKind kind) {
  Prng& random = clients_[client].random;
  const auto count = static_cast<uint32_t>(2 + random.below(options_.parts_max - 1));
  std::vector<PlannedPart> planned;
  for (uint32_t i = 0; i < count; ++i) {
    const HistoryKey key = kind == OperationKind::Read ? pickAnyKey(random) : pickWritableKey(random);
    const bool is_repeated = std::any_of(planned.begin(), planned.end(),
                                         [key](const PlannedPart& other) { return other.operation.key == key; });
    if (is_repeated && !random.chance(options_.repeated_part_permille)) continue;
    planned.push_back(kind == OperationKind::Write ? write(client, key) : part(client, kind, key));
    const bool is_conditional = kind != OperationKind::Read && random.chance(200);
    if (is_conditional) planned.back().operation.condition = pickCondition(random, key, kind == OperationKind::Write);
  }
  return planned;
}

}  // namespace ramcore::sim
