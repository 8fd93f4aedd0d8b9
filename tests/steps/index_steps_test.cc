// Lookups beside splits and other changes of the hash index, in every order in which their accesses to memory may come
// (up to so many preemptions). The index is the product's own, compiled with a mark at each load and store of a slot
// and of the word with the table's size. What a weaker order of memory would add is not shown by this: the marks come
// with acquire and release, which hash_index_stress_test.cc runs under ThreadSanitizer.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "base/mutation.h"
#include "index/hash_index.h"
#include "runtime/sim/sim_epoch.h"
#include "steps/interleavings.h"
#include "unit/index/index_fixture.h"

namespace ramcore::index {
namespace {

// The table begins with 4 buckets and splits bucket 0 when the 25th key comes.
constexpr uint64_t kBucketsLog2 = 2;
constexpr uint64_t kKeysBeforeSplit = 24;

/// Of a key in `bucket`; `moves`: it belongs to the target when the bucket is split for the first time.
KeyHash hashIn(uint64_t bucket, bool moves, uint64_t number) {
  return reverseBits(bucket | uint64_t{moves} << kBucketsLog2 | number << (kBucketsLog2 + 1));
}

enum class Deed : uint8_t { Read, ReadInBatch, Insert, Relocate, Erase };

/// The operation of a thread on one key. Keys 0, 1, ... are those of bucket 0 in the order in which they came in.
struct Task {
  Deed deed;
  uint64_t key;
  uint64_t times = 1;
};

struct Scenario {
  std::string name;
  /// Which keys of bucket 0 move when it is split, in the order in which they come in: 'm' moves, 's' stays.
  std::string keys;
  std::vector<Task> tasks;
  uint32_t preemptions_max;
};

// Keys that no scenario has in the table from the beginning.
constexpr uint64_t kNewStays = 100;     // of bucket 0
constexpr uint64_t kNewMoves = 101;     // of bucket 0
constexpr uint64_t kTwentyFifth = 102;  // of bucket 1: whoever inserts it splits bucket 0

class Trial {
 public:
  Trial(const Scenario& scenario, steps::Interleavings& orders) : scenario_(scenario), orders_(orders) {
    auto opened = HashIndex::open(IndexConfig::forTest(), rcu_);
    RC_CHECK(opened.ok());
    index_ = std::move(*opened);
    for (uint64_t key = 0; key < scenario.keys.size(); ++key) insert(key);
    for (uint64_t other = scenario.keys.size(); other < kKeysBeforeSplit; ++other) insert(200 + other);
    RC_CHECK(index_->stats().buckets == 4);
  }
  ~Trial() {
    index_.reset();
    rcu_.drain();
  }

  /// @return what went wrong, or nothing
  std::string run() {
    std::vector<runtime::RcuReader> readers;
    std::vector<steps::Party> parties;
    for (const Task& task : scenario_.tasks) {
      const bool reads = task.deed == Deed::Read || task.deed == Deed::ReadInBatch;
      if (reads) readers.push_back(rcu_.registerThread());
      parties.push_back({.work = [this, &task] { carryOut(task); }, .is_reader = reads});
    }
    orders_.run(parties);
    for (const runtime::RcuReader reader : readers) rcu_.unregisterThread(reader);
    for (const Reading& reading : readings_) judge(reading);
    judgeEnd();
    return wrong_;
  }

 private:
  /// An entry that the key had, or none, from some instant of the change that made it so on.
  struct Value {
    EntryRef ref;
    uint64_t change_begun = 0;
    uint64_t change_ended = 0;
  };
  struct Reading {
    uint64_t key;
    EntryRef found;
    uint64_t begun;
    uint64_t ended;
  };

  KeyHash hashOf(uint64_t key) const {
    if (key < scenario_.keys.size()) return hashIn(0, scenario_.keys[key] == 'm', key);
    if (key == kNewStays || key == kNewMoves) return hashIn(0, key == kNewMoves, key);
    return hashIn(key == kTwentyFifth ? 1 : 1 + key % 3, false, key);
  }

  void carryOut(const Task& task) {
    for (uint64_t i = 0; i < task.times; ++i) {
      switch (task.deed) {
        case Deed::Read:
        case Deed::ReadInBatch:
          read(task.key, task.deed == Deed::ReadInBatch);
          break;
        case Deed::Insert:
          insert(task.key);
          break;
        case Deed::Relocate:
          relocate(task.key);
          break;
        case Deed::Erase:
          erase(task.key);
          break;
      }
    }
  }

  void read(uint64_t key, bool in_batch) {
    Reading reading{.key = key, .found = {}, .begun = ++now_, .ended = 0};
    if (in_batch) {
      const KeyHash hash = hashOf(key);
      index_->lookupBatch(std::span(&hash, 1), std::span(&reading.found, 1), memory_.base(),
                          [&](size_t, EntryRef ref) { return memory_.at(ref).key == key; });
    } else {
      reading.found = index_->lookup(hashOf(key), memory_.keyIs(key));
    }
    reading.ended = ++now_;
    readings_.push_back(reading);
  }

  void insert(uint64_t key) {
    const EntryRef ref = memory_.append(key, hashOf(key));
    change(key, ref, [&] {
      const StripeGuard guard(*index_, hashOf(key));
      if (index_->insert(guard, ref) != Status::Ok) wrong_ = "an insert is refused";
    });
  }
  // No other thread changes the key, so the relocation has to find it.
  void relocate(uint64_t key) {
    const EntryRef old = history_[key].back().ref;
    const EntryRef ref = memory_.append(key, hashOf(key));
    change(key, ref, [&] {
      const StripeGuard guard(*index_, hashOf(key));
      if (!index_->relocate(guard, old, ref)) wrong_ = "a relocation finds nothing at key " + std::to_string(key);
    });
  }
  void erase(uint64_t key) {
    const EntryRef old = history_[key].back().ref;
    change(key, {}, [&] {
      const StripeGuard guard(*index_, hashOf(key));
      if (!index_->erase(guard, old)) wrong_ = "an erase finds nothing at key " + std::to_string(key);
    });
  }

  template <typename Change>
  void change(uint64_t key, EntryRef ref, Change&& carry_out) {
    std::vector<Value>& values = history_[key];
    if (values.empty()) values.push_back({});  // absent from the beginning
    values.push_back({.ref = ref, .change_begun = ++now_, .change_ended = ~uint64_t{0}});
    carry_out();
    history_[key].back().change_ended = ++now_;
  }

  // A lookup may give any value that the key had between its beginning and its end.
  void judge(const Reading& reading) {
    const std::vector<Value>& values = history_.at(reading.key);
    for (size_t i = 0; i < values.size(); ++i) {
      const bool was_gone = i + 1 < values.size() && values[i + 1].change_ended < reading.begun;
      if (values[i].ref == reading.found && !was_gone && values[i].change_begun <= reading.ended) return;
    }
    wrong_ = "a lookup of key " + std::to_string(reading.key) +
             (reading.found ? " finds what was not there" : " finds nothing though it was there all the time");
  }

  void judgeEnd() {
    std::map<uint64_t, std::set<uint64_t>> found;
    uint64_t met = 0;
    index_->forEachInRange({0, ~uint64_t{0}}, memory_.hashOf(), [&](KeyHash, EntryRef ref) {
      found[memory_.at(ref).key].insert(ref.bits());
      ++met;
    });
    uint64_t present = 0;
    for (const auto& [key, values] : history_) {
      const EntryRef now = values.back().ref;
      present += now ? 1 : 0;
      const StripeGuard guard(*index_, hashOf(key));
      if (index_->find(guard, memory_.keyIs(key)) != now)
        wrong_ = "key " + std::to_string(key) + " is wrong at the end";
      if (now && !found[key].contains(now.bits())) wrong_ = "key " + std::to_string(key) + " is not met at the end";
    }
    if (met != present || index_->entryCount() != present) wrong_ = "there are more entries, or fewer, than keys";
    if (index_->stats().splits_per_operation_max > HashIndex::kSplitsPerOperationMax) wrong_ = "too many splits";
  }

  const Scenario& scenario_;
  steps::Interleavings& orders_;
  runtime::SimRcu rcu_;
  TestMemory memory_{64};
  std::unique_ptr<HashIndex> index_;
  std::map<uint64_t, std::vector<Value>> history_;
  std::vector<Reading> readings_;
  uint64_t now_ = 0;
  std::string wrong_;
};

/// Goes through all orders, or until one of them shows something wrong.
std::string explore(const Scenario& scenario, uint64_t& count) {
  steps::Interleavings orders(scenario.preemptions_max);
  std::string wrong;
  while (wrong.empty() && orders.next()) wrong = Trial(scenario, orders).run();
  count = orders.count();
  return wrong;
}

const Task kSplit{Deed::Insert, kTwentyFifth};

// One line; and two, where what stays comes from the second to the first, which is unlinked.
const std::string kOneLine = "msmsmsms";
const std::string kTwoLines = "mmmmmsmmsss";
// Too many stay for one line: one of them takes the place of the link.
const std::string kTwoLinesStay = "smsmsmsmsmss";

// Key 15 moves from the third line to the first, behind the back of who is in the second.
const std::string kThreeLines = "msssssssmmmmmsms";

std::vector<Scenario> scenarios() {
  return {
      {"ReadsWhatMoves", kOneLine, {{Deed::Read, 0}, kSplit}, 4},
      {"ReadsWhatStays", kOneLine, {{Deed::Read, 7}, kSplit}, 4},
      {"ReadsWhatMovesOutOfTwoLines", kTwoLines, {{Deed::Read, 7}, kSplit}, 3},
      {"ReadsWhatMovesForward", kTwoLines, {{Deed::Read, 10}, kSplit}, 3},
      {"ReadsWhatMovesForwardFromTheThirdLine", kThreeLines, {{Deed::Read, 15}, kSplit}, 3},
      {"ReadsInABatchWhatMovesForward", kThreeLines, {{Deed::ReadInBatch, 15}, kSplit}, 3},
      {"ReadsInABatchWhatMoves", kTwoLines, {{Deed::ReadInBatch, 7}, kSplit}, 3},
      {"ReadsWhatStaysInTwoLines", kTwoLinesStay, {{Deed::Read, 11}, kSplit}, 3},
      {"ReadsWhatIsRelocated", kTwoLines, {{Deed::Read, 10}, kSplit, {Deed::Relocate, 10, 2}}, 2},
      {"ReadsWhatMovesAndIsRelocated", kOneLine, {{Deed::Read, 0}, kSplit, {Deed::Relocate, 0, 2}}, 3},
      {"ReadsBesideAnErase", kTwoLines, {{Deed::Read, 10}, kSplit, {Deed::Erase, 9}}, 3},
      {"ReadsWhatIsErased", kTwoLines, {{Deed::Read, 10, 2}, kSplit, {Deed::Erase, 10}}, 2},
      {"ReadsWhatComesIn", kTwoLines, {{Deed::Read, kNewMoves, 2}, kSplit, {Deed::Insert, kNewMoves}}, 2},
      {"ReadsWhatExtendsTheChain", kOneLine, {{Deed::Read, 7}, kSplit, {Deed::Insert, kNewStays}}, 2},
      {"ReadsWhileOneLeavesASecondLine", "ssssssssm", {{Deed::Read, 7}, {Deed::Erase, 8}}, 4},
      {"TwoRelocateBesideASplit", kTwoLines, {{Deed::Relocate, 10}, kSplit, {Deed::Relocate, 0}}, 3},
      {"RelocatesTwiceBesideASplit", kOneLine, {{Deed::Relocate, 0, 2}, kSplit}, 4},
  };
}

class IndexSteps : public ::testing::TestWithParam<Scenario> {};

TEST_P(IndexSteps, NobodyMissesAKeyInAnyOrder) {
  uint64_t count = 0;
  EXPECT_EQ(explore(GetParam(), count), "") << "order " << count;
  std::printf("%llu orders\n", static_cast<unsigned long long>(count));
  EXPECT_GT(count, 100u);
}

INSTANTIATE_TEST_SUITE_P(All, IndexSteps, ::testing::ValuesIn(scenarios()),
                         [](const auto& scenario) { return scenario.param.name; });

/// A defect, and a scenario that shows it.
struct Planted {
  const char* mutation;
  std::string scenario;

  friend void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.mutation; }
};

class PlantedInIndex : public ::testing::TestWithParam<Planted> {
 protected:
  ~PlantedInIndex() override { setMutation(""); }
};

TEST_P(PlantedInIndex, IsFound) {
  setMutation(GetParam().mutation);
  const std::vector<Scenario> all = scenarios();
  const auto scenario = std::ranges::find(all, GetParam().scenario, &Scenario::name);
  ASSERT_NE(scenario, all.end());
  uint64_t count = 0;
  const std::string wrong = explore(*scenario, count);
  EXPECT_NE(wrong, "");
  std::printf("order %llu: %s\n", static_cast<unsigned long long>(count), wrong.c_str());
}

INSTANTIATE_TEST_SUITE_P(All, PlantedInIndex,
                         ::testing::Values(Planted{"clear-before-publish", "ReadsWhatMoves"},
                                           Planted{"look-once", "ReadsWhatMoves"},
                                           Planted{"move-unnoticed", "ReadsWhatMovesForwardFromTheThirdLine"},
                                           Planted{"relocate-while-splitting", "RelocatesTwiceBesideASplit"}),
                         [](const auto& planted) {
                           std::string name = planted.param.mutation;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace ramcore::index
