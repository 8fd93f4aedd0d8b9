#include "runtime/job.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ramcore::runtime {
namespace {

struct Numbered : Job {
  Numbered() : Job([](Job&) {}) {}
  int producer = 0;
  int number = 0;
};

TEST(JobList, KeepsTheOrderOfArrival) {
  JobList list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.pop(), nullptr);
  Numbered a;
  Numbered b;
  list.push(a);
  list.push(b);
  EXPECT_EQ(list.pop(), &a);
  list.push(a);
  EXPECT_EQ(list.pop(), &b);
  EXPECT_EQ(list.pop(), &a);
  EXPECT_TRUE(list.empty());
}

TEST(JobInbox, TellsWhoMadeItNonEmptyAndGivesEverythingOldestFirst) {
  JobInbox inbox;
  JobList list;
  EXPECT_TRUE(inbox.empty());
  EXPECT_FALSE(inbox.takeAll(list));
  Numbered a;
  Numbered b;
  EXPECT_TRUE(inbox.push(a));
  EXPECT_FALSE(inbox.push(b));
  EXPECT_TRUE(inbox.takeAll(list));
  EXPECT_TRUE(inbox.empty());
  EXPECT_EQ(list.pop(), &a);
  EXPECT_EQ(list.pop(), &b);
}

TEST(JobInbox, LosesNothingAndKeepsEachProducersOrderUnderLoad) {
  constexpr int kProducers = 4;
  constexpr int kJobs = 20'000;
  JobInbox inbox;
  std::vector<std::unique_ptr<Numbered[]>> jobs;
  for (int producer = 0; producer < kProducers; ++producer) {
    jobs.push_back(std::make_unique<Numbered[]>(kJobs));
    for (int i = 0; i < kJobs; ++i) {
      jobs.back()[i].producer = producer;
      jobs.back()[i].number = i;
    }
  }
  std::atomic<int> times_made_non_empty{0};
  std::vector<std::thread> producers;
  for (int producer = 0; producer < kProducers; ++producer) {
    producers.emplace_back([&, producer] {
      for (int i = 0; i < kJobs; ++i) {
        if (inbox.push(jobs[producer][i])) times_made_non_empty.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  std::vector<int> next(kProducers, 0);
  int taken = 0;
  int batches = 0;
  while (taken < kProducers * kJobs) {
    JobList list;
    if (!inbox.takeAll(list)) {
      std::this_thread::yield();
      continue;
    }
    ++batches;
    while (Job* job = list.pop()) {
      const Numbered& numbered = static_cast<Numbered&>(*job);
      ASSERT_EQ(numbered.number, next[numbered.producer]++);
      ++taken;
    }
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_TRUE(inbox.empty());
  EXPECT_EQ(times_made_non_empty.load(), batches);
}

}  // namespace
}  // namespace ramcore::runtime
