#include "sim/checkers/key_search.h"

#include <algorithm>
#include <tuple>

namespace ramcore::sim {
namespace {

/// Stand for every value that no call read.
constexpr ObservedValue kUnseen{0x9d3c'75a1'0b5e'ee11, false};
constexpr ObservedValue kUnseenInteger{0x4f1b'ac08'0000'0000, true};

uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t hashOf(const RegisterState& state, uint64_t seed) {
  const uint64_t flags = (state.present ? 1u : 0u) | (state.value.is_integer ? 2u : 0u);
  return mix(mix(mix(mix(seed ^ flags) ^ state.version_min) ^ state.version_max) ^ state.value.bits);
}

/// Two open calls with equal likeness are interchangeable.
auto likeness(const Operation& operation) {
  return std::tuple(operation.kind, operation.condition.kind, operation.condition.version, operation.argument.bits,
                    operation.argument.is_integer, operation.delta);
}

/// True if the operation overwrites whatever was there. An optional step just before it need not be tried: the same
/// order works without that step.
bool overwritesBlindly(const Operation& operation) {
  return operation.kind == OperationKind::Write && operation.condition.kind == ConditionKind::None;
}

bool changesState(const Operation& operation) {
  if (operation.isRead()) return false;
  return operation.outcome == Outcome::Ok || operation.outcome == Outcome::Unknown;
}

}  // namespace

HashSet128::HashSet128() : slots_(256) {}

bool HashSet128::insert(uint64_t a, uint64_t b) {
  if (a == 0 && b == 0) b = 1;  // the empty slot
  const size_t mask = slots_.size() - 1;
  for (size_t i = a & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.a == a && slot.b == b) return false;
    if (slot.a != 0 || slot.b != 0) continue;
    slot = {a, b};
    if (++count_ * 2 > slots_.size()) grow();
    return true;
  }
}

void HashSet128::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.a == 0 && slot.b == 0) continue;
    size_t i = slot.a & mask;
    while (slots_[i].a != 0 || slots_[i].b != 0) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

KeySearch::KeySearch(const std::vector<const Operation*>& operations, uint64_t cut_order, uint64_t steps_max,
                     bool keep_longest)
    : steps_max_(steps_max), keep_longest_(keep_longest) {
  addNodes(operations, cut_order);
  resolveOpenWrites();
  blurUnseenIntegers();
  linkAlikeCalls();
  buildEvents();
  buildVersionUses();
}

void KeySearch::addNodes(const std::vector<const Operation*>& operations, uint64_t cut_order) {
  nodes_.reserve(operations.size());
  for (const Operation* operation : operations) {
    if (operation->outcome == Outcome::NotRun || operation->invoke_order > cut_order) continue;
    const bool must_happen = operation->isSettled() && operation->return_order <= cut_order;
    if (!must_happen && !changesState(*operation)) continue;
    Node node;
    node.operation = *operation;
    node.original = operation;
    node.must_happen = must_happen;
    node.created_version = operation->created() ? operation->version : 0;
    node.hash_a = mix(nodes_.size() * 2 + 1);
    node.hash_b = mix(nodes_.size() * 2 + 2 + (uint64_t{1} << 40));
    nodes_.push_back(node);
  }
}

/// An open write whose (unique) value was read did happen, at the version of the reads. The value of an open write that
/// no call read does not matter: only the existence of the object can show that write.
void KeySearch::resolveOpenWrites() {
  std::vector<uint64_t> written;
  std::vector<std::pair<uint64_t, uint64_t>> read;  // value, version
  for (const Node& node : nodes_) {
    const Operation& operation = node.operation;
    if (operation.kind == OperationKind::Write && !operation.argument.is_integer) {
      written.push_back(operation.argument.bits);
    }
    if (node.must_happen && operation.isRead() && operation.outcome == Outcome::Ok && !operation.result.is_integer) {
      read.push_back({operation.result.bits, operation.version});
    }
  }
  std::sort(written.begin(), written.end());
  std::sort(read.begin(), read.end());
  for (Node& node : nodes_) {
    Operation& operation = node.operation;
    const bool is_open_write = operation.kind == OperationKind::Write && !operation.isSettled();
    if (!is_open_write || operation.argument.is_integer) continue;
    const uint64_t bits = operation.argument.bits;
    const auto first = std::lower_bound(read.begin(), read.end(), std::pair(bits, uint64_t{0}));
    if (first == read.end() || first->first != bits) {
      operation.argument = kUnseen;
      continue;
    }
    const auto last = std::upper_bound(read.begin(), read.end(), std::pair(bits, kNeverReturned));
    const auto writers = std::equal_range(written.begin(), written.end(), bits);
    const bool is_unique = writers.second - writers.first == 1;
    if (!is_unique || first->second == 0 || first->second != (last - 1)->second) continue;
    node.created_version = first->second;
    node.must_happen = true;
  }
}

/// The same for open writes of integers, if no call saw the integer or anything that increments can have made of it.
void KeySearch::blurUnseenIntegers() {
  uint64_t reach = 0;  // of all increments together
  std::vector<uint64_t> seen;
  for (const Node& node : nodes_) {
    const Operation& operation = node.operation;
    if (operation.kind == OperationKind::Increment) reach += std::min(operation.delta, ~operation.delta + 1);
    const bool has_result = operation.isRead() || operation.kind == OperationKind::Increment;
    if (has_result && operation.outcome == Outcome::Ok && operation.result.is_integer) {
      seen.push_back(operation.result.bits);
    }
  }
  const auto isSeen = [&](uint64_t bits) {
    return std::any_of(seen.begin(), seen.end(), [&](uint64_t other) { return other - bits + reach <= 2 * reach; });
  };
  if (isSeen(kUnseenInteger.bits)) return;
  for (Node& node : nodes_) {
    Operation& operation = node.operation;
    const bool is_open_write = operation.kind == OperationKind::Write && !operation.isSettled();
    if (!is_open_write || !operation.argument.is_integer || isSeen(operation.argument.bits)) continue;
    operation.argument = kUnseenInteger;
  }
}

void KeySearch::linkAlikeCalls() {
  std::vector<uint32_t> open;
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].must_happen && !nodes_[i].operation.isSettled()) open.push_back(i);
  }
  std::sort(open.begin(), open.end(), [this](uint32_t a, uint32_t b) {
    return std::pair(likeness(nodes_[a].operation), a) < std::pair(likeness(nodes_[b].operation), b);
  });
  for (size_t i = 1; i < open.size(); ++i) {
    if (likeness(nodes_[open[i - 1]].operation) == likeness(nodes_[open[i]].operation)) {
      nodes_[open[i]].alike_before = open[i - 1];
    }
  }
}

void KeySearch::buildEvents() {
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    events_.push_back({node.operation.invoke_order, false, i, 0, 0});
    // An open write that was read has happened, but any time after its invocation.
    if (node.must_happen && node.operation.isSettled()) events_.push_back({node.operation.return_order, true, i, 0, 0});
    if (node.must_happen) ++owed_count_;
  }
  std::sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
    return std::tuple(a.order, a.is_return, a.node) < std::tuple(b.order, b.is_return, b.node);
  });
  const auto head = static_cast<uint32_t>(events_.size());
  events_.push_back({});
  for (uint32_t i = 0; i <= head; ++i) {
    events_[i].before = i == 0 ? head : i - 1;
    events_[i].after = i == head ? 0 : i + 1;
    if (i == head) continue;
    Node& node = nodes_[events_[i].node];
    (events_[i].is_return ? node.return_event : node.call_event) = i;
  }
}

void KeySearch::buildVersionUses() {
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (!node.must_happen) continue;
    if (node.created_version != 0) {
      version_uses_.push_back({node.created_version, false, i});
    } else if (node.operation.observedVersion()) {
      version_uses_.push_back({node.operation.version, true, i});
    }
  }
  std::sort(version_uses_.begin(), version_uses_.end(), [](const VersionUse& a, const VersionUse& b) {
    return std::tuple(a.version, a.is_observer, a.node) < std::tuple(b.version, b.is_observer, b.node);
  });
}

Verdict KeySearch::run() {
  enterLevel(RegisterState{}, kNone, 0);
  for (;;) {
    if (owed_count_ == 0) return Verdict::Linearizable;
    Level& level = levels_.back();
    if (level.candidates_next == candidates_.size()) {
      candidates_.resize(level.candidates_first);
      const uint32_t node = level.node;
      levels_.pop_back();
      if (levels_.empty()) return Verdict::Violation;
      undo(node);
      continue;
    }
    const Candidate candidate = candidates_[level.candidates_next++];
    if (!isNew(candidate)) continue;
    if (++steps_ > steps_max_) return Verdict::GaveUp;
    take(candidate.node);
    enterLevel(candidate.after, candidate.node, level.version_cursor);
  }
}

void KeySearch::enterLevel(const RegisterState& state, uint32_t node, uint32_t version_cursor) {
  Level level;
  level.state = state;
  level.node = node;
  level.candidates_first = static_cast<uint32_t>(candidates_.size());
  level.candidates_next = level.candidates_first;
  level.version_cursor = version_cursor;
  while (level.version_cursor < version_uses_.size() && nodes_[version_uses_[level.version_cursor].node].done) {
    ++level.version_cursor;
  }
  collectCandidates(level);
  levels_.push_back(level);
  if (keep_longest_ && owed_count_ < longest_owed_count_) noteLongest();
}

/// Appends what may happen next: everything invoked before the first return that is not placed yet, if its answer fits.
/// A deeper level's candidates lie behind those of the levels above it, so each level's own end at the vector's end
/// when it is on top.
void KeySearch::collectCandidates(Level& level) {
  const auto head = static_cast<uint32_t>(events_.size() - 1);
  const bool follows_optional = level.node != kNone && !nodes_[level.node].must_happen;
  for (uint32_t e = events_[head].after; e != head && !events_[e].is_return; e = events_[e].after) {
    const uint32_t index = events_[e].node;
    Node& node = nodes_[index];
    if (node.alike_before != kNone && !nodes_[node.alike_before].done) continue;
    if (follows_optional && overwritesBlindly(node.operation)) continue;
    std::optional<RegisterState> after = apply(level.state, node.operation, node.created_version);
    if (!after) continue;
    // If no answer showed the integer, none showed what increments made of it.
    if (node.operation.kind == OperationKind::Increment && level.state.value == kUnseenInteger) {
      after->value = kUnseenInteger;
    }
    if (node.must_happen && *after == level.state) {
      candidates_.resize(level.candidates_first);
      candidates_.push_back({index, *after});
      return;
    }
    node.done = true;
    const bool is_dead_end = isDeadEnd(*after, level.version_cursor);
    node.done = false;
    if (!is_dead_end) candidates_.push_back({index, *after});
  }
  // Calls that certainly happened are tried before those that may have happened: most open calls did nothing.
  std::sort(candidates_.begin() + level.candidates_first, candidates_.end(),
            [this](const Candidate& a, const Candidate& b) {
              const bool a_may_wait = !nodes_[a.node].must_happen;
              const bool b_may_wait = !nodes_[b.node].must_happen;
              return std::tuple(a_may_wait, a.node) < std::tuple(b_may_wait, b.node);
            });
}

/// True if an answer that is not placed yet names a version that cannot be reached any more. Only the lowest is looked
/// at.
bool KeySearch::isDeadEnd(const RegisterState& state, uint32_t cursor) const {
  while (cursor < version_uses_.size() && nodes_[version_uses_[cursor].node].done) ++cursor;
  if (cursor == version_uses_.size()) return false;
  const VersionUse& use = version_uses_[cursor];
  if (use.version != state.version_min) return use.version < state.version_min;
  return !use.is_observer || !state.present;
}

bool KeySearch::isNew(const Candidate& candidate) {
  const Node& node = nodes_[candidate.node];
  const uint64_t a = done_hash_a_ ^ node.hash_a ^ hashOf(candidate.after, 0x51ed270b);
  const uint64_t b = done_hash_b_ ^ node.hash_b ^ hashOf(candidate.after, 0xa0761d64);
  return seen_.insert(a, b);
}

void KeySearch::take(uint32_t index) {
  Node& node = nodes_[index];
  node.done = true;
  done_hash_a_ ^= node.hash_a;
  done_hash_b_ ^= node.hash_b;
  if (node.must_happen) --owed_count_;
  unlink(node.call_event);
  if (node.return_event != kNone) unlink(node.return_event);
}

void KeySearch::undo(uint32_t index) {
  Node& node = nodes_[index];
  if (node.return_event != kNone) relink(node.return_event);
  relink(node.call_event);
  if (node.must_happen) ++owed_count_;
  done_hash_a_ ^= node.hash_a;
  done_hash_b_ ^= node.hash_b;
  node.done = false;
}

void KeySearch::unlink(uint32_t index) {
  const Event& event = events_[index];
  events_[event.before].after = event.after;
  events_[event.after].before = event.before;
}

/// Undoes unlink(); in the opposite order of the unlinking, so the neighbours are those of then.
void KeySearch::relink(uint32_t index) {
  const Event& event = events_[index];
  events_[event.before].after = index;
  events_[event.after].before = index;
}

void KeySearch::noteLongest() {
  longest_owed_count_ = owed_count_;
  longest_state_ = levels_.back().state;
  longest_order_.clear();
  left_over_.clear();
  for (const Level& level : levels_) {
    if (level.node != kNone) longest_order_.push_back(nodes_[level.node].original);
  }
  for (const Node& node : nodes_) {
    if (node.must_happen && !node.done) left_over_.push_back(node.original);
  }
}

}  // namespace ramcore::sim
