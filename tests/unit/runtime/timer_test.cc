#include "runtime/timer.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/clock.h"
#include "runtime/random.h"

namespace ramcore::runtime {
namespace {

struct Recorded : Timer {
  Recorded(int number, std::vector<int>& fired)
      : Timer([](Timer& timer) {
          Recorded& self = static_cast<Recorded&>(timer);
          self.fired.push_back(self.number);
        }),
        number(number),
        fired(fired) {}
  int number;
  std::vector<int>& fired;
};

TEST(TimerHeap, FiresInTheOrderOfDeadlineThenOfArming) {
  std::vector<int> fired;
  Recorded a(1, fired);
  Recorded b(2, fired);
  Recorded c(3, fired);
  TimerHeap heap;
  EXPECT_EQ(heap.earliestNs(), kNever);
  heap.arm(a, 20);
  heap.arm(b, 10);
  heap.arm(c, 20);
  EXPECT_EQ(heap.earliestNs(), 10);
  EXPECT_EQ(heap.fireDue(15, 10), 1u);
  EXPECT_EQ(heap.fireDue(20, 10), 2u);
  EXPECT_EQ(fired, (std::vector<int>{2, 1, 3}));
  EXPECT_FALSE(a.isArmed());
}

TEST(TimerHeap, FiresAtMostAsManyAsAsked) {
  std::vector<int> fired;
  Recorded a(1, fired);
  Recorded b(2, fired);
  TimerHeap heap;
  heap.arm(a, 1);
  heap.arm(b, 2);
  EXPECT_EQ(heap.fireDue(10, 1), 1u);
  EXPECT_EQ(fired, std::vector<int>{1});
  EXPECT_TRUE(b.isArmed());
}

TEST(TimerHeap, DestructionDisarmsEitherWayRound) {
  std::vector<int> fired;
  TimerHeap heap;
  {
    Recorded gone(1, fired);
    heap.arm(gone, 1);
  }
  EXPECT_EQ(heap.size(), 0u);
  Recorded survivor(2, fired);
  {
    TimerHeap short_lived;
    short_lived.arm(survivor, 1);
  }
  EXPECT_FALSE(survivor.isArmed());
  EXPECT_EQ(heap.fireDue(10, 10), 0u);
}

struct Periodic : Timer {
  explicit Periodic(TimerHeap& heap)
      : Timer([](Timer& timer) {
          Periodic& self = static_cast<Periodic&>(timer);
          if (++self.fires < 5) self.heap.arm(self, self.deadlineNs() + 10);
        }),
        heap(heap) {}
  TimerHeap& heap;
  int fires = 0;
};

TEST(TimerHeap, TimerMayArmItselfAgain) {
  TimerHeap heap;
  Periodic periodic(heap);
  heap.arm(periodic, 10);
  EXPECT_EQ(heap.fireDue(35, 100), 3u);
  EXPECT_EQ(heap.fireDue(1'000, 100), 2u);
  EXPECT_EQ(periodic.fires, 5);
}

/// Random arming, re-arming, cancelling, destroying and firing, beside a plain list.
TEST(TimerHeap, BehavesAsASortedList) {
  struct Entry {
    int64_t deadline_ns;
    uint64_t order;
    int number;
  };
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    std::vector<int> fired;
    std::vector<int> expected;
    std::vector<Entry> model;
    uint64_t order = 0;
    int64_t now_ns = 0;
    TimerHeap heap;
    std::vector<std::unique_ptr<Recorded>> timers;
    for (int i = 0; i < 50; ++i) timers.push_back(std::make_unique<Recorded>(i, fired));
    const auto forget = [&](int number) { std::erase_if(model, [&](const Entry& e) { return e.number == number; }); };
    for (int step = 0; step < 3'000; ++step) {
      const int number = static_cast<int>(random.below(timers.size()));
      const uint64_t kind = random.below(10);
      if (kind < 5) {
        const int64_t deadline_ns = now_ns + static_cast<int64_t>(random.below(30));
        heap.arm(*timers[number], deadline_ns);
        forget(number);
        model.push_back({deadline_ns, order++, number});
      } else if (kind < 7) {
        timers[number]->cancel();
        forget(number);
      } else if (kind == 7) {
        timers[number] = std::make_unique<Recorded>(number, fired);
        forget(number);
      } else {
        now_ns += static_cast<int64_t>(random.below(10));
        const size_t fires_max = 1 + random.below(5);
        std::sort(model.begin(), model.end(), [](const Entry& a, const Entry& b) {
          return a.deadline_ns != b.deadline_ns ? a.deadline_ns < b.deadline_ns : a.order < b.order;
        });
        size_t due = 0;
        while (due < model.size() && due < fires_max && model[due].deadline_ns <= now_ns) {
          expected.push_back(model[due++].number);
        }
        model.erase(model.begin(), model.begin() + static_cast<std::ptrdiff_t>(due));
        ASSERT_EQ(heap.fireDue(now_ns, fires_max), due);
        ASSERT_EQ(fired, expected);
      }
      ASSERT_EQ(heap.size(), model.size());
      const auto earliest = std::min_element(
          model.begin(), model.end(), [](const Entry& a, const Entry& b) { return a.deadline_ns < b.deadline_ns; });
      ASSERT_EQ(heap.earliestNs(), model.empty() ? kNever : earliest->deadline_ns);
    }
    EXPECT_GT(fired.size(), 100u);
  }
}

}  // namespace
}  // namespace ramcore::runtime
