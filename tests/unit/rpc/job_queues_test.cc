#include "rpc/job_queues.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>

namespace ramcore::rpc {
namespace {

using runtime::Job;
using runtime::Priority;

struct Tagged : Job {
  Tagged(Priority job_priority, int job_number) : Job(nullptr), priority(job_priority), number(job_number) {}
  Priority priority;
  int number;
};

class JobQueuesTest : public ::testing::Test {
 protected:
  void push(Priority priority) {
    Tagged& job = jobs_.emplace_back(priority, static_cast<int>(jobs_.size()));
    queues_.push(job, priority);
  }
  Tagged* pop() {
    Priority priority{};
    auto* const job = static_cast<Tagged*>(queues_.pop(priority));
    if (job != nullptr) EXPECT_EQ(priority, job->priority);
    return job;
  }

  std::deque<Tagged> jobs_;
  JobQueues queues_;
};

TEST_F(JobQueuesTest, EmptyGivesNothing) {
  EXPECT_TRUE(queues_.empty());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(pop(), nullptr);
  push(Priority::Background);
  EXPECT_FALSE(queues_.empty());
  EXPECT_NE(pop(), nullptr);
  EXPECT_TRUE(queues_.empty());
}

TEST_F(JobQueuesTest, UrgentFirstAndInOrderWithinAClass) {
  for (const Priority priority : {Priority::Background, Priority::Client, Priority::Waited, Priority::Membership}) {
    push(priority);
    push(priority);
  }
  std::vector<Priority> order;
  std::map<Priority, int> last;
  while (Tagged* job = pop()) {
    order.push_back(job->priority);
    EXPECT_TRUE(!last.contains(job->priority) || last[job->priority] < job->number);
    last[job->priority] = job->number;
  }
  EXPECT_EQ(order,
            (std::vector<Priority>{Priority::Membership, Priority::Membership, Priority::Waited, Priority::Waited,
                                   Priority::Client, Priority::Client, Priority::Background, Priority::Background}));
}

TEST_F(JobQueuesTest, NoClassStarvesAndTheUrgentKeepTheirs) {
  // Every class always has work.
  constexpr int kTurns = 16 * 300;
  for (int i = 0; i < 8; ++i) {
    for (size_t p = 0; p < runtime::kPriorityCount; ++p) push(static_cast<Priority>(p));
  }
  std::map<Priority, int> turns;
  for (int i = 0; i < kTurns; ++i) {
    Tagged* job = pop();
    ASSERT_NE(job, nullptr);
    ++turns[job->priority];
    push(job->priority);
  }
  EXPECT_EQ(turns[Priority::Waited], 100);
  EXPECT_EQ(turns[Priority::Client], 100);
  EXPECT_EQ(turns[Priority::Background], 100);
  EXPECT_EQ(turns[Priority::Membership], kTurns - 300);
}

TEST_F(JobQueuesTest, AShareThatNobodyWantsIsNotLost) {
  for (int i = 0; i < 200; ++i) push(Priority::Client);
  for (int i = 0; i < 200; ++i) {
    Tagged* job = pop();
    ASSERT_NE(job, nullptr);
    ASSERT_EQ(job->number, i);
  }
}

TEST_F(JobQueuesTest, TakesAnInboxInOrder) {
  runtime::JobInbox inbox;
  std::deque<Tagged> jobs;
  for (int i = 0; i < 5; ++i) inbox.push(jobs.emplace_back(Priority::Client, i));
  queues_.takeInbox(inbox, Priority::Client);
  EXPECT_TRUE(inbox.empty());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(pop()->number, i);
}

}  // namespace
}  // namespace ramcore::rpc
