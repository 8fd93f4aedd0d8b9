#include "runtime/epoch.h"

#include "runtime/real/urcu_epoch.h"
#include "runtime/sim/sim_epoch.h"

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ramcore::runtime {
namespace {

struct CountedWork : Deferred {
  explicit CountedWork(int* runs) : runs(runs) {
    run = [](Deferred& self) { ++*static_cast<CountedWork&>(self).runs; };
  }
  int* runs;
};

TEST(SimRcu, GracePeriodWaitsForEveryReaderThatIsOnLine) {
  SimRcu rcu;
  const RcuReader dispatch = rcu.registerThread();
  const RcuReader worker = rcu.registerThread();
  int runs = 0;
  CountedWork work(&runs);
  rcu.defer(work);
  EXPECT_TRUE(rcu.pending());

  EXPECT_EQ(rcu.reclaim(10), 0u);
  rcu.quiescent(dispatch);
  EXPECT_EQ(rcu.reclaim(10), 0u);
  EXPECT_EQ(rcu.awaitedReaders(), 1u);
  rcu.quiescent(worker);
  EXPECT_EQ(rcu.reclaim(10), 1u);
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(rcu.pending());
}

TEST(SimRcu, QuiescentStateBeforeTheGracePeriodBeganDoesNotCount) {
  SimRcu rcu;
  const RcuReader reader = rcu.registerThread();
  const GraceTicket ticket = rcu.ticket();
  rcu.quiescent(reader);
  rcu.reclaim(1);
  EXPECT_FALSE(rcu.elapsed(ticket));
  rcu.quiescent(reader);
  rcu.reclaim(1);
  EXPECT_TRUE(rcu.elapsed(ticket));
}

TEST(SimRcu, TicketTakenDuringAGracePeriodWaitsForTheNextOne) {
  SimRcu rcu;
  const RcuReader reader = rcu.registerThread();
  const GraceTicket first = rcu.ticket();
  rcu.reclaim(1);  // begins the first
  const GraceTicket second = rcu.ticket();
  rcu.quiescent(reader);
  rcu.reclaim(1);
  EXPECT_TRUE(rcu.elapsed(first));
  EXPECT_FALSE(rcu.elapsed(second));
  rcu.reclaim(1);  // begins the second
  EXPECT_FALSE(rcu.elapsed(second));
  rcu.quiescent(reader);
  rcu.reclaim(1);
  EXPECT_TRUE(rcu.elapsed(second));
}

TEST(SimRcu, ReaderThatGoesOffLineOrLeavesIsNotAwaited) {
  SimRcu rcu;
  const RcuReader sleeper = rcu.registerThread();
  const RcuReader leaver = rcu.registerThread();
  const GraceTicket ticket = rcu.ticket();
  rcu.reclaim(1);
  rcu.offline(sleeper);
  rcu.unregisterThread(leaver);
  rcu.reclaim(1);
  EXPECT_TRUE(rcu.elapsed(ticket));

  // Back on line in the middle of the next grace period, which began without this reader.
  const GraceTicket next = rcu.ticket();
  const RcuReader other = rcu.registerThread();
  rcu.reclaim(1);
  rcu.online(sleeper);
  EXPECT_EQ(rcu.awaitedReaders(), 1u);
  rcu.quiescent(other);
  rcu.reclaim(1);
  EXPECT_TRUE(rcu.elapsed(next));
}

TEST(SimRcu, DeferredWorkRunsInOrderAndBounded) {
  SimRcu rcu;
  std::vector<int> order;
  struct Numbered : Deferred {
    std::vector<int>* order = nullptr;
    int number = 0;
  };
  std::array<Numbered, 5> works;
  for (int i = 0; i < 5; ++i) {
    works[i].order = &order;
    works[i].number = i;
    works[i].run = [](Deferred& self) {
      auto& work = static_cast<Numbered&>(self);
      work.order->push_back(work.number);
    };
    rcu.defer(works[i]);
  }
  EXPECT_EQ(rcu.reclaim(2), 2u);
  EXPECT_EQ(rcu.reclaim(2), 2u);
  rcu.drain();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(UrcuRcu, ReclaimerThatIsAReaderItselfDoesNotWaitForItself) {
  const std::unique_ptr<Rcu> rcu = makeUrcu();
  const RcuReader self = rcu->registerThread();
  int runs = 0;
  CountedWork work(&runs);
  rcu->defer(work);
  EXPECT_EQ(rcu->reclaim(10), 1u);
  EXPECT_EQ(runs, 1);
  rcu->unregisterThread(self);
}

TEST(UrcuRcu, ThreadMayBeRegisteredWithSeveralObjects) {
  const std::unique_ptr<Rcu> first = makeUrcu();
  const std::unique_ptr<Rcu> second = makeUrcu();
  const RcuReader in_first = first->registerThread();
  const RcuReader in_second = second->registerThread();
  first->unregisterThread(in_first);
  second->quiescent(in_second);
  const GraceTicket ticket = second->ticket();
  second->reclaim(1);
  EXPECT_TRUE(second->elapsed(ticket));
  second->unregisterThread(in_second);
}

// Readers follow a pointer that a writer keeps exchanging; the old target is scribbled over after its grace period.
TEST(UrcuRcu, StressNothingIsReclaimedUnderAReader) {
  struct Node : Deferred {
    uint64_t value = 0;
    uint64_t check = 0;
  };
  constexpr int kReaders = 3;
  constexpr uint64_t kExchanges = 20000;
  const std::unique_ptr<Rcu> rcu = makeUrcu();
  auto* initial = new Node;
  initial->value = 1;
  initial->check = ~uint64_t{1};
  std::atomic<Node*> shared{initial};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> reads{0};
  std::atomic<uint64_t> torn{0};

  std::vector<std::thread> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.emplace_back([&, i] {
      const RcuReader self = rcu->registerThread();
      for (uint64_t round = 0; !stop.load(std::memory_order_relaxed); ++round) {
        const Node* node = shared.load(std::memory_order_acquire);
        if (node->check != ~node->value) torn.fetch_add(1);
        reads.fetch_add(1, std::memory_order_relaxed);
        if (round % 64 == static_cast<uint64_t>(i)) {
          rcu->offline(self);
          std::this_thread::yield();
          rcu->online(self);
        } else {
          rcu->quiescent(self);
        }
      }
      rcu->unregisterThread(self);
    });
  }
  while (reads.load() < kReaders) std::this_thread::yield();
  for (uint64_t value = 2; value < kExchanges; ++value) {
    auto* node = new Node;
    node->value = value;
    node->check = ~value;
    Node* old = shared.exchange(node, std::memory_order_acq_rel);
    old->run = [](Deferred& self) {
      auto* dead = static_cast<Node*>(&self);
      dead->value = 0;
      dead->check = 0;
      delete dead;
    };
    rcu->defer(*old);
    if (value % 8 == 0) rcu->reclaim(64);
  }
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  rcu->drain();
  delete shared.load();
  EXPECT_EQ(torn.load(), 0u);
  EXPECT_GT(reads.load(), 0u);
}

}  // namespace
}  // namespace ramcore::runtime
