#pragma once

#include <cstdint>
#include <vector>

#include "sim/checkers/history.h"
#include "sim/checkers/register_model.h"

namespace ramcore::sim {

enum class Verdict : uint8_t {
  Linearizable,
  Violation,
  GaveUp,  ///< the bound on the search was reached: nothing is proven, and the run counts as failed
};

/// A growing set of 128-bit hashes; open addressing, nothing is ever removed.
class HashSet128 {
 public:
  HashSet128();
  /// @return false if the pair was there already.
  bool insert(uint64_t a, uint64_t b);

 private:
  struct Slot {
    uint64_t a = 0;
    uint64_t b = 0;
  };
  void grow();
  std::vector<Slot> slots_;
  size_t count_ = 0;
};

/// Looks for one order of the operations on one key that respects real time and explains every answer.
///
/// Depth-first search over the operations that may come next (Wing and Gong 1993), remembering every combination of
/// operations done and state reached (Lowe 2017) by a 128-bit hash. Five facts about this store keep it nearly linear:
/// - an answer that fits and changes nothing can be taken at once, without trying anything else;
/// - versions only grow, so a step that leaves behind an answer with a lower version is a dead end;
/// - open calls that are alike are interchangeable, so they are used in the order of their invocation;
/// - an open call whose effect is overwritten at once can as well be left out;
/// - values are unique: a value that was read tells which open write created it and at what version.
class KeySearch {
 public:
  /// @param operations  of one key, in order of invocation; borrowed until run() returns.
  /// @param cut_order   only the history up to this event counts: what was invoked later is left out, what had not
  ///                    returned may be left out. kNeverReturned = all of it.
  /// @param steps_max   bound on the steps tried; about 25 bytes of memory a step.
  /// @param keep_longest remember the longest order found, for explanations. Costs time.
  KeySearch(const std::vector<const Operation*>& operations, uint64_t cut_order, uint64_t steps_max, bool keep_longest);

  Verdict run();

  uint64_t steps() const { return steps_; }
  /// With keep_longest: the order that placed the most answers, the state after it, and the answers it leaves over.
  const std::vector<const Operation*>& longestOrder() const { return longest_order_; }
  const RegisterState& longestState() const { return longest_state_; }
  const std::vector<const Operation*>& leftOver() const { return left_over_; }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Node {
    Operation operation;  // the argument of a write that nobody saw is replaced, so that such writes are alike
    const Operation* original = nullptr;
    uint64_t created_version = 0;
    bool must_happen = false;
    bool done = false;
    uint32_t alike_before = kNone;  // an open call like this one, invoked earlier
    uint32_t call_event = kNone;
    uint32_t return_event = kNone;
    uint64_t hash_a = 0;
    uint64_t hash_b = 0;
  };
  struct Event {
    uint64_t order = 0;
    bool is_return = false;
    uint32_t node = 0;
    uint32_t before = 0;
    uint32_t after = 0;
  };
  struct VersionUse {
    uint64_t version = 0;
    bool is_observer = false;  // creators sort first
    uint32_t node = 0;
  };
  struct Candidate {
    uint32_t node = 0;
    RegisterState after;
  };
  struct Level {
    RegisterState state;
    uint32_t node = kNone;  // whose step led here
    uint32_t candidates_first = 0;
    uint32_t candidates_next = 0;
    uint32_t version_cursor = 0;  // all uses before it are done
  };

  void addNodes(const std::vector<const Operation*>& operations, uint64_t cut_order);
  void resolveOpenWrites();
  void blurUnseenIntegers();
  void linkAlikeCalls();
  void buildEvents();
  void buildVersionUses();
  void enterLevel(const RegisterState& state, uint32_t node, uint32_t version_cursor);
  void collectCandidates(Level& level);
  bool isDeadEnd(const RegisterState& state, uint32_t cursor) const;
  bool isNew(const Candidate& candidate);
  void take(uint32_t node);
  void undo(uint32_t node);
  void unlink(uint32_t event);
  void relink(uint32_t event);
  void noteLongest();

  uint64_t steps_max_;
  bool keep_longest_;
  uint64_t steps_ = 0;
  std::vector<Node> nodes_;
  std::vector<Event> events_;  // the last one is the ring's head
  std::vector<VersionUse> version_uses_;
  std::vector<Candidate> candidates_;
  std::vector<Level> levels_;
  HashSet128 seen_;
  size_t owed_count_ = 0;  // nodes that must happen and have not
  uint64_t done_hash_a_ = 0;
  uint64_t done_hash_b_ = 0;
  size_t longest_owed_count_ = ~size_t{0};
  std::vector<const Operation*> longest_order_;
  RegisterState longest_state_;
  std::vector<const Operation*> left_over_;
};

}  // namespace ramcore::sim
