#include "transport/datagram/faulty_port.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <thread>

#include "transport/datagram/borrowed_frames.h"

namespace ramcore::transport::datagram {
namespace {

/// Hands out numbered frames, and wants each back once.
class CountingPort final : public FramePort {
 public:
  const PortFacts& facts() const override { return facts_; }
  std::string describe() const override { return "counting"; }
  uint32_t receive(std::span<InFrame> into) override {
    uint32_t count = 0;
    while (count < into.size() && next_ < arrived) {
      auto* const bytes = new uint64_t(next_++);
      into[count++] = {reinterpret_cast<std::byte*>(bytes), sizeof(uint64_t), bytes};
      ++out;
    }
    return count;
  }
  void release(const InFrame& frame) noexcept override {
    delete static_cast<uint64_t*>(frame.handle);
    --out;
  }
  OutFrame make(uint32_t, std::byte*&) override { return {}; }
  std::byte* extend(OutFrame, uint32_t) override { return nullptr; }
  bool attach(OutFrame, const std::byte*, uint32_t, RegionId, FrameOwner&) override { return false; }
  void drop(OutFrame) noexcept override {}
  uint32_t send(std::span<const OutFrame>) override { return 0; }
  void stop() override {}
  bool canAttach(RegionId) const override { return false; }

  uint64_t arrived = 0;
  int64_t out = 0;

 private:
  PortFacts facts_;
  uint64_t next_ = 0;
};

std::vector<uint64_t> receiveAll(FaultyPort& port, runtime::ManualClock& clock) {
  std::vector<uint64_t> numbers;
  std::array<InFrame, 8> frames;
  for (int idle = 0; idle < 10;) {
    const uint32_t count = port.receive(frames);
    for (const InFrame& frame : std::span(frames).first(count)) {
      numbers.push_back(loadAs<uint64_t>(frame.bytes));
      port.release(frame);
    }
    idle = count == 0 ? idle + 1 : 0;
    clock.advance(50'000);
  }
  return numbers;
}

TEST(FaultRates, AreRead) {
  const auto rates = FaultRates::parse("loss=5,duplicate=1.5,reorder=100,corrupt=0.1,delay_us=20,seed=7");
  ASSERT_TRUE(rates.ok()) << rates.error().message;
  EXPECT_DOUBLE_EQ(rates->loss, 0.05);
  EXPECT_DOUBLE_EQ(rates->duplicate, 0.015);
  EXPECT_DOUBLE_EQ(rates->reorder, 1);
  EXPECT_DOUBLE_EQ(rates->corrupt, 0.001);
  EXPECT_EQ(rates->delay_ns_max, 20'000);
  EXPECT_EQ(rates->seed, 7u);
  EXPECT_FALSE(rates->isNothing());
  EXPECT_TRUE(FaultRates::parse("").value().isNothing());
  EXPECT_TRUE(FaultRates::parse("seed=3,delay_us=5").value().isNothing());
}

TEST(FaultRates, NonsenseIsRefusedWithAnExample) {
  for (const std::string_view text :
       {"loss", "loss=", "=5", "loss=x", "loss=5x", "loss=-1", "loss=101", "loss=nan", "loss=inf", "lost=5",
        "loss=5,,seed=1", ",loss=5", "loss=5;seed=1", "seed=1e10"}) {
    const auto rates = FaultRates::parse(text);
    ASSERT_FALSE(rates.ok()) << text;
    EXPECT_EQ(rates.error().status, Status::BadConfig);
    EXPECT_NE(rates.error().message.find("write e.g."), std::string::npos) << rates.error().message;
  }
}

TEST(FaultyPort, WithoutFaultsEverythingPassesInOrder) {
  runtime::ManualClock clock;
  CountingPort inner;
  inner.arrived = 1000;
  FaultyPort port(inner, {}, clock);
  const auto numbers = receiveAll(port, clock);
  ASSERT_EQ(numbers.size(), 1000u);
  EXPECT_TRUE(std::ranges::is_sorted(numbers));
  EXPECT_EQ(inner.out, 0);
}

TEST(FaultyPort, DoesEachFaultAsOftenAsItIsTold) {
  constexpr uint64_t kFrames = 20'000;
  const auto run = [](const FaultRates& rates) {
    runtime::ManualClock clock;
    CountingPort inner;
    inner.arrived = kFrames;
    FaultyPort port(inner, rates, clock);
    auto numbers = receiveAll(port, clock);
    EXPECT_EQ(inner.out, 0) << "every frame goes back";
    return numbers;
  };
  EXPECT_NEAR(static_cast<double>(run({.loss = 0.1}).size()), 0.9 * kFrames, 0.01 * kFrames);
  EXPECT_NEAR(static_cast<double>(run({.duplicate = 0.1}).size()), 1.1 * kFrames, 0.01 * kFrames);

  const auto reordered = run({.reorder = 0.1});
  ASSERT_EQ(reordered.size(), kFrames);
  EXPECT_FALSE(std::ranges::is_sorted(reordered));
  auto sorted = reordered;
  std::ranges::sort(sorted);
  for (uint64_t i = 0; i < kFrames; ++i) ASSERT_EQ(sorted[i], i);

  const auto corrupted = run({.corrupt = 0.1});
  ASSERT_EQ(corrupted.size(), kFrames);
  uint64_t changed = 0;
  for (uint64_t i = 0; i < kFrames; ++i) {
    if (corrupted[i] == i) continue;
    ++changed;
    EXPECT_EQ(std::popcount(corrupted[i] ^ i), 1);
  }
  EXPECT_NEAR(static_cast<double>(changed), 0.1 * kFrames, 0.01 * kFrames);

  const FaultRates all{.loss = 0.1, .duplicate = 0.1, .reorder = 0.1, .corrupt = 0.1, .seed = 5};
  EXPECT_EQ(run(all), run(all)) << "the same seed is the same network";
  FaultRates other = all;
  other.seed = 6;
  EXPECT_NE(run(all), run(other));
}

TEST(FaultyPort, GivesBackWhatItHoldsWhenItEnds) {
  runtime::ManualClock clock;
  CountingPort inner;
  inner.arrived = 100;
  {
    FaultyPort port(inner, {.duplicate = 0.5, .reorder = 0.5}, clock);
    std::array<InFrame, 4> frames;
    for (int i = 0; i < 10; ++i) {
      const uint32_t count = port.receive(frames);
      for (const InFrame& frame : std::span(frames).first(count)) port.release(frame);
    }
    EXPECT_GT(inner.out, 0);
  }
  EXPECT_EQ(inner.out, 0);
}

// ---- BorrowedFrames

// Frames do not go back between a request and its answer, for which a peer waits.
TEST(BorrowedFrames, ComeBackWhenTheRoundIsOver) {
  CountingPort port;
  port.arrived = 2;
  std::array<InFrame, 2> frames;
  ASSERT_EQ(port.receive(frames), 2u);
  BorrowedFrames borrowed;
  borrowed.enter();
  const uint64_t first = borrowed.borrow(port, frames[0]);
  const uint64_t second = borrowed.borrow(port, frames[1]);
  EXPECT_NE(first, second);
  EXPECT_EQ(borrowed.count(), 2u);
  borrowed.releaseMessage(second);
  EXPECT_EQ(port.out, 2);
  borrowed.takeBack();
  EXPECT_EQ(borrowed.count(), 1u);
  EXPECT_EQ(port.out, 1);
  borrowed.releaseMessage(first);
  borrowed.takeBack();
  EXPECT_EQ(port.out, 0);
}

// Frames go back to the port on its thread alone. (ThreadSanitizer looks on.)
TEST(BorrowedFrames, ComeBackFromOtherThreadsWhenTheirOwnLooks) {
  constexpr uint64_t kFrames = 20'000;
  constexpr size_t kThreads = 3;
  CountingPort port;
  port.arrived = kFrames;
  BorrowedFrames borrowed;
  borrowed.enter();
  std::array<std::vector<std::atomic<uint64_t>>, kThreads> tokens;
  for (auto& list : tokens) list = std::vector<std::atomic<uint64_t>>(kFrames / kThreads + 1);
  std::vector<std::jthread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = t; i < kFrames; i += kThreads) {
        std::atomic<uint64_t>& token = tokens[t][i / kThreads];
        token.wait(0, std::memory_order_acquire);
        borrowed.releaseMessage(token.load(std::memory_order_acquire));
      }
    });
  }
  std::array<InFrame, 8> frames;
  for (uint64_t i = 0; i < kFrames;) {
    const uint32_t count = port.receive(frames);
    for (const InFrame& frame : std::span(frames).first(count)) {
      std::atomic<uint64_t>& token = tokens[i % kThreads][i / kThreads];
      token.store(borrowed.borrow(port, frame), std::memory_order_release);
      token.notify_one();
      ++i;
    }
    borrowed.takeBack();
  }
  threads.clear();
  EXPECT_EQ(port.out, borrowed.count());
  borrowed.takeBack();
  EXPECT_EQ(borrowed.count(), 0u);
  EXPECT_EQ(port.out, 0);
}

}  // namespace
}  // namespace ramcore::transport::datagram
