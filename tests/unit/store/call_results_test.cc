#include "store/call_results.h"

#include <gtest/gtest.h>

#include <map>

#include "runtime/random.h"

namespace ramcore::store {
namespace {

using Results = CallResults<uint64_t>;

std::map<Sequence, uint64_t> contents(const Results& results) { return {results.begin(), results.end()}; }

TEST(CallResults, HoldWhatAMapHolds) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    runtime::Random random(seed);
    Results results;
    std::map<Sequence, uint64_t> model;
    const uint64_t window = 1 + random.below(300);
    uint64_t acknowledged = 0;
    for (uint64_t step = 1; step <= 2000; ++step) {
      const Sequence sequence(acknowledged + 1 + random.below(window));
      switch (random.below(10)) {
        case 0: {
          acknowledged += random.below(window);
          std::vector<uint64_t> gone;
          results.eraseUpTo(Sequence(acknowledged), [&](uint64_t value) { gone.push_back(value); });
          std::vector<uint64_t> expected;
          while (!model.empty() && model.begin()->first <= Sequence(acknowledged)) {
            expected.push_back(model.begin()->second);
            model.erase(model.begin());
          }
          ASSERT_EQ(gone, expected);
          break;
        }
        case 1:
          results.erase(sequence);
          model.erase(sequence);
          break;
        case 2: {
          const uint64_t remainder = random.below(7);
          if (random.below(10) != 0) break;
          results.eraseIf([&](uint64_t value) { return value % 7 == remainder; });
          std::erase_if(model, [&](const auto& one) { return one.second % 7 == remainder; });
          break;
        }
        default: {
          const auto [kept, is_new] = results.emplace(sequence, step);
          const auto [expected, is_expected_new] = model.emplace(sequence, step);
          ASSERT_EQ(is_new, is_expected_new);
          ASSERT_EQ(*kept, expected->second);
        }
      }
      ASSERT_EQ(results.size(), model.size());
      const auto expected = model.find(sequence);
      const uint64_t* const found = results.find(sequence);
      ASSERT_EQ(found != nullptr, expected != model.end());
      if (found != nullptr) ASSERT_EQ(*found, expected->second);
    }
    ASSERT_EQ(contents(results), model);
    EXPECT_EQ(results.empty(), model.empty());
  }
}

}  // namespace
}  // namespace ramcore::store
